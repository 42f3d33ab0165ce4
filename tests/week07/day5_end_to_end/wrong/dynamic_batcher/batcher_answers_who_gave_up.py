"""Answers a sender that gave up while it was served."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_senders_that_gave_up_are_left_out"
SAYS = "InvalidStateError"


async def _answer(batch: list, serve: Callable[[list], Awaitable[list]]) -> None:
    try:
        answers = await serve([request.item for request in batch])
        if len(answers) != len(batch):
            raise ValueError(f"serve returned {len(answers)} answers to {len(batch)} items")
    except Exception as error:  # noqa: BLE001 -- whatever it is, it belongs to the senders
        for request in batch:
            if not request.answer.done():
                request.answer.set_exception(error)
        return
    for request, answer in zip(batch, answers, strict=True):
        request.answer.set_result(answer)
