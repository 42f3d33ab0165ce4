"""Compares means, which one disturbed sample moves."""

from __future__ import annotations

from collections.abc import Sequence

CAUGHT_BY = "test_two_halves"
SAYS = "how far do the two medians lie apart"


def noise_ratio(rounds: Sequence[Sequence[float]]) -> float:
    halves = [[sample for samples in rounds[first::2] for sample in samples] for first in (0, 1)]
    if not all(rounds) or not all(halves):
        raise ValueError("an A/A comparison needs two rounds at least, each with samples")
    if not all(sample > 0 for samples in rounds for sample in samples):
        raise ValueError("every sample must be a time above 0")
    a, b = map(statistics.mean, halves)
    return max(a, b) / min(a, b) - 1
