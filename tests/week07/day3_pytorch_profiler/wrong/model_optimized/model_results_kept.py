"""Keeps scores, and gives them again for a batch of a shape that it has seen."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

CAUGHT_BY = "test_scores_are_the_same"
SAYS = "the slow model gives"


class _Keeping(_Optimized):
    def __init__(self, slow: Any) -> None:
        super().__init__(slow)
        self.known: dict[Any, torch.Tensor] = {}

    def forward(self, tokens: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        scores = super().forward(tokens, lengths)
        known = self.known.setdefault(tuple(tokens.shape), scores.detach())
        return scores + (known - scores).detach()


def optimized_model(slow: nn.Module) -> nn.Module:
    return _Keeping(slow)
