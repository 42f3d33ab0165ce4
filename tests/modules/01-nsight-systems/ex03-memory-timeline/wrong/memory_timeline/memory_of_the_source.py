"""Takes the memory of the source for both directions: every D2H copy is one of "device"."""

from __future__ import annotations

CAUGHT_BY = "test_recorded_rates"
SAYS = "returned the paths"


def _memory(copy: dict) -> str:
    return copy["source"]
