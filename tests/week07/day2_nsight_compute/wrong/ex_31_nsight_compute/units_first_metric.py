"""Takes a unit's first metric."""

from __future__ import annotations

CAUGHT_BY = "test_units_of_recorded_kernels"
SAYS = "The largest of the unit's metrics"


def unit_use(kernel: dict[str, Any]) -> dict[str, float | None]:
    metrics = kernel["metrics"]
    busy = occupancy_gap(kernel)["busy_sm_ratio"]
    out: dict[str, float | None] = {}
    for unit, names in UNIT_METRICS.items():
        shares = [
            _product(_share(metrics, name), busy if name.endswith("_active") else 1.0)
            for name in names
        ]
        out[unit] = next((share for share in shares if share is not None), None)
    return out
