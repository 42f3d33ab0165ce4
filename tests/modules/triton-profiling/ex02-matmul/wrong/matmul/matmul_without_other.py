"""Leaves it open what stands in lanes that are masked off."""

from __future__ import annotations

CAUGHT_BY = "test_products"
SAYS = "undefined on a GPU"


@triton.jit
def _matmul_kernel(
    a,
    b,
    c,
    m,
    n,
    k,
    stride_am,
    stride_ak,
    stride_bk,
    stride_bn,
    stride_cm,
    stride_cn,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    block_k: tl.constexpr,
    group_m: tl.constexpr,
    even: tl.constexpr,
):
    program = tl.program_id(0)
    rows, columns = tl.cdiv(m, block_m), tl.cdiv(n, block_n)
    # group_m rows of tiles together, so that programs that run at the same time share tiles.
    group = program // (group_m * columns)
    height = tl.minimum(rows - group * group_m, group_m)
    tile_m = group * group_m + (program % (group_m * columns)) % height
    tile_n = (program % (group_m * columns)) // height

    at_m = tile_m * block_m + tl.arange(0, block_m)
    at_n = tile_n * block_n + tl.arange(0, block_n)
    at_k = tl.arange(0, block_k)
    a_at = a + at_m[:, None] * stride_am + at_k[None, :] * stride_ak
    b_at = b + at_k[:, None] * stride_bk + at_n[None, :] * stride_bn
    total = tl.zeros((block_m, block_n), dtype=tl.float32)
    for start in range(0, k, block_k):
        if even:
            a_tile, b_tile = tl.load(a_at), tl.load(b_at)
        else:
            inside = at_k < k - start
            a_tile = tl.load(a_at, mask=(at_m < m)[:, None] & inside[None, :])
            b_tile = tl.load(b_at, mask=inside[:, None] & (at_n < n)[None, :])
        total = tl.dot(a_tile, b_tile, total, input_precision="ieee")
        a_at += block_k * stride_ak
        b_at += block_k * stride_bk
    at = c + at_m[:, None] * stride_cm + at_n[None, :] * stride_cn
    inside = (at_m < m)[:, None] & (at_n < n)[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=inside)
