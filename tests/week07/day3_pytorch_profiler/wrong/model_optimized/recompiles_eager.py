"""Compiles nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

CAUGHT_BY = "test_every_call_runs_compiled_code"
SAYS = "outside of compiled code"


def repair_recompilations(
    query: torch.Tensor, buckets: Sequence[int], compile_function: Callable[..., Any]
) -> Callable[[torch.Tensor, int], torch.Tensor]:
    if not buckets or min(buckets) < 1:
        raise ValueError(f"buckets must be numbers of at least 1, not {list(buckets)}")
    sizes = sorted(buckets)

    def pool(x: torch.Tensor, step: int) -> torch.Tensor:
        rows = x.shape[0]
        if not 1 <= rows <= sizes[-1]:
            raise ValueError(f"x has {rows} rows; from 1 to {sizes[-1]} fit into the buckets")
        return torch.softmax((x @ query) / (1.0 + step), dim=0) @ x

    return pool
