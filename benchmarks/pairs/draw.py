"""Which pairs may be looked at while the engine is worked on, and which only once, at the end.

Of the first pairs a seeded draw hid half. That half is spent: it has been looked at. The second ones were hidden
together, all of them, and so were all later ones.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from pairs.harness import Pair

SEED = 20


def hidden(pairs: Iterable[Pair], look: int) -> set[str]:
    """The pairs of this look that were looked at once."""
    every = sorted(pair.name for pair in pairs if pair.look == look)
    return set(every) if look > 1 else set(random.Random(SEED).sample(every, len(every) // 2))
