"""Averages what each reader gets."""

from __future__ import annotations

import numpy as np

CAUGHT_BY = "test_tokens_of_simulated_requests"
SAYS = "asked is what all requests get together"


def token_metrics(capture: str, run: str) -> dict:
    sent, tokens = _tokens(capture, run)
    steps = [np.diff(times).tolist() for times in tokens]
    last = max(times[-1] for times in tokens)
    count = sum(len(times) for times in tokens)
    return {
        "ttft_ns": [times[0] - start for start, times in zip(sent, tokens, strict=True)],
        "inter_token_ns": [step for of_request in steps for step in of_request],
        "tpot_ns": [sum(s) / len(s) if s else None for s in steps],
        "tokens_per_s": 1e9
        * sum(len(t) / (t[-1] - s) for s, t in zip(sent, tokens, strict=True))
        / len(tokens),
    }
