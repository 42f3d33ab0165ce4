from __future__ import annotations

CAUGHT_BY = "test_bounds_of_made_up_sums"
SAYS = "aten::linear"


def busy_bounds(reports: Mapping[str, Any], name: str) -> dict[str, int]:
    rows = [row for row in reports.get("nvtx_sum") or [] if row["Range"].rpartition(":")[2] == name]
    if [row["Instances"] for row in rows] != [1]:
        raise ValueError(f"range {name!r}: one row with one instance is needed for a window")
    window = sum(row["Total Time (ns)"] for row in rows)
    work = [
        row
        for report in ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum")
        for row in reports.get(report) or []
    ]
    total = sum(row["Total Time (ns)"] for row in work)
    return {
        "window_ns": window,
        "sum_ns": total,
        "least_ns": max((row["Max (ns)"] for row in work), default=0),
        "most_ns": min(total, window),
        "overlap_ns": total - min(total, window),
    }
