"""Returns a row of the lesson."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_made_sweeps"
SAYS = "a list of"


def roofline_share(capture: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "8192x8192x8192",
            "median_ns": 1_648_000.0,
            "gflops": 667_000.0,
            "intensity": 2730.7,
            "ridge": 206.0,
            "attainable_gflops": 989_000.0,
            "share_ratio": 0.67,
            "category": "compute_bound",
        }
    ]
