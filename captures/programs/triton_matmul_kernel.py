"""A tiled matrix product in Triton, as the programs that record it use it."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

Config = dict[str, int]


def config(m: int, n: int, k: int, warps: int, stages: int, group: int = 8) -> Config:
    """Sizes of a tile, and how it is compiled."""
    return {
        "block_m": m,
        "block_n": n,
        "block_k": k,
        "group_m": group,
        "num_warps": warps,
        "num_stages": stages,
    }


def label(chosen: Config) -> str:
    """A name for a configuration: "128x256x64 w8 s3"."""
    tile = "x".join(str(chosen[f"block_{axis}"]) for axis in "mnk")
    return f"{tile} w{chosen['num_warps']} s{chosen['num_stages']}"


@triton.jit
def matmul_kernel(
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
            a_tile = tl.load(a_at, mask=(at_m < m)[:, None] & inside[None, :], other=0.0)
            b_tile = tl.load(b_at, mask=inside[:, None] & (at_n < n)[None, :], other=0.0)
        total = tl.dot(a_tile, b_tile, total)
        a_at += block_k * stride_ak
        b_at += block_k * stride_bk
    at = c + at_m[:, None] * stride_cm + at_n[None, :] * stride_cn
    inside = (at_m < m)[:, None] & (at_n < n)[None, :]
    tl.store(at, total.to(c.dtype.element_ty), mask=inside)


def launch(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor, chosen: Config) -> Any:
    """c = a @ b; returns the compiled kernel."""
    (m, k), n = a.shape, b.shape[1]
    tile = chosen["block_m"], chosen["block_n"], chosen["block_k"]
    grid = (triton.cdiv(m, tile[0]) * triton.cdiv(n, tile[1]),)
    kernel: Any = matmul_kernel[grid]
    return kernel(
        a,
        b,
        c,
        m,
        n,
        k,
        *a.stride(),
        *b.stride(),
        *c.stride(),
        block_m=tile[0],
        block_n=tile[1],
        block_k=tile[2],
        group_m=chosen["group_m"],
        even=all(size % block == 0 for size, block in zip((m, n, k), tile, strict=True)),
        num_warps=chosen["num_warps"],
        num_stages=chosen["num_stages"],
    )
