"""Lab 05, bonus 3: attention whose memory grows with the length, not with its square.

    attention(Q, K, V) = softmax(Q K^T / sqrt(d)) V

The scores are a number for each pair of a query and a key. Taken in blocks, with a softmax that is
corrected as it goes (an *online* softmax), they never exist all at once.

Source: Milakov, Gimelshein, "Online normalizer calculation for softmax", arXiv 1805.02867; Rabe,
Staats, "Self-attention Does Not Need O(n^2) Memory", arXiv 2112.05682; Dao et al., "FlashAttention",
arXiv 2205.14135.

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

# What is known of some rows after some of their keys: the largest score of each row, shape (rows,);
# the sum of exp(score - largest), shape (rows,); the sum of exp(score - largest) times the key's value,
# shape (rows, width). A row that saw no key has -inf, 0 and zeros.
Partial = tuple[np.ndarray, np.ndarray, np.ndarray]

BLOCK = 128  # queries and keys at a time, unless told otherwise


def merge_partials(first: Partial, second: Partial) -> Partial:
    """What is known after the keys of both: the softmax of two blocks of keys from that of each.

    first, second: of the same rows, of different keys (see `Partial`); arrays of one floating type,
    which the result has, too. Neither is changed.

    Works for scores of any size: nothing overflows, as long as the scores themselves are numbers, and a row that
    neither block has a key for stays at -inf, 0 and zeros, without a NaN and without a warning.

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

    query: a torch.Tensor (…, queries, width); key: (…, keys, width); value: (…, keys, value width),
    all with the same leading dimensions and of one floating type, on one device. Scores are divided
    by the square root of width. causal: the queries are the last of the keys' tokens, so query i sees
    the keys up to number i + keys - queries. key_mask: a bool tensor whose last dimension is keys and
    whose others, if it has any, can be broadcast to the leading ones; True where a key may be seen
    (what is not padding).

    Returns a tensor (…, queries, value width) of the inputs' type. A query that sees no key gets zeros.
    Sums and exponentials are computed in float32 at least, whatever the inputs' type, so only the
    result is rounded to it. Large scores do not overflow. Gradients of query, key and value through
    autograd are right (backward keeps what autograd keeps: linear memory is promised without it).

    Memory: no tensor that it makes has more elements than query, key and value together or than
    block_size × block_size for each entry of the leading dimensions, whichever is more; and all that
    is alive at once grows linearly with the length. With causal, pairs of blocks in which no query
    sees a key are not computed. Made of products and elementwise operations:
    `scaled_dot_product_attention` is not called.

    Raises ValueError for shapes of query, key and value that do not fit, with these three shapes in its
    message, for a key_mask that does not, and for types that do not make sense; one that names
    block_size if that is no whole number of at least 1.
    """
    raise NotImplementedError
