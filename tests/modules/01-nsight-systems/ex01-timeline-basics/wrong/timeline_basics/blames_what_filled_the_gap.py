"""Blames the host's work inside a gap: after a wait that is launching, so waits are never found."""

from __future__ import annotations

CAUGHT_BY = "test_equal_causes_and_the_floor"
SAYS = "each gap in it belongs to the call that opened it"


def _category(opener: str, length_ns: int) -> str:
    if call_kind(opener) == "allocation":
        return "allocation_bound"
    return "launch_bound" if length_ns <= DISPATCH_LIMIT_NS else "host_bound"
