"""Begins the next batch while the server still works on the last one."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_a_burst_is_cut_into_batches"
SAYS = "expected at"


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
    tasks: list[asyncio.Task] = []
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
        batch = [request for request in batch if not request.answer.done()]
        if batch:
            tasks.append(asyncio.create_task(_answer(batch, serve)))
    await asyncio.gather(*tasks)
