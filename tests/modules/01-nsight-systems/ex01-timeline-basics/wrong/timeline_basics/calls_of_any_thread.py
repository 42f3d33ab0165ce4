"""Puts the calls of all threads into one list."""

from __future__ import annotations

CAUGHT_BY = "test_the_gap_after_a_wait"
SAYS = "the thread that launched the operation"


def _by_thread(rows: list[dict]) -> dict[tuple[int, int], list[dict]]:
    return {_thread(row): rows for row in rows}
