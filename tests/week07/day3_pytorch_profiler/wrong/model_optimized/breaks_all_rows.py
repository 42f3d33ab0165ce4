"""Takes the mean of all rows."""

from __future__ import annotations

import torch

CAUGHT_BY = "test_repaired_function_gives_the_same"
SAYS = "mean is"


def repair_graph_breaks(
    x: torch.Tensor, weight: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = torch.relu(x @ weight)
    largest = hidden.detach().max()
    factor = torch.where(largest > limit, limit / largest, torch.ones_like(largest))
    return (hidden * factor).mean(dim=0), largest
