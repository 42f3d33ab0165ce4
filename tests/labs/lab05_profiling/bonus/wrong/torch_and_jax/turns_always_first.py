"""One candidate is always the first, after whatever the last one left."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

CAUGHT_BY = "test_two_take_turns"
SAYS = "every second one backwards"


def time_in_turns(
    candidates: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]],
    clock: Callable[[], int],
    rounds: int,
    count: int = 1,
    warmup: int = 2,
) -> dict[str, list[float]]:
    if len(candidates) < 2:
        raise ValueError(f"{len(candidates)} candidates: there is nothing to compare")
    if rounds < 1 or count < 1 or warmup < 1:
        raise ValueError(f"rounds, count, warmup = {rounds}, {count}, {warmup}: at least 1 each")
    for issue, wait in candidates.values():
        for _ in range(warmup):
            wait(issue())
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    for number in range(rounds):
        order = list(candidates)
        for name in order:
            issue, wait = candidates[name]
            start = clock()
            results = [issue() for _ in range(count)]
            for result in results:
                wait(result)
            samples[name].append((clock() - start) / count)
    return samples
