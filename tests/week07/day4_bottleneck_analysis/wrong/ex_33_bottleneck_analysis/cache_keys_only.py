"""Forgets the values."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_the_cache_holds_keys_and_values"
SAYS = "Keys and values are kept"


def kv_cache_bytes(
    layers: int, kv_heads: int, head_dim: int, tokens: int, batch: int, dtype: str
) -> int:
    check_sizes(layers=layers, kv_heads=kv_heads, head_dim=head_dim, tokens=tokens, batch=batch)
    return layers * kv_heads * head_dim * tokens * batch * devices.dtype(dtype).bytes
