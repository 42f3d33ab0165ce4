"""Gives the exception of a failing batch also to a sender that gave up, and dies of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_giving_up_does_not_stop_a_failing_batch"
SAYS = "InvalidStateError"


async def _answer(batch: list, serve: Callable[[list], Awaitable[list]]) -> None:
    try:
        answers = await serve([request.item for request in batch])
        if len(answers) != len(batch):
            raise ValueError(f"serve returned {len(answers)} answers to {len(batch)} items")
    except Exception as error:  # noqa: BLE001 -- whatever it is, it belongs to the senders
        for request in batch:
            request.answer.set_exception(error)
        return
    for request, answer in zip(batch, answers, strict=True):
        if not request.answer.done():
            request.answer.set_result(answer)
