"""Lets the rows that fill a bucket up take part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

CAUGHT_BY = "test_pooling_is_the_same"
SAYS = "must not count"


def repair_recompilations(
    query: torch.Tensor, buckets: Sequence[int], compile_function: Callable[..., Any]
) -> Callable[[torch.Tensor, int], torch.Tensor]:
    if not buckets or min(buckets) < 1:
        raise ValueError(f"buckets must be numbers of at least 1, not {list(buckets)}")
    sizes = sorted(buckets)

    @compile_function
    def padded_pool(x: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        return torch.softmax((x @ query) / (1.0 + step), dim=0) @ x

    def pool(x: torch.Tensor, step: int) -> torch.Tensor:
        rows = x.shape[0]
        if not 1 <= rows <= sizes[-1]:
            raise ValueError(f"x has {rows} rows; from 1 to {sizes[-1]} fit into the buckets")
        size = next(size for size in sizes if size >= rows)
        padded = F.pad(x, (0, 0, 0, size - rows))
        return padded_pool(padded, torch.tensor(step, dtype=x.dtype))

    return pool
