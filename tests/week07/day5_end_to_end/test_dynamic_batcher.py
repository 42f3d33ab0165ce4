"""Checks of dynamic_batcher: on a virtual clock against the rule, then in real time.

The expected batches come from `by_the_rule`, an event simulation of its own. The batcher runs beside
the learner's code (probes/virtual_time.py); what comes back from there is a claim, which fresh
arrivals bound. Drawn arrivals are moved by some nanoseconds where two events would meet; that who comes
at the very moment is in, a check of its own asks.
"""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path

import pytest

from grading.checks import task
from profiling_lab import captures

PROBE = Path(__file__).resolve().with_name("probes") / "virtual_time.py"
TIE_NS = 10
MS = 1_000_000


def by_the_rule(
    arrivals: list[int], service: dict[int, int], max_batch: int, max_wait: int
) -> tuple[list[tuple[int, list[int]]], bool]:
    """Batches as (start in ns, requests), and whether two events meet that the rule does not order."""
    batches, free, place, meets = [], 0, 0, False
    while place < len(arrivals):
        deadline = arrivals[place] + max_wait
        full = arrivals[place + max_batch - 1] if place + max_batch <= len(arrivals) else None
        start = max(free, deadline if full is None else min(deadline, full))
        last = place
        while last < min(len(arrivals), place + max_batch) and arrivals[last] <= start:
            last += 1
        events = [free, deadline] if max_wait else [free]
        meets |= any(
            abs(a - event) <= TIE_NS for a in arrivals[place:] for event in events if event
        )
        batches.append((start, list(range(place, last))))
        size = min(size for size in service if size >= last - place)
        free = start + service[size]
        place = last
    return batches, meets


def without_meetings(
    arrivals: list[int], service: dict[int, int], max_batch: int, max_wait: int, seed: int
) -> list[int]:
    """The arrivals, each up to 999 ns later, so that no two events meet."""
    for attempt in range(100):
        chance = random.Random(seed + attempt)
        moved = sorted(arrival + chance.randrange(1_000) for arrival in arrivals)
        if not by_the_rule(moved, service, max_batch, max_wait)[1]:
            return moved
    raise AssertionError("no arrivals without meetings found")


def compare(
    stub, arrivals: list[int], service: dict[int, int], max_batch: int, max_wait: int
) -> None:
    """Run the batcher on the arrivals and compare every batch with the rule."""
    asked = (
        f"dynamic_batcher(max_batch={max_batch}, max_wait_s={max_wait / 1e9:.9g}) for "
        f"{len(arrivals)} requests"
    )
    got = stub.probe(PROBE, "simulate", arrivals, service, max_batch, max_wait)
    expected, _ = by_the_rule(arrivals, service, max_batch, max_wait)
    free = 0
    for number, (start, items) in enumerate(expected):
        told = got["batches"][number] if number < len(got["batches"]) else None
        if told is None:
            why = got["stuck"] or "it served no more"
            raise AssertionError(
                f"{asked}: batch {number} never started; expected at {start} ns with requests "
                f"{items}, of which the first came at {arrivals[items[0]]} ns. {why}"
            )
        came = f"{asked}: batch {number} started at {told[0]} ns with requests {told[1]}"
        wanted = f"expected at {start} ns with {items}"
        reason = (
            f"the server was free from {free} ns, request {items[0]} came at {arrivals[items[0]]} ns "
            f"and may wait until {arrivals[items[0]] + max_wait} ns"
        )
        assert len(told[1]) <= max_batch, f"{came}: more than max_batch = {max_batch} in a batch"
        for other in sorted(set(items) ^ set(told[1]))[:1]:
            reason += f"; request {other} came at {arrivals[other]} ns"
        assert told == [start, items], f"{came}; {wanted}: {reason}"
        free = start + service[min(size for size in service if size >= len(items))]
    assert len(got["batches"]) == len(expected), (
        f"{asked}: {len(got['batches'])} batches, expected {len(expected)}: some request was served "
        "twice, or serve was called without need"
    )
    assert got["most_at_once"] == 1, f"{asked}: serve was called again before it had returned"
    for place in range(len(arrivals)):
        assert got["answers"][place] == place * place, (
            f"{asked}: request {place} asked for the square of {place} and was answered with "
            f"{got['answers'][place]}"
        )
    assert got["returned_ns"] is not None, f"{asked}: it did not return after None"


@task("ex_34.dynamic_batcher")
@pytest.mark.parametrize("capture", ["serving_open_loop_eager", "serving_open_loop_graph"])
def test_recorded_requests_are_batched(stub, capture: str, seed: int) -> None:
    runs = json.loads(captures.text(capture, "requests.json"))["runs"]
    sizes = json.loads(captures.text(capture, "service.json"))["runs"]
    service = {run["batch"]: round(statistics.median(run["service_ns"])) for run in sizes}
    rates = [run for run in runs if run["run"].startswith("open_")]
    chance = random.Random(seed)
    for run in (rates[0], rates[2], rates[-1]):
        first = chance.randrange(len(run["sent_ns"]) - 120)
        sent = run["sent_ns"][first : first + 120]
        arrivals = [at - sent[0] + 1_000 for at in sent]
        max_batch = chance.choice([4, 8, 16])
        max_wait = chance.choice([1, 2, 5]) * MS
        arrivals = without_meetings(arrivals, service, max_batch, max_wait, seed)
        compare(stub, arrivals, service, max_batch, max_wait)


@task("ex_34.dynamic_batcher")
@pytest.mark.parametrize(
    ("max_batch", "max_wait"),
    [(8, 3 * MS), (4, 0), (1, 5 * MS), (64, 7 * MS)],
    ids=["usual", "no waiting", "one at a time", "never full"],
)
@pytest.mark.parametrize("gap", [MS // 2, 4 * MS], ids=["busy", "quiet"])
def test_generated_requests_are_batched(
    stub, seed: int, max_batch: int, max_wait: int, gap: int
) -> None:
    chance = random.Random(seed * 10 + max_batch)
    arrivals = [5_000]
    for _ in range(80):
        arrivals.append(arrivals[-1] + 1_000 + int(chance.expovariate(1 / gap)))
    service = {1: 1 * MS + 7, 2: 1 * MS + 11, 8: 2 * MS + 13, 64: 9 * MS + 17}
    arrivals = without_meetings(arrivals, service, max_batch, max_wait, seed)
    compare(stub, arrivals, service, max_batch, max_wait)


@task("ex_34.dynamic_batcher")
def test_waiting_counts_from_the_arrival(stub) -> None:
    # The server is busy from 0.1 to 10.1 ms; what came meanwhile has waited long enough by then.
    arrivals = [100_000, 2_000_000, 10_500_000, 10_600_000]
    compare(stub, arrivals, {1: 10 * MS, 8: 10 * MS}, 8, 100_000)
    # The second request comes just before the first one's time is up: that does not prolong it.
    compare(stub, [100_000, 1_000_000, 1_900_000, 2_800_000], {8: 1 * MS}, 8, 2 * MS)


@task("ex_34.dynamic_batcher")
def test_who_comes_at_the_very_moment_is_in(stub) -> None:
    # The second request comes when the first one's time is up, to the nanosecond.
    compare(stub, [1_000, 1_000 + 2 * MS, 40 * MS], {4: 3 * MS}, 4, 2 * MS)


@task("ex_34.dynamic_batcher")
def test_a_burst_is_cut_into_batches(stub) -> None:
    compare(stub, [1_000] * 11 + [40 * MS], {4: 3 * MS + 1}, 4, 2 * MS)


@task("ex_34.dynamic_batcher")
def test_senders_that_gave_up_are_left_out(stub) -> None:
    # Requests 1 and 2 wait while request 0 is served; 2 gives up then, 3 while it is served itself.
    arrivals = [1_000, 2_000_000, 3_000_000, 4_000_000]
    give_up = {2: 5_000_000, 3: 15_000_000}
    got = stub.probe(PROBE, "simulate", arrivals, {4: 10 * MS}, 4, 0, give_up_ns=give_up)
    asked = (
        "dynamic_batcher, of whose four senders 2 gives up while it waits and 3 while it is served"
    )
    assert not got["stuck"], f"{asked}: {got['stuck']}"
    served = [items for _, items in got["batches"]]
    assert served == [[0], [1, 3]], (
        f"{asked}: serve was called with {served}, expected [[0], [1, 3]]: nobody awaits the answer of 2"
    )
    assert got["answers"] == [0, 1, "given up", "given up"], (
        f"{asked}: the senders got {got['answers']}, expected [0, 1, 'given up', 'given up']"
    )
    got = stub.probe(
        PROBE, "simulate", [1_000, 2_000], {4: MS}, 4, 5 * MS, give_up_ns={0: 3_000, 1: 4_000}
    )
    assert not got["batches"], (
        "dynamic_batcher, both of whose senders gave up before the batch began: serve was called with "
        f"{[items for _, items in got['batches']]}, expected no call"
    )


@task("ex_34.dynamic_batcher")
@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("failing", "RuntimeError: out of memory"),
        ("short", "ValueError"),
        ("long", "ValueError"),
    ],
    ids=["serve raises", "an answer too few", "an answer too many"],
)
def test_a_failing_batch_reaches_its_senders_only(stub, fault: str, words: str) -> None:
    arrivals = [1_000, 1_500, 20_000_000, 30_000_000]
    got = stub.probe(PROBE, "simulate", arrivals, {2: 5 * MS}, 2, 0, **{fault: [1]})
    what = {
        "failing": "fails",
        "short": "gets an answer too few",
        "long": "gets an answer too many",
    }[fault]
    asked = f"dynamic_batcher, the second of whose batches {what}"
    starts = [items for _, items in got["batches"]]
    assert not got["stuck"] and len(starts) >= 3, (
        f"{asked}: it served {starts} and then nothing; expected it to go on with the next request"
    )
    failed = [place for place, text in enumerate(got["answers"]) if isinstance(text, str)]
    assert failed == starts[1], (
        f"{asked}, which held requests {starts[1]}: the senders got {got['answers']}; expected an "
        "exception for those of that batch, and for no others"
    )
    told = got["answers"][failed[0]]
    assert told.startswith(words), f"{asked}: its senders got {told!r}, expected {words!r}"
    if fault != "failing":
        size = len(starts[1])
        other = size - 1 if fault == "short" else size + 1
        assert str(size) in told and str(other) in told, (
            f"{asked}: its senders got {told!r}; expected both numbers in it, {other} and {size}"
        )


@task("ex_34.dynamic_batcher")
def test_giving_up_does_not_stop_a_failing_batch(stub) -> None:
    # Requests 0 and 1 are one batch, 0 gives up while it is served, and then the batch fails.
    got = stub.probe(
        PROBE,
        "simulate",
        [1_000, 1_500, 20 * MS],
        {2: 5 * MS},
        2,
        MS,
        give_up_ns={0: 3 * MS},
        failing=[0],
    )
    asked = "dynamic_batcher, whose first batch fails after one of its two senders gave up"
    assert not got["stuck"], f"{asked}: {got['stuck']}"
    want = ["given up", "RuntimeError: out of memory", 4]
    assert got["answers"] == want, (
        f"{asked}: the senders got {got['answers']}, expected {want}: whoever gave up is left alone, "
        "also by an exception, and the next batch is served"
    )


@task("ex_34.dynamic_batcher")
def test_none_ends_it(stub) -> None:
    arrivals = [1_000, 1 * MS, 2 * MS]
    got = stub.probe(PROBE, "simulate", arrivals, {8: 4 * MS}, 8, 1_000 * MS, close_ns=3 * MS + 500)
    asked = "dynamic_batcher(max_batch=8, max_wait_s=1), None 3 ms after three requests"
    assert got["answers"] == [0, 1, 4], (
        f"{asked}: the senders got {got['answers']}, expected [0, 1, 4]: what waits is still answered"
    )
    start = got["batches"][0][0]
    assert start == 3 * MS + 500, (
        f"{asked}: the last batch started at {start} ns, expected at {3 * MS + 500} ns: nobody else "
        "can come, so there is nothing to wait for"
    )
    assert got["returned_ns"] == 7 * MS + 500, (
        f"{asked}: it returned at {got['returned_ns']} ns, expected at {7 * MS + 500} ns, with the "
        "last answer"
    )


@task("ex_34.dynamic_batcher")
@pytest.mark.parametrize(("max_batch", "max_wait"), [(0, MS), (-1, MS), (4, -1), (4, float("nan"))])
def test_settings_that_make_no_sense(stub, max_batch: int, max_wait: float) -> None:
    with stub.raises(ValueError, why="no batch can be made by it"):
        stub.probe(PROBE, "simulate", [1_000], {4: MS}, max_batch, max_wait)


@task("ex_34.dynamic_batcher")
def test_it_runs_for_real(stub, seed: int) -> None:
    chance = random.Random(seed)
    # Whole multiples of the batch: the sizes do not depend on how fast this machine is.
    bursts = [4 * chance.randint(2, 3), 4 * chance.randint(1, 2)]
    got = stub.probe(PROBE, "run_for_real", bursts, 4)
    asked = (
        f"dynamic_batcher(max_batch=4, max_wait_s=0.002) in real time, bursts of {bursts} requests"
    )
    assert got["returned"], f"{asked}: it did not return after None"
    assert got["answers"], f"{asked}: some answers are missing or belong to other requests"
    assert got["sizes"] == [4] * (sum(bursts) // 4), (
        f"{asked}: batches of {got['sizes']}, expected {sum(bursts) // 4} of 4"
    )
    assert not got["late_puts"], (
        f"{asked}: nobody could send while a batch was worked on: is the event loop blocked?"
    )
