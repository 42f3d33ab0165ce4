"""Keeps the attention's detour over float64."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CAUGHT_BY = "test_less_work_is_counted"
SAYS = "bytes read and written"


def _layer(layer: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    batch, count, width = x.shape
    shape = (batch, count, layer.heads, width // layer.heads)
    normal = F.layer_norm(x, (width,), layer.gain_1, layer.bias_1)
    query, key, value = (
        part(normal).view(shape).transpose(1, 2) for part in (layer.query, layer.key, layer.value)
    )
    scores = (query @ key.transpose(-1, -2)).double() / query.shape[-1] ** 0.5
    scores = scores * mask.double() + (1.0 - mask.double()) * -1e9
    exponents = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
    weights = exponents / exponents.sum(dim=-1, keepdim=True)
    mixed = weights.to(x.dtype) @ value
    x = x + layer.out(mixed.transpose(1, 2).reshape(batch, count, width))
    normal = F.layer_norm(x, (width,), layer.gain_2, layer.bias_2)
    return x + layer.down(F.gelu(layer.up(normal), approximate="tanh"))


def optimized_model(slow: nn.Module) -> nn.Module:
    return _Optimized(slow)
