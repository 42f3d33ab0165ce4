"""Makes a module of the layers of a segment, which takes modules only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

CAUGHT_BY = "test_watched_layers"
SAYS = "is not a Module subclass"


def checkpoint_layers(layers: Sequence[Any], x: Any, segment_count: int) -> Any:
    import torch
    from torch.utils.checkpoint import checkpoint

    start = 0
    *before, last = segment_lengths(len(layers), segment_count)
    for length in before:
        segment = torch.nn.Sequential(*layers[start : start + length])
        x = checkpoint(segment, x, use_reentrant=False)
        start += length
    return torch.nn.Sequential(*layers[-last:])(x)
