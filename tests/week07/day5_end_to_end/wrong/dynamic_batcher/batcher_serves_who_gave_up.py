"""Serves requests whose senders have given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_senders_that_gave_up_are_left_out"
SAYS = "nobody awaits the answer of 2"


async def dynamic_batcher(
    requests: asyncio.Queue,
    serve: Callable[[list], Awaitable[list]],
    max_batch: int,
    max_wait_s: float,
) -> None:
    if max_batch < 1 or not max_wait_s >= 0:
        raise ValueError("max_batch must be at least 1 and max_wait_s at least 0")
    loop = asyncio.get_running_loop()
    more = True
    while more:
        batch: list = []
        while more and len(batch) < max_batch:
            left_s = None
            if batch and requests.empty():
                left_s = batch[0].arrival_s + max_wait_s - loop.time()
                if left_s <= 0:
                    break
            try:
                request = await asyncio.wait_for(requests.get(), left_s)
            except TimeoutError:
                continue
            if request is None:
                more = False
            else:
                batch.append(request)
        if batch:
            await _answer(batch, serve)
