"""Takes the query for a constant: it is not trained any more."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

CAUGHT_BY = "test_pooling_is_the_same"
SAYS = "gradient of query is nothing"


def repair_recompilations(
    query: torch.Tensor, buckets: Sequence[int], compile_function: Callable[..., Any]
) -> Callable[[torch.Tensor, int], torch.Tensor]:
    if not buckets or min(buckets) < 1:
        raise ValueError(f"buckets must be numbers of at least 1, not {list(buckets)}")
    sizes = sorted(buckets)
    query = query.detach()

    @compile_function
    def padded_pool(x: torch.Tensor, used: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        scores = (x @ query) / (1.0 + step)
        return torch.softmax(scores.masked_fill(~used, float("-inf")), dim=0) @ x

    def pool(x: torch.Tensor, step: int) -> torch.Tensor:
        rows = x.shape[0]
        if not 1 <= rows <= sizes[-1]:
            raise ValueError(f"x has {rows} rows; from 1 to {sizes[-1]} fit into the buckets")
        size = next(size for size in sizes if size >= rows)
        used = torch.arange(size, device=x.device) < rows
        padded = F.pad(x, (0, 0, 0, size - rows))
        return padded_pool(padded, used, torch.tensor(step, dtype=x.dtype, device=x.device))

    return pool
