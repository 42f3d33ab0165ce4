from __future__ import annotations

CAUGHT_BY = "test_fit_of_made_up_reductions"
SAYS = "latency_ns is"


def fit_all_reduce(capture: str | Path, world_size: int) -> dict[str, float]:
    table = _content(capture)["all_reduce"]
    rows = [row for row in table if row["world_size"] == world_size]
    if len({row["bytes"] for row in rows}) < 2:
        known = sorted({row["world_size"] for row in table})
        raise ValueError(f"{capture}: two sizes are needed; world sizes measured: {known}")
    factor = 2 * (world_size - 1) / world_size
    points = [(factor * row["bytes"], statistics.median(row["samples_ns"])) for row in rows]
    # Divided by t, each equation reads latency * (1/t) + slope * (x/t) = 1.
    one = sum(1 / t**2 for _, t in points)
    mixed = sum(x / t**2 for x, t in points)
    square = sum((x / t) ** 2 for x, t in points)
    right, right_x = sum(1 / t for _, t in points), sum(x / t for x, t in points)
    whole = one * square - mixed**2
    latency = max(0.0, (right * square - right_x * mixed) / whole)
    slope = (one * right_x - mixed * right) / whole
    if not slope > 0:
        raise ValueError(f"{capture}: its times do not grow with size; measure larger ones")
    return {
        "latency_ns": latency,
        "bus_bytes_per_s": 1e9 / slope,
        "worst_ratio": max(abs((latency + slope * x) / t - 1) for x, t in points),
    }
