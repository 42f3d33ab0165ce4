"""Gives milliseconds where ns are asked for."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_residual"
SAYS = "Is it in the unit"


def verdict_residual() -> dict[str, object]:
    return {
        "category": "host_bound",
        "subject": "device:0",
        "evidence": {"longest_gap_ns": 34.2},
        "recommendation": "prepare_on_device",
    }
