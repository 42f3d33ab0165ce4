"""Cuts the factor off the graph, and returns the largest number with it."""

from __future__ import annotations

import torch

CAUGHT_BY = "test_repaired_function_has_the_same_gradients"
SAYS = "the largest number asks for a gradient"


def repair_graph_breaks(
    x: torch.Tensor, weight: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = torch.relu(x @ weight)
    largest = hidden.max()
    factor = torch.where(largest > limit, limit / largest, torch.ones_like(largest)).detach()
    hidden = hidden * factor
    count = (hidden.sum(dim=1) > 0).sum()
    return hidden.sum(dim=0) / count.clamp(min=1), largest
