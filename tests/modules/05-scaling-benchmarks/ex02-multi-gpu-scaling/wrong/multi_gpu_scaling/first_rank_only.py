from __future__ import annotations

CAUGHT_BY = "test_kind_of_made_up_series"
SAYS = "it must raise ValueError"


def scaling_kind(capture: str | Path, series: str) -> dict[str, Any]:
    runs = _runs(capture, series)
    sizes = [run["world_size"] for run in runs]
    together = {sum(run["samples_per_rank"]) for run in runs}
    each = {run["samples_per_rank"][0] for run in runs}
    if len(sizes) < 2:
        raise ValueError("one size")
    if len(together) == 1:
        return {"kind": "strong", "samples_count": together.pop(), "world_sizes": sizes}
    if len(each) == 1:
        return {"kind": "weak", "samples_count": each.pop(), "world_sizes": sizes}
    raise ValueError("neither")
