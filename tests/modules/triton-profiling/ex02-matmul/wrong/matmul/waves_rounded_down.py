"""Forgets the wave that is not full."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_waves"
SAYS = "begins another one"


def tile_waves(
    m: int, n: int, block_m: int, block_n: int, sm_count: int, sm_programs: int
) -> dict[str, Any]:
    _check_sizes(
        m=m, n=n, block_m=block_m, block_n=block_n, sm_count=sm_count, sm_programs=sm_programs
    )
    tiles = math.ceil(m / block_m) * math.ceil(n / block_n)
    places = sm_count * sm_programs
    waves = max(1, tiles // places)
    return {
        "tiles_count": tiles,
        "waves_count": waves,
        "efficiency_ratio": tiles / (waves * places),
    }
