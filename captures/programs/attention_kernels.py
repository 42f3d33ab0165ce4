"""Attention forward in Triton, in steps: what the programs beside this file time and profile.

Every step is the same function, softmax(Q Kᵀ · scale) V, on contiguous tensors (batch, heads, tokens,
head). The scores of a block of queries and a block of keys stay on the chip; a running maximum, a running
sum and the weighted sum of values are rescaled when a larger score comes (Milakov and Gimelshein,
arXiv:1805.02867; Dao et al., arXiv:2205.14135). STEPS says what each step changes.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

jit: Any = triton.jit  # its type knows nothing of num_warps and the like

# Each step has all of the one before and changes what it names.
STEPS: dict[str, dict[str, Any]] = {}


def _step(name: str, **changes: Any) -> None:
    before = next(reversed(STEPS.values()), {})
    STEPS[name] = before | changes


_step("first", block_m=64, block_n=64, num_warps=4, stages=1, base2=False, split=False, tma=False)
_step("tiles", block_m=128, block_n=128, num_warps=8)
_step("pipelined", stages=2)
_step("exp2", base2=True)
_step("unmasked", split=True)
_step("tma", tma=True)
_step("small", block_m=64, block_n=128, num_warps=4, stages=1)
_step("capped", maxnreg=168)

# Variants of a step that leave one thing out: their results are wrong, their times say what it costs.
PARTS = ("exp", "rescale", "largest", "sum", "loads")


@jit
def attend_blocks(
    weighted,
    total,
    largest,
    q,
    k_pointer,
    v_pointer,
    k_tiles,
    v_tiles,
    pair,
    start,
    stop,
    row,
    keys,
    scale,
    masked: tl.constexpr,
    causal: tl.constexpr,
    base2: tl.constexpr,
    tma: tl.constexpr,
    block_n: tl.constexpr,
    head: tl.constexpr,
    stages: tl.constexpr,
    without: tl.constexpr,
):
    """The keys from start to stop, a block at a time."""
    inner = tl.arange(0, head)
    for first in tl.range(start, stop, block_n, num_stages=stages):
        column = first + tl.arange(0, block_n)
        at = 0 if without == "loads" else first  # always the same block: nothing new to load
        inside = (column < keys)[:, None]
        place = (at + tl.arange(0, block_n))[:, None] * head + inner[None, :]
        if tma:
            k = k_tiles.load([pair, at, 0]).reshape(block_n, head)
        elif masked:
            k = tl.load(k_pointer + place, mask=inside, other=0.0)
        else:
            k = tl.load(k_pointer + place)
        scores = tl.dot(q, k.T)
        if masked:
            seen = (column < keys)[None, :]
            if causal:
                seen = seen & (column[None, :] <= row[:, None])
            scores = tl.where(seen, scores, -float("inf"))
        if not base2:
            scores = scores * scale
        if without == "largest":
            new = largest
            shift = tl.zeros_like(largest)
        else:
            top = tl.max(scores, 1)
            new = tl.maximum(largest, top * scale if base2 else top)
            shift = tl.where(new == -float("inf"), 0.0, new)
        if without == "exp":
            powers = scores * scale - shift[:, None]
            fade = largest - shift
        elif base2:
            powers = tl.exp2(scores * scale - shift[:, None])
            fade = tl.exp2(largest - shift)
        else:
            powers = tl.exp(scores - shift[:, None])
            fade = tl.exp(largest - shift)
        if without != "sum":
            total = total * fade + tl.sum(powers, 1)
        if without != "rescale":
            weighted = weighted * fade[:, None]
        if tma:
            v = v_tiles.load([pair, at, 0]).reshape(block_n, head)
        elif masked:
            v = tl.load(v_pointer + place, mask=inside, other=0.0)
        else:
            v = tl.load(v_pointer + place)
        weighted = tl.dot(powers.to(v.dtype), v, weighted)
        largest = new
    return weighted, total, largest


@jit
def attend(
    out_pointer,
    q_pointer,
    k_pointer,
    v_pointer,
    q_tiles,
    k_tiles,
    v_tiles,
    queries,
    keys,
    scale,
    causal: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    head: tl.constexpr,
    stages: tl.constexpr,
    base2: tl.constexpr,
    split: tl.constexpr,
    tma: tl.constexpr,
    without: tl.constexpr,
):
    tile = tl.program_id(0)
    pair = tl.program_id(1)
    row = tile * block_m + tl.arange(0, block_m)
    k_start = pair.to(tl.int64) * keys * head
    if tma:
        q = q_tiles.load([pair, tile * block_m, 0]).reshape(block_m, head)
    else:
        place = (pair.to(tl.int64) * queries + row[:, None]) * head + tl.arange(0, head)[None, :]
        q = tl.load(q_pointer + place, mask=(row < queries)[:, None], other=0.0)
    weighted = tl.zeros((block_m, head), tl.float32)
    total = tl.zeros((block_m,), tl.float32)
    largest = tl.full((block_m,), -float("inf"), tl.float32)
    stop, full = keys, keys // block_n * block_n
    if causal:
        stop = tl.minimum(keys, (tile + 1) * block_m)
        full = tl.minimum(keys, tile * block_m) // block_n * block_n
    begin = 0
    if split:
        weighted, total, largest = attend_blocks(
            *(weighted, total, largest, q, k_pointer + k_start, v_pointer + k_start),
            *(k_tiles, v_tiles, pair, 0, full, row, keys, scale),
            *(False, causal, base2, tma, block_n, head, stages, without),
        )
        begin = full
    weighted, total, largest = attend_blocks(
        *(weighted, total, largest, q, k_pointer + k_start, v_pointer + k_start),
        *(k_tiles, v_tiles, pair, begin, stop, row, keys, scale),
        *(True, causal, base2, tma, block_n, head, stages, without),
    )
    result = (weighted / total[:, None]).to(out_pointer.dtype.element_ty)
    # Computed here and not before the loop: what is not needed there holds no registers.
    place = (pair.to(tl.int64) * queries + row[:, None]) * head + tl.arange(0, head)[None, :]
    tl.store(out_pointer + place, result, mask=(row < queries)[:, None])


def tiles(x: torch.Tensor, block: int) -> TensorDescriptor:
    """Descriptor of a contiguous (batch, heads, tokens, head) tensor in tiles of `block` tokens."""
    batch, heads, tokens, head = x.shape
    return TensorDescriptor(
        x, [batch * heads, tokens, head], [tokens * head, head, 1], [1, block, head]
    )


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    causal: bool,
    *,
    block_m: int,
    block_n: int,
    num_warps: int,
    stages: int,
    base2: bool,
    split: bool,
    tma: bool,
    without: str = "",
    out: torch.Tensor | None = None,
    **options: Any,
) -> tuple[torch.Tensor, Any]:
    """The result, and what Triton compiled."""
    batch, heads, queries, head = q.shape
    out = torch.empty_like(q) if out is None else out
    given: tuple[Any, ...] = (q, k, v)
    if tma:
        given = tiles(q, block_m), tiles(k, block_n), tiles(v, block_n)
    compiled = attend[(triton.cdiv(queries, block_m), batch * heads)](
        *(out, q, k, v, *given, queries, k.shape[2]),
        head**-0.5 * (math.log2(math.e) if base2 else 1.0),
        causal=causal,
        block_m=block_m,
        block_n=block_n,
        head=head,
        stages=stages,
        base2=base2,
        split=split,
        tma=tma,
        without=without,
        num_warps=num_warps,
        **options,
    )
    return out, compiled
