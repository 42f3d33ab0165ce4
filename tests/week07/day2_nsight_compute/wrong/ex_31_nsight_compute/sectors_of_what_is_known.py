"""Speaks for both kinds when one is unknown."""

from __future__ import annotations

CAUGHT_BY = "test_sectors_with_a_metric_missing"
SAYS = "used_ratio"


def sector_efficiency(kernel: dict[str, Any]) -> dict[str, float | None]:
    metrics = kernel["metrics"]
    out: dict[str, float | None] = {}
    moved = used = 0.0
    for op, name in (("ld", "load"), ("st", "store")):
        sectors = metrics.get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum")
        requests = metrics.get(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum")
        per_sector = metrics.get(
            f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio"
        )
        share = _quotient(per_sector, SECTOR_BYTES) if sectors else None
        out[f"{name}_ratio"] = share
        out[f"sectors_per_{name}_ratio"] = _quotient(sectors, requests)
        if share is not None:
            moved += sectors * SECTOR_BYTES
            used += sectors * per_sector
    out["used_ratio"] = _quotient(used, moved)
    out["ideal_ratio"] = _quotient(
        metrics.get("memory_l2_theoretical_sectors_global_ideal"),
        metrics.get("memory_l2_theoretical_sectors_global"),
    )
    out["l1_hit_ratio"] = _share(metrics, "l1tex__t_sector_hit_rate.pct")
    out["l2_hit_ratio"] = _share(metrics, "lts__t_sector_hit_rate.pct")
    return out
