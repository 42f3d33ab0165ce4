# "Above 20 operations per byte a kernel is compute-bound", for any type, level and device.
from __future__ import annotations

CAUGHT_BY = "test_ridges_of_devices"
SAYS = "At the ridge the level feeds as many operations"


def ridge_points(roofs: dict[str, float]) -> dict[str, dict[str, float]]:
    for name in (*LEVELS, *DTYPES):
        if not roofs.get(name, 0) > 0:
            raise ValueError(f"the roof {name!r} is {roofs.get(name)}, it must be above 0")
    return {dtype: dict.fromkeys(LEVELS, 20.0) for dtype in DTYPES}
