# The balance turned around: bytes for each operation.
from __future__ import annotations

CAUGHT_BY = "test_ridges_of_devices"
SAYS = "operations per byte"


def ridge_points(roofs: dict[str, float]) -> dict[str, dict[str, float]]:
    for name in (*LEVELS, *DTYPES):
        if not roofs.get(name, 0) > 0:
            raise ValueError(f"the roof {name!r} is {roofs.get(name)}, it must be above 0")
    return {dtype: {level: roofs[level] / roofs[dtype] for level in LEVELS} for dtype in DTYPES}
