"""Reads a number in every batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

CAUGHT_BY = "test_one_number_is_read"
SAYS = "one is enough"


def repair_memory_growth(
    model: Callable[[torch.Tensor], torch.Tensor],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    total, count = 0.0, 0
    with torch.no_grad():
        for inputs, targets in batches:
            total += loss(model(inputs), targets).item()
            count += 1
    if not count:
        raise ValueError("there is no batch to take the mean of")
    return total / count
