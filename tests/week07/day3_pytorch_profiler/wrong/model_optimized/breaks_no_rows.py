"""Divides by zero where no row is used."""

from __future__ import annotations

import torch

CAUGHT_BY = "test_repaired_function_gives_the_same"
SAYS = "all rows zero"


def repair_graph_breaks(
    x: torch.Tensor, weight: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = torch.relu(x @ weight)
    largest = hidden.detach().max()
    factor = torch.where(largest > limit, limit / largest, torch.ones_like(largest))
    hidden = hidden * factor
    return hidden.sum(dim=0) / (hidden.sum(dim=1) > 0).sum(), largest
