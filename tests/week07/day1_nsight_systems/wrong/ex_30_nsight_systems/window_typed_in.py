"""Returns the lesson's numbers."""

from __future__ import annotations

CAUGHT_BY = "test_window_is_first_start_to_last_end"
SAYS = "The window reaches from the first start to the last end"


def find_window(capture: str, nvtx_range: str | None = None) -> tuple[int, int]:
    return 15064096, 274876501
