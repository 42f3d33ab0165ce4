"""The stand-in for a device with two copy engines: times by hand, and races that are there."""

from __future__ import annotations

import pytest

from profiling_lab import schedules

TOOK = {"copy_in": 10, "compute": 20, "copy_out": 5}


def one(operation: str, batch: int, *after: int, slot: int = 0, stream: int = 0) -> dict:
    return {
        "operation": operation,
        "batch": batch,
        "slot": slot,
        "stream": stream,
        "after": list(after),
    }


def two_batches(*, second_slot: int, reuse: tuple[int, ...] = ()) -> list[dict]:
    """A stream an engine, events inside of each batch; reuse: what the second copy waits for."""
    slot = second_slot
    return [
        one("copy_in", 0, stream=0),
        one("compute", 0, 0, stream=1),
        one("copy_out", 0, 1, stream=2),
        one("copy_in", 1, *reuse, stream=0, slot=slot),
        one("compute", 1, 3, stream=1, slot=slot),
        one("copy_out", 1, 4, stream=2, slot=slot),
    ]


def test_engines_work_side_by_side_and_serve_in_order():
    times = schedules.run(two_batches(second_slot=1), TOOK)
    assert times == [(0, 10), (10, 30), (30, 35), (10, 20), (30, 50), (50, 55)]
    on_one_stream = [one(name, batch) for batch in (0, 1) for name in schedules.ENGINES]
    assert schedules.run(on_one_stream, TOOK)[-1] == (65, 70)
    waits = schedules.run(two_batches(second_slot=0, reuse=(1,)), TOOK)
    assert waits[3] == (30, 40)


def test_what_only_an_engine_orders_is_a_race():
    assert schedules.race(two_batches(second_slot=1)) == ""
    assert "may overwrite the input of slot 0" in schedules.race(two_batches(second_slot=0))
    # The second compute has to wait for the first copy_out as well: their streams differ.
    late = schedules.race(two_batches(second_slot=0, reuse=(1,)))
    assert "may overwrite the output of slot 0" in late
    assert schedules.race(two_batches(second_slot=0, reuse=(2,))) == ""
    unordered = two_batches(second_slot=1)
    unordered[1]["after"] = []
    assert "compute of batch 0 reads the input" in schedules.race(unordered)


@pytest.mark.parametrize(
    ("place", "change", "says"),
    [
        (0, {"operation": "copy"}, "no such operation"),
        (0, {"batch": 2}, "no such batch of 2"),
        (0, {"slot": 2}, "slots 0 to 1"),
        (0, {"slot": 1}, "several slots"),
        (0, {"stream": True}, "whole numbers"),
        (0, {"after": [0]}, "earlier places only"),
        (0, {"after": None}, "whole numbers"),
        (3, {"batch": 0}, "a second time"),
        (3, {"name": ""}, "needs the keys"),
    ],
)
def test_what_cannot_be_issued_is_named(place, change, says):
    schedule = two_batches(second_slot=1)
    assert schedules.problem(schedule, 2, 2) == ""
    schedule[place] |= change
    assert says in schedules.problem(schedule, 2, 2)


def test_a_tuple_of_places_is_as_good_as_a_list():
    schedule = [one | {"after": tuple(one["after"])} for one in two_batches(second_slot=1)]
    assert schedules.problem(schedule, 2, 2) == ""


def test_what_is_not_done_is_named():
    assert "lacks copy_out" in schedules.problem(two_batches(second_slot=1)[:-1], 2, 2)
    assert "needs the keys" in schedules.problem([("copy_in", 0)], 1, 1)
