"""Gives out the answers there are, though one is missing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_a_failing_batch_reaches_its_senders_only"
SAYS = "expected"


async def _answer(batch: list, serve: Callable[[list], Awaitable[list]]) -> None:
    try:
        answers = await serve([request.item for request in batch])
    except Exception as error:  # noqa: BLE001 -- whatever it is, it belongs to the senders
        for request in batch:
            if not request.answer.done():
                request.answer.set_exception(error)
        return
    for request, answer in zip(batch, answers, strict=False):
        if not request.answer.done():
            request.answer.set_result(answer)
