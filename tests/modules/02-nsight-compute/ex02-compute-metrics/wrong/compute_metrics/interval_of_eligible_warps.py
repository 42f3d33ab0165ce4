# Divides those that could issue by the rate: the queue is all that are resident.
from __future__ import annotations

CAUGHT_BY = "test_schedulers_of_recorded_kernels"
SAYS = "Warps in the queue"


def scheduler_view(kernel: dict[str, Any]) -> dict[str, float]:
    eligible = _metric(kernel, "smsp__warps_eligible.avg.per_cycle_active")
    issue = _metric(kernel, "smsp__issue_active.avg.pct_of_peak_sustained_active") / 100
    lanes = _metric(kernel, "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio")
    return {
        "resident_count": _metric(kernel, "smsp__warps_active.avg.per_cycle_active"),
        "eligible_count": eligible,
        "issue_ratio": issue,
        "interval_count": eligible / issue if issue else 0.0,
        "lanes_count": lanes,
        "work_ratio": issue * lanes / WARP_THREADS,
    }
