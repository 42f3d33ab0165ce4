"""Answers in another order than the items."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_a_burst_is_cut_into_batches"
SAYS = "asked for the square of 0 and was answered with 9"


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
    for request, answer in zip(reversed(batch), answers, strict=True):
        if not request.answer.done():
            request.answer.set_result(answer)
