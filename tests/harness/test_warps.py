"""The stand-in for a block of threads: what it stores by hand, and races that are there."""

from __future__ import annotations

from typing import Any

import pytest

from profiling_lab import warps

BARRIER = {"operation": "barrier"}


def step(operation: str, **threads: int) -> dict[str, Any]:
    """A step in which a few threads take part: t5=7 is thread 5 at address 7."""
    at: list[int | None] = [None] * warps.BLOCK_THREADS
    for thread, address in threads.items():
        at[int(thread[1:])] = address
    return {"operation": operation, "at": at}


def test_values_go_by_registers_and_shared_memory() -> None:
    steps = [step("load", t0=2, t40=1), step("put", t0=5, t40=6), BARRIER]
    steps += [step("get", t0=6, t40=5), step("store", t0=0, t40=1, t7=9)]
    assert warps.run(steps, ["a", "b", "c"]) == {0: "b", 1: "c", 9: None}
    assert warps.requests(steps, "load")[1][8] == 1
    assert len(warps.requests(steps, "store")) == 32
    with pytest.raises(IndexError):
        warps.run([step("load", t0=3)], ["a", "b", "c"])


@pytest.mark.parametrize(
    ("steps", "words"),
    [
        ([step("put", t0=5), step("get", t31=5)], ""),  # one warp is in step
        ([step("put", t0=5), BARRIER, step("get", t32=5)], ""),
        ([step("put", t0=5), step("put", t32=6), step("get", t64=7)], ""),
        ([step("get", t0=5), step("get", t32=5)], ""),
        ([step("put", t0=5), step("get", t32=5)], "warp 0 puts word 5"),
        ([step("get", t32=5), step("put", t0=5)], "warp 1 uses it"),
        ([step("put", t0=5), BARRIER, step("get", t32=5), step("put", t64=5)], "warp 2 puts"),
        ([step("put", t0=5), step("put", t32=5)], "either may come first"),
        ([step("put", t0=5, t1=5)], "two lanes of warp 0"),
    ],
)
def test_a_race_is_two_warps_at_one_word_without_a_barrier(
    steps: list[dict[str, Any]], words: str
) -> None:
    found = warps.race(steps)
    assert words in found and bool(found) == bool(words)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        ([], "no dictionary"),
        ({"operation": "move", "at": []}, "no dictionary"),
        ({"operation": "load", "at": [0]}, "list of 1024"),
        ({"operation": "barrier", "at": []}, "has no addresses"),
        (step("store", t3=-1), "thread 3 has the address -1"),
        ({"operation": "load", "at": [True] * 1024}, "thread 0 has the address True"),
        (step("put", t0=12_288), "12,288 words"),
    ],
)
def test_what_cannot_be_run_is_told(bad: Any, words: str) -> None:
    assert words in warps.problem([step("load", t0=1), bad])
    assert warps.problem([step("load", t0=1), step("put", t0=12_287), BARRIER]) == ""
