"""Turns gradients off for good when the loss fails."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

CAUGHT_BY = "test_gradients_are_enabled_as_before"
SAYS = "is_grad_enabled"


def repair_memory_growth(
    model: Callable[[torch.Tensor], torch.Tensor],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    before = torch.is_grad_enabled()
    torch.set_grad_enabled(False)
    total, count = None, 0
    for inputs, targets in batches:
        part = loss(model(inputs), targets)
        total = part if total is None else total + part
        count += 1
    torch.set_grad_enabled(before)
    if total is None:
        raise ValueError("there is no batch to take the mean of")
    return total.item() / count
