"""Reads a shared B once for each product."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_a_batch_of_products"
SAYS = "it is read once"


def matmul_cost(m: int, k: int, n: int, dtype: str, batch: int = 1, shared_b: bool = False) -> Cost:
    check_sizes(m=m, k=k, n=n, batch=batch)
    size = devices.dtype(dtype).bytes
    return {
        "flops": 2 * batch * m * k * n,
        "bytes": (batch * m * k + batch * k * n + batch * m * n) * size,
    }
