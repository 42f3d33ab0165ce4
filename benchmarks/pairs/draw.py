"""Which pairs may be looked at while the engine is worked on, and which only once, at the end: a seeded draw."""

from __future__ import annotations

import random
from collections.abc import Iterable

SEED = 20


def hidden(names: Iterable[str]) -> set[str]:
    """The half that is looked at once."""
    every = sorted(names)
    return set(random.Random(SEED).sample(every, len(every) // 2))
