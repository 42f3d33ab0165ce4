"""Takes the last column, padding or not."""

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
        mask = torch.arange(count, device=tokens.device) < lengths[:, None]
        mask = mask[:, None, None, :]
        for layer in slow.layers:
            x = _layer(layer, x, mask)
        return slow.head(x[:, -1])


def optimized_model(slow: nn.Module) -> nn.Module:
    return _Optimized(slow)
