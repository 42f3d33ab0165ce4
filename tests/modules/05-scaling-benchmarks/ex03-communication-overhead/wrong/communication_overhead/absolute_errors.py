from __future__ import annotations

CAUGHT_BY = "test_fit_of_made_up_reductions"
SAYS = "squared relative errors"


def fit_all_reduce(capture: str | Path, world_size: int) -> dict[str, float]:
    table = _content(capture)["all_reduce"]
    rows = [row for row in table if row["world_size"] == world_size]
    if len({row["bytes"] for row in rows}) < 2:
        raise ValueError(f"measured: {sorted({row['world_size'] for row in table})}")
    factor = 2 * (world_size - 1) / world_size
    sizes = [factor * row["bytes"] for row in rows]
    times = [statistics.median(row["samples_ns"]) for row in rows]
    slope, latency = statistics.linear_regression(sizes, times)
    if not slope > 0:
        raise ValueError("no slope")
    pairs = list(zip(sizes, times, strict=True))
    return {
        "latency_ns": latency,
        "bus_bytes_per_s": 1e9 / slope,
        "worst_ratio": max(abs((latency + slope * x) / t - 1) for x, t in pairs),
    }
