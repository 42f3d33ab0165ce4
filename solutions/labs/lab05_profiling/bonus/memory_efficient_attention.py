"""Lab 05, bonus 3: attention whose memory grows with the length, not with its square.

    attention(Q, K, V) = softmax(Q K^T / sqrt(d)) V

There is a score for each pair of a query and a key. If they are computed in blocks, with a softmax that
is corrected block by block (an *online* softmax), they never exist all at once.

Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867; Rabe,
Staats, "Self-attention Does Not Need O(n^2) Memory", arXiv 2112.05682; Dao et al., "FlashAttention",
arXiv 2205.14135.

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# The state of some rows after some of their keys, as three arrays: the largest score of each row, shape (rows,);
# the sum of exp(score - largest), shape (rows,); the sum of exp(score - largest) times the key's value,
# shape (rows, width). A row that saw no key has -inf, 0 and zeros.
Partial = tuple[np.ndarray, np.ndarray, np.ndarray]

BLOCK = 128  # queries and keys at a time, unless told otherwise


def merge_partials(first: Partial, second: Partial) -> Partial:
    """The softmax over two blocks of keys together, from the softmax over each block.

    first, second: the results of the two blocks, for the same rows and for different keys (see `Partial`).
    The arrays have one floating type, and so has the result. Do not change the inputs.

    Scores of any size work: nothing overflows if the scores themselves are numbers. A row for which neither
    block has a key stays at -inf, 0 and zeros, without a NaN and without a warning.

    Raises ValueError if the shapes do not fit together, or if a side is not three arrays.
    """
    mix = first[2]
    wanted = [mix.shape[:1], mix.shape[:1], mix.shape]
    for side in (first, second):
        shapes = [array.shape for array in side]
        if shapes != wanted or mix.ndim != 2:
            raise ValueError(
                f"shapes {shapes}: not the rows of the first, whose sums are {mix.shape}"
            )
    largest = np.maximum(first[0], second[0])
    finite = np.where(np.isneginf(largest), np.zeros_like(largest), largest)
    old, new = np.exp(first[0] - finite), np.exp(second[0] - finite)
    total = old * first[1] + new * second[1]
    mix = old[:, None] * first[2] + new[:, None] * second[2]
    return largest, total, mix


def blockwise_attention(
    query: Any,
    key: Any,
    value: Any,
    block_size: int = BLOCK,
    causal: bool = False,
    key_mask: Any = None,
) -> Any:
    """Attention by online softmax, `block_size` queries and keys at a time.

    query: a torch.Tensor (…, queries, width); key: (…, keys, width); value: (…, keys, value width). All have
    the same leading dimensions and one floating type, and are on one device. Scores are divided by the
    square root of width. causal: the queries are the last of the keys' tokens, so query i sees
    the keys up to number i + keys - queries. key_mask: a bool tensor, True where a key may be seen (where
    there is no padding). Its last dimension is keys. Its other dimensions, if it has any, can be broadcast
    to the leading ones.

    Returns a tensor (…, queries, value width) of the inputs' type. A query that sees no key gets zeros.
    Compute sums and exponentials at least in float32, whatever the inputs' type, so that only the result is
    rounded to that type. Large scores do not overflow. Gradients of query, key and value through
    autograd are right. (For a backward pass, autograd may keep more. Memory must be linear only without one.)

    Memory: no tensor that you make has more elements than the larger of two numbers: the elements of query,
    key and value together, and block_size × block_size for each entry of the leading dimensions. Everything
    that exists at the same time grows linearly with the length. With causal, do not compute pairs of blocks
    in which no query sees a key. Use products and elementwise operations; do not call
    `scaled_dot_product_attention`.

    Raises ValueError
    - if the shapes of query, key and value do not fit; the message has the three shapes;
    - if the key_mask does not fit, or if the types make no sense;
    - if block_size is not an integer of at least 1; the message names it.
    """
    import torch

    _check(query, key, value, block_size, key_mask)
    queries, keys = query.shape[-2], key.shape[-2]
    older = keys - queries
    wide = torch.promote_types(query.dtype, torch.float32)
    nothing = float("-inf")
    results = []
    for start in range(0, queries, block_size):
        q = query[..., start : start + block_size, :].to(wide) / query.shape[-1] ** 0.5
        last_seen = torch.arange(start, start + q.shape[-2], device=q.device)[:, None] + older
        largest = torch.full_like(q[..., :1], nothing)
        total = torch.zeros_like(largest)
        mix = q.new_zeros(value.shape[-1])  # for each row, once there is something to add
        seen = min(keys, start + q.shape[-2] + older) if causal else keys
        for first in range(0, seen, block_size):
            here = slice(first, first + block_size)
            scores = q @ key[..., here, :].to(wide).transpose(-1, -2)
            if key_mask is not None:
                scores = scores.masked_fill(~key_mask[..., None, here], nothing)
            if causal:
                columns = torch.arange(first, first + scores.shape[-1], device=q.device)
                scores = scores.masked_fill(columns > last_seen, nothing)
            # The shift cancels in the quotient, so no gradient has to pass through it.
            now = torch.maximum(largest, scores.detach().amax(-1, keepdim=True))
            finite = now.nan_to_num()  # of no key at all, so that the differences are no NaN
            weights = torch.exp(scores - finite)
            kept = torch.exp(largest - finite)
            total = total * kept + weights.sum(-1, keepdim=True)
            mix = mix * kept + weights @ value[..., here, :].to(wide)
            largest = now
        results.append((mix / total.masked_fill(total == 0.0, float("inf"))).to(query.dtype))
    return torch.cat(results, dim=-2)


def _check(query: Any, key: Any, value: Any, block_size: int, key_mask: Any) -> None:
    import torch

    shapes = f"query {tuple(query.shape)}, key {tuple(key.shape)}, value {tuple(value.shape)}"
    if min(query.ndim, key.ndim, value.ndim) < 2:
        raise ValueError(f"{shapes}: each needs two dimensions or more")
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        raise ValueError(f"{shapes}: the leading dimensions differ")
    if query.shape[-1] != key.shape[-1]:
        raise ValueError(f"{shapes}: a query and a key are not equally wide")
    if key.shape[-2] != value.shape[-2]:
        raise ValueError(f"{shapes}: not as many values as keys")
    if not (query.dtype == key.dtype == value.dtype and query.dtype.is_floating_point):
        raise ValueError(f"{query.dtype}, {key.dtype}, {value.dtype}: one floating type is needed")
    if type(block_size) is not int or block_size < 1:
        raise ValueError(f"block_size is {block_size!r}: a whole number of at least 1 is needed")
    if key_mask is None:
        return
    if key_mask.dtype != torch.bool:
        raise ValueError(f"key_mask is of {key_mask.dtype}: True and False are needed")
    wanted = (*query.shape[:-2], key.shape[-2])
    try:
        fits = key_mask.shape[-1] == wanted[-1]
        fits = fits and torch.broadcast_shapes(key_mask.shape, wanted) == wanted
    except (RuntimeError, IndexError):
        fits = False
    if not fits:
        raise ValueError(f"key_mask {tuple(key_mask.shape)} cannot be broadcast to {wanted}")
