"""Builds each graph, and then lets go of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

CAUGHT_BY = "test_no_graph_is_built"
SAYS = "gradients enabled"


def repair_memory_growth(
    model: Callable[[torch.Tensor], torch.Tensor],
    loss: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    batches: Iterable[tuple[torch.Tensor, torch.Tensor]],
) -> float:
    total, count = None, 0
    for inputs, targets in batches:
        part = loss(model(inputs), targets).detach()
        total = part if total is None else total + part
        count += 1
    if total is None:
        raise ValueError("there is no batch to take the mean of")
    return total.item() / count
