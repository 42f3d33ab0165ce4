"""Gives the survivors no more samples than there were for all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

CAUGHT_BY = "test_halving"
SAYS = "fewer survivors get more"


def search(
    names: Sequence[str], bench: Callable[[str, int], list[float]], budget_count: int
) -> dict[str, Any]:
    rounds = math.ceil(math.log2(len(names))) if names else 0
    if not rounds or len(set(names)) < len(names):
        raise ValueError("a search needs two names at least, all different")
    if budget_count < rounds * len(names):
        raise ValueError(f"{budget_count} samples do not do for {rounds} rounds")
    samples: dict[str, list[float]] = {name: [] for name in names}
    left = list(names)
    survivors = []
    for _ in range(rounds):
        count = budget_count // (rounds * len(names))
        for name in left:
            samples[name] += bench(name, count)
        medians = {name: statistics.median(samples[name]) for name in left}
        fastest = sorted(left, key=medians.__getitem__)[: math.ceil(len(left) / 2)]
        left = [name for name in left if name in fastest]
        survivors.append(left)
    (best,) = left
    return {
        "best": best,
        "median_ns": statistics.median(samples[best]),
        "samples_count": sum(map(len, samples.values())),
        "survivors": survivors,
    }
