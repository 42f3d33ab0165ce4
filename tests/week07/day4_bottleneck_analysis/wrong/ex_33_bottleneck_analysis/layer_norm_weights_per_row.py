"""Reads weight and bias for every row."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_a_layer_norm_is_counted"
SAYS = "the same for all rows"


def layer_norm_cost(rows: int, width: int, dtype: str, affine: bool = True) -> Cost:
    check_sizes(rows=rows, width=width)
    row_flops = 5 * width + 2 + (2 * width if affine else 0)
    elements = (4 if affine else 2) * rows * width
    return {"flops": rows * row_flops, "bytes": elements * devices.dtype(dtype).bytes}
