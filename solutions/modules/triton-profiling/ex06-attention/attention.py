"""Triton: attention in one kernel

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np

try:
    import torch
    import triton
    import triton.language as tl
except ModuleNotFoundError:  # macOS and Windows have no Triton, and only the kernel needs it
    triton: Any = SimpleNamespace(jit=lambda function: function)

State = tuple[np.ndarray, np.ndarray, np.ndarray]


def online_step(state: State, scores: np.ndarray, values: np.ndarray) -> State:
    """Attention over one more block of keys, when the earlier blocks are no longer available.

    state: (largest, total, weighted) of shapes (rows,), (rows,), (rows, head), in float64. They describe
        all keys so far. With m the largest score of a row, largest is m, total is the sum of exp(score - m), and
        weighted is the sum of exp(score - m) · value. Before the first block they are -inf, 0 and 0.
    scores: (rows, n) of the new block; -inf marks a key that a row does not see.
    values: (n, head).

    Returns the new state. A row that has seen only -inf stays as it was. So weighted / total is the
    attention over all keys so far, for any blocks in any order.

    Example: of scores [0, 2] with values [[1], [5]], a row's state is (2, exp(-2) + 1, [exp(-2) + 5]).
    """
    largest, total, weighted = state
    new = np.maximum(largest, scores.max(axis=1))
    shift = np.where(np.isneginf(new), 0.0, new)
    powers = np.exp(scores - shift[:, None])
    fade = np.exp(largest - shift)
    return new, total * fade + powers.sum(axis=1), weighted * fade[:, None] + powers @ values


def attention_bytes(
    queries: int,
    keys: int,
    head: int,
    block_m: int,
    block_n: int,
    causal: bool,
    element_bytes: int,
) -> dict[str, int]:
    """The bytes that attention of one head moves to and from memory.

    Fused: a program takes block_m queries (the last program may have fewer) and loads them once. It loads K and V
    in blocks of block_n keys (the last block may have fewer), and stores its rows of the result. With causal,
    query i sees the keys 0 to i, and a block that no query of the program sees is not loaded. Scores never leave
    the chip.
    Materialised: three calls, without the scaling. Each reads its inputs from memory and writes its result there:
    scores = Q Kᵀ; weights = softmax(scores); result = weights V. Nothing is left out with causal.

    Returns "load_bytes" and "store_bytes" of the fused kernel, "least_bytes" (Q, K, V and the result moved
    once each), and "materialised_bytes".

    Example: 4 queries, 4 keys, blocks of 2 by 2, head 1, causal, 1 byte: 4 + 2 · (2 + 4) = 16 loaded.
    """
    loaded_keys = 0
    for start in range(0, queries, block_m):
        seen = min(keys, start + block_m, queries) if causal else keys
        loaded_keys += min(keys, math.ceil(seen / block_n) * block_n)
    return {
        "load_bytes": (queries + 2 * loaded_keys) * head * element_bytes,
        "store_bytes": queries * head * element_bytes,
        "least_bytes": 2 * (queries + keys) * head * element_bytes,
        "materialised_bytes": (2 * (queries + keys) * head + 4 * queries * keys) * element_bytes,
    }


@triton.jit
def _attend_blocks(
    weighted,
    total,
    largest,
    q,
    k_ptr,
    v_ptr,
    k_stride,
    v_stride,
    row,
    start,
    stop,
    keys,
    scale,
    causal: tl.constexpr,
    masked: tl.constexpr,
    block_n: tl.constexpr,
    head: tl.constexpr,
):
    inner = tl.arange(0, head)[None, :]
    for first in range(start, stop, block_n):
        column = first + tl.arange(0, block_n)
        inside = (column < keys)[:, None]
        k_at = k_ptr + column[:, None].to(tl.int64) * k_stride + inner
        v_at = v_ptr + column[:, None].to(tl.int64) * v_stride + inner
        if masked:
            k = tl.load(k_at, mask=inside, other=0.0)
            v = tl.load(v_at, mask=inside, other=0.0)
        else:
            k, v = tl.load(k_at), tl.load(v_at)
        scores = tl.dot(q, tl.trans(k)) * scale
        if masked:
            seen = (column < keys)[None, :]
            if causal:
                seen = seen & (column[None, :] <= row[:, None])
            scores = tl.where(seen, scores, -float("inf"))
        new = tl.maximum(largest, tl.max(scores, axis=1))
        shift = tl.where(new == -float("inf"), 0.0, new)  # -inf minus -inf is nan
        powers = tl.exp2(scores - shift[:, None])
        fade = tl.exp2(largest - shift)
        total = total * fade + tl.sum(powers, axis=1)
        weighted = tl.dot(powers.to(v.dtype), v, weighted * fade[:, None])
        largest = new
    return weighted, total, largest


@triton.jit
def _attention_kernel(
    out_ptr,
    q_ptr,
    k_ptr,
    v_ptr,
    q_batch,
    q_head,
    q_stride,
    k_batch,
    k_head,
    k_stride,
    v_batch,
    v_head,
    v_stride,
    heads,
    queries,
    keys,
    scale,
    causal: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
    head: tl.constexpr,
):
    tile, pair = tl.program_id(0), tl.program_id(1).to(tl.int64)
    batch, number = pair // heads, pair % heads
    row = tile * block_m + tl.arange(0, block_m)
    inner = tl.arange(0, head)[None, :]
    inside = (row < queries)[:, None]
    q_at = q_ptr + batch * q_batch + number * q_head + row[:, None].to(tl.int64) * q_stride + inner
    q = tl.load(q_at, mask=inside, other=0.0)
    k_ptr += batch * k_batch + number * k_head
    v_ptr += batch * v_batch + number * v_head
    weighted = tl.zeros((block_m, head), tl.float32)
    total = tl.zeros((block_m,), tl.float32)
    largest = tl.full((block_m,), -float("inf"), tl.float32)
    # Blocks that all rows see whole need no mask; only what comes after them pays for one.
    stop, whole = keys, keys // block_n * block_n
    if causal:
        stop = tl.minimum(keys, tl.minimum((tile + 1) * block_m, queries))
        whole = tl.minimum(whole, tile * block_m // block_n * block_n)
    weighted, total, largest = _attend_blocks(
        *(weighted, total, largest, q, k_ptr, v_ptr, k_stride, v_stride, row),
        *(0, whole, keys, scale, causal, tl.constexpr(False), block_n, head),
    )
    weighted, total, largest = _attend_blocks(
        *(weighted, total, largest, q, k_ptr, v_ptr, k_stride, v_stride, row),
        *(whole, stop, keys, scale, causal, tl.constexpr(True), block_n, head),
    )
    out_at = out_ptr + (pair * queries + row[:, None]) * head + inner
    tl.store(out_at, (weighted / total[:, None]).to(out_ptr.dtype.element_ty), mask=inside)


def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, config: dict[str, int]
) -> torch.Tensor:
    """softmax(Q Kᵀ / √head) V for each head, by one launch of a Triton kernel. Write your kernel above this.

    q: (batch, heads, queries, head), k and v: (batch, heads, keys, head), all float16 or bfloat16. head is a
        power of two, at least 16; queries and keys are any numbers from 1 on. The elements of a row are adjacent
        in memory; all other strides are arbitrary. With causal, query i sees the keys 0 to i.
    config: block_m, block_n (powers of two, at least 16), num_warps, num_stages, used as given.

    Returns a new contiguous tensor like q. Compute in float32, the scale included. Round only the weights (for
    their product with V) and the result. A key may score -inf: it has no weight. A query that sees no other key
    gets 0 or nan. Memory outside of the three tensors must not affect the result.

    There is a program for each block_m queries of a head. All programs together load and store exactly the bytes
    of `attention_bytes`, and torch only allocates the result.
    """
    batch, heads, queries, head = q.shape
    out = torch.empty(q.shape, dtype=q.dtype, device=q.device)
    kernel: Any = _attention_kernel[(triton.cdiv(queries, config["block_m"]), batch * heads)]
    kernel(
        *(out, q, k, v, *q.stride()[:3], *k.stride()[:3], *v.stride()[:3]),
        *(heads, queries, k.shape[2], head**-0.5 * math.log2(math.e)),
        causal=causal,
        head=head,
        **config,
    )
    return out
