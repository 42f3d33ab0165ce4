"""Takes gigatransfers for gigabytes, a lane carries one bit a transfer."""

from __future__ import annotations

CAUGHT_BY = "test_known_links"
SAYS = "a bit"


def link_peak(generation: int, width: int) -> float:
    if generation not in _GIGATRANSFERS or width not in (1, 2, 4, 8, 16):
        raise ValueError(f"generation {generation}, {width} lanes")
    return _GIGATRANSFERS[generation] * width * (8 / 10 if generation <= 2 else 128 / 130)
