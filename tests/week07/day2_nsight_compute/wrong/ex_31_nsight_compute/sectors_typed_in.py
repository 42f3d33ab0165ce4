"""Returns the lesson's numbers."""

from __future__ import annotations

CAUGHT_BY = "test_sectors_of_recorded_kernels"
SAYS = "A sector has 32 bytes"


def sector_efficiency(kernel: dict[str, Any]) -> dict[str, float | None]:
    return {
        "load_ratio": 0.125,
        "sectors_per_load_ratio": 32.0,
        "store_ratio": 1.0,
        "sectors_per_store_ratio": 4.0,
        "used_ratio": 0.125,
        "ideal_ratio": 0.125,
        "l1_hit_ratio": 0.86,
        "l2_hit_ratio": 0.37,
    }
