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
    raise NotImplementedError


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
    raise NotImplementedError
