"""Still asks for the largest number on the host."""

from __future__ import annotations

import torch

CAUGHT_BY = "test_repaired_function_is_one_graph"
SAYS = "breaks the graph"


def repair_graph_breaks(
    x: torch.Tensor, weight: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = torch.relu(x @ weight)
    largest = hidden.detach().max()
    if largest.item() > limit:
        hidden = hidden * (limit / largest)
    count = (hidden.sum(dim=1) > 0).sum()
    return hidden.sum(dim=0) / count.clamp(min=1), largest
