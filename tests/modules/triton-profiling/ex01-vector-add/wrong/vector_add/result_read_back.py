from __future__ import annotations

CAUGHT_BY = "test_no_byte_too_many"
SAYS = "is read once"


@triton.jit
def _vector_add_kernel(x_ptr, y_ptr, out_ptr, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside), mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, tl.load(out_ptr + at, mask=inside) + y, mask=inside)
