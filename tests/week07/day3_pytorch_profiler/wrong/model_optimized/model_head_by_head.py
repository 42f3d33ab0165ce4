"""Still computes one head after the other."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CAUGHT_BY = "test_less_work_is_counted"
SAYS = "operators, "


def _layer(layer: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    batch, count, width = x.shape
    shape = (batch, count, layer.heads, width // layer.heads)
    normal = F.layer_norm(x, (width,), layer.gain_1, layer.bias_1)
    query, key, value = (
        part(normal).view(shape).transpose(1, 2) for part in (layer.query, layer.key, layer.value)
    )
    heads = []
    for head in range(layer.heads):
        scores = query[:, head] @ key[:, head].transpose(1, 2) / query.shape[-1] ** 0.5
        weights = torch.softmax(scores.masked_fill(~mask[:, 0], float("-inf")), dim=-1)
        heads.append(weights @ value[:, head])
    mixed = torch.stack(heads, dim=1)
    x = x + layer.out(mixed.transpose(1, 2).reshape(batch, count, width))
    normal = F.layer_norm(x, (width,), layer.gain_2, layer.bias_2)
    return x + layer.down(F.gelu(layer.up(normal), approximate="tanh"))


def optimized_model(slow: nn.Module) -> nn.Module:
    return _Optimized(slow)
