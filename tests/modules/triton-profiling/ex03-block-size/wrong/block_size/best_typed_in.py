"""Returns what the lesson says."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_made_best"
SAYS = "best is"


def best_block_size(capture: str) -> dict[str, Any]:
    return {
        "best": "1024 w4",
        "best_ns": 184_000.0,
        "noise_ratio": 0.002,
        "ties": ["1024 w4"],
        "default": "1024 w4",
        "default_ns": 184_000.0,
        "speedup_ratio": 1.0,
        "verdict": "no_win",
    }
