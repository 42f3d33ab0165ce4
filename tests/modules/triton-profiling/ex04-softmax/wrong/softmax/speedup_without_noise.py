"""Calls everything above 1 faster."""

from __future__ import annotations

CAUGHT_BY = "test_generated_speedups"
SAYS = "two measurements of the same code differ"


def _verdict(speedup: float, noise: float) -> str:
    if speedup > 1:
        return "faster"
    return "slower" if speedup < 1 else "no win"
