"""Takes what has one element a row for nothing."""

from __future__ import annotations

CAUGHT_BY = "test_bytes_are_counted"
SAYS = "one element a row included"


def softmax_bytes(rows: int, columns: int, dtype: str, algorithm: str) -> int:
    _check_counts(rows=rows, columns=columns)
    size = devices.dtype(dtype).bytes
    elements = {
        "separate": 8 * rows * columns,
        "three_pass": 4 * rows * columns,
        "online": 3 * rows * columns,
        "fused": 2 * rows * columns,
    }
    if algorithm not in elements:
        raise ValueError(f"unknown algorithm {algorithm!r}; known: {', '.join(elements)}")
    return elements[algorithm] * size
