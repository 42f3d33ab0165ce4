"""Counts whole tiles only."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_waves"
SAYS = "needs a program as well"


def tile_waves(
    m: int, n: int, block_m: int, block_n: int, sm_count: int, sm_programs: int
) -> dict[str, Any]:
    _check_sizes(
        m=m, n=n, block_m=block_m, block_n=block_n, sm_count=sm_count, sm_programs=sm_programs
    )
    tiles = max(1, m // block_m) * max(1, n // block_n)
    places = sm_count * sm_programs
    waves = math.ceil(tiles / places)
    return {
        "tiles_count": tiles,
        "waves_count": waves,
        "efficiency_ratio": tiles / (waves * places),
    }
