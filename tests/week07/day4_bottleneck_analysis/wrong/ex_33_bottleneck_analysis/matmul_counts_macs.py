"""Counts multiply-adds instead of operations."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_a_product_is_counted"
SAYS = "multiply-add is two operations"


def matmul_cost(m: int, k: int, n: int, dtype: str, batch: int = 1, shared_b: bool = False) -> Cost:
    check_sizes(m=m, k=k, n=n, batch=batch)
    size = devices.dtype(dtype).bytes
    matrices_b = 1 if shared_b else batch
    return {
        "flops": batch * m * k * n,
        "bytes": (batch * m * k + matrices_b * k * n + batch * m * n) * size,
    }
