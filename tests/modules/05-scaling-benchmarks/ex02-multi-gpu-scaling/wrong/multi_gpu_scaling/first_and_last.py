from __future__ import annotations

CAUGHT_BY = "test_kind_of_made_up_series"
SAYS = "it must raise ValueError"


def scaling_kind(capture: str | Path, series: str) -> dict[str, Any]:
    runs = _runs(capture, series)
    inner = [run["world_size"] for run in runs[1:-1]]
    runs = runs[:1] + runs[1:][-1:]
    sizes = sorted({*inner, *(run["world_size"] for run in runs)})
    if len(sizes) < 2:
        raise ValueError(
            f"series {series!r} was measured at {sizes} only: strong or weak, who knows"
        )
    together = {sum(run["samples_per_rank"]) for run in runs}
    each = {count for run in runs for count in run["samples_per_rank"]}
    for kind, counts in (("strong", together), ("weak", each)):
        if len(counts) == 1:
            return {"kind": kind, "samples_count": counts.pop(), "world_sizes": sizes}
    raise ValueError(
        f"series {series!r} kept neither all samples ({together}) nor those of a process"
    )
