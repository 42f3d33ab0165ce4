"""Takes its times from the clock that is set to the time of day."""

from __future__ import annotations

import time
from collections.abc import Callable

CAUGHT_BY = "test_times_are_taken_in_turns"
SAYS = "that clock tells the time of day"


def _timed(run: Callable[[], object], synchronize: Callable[[], object]) -> float:
    synchronize()
    start = time.time()
    run()
    synchronize()
    return time.time() - start
