"""Believes that one pass for the sum is one pass in all."""

from __future__ import annotations

CAUGHT_BY = "test_bytes_are_counted"
SAYS = "the second reads again"


def softmax_bytes(rows: int, columns: int, dtype: str, algorithm: str) -> int:
    _check_counts(rows=rows, columns=columns)
    size = devices.dtype(dtype).bytes
    elements = {
        "separate": 8 * rows * columns + 4 * rows,
        "three_pass": 4 * rows * columns,
        "online": 2 * rows * columns,
        "fused": 2 * rows * columns,
    }
    if algorithm not in elements:
        raise ValueError(f"unknown algorithm {algorithm!r}; known: {', '.join(elements)}")
    return elements[algorithm] * size
