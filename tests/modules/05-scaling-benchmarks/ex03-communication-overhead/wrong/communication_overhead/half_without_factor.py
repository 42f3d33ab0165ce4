from __future__ import annotations

CAUGHT_BY = "test_cost_of_drawn_buckets"
SAYS = "half_bytes is"


def gradient_cost(
    bucket_bytes: Sequence[int], fit: Mapping[str, float], world_size: int
) -> dict[str, float]:
    _buckets(bucket_bytes, world_size)
    time = sum(_reduce_ns(size, fit, world_size) for size in bucket_bytes)
    return {
        "time_ns": time,
        "latency_ratio": len(bucket_bytes) * fit["latency_ns"] / time,
        "half_bytes": fit["latency_ns"] * fit["bus_bytes_per_s"] / 1e9,
    }
