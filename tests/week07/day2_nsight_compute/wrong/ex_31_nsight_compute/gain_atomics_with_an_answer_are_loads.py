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
    if not adds:
        return {}
    memory = _stalled(kernel)[0]
    warps = metrics.get("sm__warps_active.avg.per_cycle_active")
    waits = memory * warps * metrics.get("sm__cycles_active.sum") / requests
    calm = min(1.0, UNCONTENDED_CYCLES / waits) if waits else 1.0
    blame = min(1.0, adds / requests / ATOMIC_RATIO)
    return {"waiting": 1 - memory * (1 - calm) * blame}
