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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError
