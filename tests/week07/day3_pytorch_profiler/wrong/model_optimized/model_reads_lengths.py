"""Reads the lengths to build the mask."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

CAUGHT_BY = "test_no_number_is_read"
SAYS = "a number is read"


class _Optimized(nn.Module):
    def __init__(self, slow: Any) -> None:
        super().__init__()
        self.slow = slow

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        slow: Any = self.slow
        count = tokens.shape[1]
        x = F.embedding(tokens, slow.embedding) + slow.position[:count]
        mask = torch.zeros(tokens.shape, dtype=torch.bool, device=tokens.device)
        for row, length in enumerate(lengths.tolist()):
            mask[row, :length] = True
        mask = mask[:, None, None, :]
        for layer in slow.layers:
            x = _layer(layer, x, mask)
        last = (lengths - 1)[:, None, None].expand(-1, 1, x.shape[-1])
        return slow.head(x.gather(1, last).squeeze(1))


def optimized_model(slow: nn.Module) -> nn.Module:
    return _Optimized(slow)
