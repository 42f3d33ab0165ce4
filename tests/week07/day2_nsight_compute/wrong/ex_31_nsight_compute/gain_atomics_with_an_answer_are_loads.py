"""Leaves out atomics that give back the old value."""

from __future__ import annotations

CAUGHT_BY = "test_gain_at_the_edges"
SAYS = "red and atom exchanged"


def _without_contention(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    metrics = kernel["metrics"]
    loads, stores, adds, atomics = (
        metrics.get(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum")
        for op in ("ld", "st", "red", "atom")
    )
    requests = loads + stores + adds + atomics
    warps = metrics.get("sm__warps_active.avg.per_cycle_active")
    cycles = warps * metrics.get("sm__cycles_active.sum")
    conflicts: dict[str, Any] = bank_conflicts(kernel)
    left: dict[str, float] = {}
    if conflicts["wavefronts_count"] != 0:
        replays = conflicts["conflict_ratio"] * conflicts["atomics_ratio"]
        failed, issued = _failed_tries(kernel)
        left = _without_wavefronts(kernel, use, min(1.0, replays + failed))
        left |= dict.fromkeys(("issue", "pipe"), 1 - issued)
    if not adds:
        return left
    calm: float = UNCONTENDED_CYCLES
    mean = _share(metrics, ATOMIC_METRIC.format("avg"))
    if use["atomics"] and mean is not None:
        left["atomics"] = mean / use["atomics"]
        known = [share for share in use.values() if share is not None]
        if use["atomics"] == max(known) >= SATURATED_RATIO:
            calm /= 2
    memory = _stalled(kernel)[0]
    waits = memory * cycles / requests
    if waits > calm:
        blame = min(1.0, adds / requests / ATOMIC_RATIO)
        left["waiting"] = left.get("waiting", 1.0) - memory * (1 - calm / waits) * blame
    return left
