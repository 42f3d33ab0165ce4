"""Counts each matrix once, as if no program loaded what another one had."""

from __future__ import annotations

CAUGHT_BY = "test_bytes_of_tiles"
SAYS = "Each program loads for itself"


def matmul_bytes(
    m: int, n: int, k: int, block_m: int, block_n: int, element_bytes: int
) -> dict[str, int]:
    _check_sizes(m=m, n=n, k=k, block_m=block_m, block_n=block_n, element_bytes=element_bytes)
    return {
        "load_bytes": (m * k + k * n) * element_bytes,
        "store_bytes": m * n * element_bytes,
        "least_bytes": (m * k + k * n + m * n) * element_bytes,
    }
