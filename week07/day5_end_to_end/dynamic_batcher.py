"""Day 5, a real dynamic batcher of a server.

`simulate_batcher` predicts what a batcher does; this one serves requests that come while it runs.
It is written for asyncio, and reads the time from the event loop only: `asyncio.get_running_loop().time()`,
`asyncio.sleep`, `asyncio.wait_for`. So the checks can run it on a clock of their own, on which a second
takes no time, and compare it with the rule to the nanosecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """What a sender puts into the queue.

    item: the question. arrival_s: the loop's time when it was put there. answer: what the sender
    awaits; a sender that gives up cancels it.
    """

    item: object
    arrival_s: float
    answer: asyncio.Future


async def dynamic_batcher(
    requests: asyncio.Queue,
    serve: Callable[[list], Awaitable[list]],
    max_batch: int,
    max_wait_s: float,
) -> None:
    """Answer requests in batches until no more come.

    requests: a queue of Request, oldest first. The entry None says that no more will come: requests that wait
    then are served without further waiting, and the function returns.
    serve: `answers = await serve(items)` answers a list of items; answers in the order of the items.
    It works on one batch at a time, so it must not be called again before it has returned.

    When it is free, a batch starts as soon as max_batch requests wait, or the one that waits longest
    has waited max_wait_s since its arrival (also while the server was busy), whichever comes first.
    Into the batch go the requests that have arrived by then (at that very moment included), oldest
    first, at most max_batch. Those whose sender has given up by then (`answer` is done) are left out
    of it; if none is left, serve is not called.

    Each answer becomes the result of its request's `answer`. If serve raises an exception, the
    `answer`s of that batch get that exception; if it returns another number of answers than items,
    they get a ValueError that says both numbers. The batcher goes on with the next batch. The `answer`
    of a sender that gave up meanwhile is left alone.

    Raises ValueError for max_batch below 1 and for max_wait_s that is negative or NaN.
    Source of the rule: "dynamic batcher" in the user guide of NVIDIA Triton Inference Server
    (preferred batch sizes and max_queue_delay_microseconds).
    """
    raise NotImplementedError
