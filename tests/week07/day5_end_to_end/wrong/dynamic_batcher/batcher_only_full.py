"""Waits until the batch is full, however long that takes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_generated_requests_are_batched"
SAYS = "expected at"


async def dynamic_batcher(
    requests: asyncio.Queue,
    serve: Callable[[list], Awaitable[list]],
    max_batch: int,
    max_wait_s: float,
) -> None:
    if max_batch < 1 or not max_wait_s >= 0:
        raise ValueError("max_batch must be at least 1 and max_wait_s at least 0")
    more = True
    while more:
        batch: list = []
        while more and len(batch) < max_batch:
            request = await requests.get()
            if request is None:
                more = False
            else:
                batch.append(request)
        batch = [request for request in batch if not request.answer.done()]
        if batch:
            await _answer(batch, serve)
