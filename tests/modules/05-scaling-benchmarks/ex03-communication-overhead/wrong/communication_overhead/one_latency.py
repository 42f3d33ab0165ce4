from __future__ import annotations

CAUGHT_BY = "test_cost_of_drawn_buckets"
SAYS = "Each bucket pays the latency"


def gradient_cost(
    bucket_bytes: Sequence[int], fit: Mapping[str, float], world_size: int
) -> dict[str, float]:
    _buckets(bucket_bytes, world_size)
    time = _reduce_ns(sum(bucket_bytes), fit, world_size)
    factor = 2 * (world_size - 1) / world_size
    return {
        "time_ns": time,
        "latency_ratio": fit["latency_ns"] / time,
        "half_bytes": fit["latency_ns"] * fit["bus_bytes_per_s"] / 1e9 / factor,
    }
