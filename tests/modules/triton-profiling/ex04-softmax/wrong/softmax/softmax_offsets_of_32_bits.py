"""Multiplies columns and stride in 32 bits, as most kernels for contiguous rows may."""

from __future__ import annotations

CAUGHT_BY = "test_elements_far_apart"
SAYS = "do not fit into the 32 bits"


@triton.jit
def _softmax_kernel(
    out_ptr,
    x_ptr,
    row_stride,
    column_stride,
    rows,
    columns,
    per_program: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64) * per_program + tl.arange(0, per_program)[:, None]
    column = tl.arange(0, block)[None, :]
    inside = (row < rows) & (column < columns)
    place = x_ptr + row * row_stride + column * column_stride
    # Padding is -inf: it is never the largest, and its exp adds nothing.
    x = tl.load(place, mask=inside, other=-float("inf")).to(tl.float32)
    powers = tl.exp(x - tl.max(x, axis=1, keep_dims=True))
    result = powers / tl.sum(powers, axis=1, keep_dims=True)
    place = out_ptr + row * columns + column
    tl.store(place, result.to(out_ptr.dtype.element_ty), mask=inside)
