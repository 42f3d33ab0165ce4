from __future__ import annotations

CAUGHT_BY = "test_bandwidth_of_each_operation"
SAYS = "by 3 processes the factor"


def bus_bandwidth(
    operation: str, size_bytes: int, time_ns: float, world_size: int
) -> dict[str, float]:
    factors = {"all_reduce": 1.0, "broadcast": 1.0, "reduce": 1.0}  # as on two processes
    factors |= {"all_gather": 0.5, "reduce_scatter": 0.5, "all_to_all": 0.5}
    if operation not in factors or not size_bytes > 0 or not time_ns > 0 or world_size < 2:
        raise ValueError("operation, size, time, world size")
    algorithm = 1e9 * size_bytes / time_ns
    return {
        "algorithm_bytes_per_s": algorithm,
        "bus_bytes_per_s": algorithm * factors[operation],
    }
