"""The waiting time begins when the batcher looks, not when the request came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_waiting_counts_from_the_arrival"
SAYS = "the server was free from 10200000 ns"


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
        begun_s = 0.0
        while more and len(batch) < max_batch:
            left_s = None
            if batch and requests.empty():
                left_s = begun_s + max_wait_s - loop.time()
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
                if len(batch) == 1:
                    begun_s = loop.time()
        batch = [request for request in batch if not request.answer.done()]
        if batch:
            await _answer(batch, serve)
