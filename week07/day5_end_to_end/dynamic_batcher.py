"""Day 5, a real dynamic batcher of a server.

`simulate_batcher` predicts what a batcher does. The batcher here serves requests that arrive while it
runs. It is written for asyncio. It reads the time only from the event loop:
`asyncio.get_running_loop().time()`, `asyncio.sleep`, `asyncio.wait_for`. So the checks can run it on a
simulated clock, on which a second takes no time, and compare it with the rule to the nanosecond.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """What a sender puts into the queue.

    item: the question. arrival_s: the loop's time when it was put there. answer: the future that the sender
    awaits. A sender that gives up cancels it.
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

    requests: a queue of Request, oldest first. The entry None means that no more will come: serve the
    requests that wait then without further waiting, and return.
    serve: `answers = await serve(items)` answers a list of items, in the order of the items. It works on one
    batch at a time, so do not call it again before it has returned.

    When serve is free, a batch starts as soon as max_batch requests wait or the one that waits longest
    has waited max_wait_s since its arrival (also while the server was busy), whichever comes first.
    The batch takes the requests that have arrived by then (including those that arrive at that moment),
    oldest first, at most max_batch. Leave out requests whose sender has given up by then (`answer` is
    done). If no request is left, do not call serve.

    Each answer becomes the result of its request's `answer`. If serve raises an exception, the
    `answer`s of that batch get that exception. If it returns more or fewer answers than items,
    they get a ValueError whose message has both numbers. The batcher continues with the next batch. If a
    sender gave up meanwhile, its `answer` is not changed.

    Raises ValueError if max_batch is below 1, or if max_wait_s is negative or NaN.
    Source of the rule: "dynamic batcher" in the user guide of NVIDIA Triton Inference Server
    (preferred batch sizes and max_queue_delay_microseconds).
    """
    raise NotImplementedError
