"""Compares the first half of the rounds with the second, and so counts what drifts."""

from __future__ import annotations

from collections.abc import Sequence

CAUGHT_BY = "test_two_halves"
SAYS = "in rounds at even places and in rounds at odd ones"


def noise_ratio(rounds: Sequence[Sequence[float]]) -> float:
    if len(rounds) < 2 or not all(rounds):
        raise ValueError("an A/A comparison needs two rounds at least, each with samples")
    if not all(sample > 0 for samples in rounds for sample in samples):
        raise ValueError("every sample must be a time above 0")
    halves = [
        statistics.median(
            [
                sample
                for samples in rounds[first * len(rounds) // 2 : (first + 1) * len(rounds) // 2]
                for sample in samples
            ]
        )
        for first in (0, 1)
    ]
    return max(halves) / min(halves) - 1
