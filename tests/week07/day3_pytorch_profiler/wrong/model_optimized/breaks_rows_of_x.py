"""Asks of x, and not of what relu leaves of it, whether a row is used."""

from __future__ import annotations

import torch

CAUGHT_BY = "test_repaired_function_gives_the_same"
SAYS = "a row that relu makes zero: mean is"


def repair_graph_breaks(
    x: torch.Tensor, weight: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = torch.relu(x @ weight)
    largest = hidden.detach().max()
    factor = torch.where(largest > limit, limit / largest, torch.ones_like(largest))
    hidden = hidden * factor
    count = (x.abs().sum(dim=1) > 0).sum()
    return hidden.sum(dim=0) / count.clamp(min=1), largest
