"""Forgets that each sequence has a cache."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_the_cache_holds_keys_and_values"
SAYS = "Every sequence of the batch"


def kv_cache_bytes(
    layers: int, kv_heads: int, head_dim: int, tokens: int, batch: int, dtype: str
) -> int:
    check_sizes(layers=layers, kv_heads=kv_heads, head_dim=head_dim, tokens=tokens, batch=batch)
    return 2 * layers * kv_heads * head_dim * tokens * devices.dtype(dtype).bytes
