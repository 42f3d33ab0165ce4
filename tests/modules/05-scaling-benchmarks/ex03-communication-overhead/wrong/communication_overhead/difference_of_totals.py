from __future__ import annotations

CAUGHT_BY = "test_exposed_time_of_drawn_buckets"
SAYS = "none before its bucket"


def predict_exposed(
    bucket_bytes: Sequence[int], backward_ns: float, fit: Mapping[str, float], world_size: int
) -> dict[str, float]:
    _buckets(bucket_bytes, world_size)
    if backward_ns < 0:
        raise ValueError("backward_ns")
    spent = sum(_reduce_ns(size, fit, world_size) for size in bucket_bytes)
    exposed = max(0.0, spent - backward_ns)
    return {"exposed_ns": exposed, "hidden_ns": spent - exposed}
