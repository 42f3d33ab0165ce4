"""Weights each batch by its size."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

CAUGHT_BY = "test_mean_loss_is_the_same"
SAYS = "weights each batch by its size"


def repair_memory_growth(
    model: Callable[[torch.Tensor], torch.Tensor],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    total, count = None, 0
    with torch.no_grad():
        for inputs, targets in batches:
            part = loss(model(inputs), targets) * len(inputs)
            total = part if total is None else total + part
            count += len(inputs)
    if total is None:
        raise ValueError("there is no batch to take the mean of")
    return total.item() / count
