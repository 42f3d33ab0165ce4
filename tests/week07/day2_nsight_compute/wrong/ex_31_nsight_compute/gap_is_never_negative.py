"""Takes the amount of the gap."""

from __future__ import annotations

CAUGHT_BY = "test_gap_of_made_kernels"
SAYS = "Theoretical minus achieved"


def occupancy_gap(kernel: dict[str, Any]) -> dict[str, float | None]:
    metrics = kernel["metrics"]
    theoretical = _share(metrics, "sm__maximum_warps_per_active_cycle_pct")
    achieved = _share(metrics, "sm__warps_active.avg.pct_of_peak_sustained_active")
    busy = _quotient(metrics.get("sm__cycles_active.avg"), metrics.get("gpc__cycles_elapsed.max"))
    waves = metrics.get("launch__waves_per_multiprocessor")
    return {
        "theoretical_ratio": theoretical,
        "achieved_ratio": achieved,
        "gap_ratio": None
        if theoretical is None or achieved is None
        else abs(theoretical - achieved),
        "busy_sm_ratio": busy,
        "resident_ratio": _quotient(_product(achieved, busy), theoretical),
        "waves_ratio": None if waves is None else waves / max(1, math.ceil(waves)),
    }
