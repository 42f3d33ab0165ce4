"""Keeps every loss, though without its graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

CAUGHT_BY = "test_nothing_of_earlier_batches_is_alive"
SAYS = "still alive"


def repair_memory_growth(
    model: Callable[[torch.Tensor], torch.Tensor],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    with torch.no_grad():
        losses = [loss(model(inputs), targets) for inputs, targets in batches]
    if not losses:
        raise ValueError("there is no batch to take the mean of")
    return torch.stack(losses).mean().item()
