from __future__ import annotations

CAUGHT_BY = "test_numbers"
SAYS = "values that are not finite"

_right_attention = optimize_attention


def optimize_attention(q, k, v, optimization_level):
    return _right_attention(q, k, v, optimization_level)


def _materialised(q, k, v):
    import torch

    return torch.softmax((q @ k.mT) * q.shape[-1] ** -0.5, dim=-1) @ v
