from __future__ import annotations

CAUGHT_BY = "test_bandwidth_of_each_operation"
SAYS = "the factor is"


def bus_bandwidth(
    operation: str, size_bytes: int, time_ns: float, world_size: int
) -> dict[str, float]:
    known = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
    if operation not in known or not size_bytes > 0 or not time_ns > 0 or world_size < 2:
        raise ValueError("operation, size, time, world size")
    algorithm = 1e9 * size_bytes / time_ns
    factor = 1.0 if operation in known[4:] else (world_size - 1) / world_size
    return {"algorithm_bytes_per_s": algorithm, "bus_bytes_per_s": algorithm * factor}
