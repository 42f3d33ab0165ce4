"""Types in a size that came out once, of a product of five sizes."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_the_cache_holds_keys_and_values"
SAYS = "elements of"


def kv_cache_bytes(
    layers: int, kv_heads: int, head_dim: int, tokens: int, batch: int, dtype: str
) -> int:
    check_sizes(layers=layers, kv_heads=kv_heads, head_dim=head_dim, tokens=tokens, batch=batch)
    return 2 * (2 * 3 * 5 * 7 * 11) * devices.dtype(dtype).bytes
