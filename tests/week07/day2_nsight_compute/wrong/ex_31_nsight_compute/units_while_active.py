"""Takes shares of the active time for shares of the duration."""

from __future__ import annotations

CAUGHT_BY = "test_units_of_recorded_kernels"
SAYS = "is not a share of the duration"


def unit_use(kernel: dict[str, Any]) -> dict[str, float | None]:
    metrics = kernel["metrics"]
    busy = occupancy_gap(kernel)["busy_sm_ratio"]
    out: dict[str, float | None] = {}
    for unit, names in UNIT_METRICS.items():
        shares = [_product(_share(metrics, name), 1.0) for name in names]
        out[unit] = max((share for share in shares if share is not None), default=None)
    return out
