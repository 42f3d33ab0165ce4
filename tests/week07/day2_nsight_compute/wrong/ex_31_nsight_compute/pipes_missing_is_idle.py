"""Takes a pipe that is not known for an idle one."""

from __future__ import annotations

CAUGHT_BY = "test_pipes_with_a_metric_missing"
SAYS = "The pipes whose use is known are"


def pipe_use(kernel: dict[str, Any]) -> list[dict[str, Any]]:
    busy = occupancy_gap(kernel)["busy_sm_ratio"]
    rows = []
    for pipe, name in PIPE_METRICS.items():
        share = _of_the_duration(kernel["metrics"], name, busy)
        rows.append({"pipe": pipe, "use_ratio": share or 0.0})
    return sorted(rows, key=lambda row: -row["use_ratio"])
