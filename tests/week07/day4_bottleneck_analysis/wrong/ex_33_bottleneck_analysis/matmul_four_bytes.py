"""Takes every element for four bytes."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_a_product_is_counted"
SAYS = "bytes in memory, not 4"


def matmul_cost(m: int, k: int, n: int, dtype: str, batch: int = 1, shared_b: bool = False) -> Cost:
    check_sizes(m=m, k=k, n=n, batch=batch)
    devices.dtype(dtype)
    size = 4
    matrices_b = 1 if shared_b else batch
    return {
        "flops": 2 * batch * m * k * n,
        "bytes": (batch * m * k + matrices_b * k * n + batch * m * n) * size,
    }
