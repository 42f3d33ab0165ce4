"""Lets a layer draw other random numbers when it runs again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

CAUGHT_BY = "test_watched_layers"
SAYS = "A layer here draws random numbers"


def checkpoint_layers(layers: Sequence[Callable[[Any], Any]], x: Any, segment_count: int) -> Any:
    from torch.utils.checkpoint import checkpoint

    def run(part: Sequence[Callable[[Any], Any]], x: Any) -> Any:
        for layer in part:
            x = layer(x)
        return x

    start = 0
    *before, last = segment_lengths(len(layers), segment_count)
    for length in before:
        # The reentrant kind gives no gradients if x needs none itself.
        x = checkpoint(
            run, layers[start : start + length], x, use_reentrant=False, preserve_rng_state=False
        )
        start += length
    return run(layers[-last:], x)
