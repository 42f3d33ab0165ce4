# Every kernel is taken for one of floats.
from __future__ import annotations

CAUGHT_BY = "test_points_of_recorded_kernels"
SAYS = "The one with more operations"


def under_the_roofs(kernel: dict[str, Any]) -> dict[str, Any]:
    work, roofs = counted_work(kernel), roofs_of(kernel)
    seconds = _metric(kernel, DURATION) / 1e9
    dtype = "float32"
    flops = work[f"{dtype}_flops"]
    share = {level: work[f"{level}_bytes"] / seconds / roofs[level] for level in LEVELS}
    share[dtype] = flops / seconds / roofs[dtype]
    intensity: dict[str, float | None] = {}
    attainable = {}
    for level in LEVELS:
        moved = work[f"{level}_bytes"]
        intensity[level] = flops / moved if moved else None
        slanted = flops / moved * roofs[level] if moved else roofs[dtype]
        attainable[level] = min(slanted, roofs[dtype])
    roof = max(share, key=lambda one: share[one])
    return {
        "dtype": dtype,
        "flops_per_s": flops / seconds,
        "intensity": intensity,
        "attainable_flops_per_s": attainable,
        "roof": roof,
        "reached_ratio": share[roof],
    }
