"""Takes the other form of GELU."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CAUGHT_BY = "test_scores_are_the_same"
SAYS = "the slow model gives"


def _layer(layer: Any, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    batch, count, width = x.shape
    shape = (batch, count, layer.heads, width // layer.heads)
    normal = F.layer_norm(x, (width,), layer.gain_1, layer.bias_1)
    query, key, value = (
        part(normal).view(shape).transpose(1, 2) for part in (layer.query, layer.key, layer.value)
    )
    mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    x = x + layer.out(mixed.transpose(1, 2).reshape(batch, count, width))
    normal = F.layer_norm(x, (width,), layer.gain_2, layer.bias_2)
    return x + layer.down(F.gelu(layer.up(normal)))


def optimized_model(slow: nn.Module) -> nn.Module:
    return _Optimized(slow)
