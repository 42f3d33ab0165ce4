"""How fast does a core move bytes from one place in the host's memory to another? On the host of a GPU, in bytes a ns.

python host_moves.py        into memory in use ("touched"), and into memory that the system first has to give ("fresh"),
                            and how fast it takes such memory back ("given back")
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np

SIZE = 64 << 20
REPEATS = 9


def rate(move: Callable[[], None]) -> float:
    begun = time.perf_counter_ns()
    move()
    return round(SIZE / (time.perf_counter_ns() - begun), 2)


def main() -> None:
    source, target = np.ones(SIZE, dtype=np.uint8), np.ones(SIZE, dtype=np.uint8)
    rates: dict[str, list[float]] = {"touched": [], "fresh": [], "given back": []}
    for _ in range(REPEATS):
        rates["touched"].append(rate(lambda: np.copyto(target, source)))
        fresh = np.empty(SIZE, dtype=np.uint8)
        rates["fresh"].append(rate(lambda fresh=fresh: np.copyto(fresh, source)))
        held = [fresh]
        del fresh
        rates["given back"].append(rate(held.clear))
    print(json.dumps({name: sorted(found) for name, found in rates.items()}))


if __name__ == "__main__":
    main()
