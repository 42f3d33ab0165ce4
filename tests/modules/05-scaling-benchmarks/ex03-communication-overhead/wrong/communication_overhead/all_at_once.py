from __future__ import annotations

CAUGHT_BY = "test_exposed_time_of_drawn_buckets"
SAYS = "one at a time"


def predict_exposed(
    bucket_bytes: Sequence[int], backward_ns: float, fit: Mapping[str, float], world_size: int
) -> dict[str, float]:
    _buckets(bucket_bytes, world_size)
    if backward_ns < 0:
        raise ValueError("backward_ns")
    times = [_reduce_ns(size, fit, world_size) for size in bucket_bytes]
    done, end = 0, 0.0
    for size, time in zip(bucket_bytes, times, strict=True):
        done += size
        end = max(end, backward_ns * done / sum(bucket_bytes) + time)
    return {"exposed_ns": end - backward_ns, "hidden_ns": sum(times) - end + backward_ns}
