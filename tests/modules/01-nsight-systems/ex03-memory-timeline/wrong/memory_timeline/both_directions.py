"""Adds both directions, as advertisements do."""

from __future__ import annotations

CAUGHT_BY = "test_known_links"
SAYS = "one direction"


def link_peak(generation: int, width: int) -> float:
    if generation not in _GIGATRANSFERS or width not in (1, 2, 4, 8, 16):
        raise ValueError(f"generation {generation}, {width} lanes")
    coding = 8 / 10 if generation <= 2 else 128 / 130
    return 2 * _GIGATRANSFERS[generation] * width * coding / 8
