"""Counts the wait for the first token as a step."""

from __future__ import annotations

import numpy as np

CAUGHT_BY = "test_tokens_by_hand_and_bad_input"
SAYS = "Sent at 10: tokens at 20, 22, 28"


def token_metrics(capture: str, run: str) -> dict:
    sent, tokens = _tokens(capture, run)
    steps = [np.diff([s, *t]).tolist() for s, t in zip(sent, tokens, strict=True)]
    last = max(times[-1] for times in tokens)
    count = sum(len(times) for times in tokens)
    return {
        "ttft_ns": [times[0] - start for start, times in zip(sent, tokens, strict=True)],
        "inter_token_ns": [step for of_request in steps for step in of_request],
        "tpot_ns": [sum(s) / len(s) if s else None for s in steps],
        "tokens_per_s": count / ((last - min(sent)) / 1e9),
    }
