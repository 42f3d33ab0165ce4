"""Refuses more queries than keys in a fused kernel only."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_attention_that_does_not_exist"
SAYS = "some would see none"


def attention_cost(
    batch: int,
    heads: int,
    query_tokens: int,
    key_tokens: int,
    head_dim: int,
    dtype: str,
    kv_heads: int | None = None,
    causal: bool = False,
    fused: bool = True,
) -> Cost:
    kv_heads = heads if kv_heads is None else kv_heads
    check_sizes(
        batch=batch,
        heads=heads,
        query_tokens=query_tokens,
        key_tokens=key_tokens,
        head_dim=head_dim,
        kv_heads=kv_heads,
    )
    if heads % kv_heads:
        raise ValueError(f"kv_heads is {kv_heads}, which does not divide the {heads} heads")
    if causal and fused and query_tokens > key_tokens:
        raise ValueError(f"causal, but {query_tokens} queries for {key_tokens} keys")
    pairs = all_pairs = query_tokens * key_tokens
    if causal and fused:
        pairs -= query_tokens * (query_tokens - 1) // 2
    elements = 2 * heads * query_tokens * head_dim + 2 * kv_heads * key_tokens * head_dim
    if not fused:
        elements += 4 * heads * all_pairs
    return {
        "flops": 4 * batch * heads * pairs * head_dim,
        "bytes": batch * elements * devices.dtype(dtype).bytes,
    }
