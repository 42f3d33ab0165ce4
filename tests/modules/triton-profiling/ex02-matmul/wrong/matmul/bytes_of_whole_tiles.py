"""Counts whole tiles, also where they hang over an edge."""

from __future__ import annotations

CAUGHT_BY = "test_bytes_of_tiles"
SAYS = "inside the matrices"


def matmul_bytes(
    m: int, n: int, k: int, block_m: int, block_n: int, element_bytes: int
) -> dict[str, int]:
    _check_sizes(m=m, n=n, k=k, block_m=block_m, block_n=block_n, element_bytes=element_bytes)
    tile_rows, tile_columns = math.ceil(m / block_m), math.ceil(n / block_n)
    return {
        "load_bytes": ((block_m + block_n) * k * tile_rows * tile_columns) * element_bytes,
        "store_bytes": m * n * element_bytes,
        "least_bytes": (m * k + k * n + m * n) * element_bytes,
    }
