"""Scales every input to the limit."""

from __future__ import annotations

import torch

CAUGHT_BY = "test_repaired_function_gives_the_same"
SAYS = "nothing is scaled"


def repair_graph_breaks(
    x: torch.Tensor, weight: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = torch.relu(x @ weight)
    largest = hidden.detach().max()
    hidden = hidden * (limit / largest.clamp(min=1e-12))
    count = (hidden.sum(dim=1) > 0).sum()
    return hidden.sum(dim=0) / count.clamp(min=1), largest
