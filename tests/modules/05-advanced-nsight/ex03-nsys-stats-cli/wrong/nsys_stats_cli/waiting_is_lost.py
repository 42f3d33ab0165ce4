from __future__ import annotations

CAUGHT_BY = "test_verdict_of_a_recording"
SAYS = "At most could be saved"


def verdict(reports: Mapping[str, Any], name: str) -> Finding:
    calls = reports.get("cuda_api_sum")
    if calls is None:
        raise CaptureError("there is no cuda_api_sum: nothing is known of the host")
    bounds = busy_bounds(reports, name)
    window, idle = bounds["window_ns"], bounds["window_ns"] - bounds["most_ns"]
    launches = [row for row in calls if "Launch" in row["Name"]]
    graphs = [row for row in launches if "cudaGraphLaunch" in row["Name"]]
    kernels = reports.get("cuda_gpu_kern_sum") or []
    direct = sum(row["Num Calls"] for row in launches if row not in graphs)
    if graphs and sum(row["Instances"] for row in kernels) <= direct:
        raise CaptureError(
            "CUDA graphs were launched, and their kernels are in no sum: record with "
            "--cuda-graph-trace=node"
        )

    allocating = _spent(calls, "Malloc|Free|HostAlloc")
    waiting, copying = _spent(calls, "Synchronize"), _spent(calls, "Memcpy")
    computed = sum(row["Total Time (ns)"] for row in kernels)
    copied = sum(
        row["Total Time (ns)"]
        for row in reports.get("cuda_gpu_mem_time_sum") or []
        if "memcpy" in row["Operation"]
    )
    hidden = min(computed, copied) if bounds["sum_ns"] <= window else 0
    count = sum(row["Num Calls"] for row in launches)
    rest = "launch_bound" if count and window / count <= LAUNCH_PERIOD_NS else "host_bound"
    saved = {
        "allocation_bound": min(allocating, idle),
        "sync_bound": waiting,
        "transfer_bound": max(min(copying, idle), hidden),
        rest: max(0, idle - allocating - waiting - copying),
    }
    cause = max(saved, key=lambda one: saved[one])
    category = cause if saved[cause] >= FLOOR_RATIO * window else "healthy"
    return Finding(
        category,
        f"range:{name}",
        {
            "recoverable_ns": saved[cause],
            "window_ns": window,
            "idle_ns": idle,
            "overlap_ns": bounds["overlap_ns"],
        },
        _RECOMMENDATIONS[category],
    )
