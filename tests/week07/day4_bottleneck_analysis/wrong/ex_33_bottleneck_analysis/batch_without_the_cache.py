"""Takes the matrices for all that is read."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_the_batch_that_leaves_the_roof"
SAYS = "the smallest that reaches it"


def decode_ridge_batch(
    model: dict[str, int], cached_tokens: int, dtype: str, device: str
) -> dict[str, int | None]:
    ridge = ridge_point(device, dtype)

    def step(batch: int) -> Cost:
        return transformer_cost(
            **model, batch=batch, new_tokens=1, cached_tokens=cached_tokens, dtype=dtype
        )

    one, two = step(1), step(2)
    more_flops, more_bytes = two["flops"] - one["flops"], two["bytes"] - one["bytes"]
    matrices = one["bytes"] - more_bytes
    ridge_batch = None
    if more_flops:
        ridge_batch = _smallest(lambda batch: batch * step(1)["flops"] >= ridge * matrices)
    a_sequence = kv_cache_bytes(
        model["layers"], model["kv_heads"], model["head_dim"], cached_tokens + 1, 1, dtype
    )
    room = devices.get(device).memory_bytes - matrices
    return {"ridge_batch": ridge_batch, "fitting_batch": max(0, room // a_sequence)}
