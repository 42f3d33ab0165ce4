"""Computes the scores of all tokens and keeps a few."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CAUGHT_BY = "test_less_work_is_counted"
SAYS = "floating-point operations"


class _Optimized(nn.Module):
    def __init__(self, slow: Any) -> None:
        super().__init__()
        self.slow = slow

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        slow: Any = self.slow
        count = tokens.shape[1]
        x = F.embedding(tokens, slow.embedding) + slow.position[:count]
        mask = torch.arange(count, device=tokens.device) < lengths[:, None]
        mask = mask[:, None, None, :]
        for layer in slow.layers:
            x = _layer(layer, x, mask)
        rows = torch.arange(len(tokens), device=tokens.device)
        return slow.head(x)[rows, lengths - 1]


def optimized_model(slow: nn.Module) -> nn.Module:
    return _Optimized(slow)
