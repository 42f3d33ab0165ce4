"""A batch that fails is answered with None."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_a_failing_batch_reaches_its_senders_only"
SAYS = "an exception for those of that batch"


async def _answer(batch: list, serve: Callable[[list], Awaitable[list]]) -> None:
    try:
        answers = await serve([request.item for request in batch])
        if len(answers) != len(batch):
            raise ValueError(f"serve returned {len(answers)} answers to {len(batch)} items")
    except Exception as _:  # noqa: BLE001 -- whatever it is, it belongs to the senders
        for request in batch:
            if not request.answer.done():
                request.answer.set_result(None)
        return
    for request, answer in zip(batch, answers, strict=True):
        if not request.answer.done():
            request.answer.set_result(answer)
