from __future__ import annotations

CAUGHT_BY = "test_no_room"
SAYS = "tensors are still alive"

_right_profile = profile_attention_components


def profile_attention_components(seq_len, d_model, num_heads, **options):
    return _right_profile(seq_len, d_model, num_heads, **options)


def _with_room(call, what):
    import torch

    try:
        return call()
    except torch.OutOfMemoryError as error:
        torch.cuda.is_initialized() and torch.cuda.empty_cache()
        raise MemoryError(f"{what}: {error}") from None
