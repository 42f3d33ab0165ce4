"""Counts w operations for a sum of w numbers."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_a_softmax_is_counted"
SAYS = "takes w - 1 comparisons"


def softmax_cost(rows: int, width: int, dtype: str, fused: bool = True) -> Cost:
    check_sizes(rows=rows, width=width)
    elements = 2 * rows * width if fused else 8 * rows * width + 4 * rows
    return {
        "flops": rows * 5 * width,
        "bytes": elements * devices.dtype(dtype).bytes,
    }
