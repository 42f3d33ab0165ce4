"""Takes the older kind of checkpoint, and asks for gradients of the caller's input for its sake."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

CAUGHT_BY = "test_watched_layers"
SAYS = "afterwards the input asks for a gradient"


def checkpoint_layers(layers: Sequence[Callable[[Any], Any]], x: Any, segment_count: int) -> Any:
    from torch.utils.checkpoint import checkpoint

    def run(part: Sequence[Callable[[Any], Any]], x: Any) -> Any:
        for layer in part:
            x = layer(x)
        return x

    start = 0
    *before, last = segment_lengths(len(layers), segment_count)
    x.requires_grad_()
    for length in before:
        x = checkpoint(run, layers[start : start + length], x, use_reentrant=True)
        start += length
    return run(layers[-last:], x)
