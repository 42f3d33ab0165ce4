from __future__ import annotations

CAUGHT_BY = "test_the_sum_is_right"
SAYS = "70001"


@triton.jit
def _vector_add_kernel(x_ptr, y_ptr, out_ptr, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    inside = at < n
    at = at.to(tl.int16)  # wrong: element 32,768 is none
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + y, mask=inside)
