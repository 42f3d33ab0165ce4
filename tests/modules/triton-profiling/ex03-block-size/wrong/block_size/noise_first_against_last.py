"""Compares the first half of the rounds with the second, and so counts what drifts."""

from __future__ import annotations

from collections.abc import Sequence

CAUGHT_BY = "test_two_halves"
SAYS = "in rounds at even places and in rounds at odd ones"


def noise_ratio(rounds: Sequence[Sequence[float]]) -> float:
    halves = [
        [
            sample
            for samples in rounds[first * len(rounds) // 2 : (first + 1) * len(rounds) // 2]
            for sample in samples
        ]
        for first in (0, 1)
    ]
    if not all(rounds) or not all(halves):
        raise ValueError("an A/A comparison needs two rounds at least, each with samples")
    if not all(sample > 0 for samples in rounds for sample in samples):
        raise ValueError("every sample must be a time above 0")
    a, b = map(statistics.median, halves)
    return max(a, b) / min(a, b) - 1
