from __future__ import annotations

CAUGHT_BY = "test_sums_of_generated_captures"
SAYS = "the names are"


def sum_report(capture: str, report: str) -> list[dict[str, Any]]:
    with captures.open(capture) as recording:
        if report == "cuda_gpu_kern_sum":
            rows = recording.kernels.select(name=pl.col("demangled_name"), ns=pl.col("duration_ns"))
        elif report == "cuda_api_sum":
            rows = recording.api_calls.select("name", ns=pl.col("duration_ns"))
        elif report == "nvtx_sum":
            ranges = recording.nvtx_ranges
            rows = ranges.select("name", ns=pl.col("duration_ns"))
        else:
            raise ValueError(f"{report!r}: only sums of kernels, CUDA calls and ranges")
    times: dict[str, list[int]] = {}
    for name, ns in rows.iter_rows():
        times.setdefault(name, []).append(ns)
    whole = sum(map(sum, times.values()))
    found = [
        {
            "name": name,
            "time_pct": 100 * sum(one) / whole if whole else 0.0,
            "total_ns": sum(one),
            "count": len(one),
            "avg_ns": statistics.fmean(one),
            "med_ns": float(statistics.median(one)),
            "min_ns": min(one),
            "max_ns": max(one),
            "stddev_ns": statistics.stdev(one) if len(one) > 1 else 0.0,
        }
        for name, one in times.items()
    ]
    return sorted(found, key=lambda row: (-row["total_ns"], row["name"]))
