# The roofline with one slanted roof: DRAM's, else the flat one.
from __future__ import annotations

CAUGHT_BY = "test_points_of_recorded_kernels"
SAYS = "the lowest one above its point"


def under_the_roofs(kernel: dict[str, Any]) -> dict[str, Any]:
    work, roofs = counted_work(kernel), roofs_of(kernel)
    seconds = _metric(kernel, DURATION) / 1e9
    dtype = max(DTYPES, key=lambda one: work[f"{one}_flops"])
    flops = work[f"{dtype}_flops"]
    share = {"dram": work["dram_bytes"] / seconds / roofs["dram"]}
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
