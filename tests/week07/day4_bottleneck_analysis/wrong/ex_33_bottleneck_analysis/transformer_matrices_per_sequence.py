"""Reads the matrices for every sequence."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_a_forward_pass_is_counted"
SAYS = "use the same matrices, read once"


def transformer_cost(
    layers: int,
    hidden: int,
    heads: int,
    kv_heads: int,
    head_dim: int,
    ffn: int,
    ffn_matrices: int,
    batch: int,
    new_tokens: int,
    cached_tokens: int,
    dtype: str,
) -> Cost:
    check_sizes(layers=layers, hidden=hidden, ffn=ffn, ffn_matrices=ffn_matrices)
    # A negative or broken cached_tokens leaves fewer keys than queries, which attention_cost refuses.
    attention = attention_cost(
        batch, heads, new_tokens, cached_tokens + new_tokens, head_dim, dtype, kv_heads, causal=True
    )
    weights = layers * (
        hidden * (heads + 2 * kv_heads) * head_dim
        + heads * head_dim * hidden
        + ffn_matrices * hidden * ffn
    )
    size = devices.dtype(dtype).bytes
    cache = kv_cache_bytes(layers, kv_heads, head_dim, cached_tokens + new_tokens, batch, dtype)
    return {
        "flops": 2 * weights * batch * new_tokens + layers * attention["flops"],
        "bytes": batch * weights * size + cache + 2 * batch * new_tokens * hidden * size,
    }
