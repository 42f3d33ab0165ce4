from __future__ import annotations

CAUGHT_BY = "test_the_sum_is_right"
SAYS = "behind the end of x"


@triton.jit
def _vector_add_kernel(x_ptr, y_ptr, out_ptr, n, block: tl.constexpr):
    at = tl.program_id(0) * block + tl.arange(0, block)
    x = tl.load(x_ptr + at)
    y = tl.load(y_ptr + at)
    tl.store(out_ptr + at, x + y, mask=at < n)
