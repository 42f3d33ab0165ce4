"""Lets tokens look at padding."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CAUGHT_BY = "test_scores_are_the_same"
SAYS = "the slow model gives"


class _Optimized(nn.Module):
    def __init__(self, slow: Any) -> None:
        super().__init__()
        self.slow = slow

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        slow: Any = self.slow
        count = tokens.shape[1]
        x = F.embedding(tokens, slow.embedding) + slow.position[:count]
        mask = torch.ones(1, 1, 1, count, dtype=torch.bool, device=tokens.device)
        for layer in slow.layers:
            x = _layer(layer, x, mask)
        last = (lengths - 1)[:, None, None].expand(-1, 1, x.shape[-1])
        return slow.head(x.gather(1, last).squeeze(1))


def optimized_model(slow: nn.Module) -> nn.Module:
    return _Optimized(slow)
