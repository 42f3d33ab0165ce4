"""A batch that fails ends the batcher."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

CAUGHT_BY = "test_a_failing_batch_reaches_its_senders_only"
SAYS = "raised RuntimeError: out of memory"


async def _answer(batch: list, serve: Callable[[list], Awaitable[list]]) -> None:
    answers = await serve([request.item for request in batch])
    if len(answers) != len(batch):
        raise ValueError(f"serve returned {len(answers)} answers to {len(batch)} items")
    for request, answer in zip(batch, answers, strict=True):
        if not request.answer.done():
            request.answer.set_result(answer)
