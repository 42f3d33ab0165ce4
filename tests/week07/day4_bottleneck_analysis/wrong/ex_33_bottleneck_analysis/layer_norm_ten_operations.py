"""Takes ten operations an element, a rule of thumb."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_a_layer_norm_is_counted"
SAYS = "is a guess"


def layer_norm_cost(rows: int, width: int, dtype: str, affine: bool = True) -> Cost:
    check_sizes(rows=rows, width=width)
    elements = 2 * rows * width + (2 * width if affine else 0)
    return {"flops": 10 * rows * width, "bytes": elements * devices.dtype(dtype).bytes}
