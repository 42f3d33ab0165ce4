"""Calls what is faster than memory allows near."""

from __future__ import annotations

CAUGHT_BY = "test_below_near_and_far_above"
SAYS = "no roof allows less"


def _verdict(floor_ns: float, measured_ns: float) -> str:
    return "latency" if 2 * floor_ns < measured_ns else "near"
