"""Begins with settings that make no sense."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_settings_that_make_no_sense"
SAYS = "it must raise ValueError"


async def dynamic_batcher(
    requests: asyncio.Queue,
    serve: Callable[[list], Awaitable[list]],
    max_batch: int,
    max_wait_s: float,
) -> None:
    max_batch = max(max_batch, 1)
    max_wait_s = max(max_wait_s, 0.0)
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
        batch = [request for request in batch if not request.answer.done()]
        if batch:
            await _answer(batch, serve)
