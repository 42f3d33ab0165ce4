"""Checkpoints the last segment as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

CAUGHT_BY = "test_watched_layers"
SAYS = "the passes ran in the order"


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
        x = checkpoint(run, layers[start : start + length], x, use_reentrant=False)
        start += length
    return checkpoint(run, layers[-last:], x, use_reentrant=False)
