"""Compares shape and dtype of an input, and not where it lies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

CAUGHT_BY = "test_other_inputs_are_refused"
SAYS = "ValueError"


def capture_step(
    cuda: Any,
    step: Callable[[torch.Tensor], torch.Tensor],
    example: torch.Tensor,
    state: Sequence[torch.Tensor] = (),
    warm_up: int = 3,
) -> Callable[[torch.Tensor], torch.Tensor]:
    if warm_up < 1:
        raise ValueError(f"warm_up must be at least 1, not {warm_up}")
    given = example.detach().clone()
    before = [tensor.detach().clone() for tensor in state]
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(warm_up):
            step(given)
    cuda.current_stream().wait_stream(side)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        result = step(given)
    with torch.no_grad():
        for tensor, old in zip(state, before, strict=True):
            tensor.copy_(old)

    def replay(x: torch.Tensor) -> torch.Tensor:
        for name in ("shape", "dtype"):
            asked, captured = getattr(x, name), getattr(given, name)
            if asked != captured:
                raise ValueError(f"the graph was captured for {name} {captured}, not {asked}")
        with torch.no_grad():
            given.copy_(x)
        graph.replay()
        return result.detach().clone()

    return replay
