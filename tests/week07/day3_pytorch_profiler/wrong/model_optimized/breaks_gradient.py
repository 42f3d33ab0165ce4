"""Lets gradients flow through the factor."""

from __future__ import annotations

import torch

CAUGHT_BY = "test_repaired_function_has_the_same_gradients"
SAYS = "which has no gradient"


def repair_graph_breaks(
    x: torch.Tensor, weight: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = torch.relu(x @ weight)
    largest = hidden.max()
    hidden = hidden * (limit / largest.clamp(min=limit))
    count = (hidden.sum(dim=1) > 0).sum()
    return hidden.sum(dim=0) / count.clamp(min=1), largest
