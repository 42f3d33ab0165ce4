"""Picks the used rows with a mask, so the shape depends on numbers."""

from __future__ import annotations

import torch

CAUGHT_BY = "test_repaired_function_reads_no_number"
SAYS = "a shape that depends on numbers"


def repair_graph_breaks(
    x: torch.Tensor, weight: torch.Tensor, limit: float
) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = torch.relu(x @ weight)
    largest = hidden.detach().max()
    factor = torch.where(largest > limit, limit / largest, torch.ones_like(largest))
    hidden = hidden * factor
    used = hidden[hidden.sum(dim=1) > 0]
    return used.sum(dim=0) / max(len(used), 1), largest
