from __future__ import annotations

CAUGHT_BY = "test_kind_of_made_up_series"
SAYS = "single ones"


def scaling_kind(capture: str | Path, series: str) -> dict[str, Any]:
    runs = _runs(capture, series)
    sizes = [run["world_size"] for run in runs]
    together = {sum(run["samples_per_rank"]) for run in runs}
    each = {count for run in runs for count in run["samples_per_rank"]}
    if len(sizes) < 2 or min(len(together), len(each)) > 1:
        raise ValueError("neither")
    return {"kind": "strong", "samples_count": max(together), "world_sizes": sizes}
