"""Takes shares of the active time for shares of the duration."""

from __future__ import annotations

CAUGHT_BY = "test_pipes_of_recorded_kernels"
SAYS = "is not a share of the duration"


def pipe_use(kernel: dict[str, Any]) -> list[dict[str, Any]]:
    rows = []
    for pipe, name in PIPE_METRICS.items():
        share = _share(kernel["metrics"], name)
        if share is not None:
            rows.append({"pipe": pipe, "use_ratio": share})
    return sorted(rows, key=lambda row: -row["use_ratio"])
