"""Gives zero for no batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

CAUGHT_BY = "test_no_batch"
SAYS = "no batch has no mean"


def repair_memory_growth(
    model: Callable[[torch.Tensor], torch.Tensor],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    total, count = torch.zeros(()), 0
    with torch.no_grad():
        for inputs, targets in batches:
            total = total + loss(model(inputs), targets)
            count += 1
    return total.item() / max(count, 1)
