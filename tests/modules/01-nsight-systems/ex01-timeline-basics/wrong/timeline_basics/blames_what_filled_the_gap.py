"""Sorts gaps by what filled them: after a wait that is launching, so waits are never found."""

from __future__ import annotations

CAUGHT_BY = "test_equal_causes_and_the_floor"
SAYS = "the rest of a gap belongs to the call that opened it"


def _category(gap: _Gap) -> str:
    return "launch_bound" if gap.length_ns <= DISPATCH_LIMIT_NS else "host_bound"
