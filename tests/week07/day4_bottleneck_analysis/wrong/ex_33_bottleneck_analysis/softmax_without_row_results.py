"""Forgets that row results go through memory."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_a_softmax_is_counted"
SAYS = "The largest elements and the sums are tensors"


def softmax_cost(rows: int, width: int, dtype: str, fused: bool = True) -> Cost:
    check_sizes(rows=rows, width=width)
    elements = 2 * rows * width if fused else 8 * rows * width
    return {
        "flops": rows * (5 * width - 2),
        "bytes": elements * devices.dtype(dtype).bytes,
    }
