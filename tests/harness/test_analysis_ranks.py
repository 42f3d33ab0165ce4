"""Ranks: late again and again, all alike, in turns; on recordings and drawn ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from grading.checks import case_labels
from grading.checks.generate.drawn_timeline import Timeline
from profiling_lab import captures
from profiling_lab.analysis import kineto_columns, order, ranks
from profiling_lab.analysis.nsys_columns import Export
from profiling_lab.analysis.ranks import Job
from profiling_lab.captures import inputs
from profiling_lab.diagnosis import engine

FLOOR = 0.1
EXPECTED = ("communication_bound", "rank_imbalance", "healthy")
CASES = [
    name
    for name, label in case_labels.labels().items()
    if label["expect"] in EXPECTED
    and ("_exchange" in name or "_lengths" in name or "_towers" in name)
]


def job_of(name: str) -> tuple[Job, int]:
    place = captures.place(name)
    if place.is_dir() and (files := captures.rank_traces(place)):
        traces = {number: kineto_columns.read(file) for number, file in files.items()}
        found = [
            ranks.of_trace(one.recording, number, one.window_ns or one.recording.span_ns)
            for number, one in traces.items()
        ]
        return ranks.judge(found, one_clock=False), max(rank.length_ns for rank in found)
    recording = Export(captures.open(name)).recording
    found = ranks.of_timeline(recording, recording.span_ns)
    return ranks.judge(found, one_clock=True), found[0].length_ns


@pytest.mark.parametrize("name", CASES)
def test_cases_of_several_ranks_have_their_label(name: str) -> None:
    job, length = job_of(name)
    savings = {
        "healthy": int(FLOOR * length),
        "communication_bound": job.communication_ns,
        "rank_imbalance": 0 if job.once else job.imbalance_ns,
    }
    label = case_labels.labels()[name]
    assert max(savings, key=lambda category: savings[category]) == label["expect"]
    if label["expect"] != "healthy":
        bounds = case_labels.expected(name)["recoverable_ratio"]
        assert bounds.holds(savings[label["expect"]] / length)


STEPS, US = 30, 1_000


def draw(file: Path, step_us: dict[int, tuple[int, int, int]], transfer_us: int) -> str:
    """Steps in which rank r first prepares, then works, then meets the others in a collective.

    step_us: per rank µs of its host code, of its kernel, and from then on of more host code in every other step.
    """
    timeline = Timeline(file)
    now = 1_000_000
    for step in range(STEPS):
        arrivals = {}
        for rank, (host, work, now_and_then) in step_us.items():
            begin = now + (host + (now_and_then if (step + rank) % 2 else 0)) * US
            at = {"process": rank + 1, "thread": rank + 1, "device": rank}
            timeline.kernel(
                begin + 7 * US, begin + (7 + work) * US, call=(begin, begin + 5 * US), **at
            )
            arrivals[rank] = begin + (8 + work) * US
        end = max(arrivals.values()) + transfer_us * US
        for rank, start in arrivals.items():
            at = {"process": rank + 1, "thread": rank + 1, "device": rank, "stream": 9}
            call = (start - 40 * US, start - 35 * US)
            timeline.kernel(start, end, name="ncclDevKernel_AllReduce", call=call, **at)
        now = end
    return timeline.save()


def judged(path: str) -> tuple[Job, int]:
    return job_of(path)


@pytest.mark.parametrize(
    ("late_us", "transfer_us", "category", "step_us"),
    [(0, 300, "communication_bound", 300), (600, 20, "rank_imbalance", 600)],
)
def test_the_verdict_tells_waiting_alike_from_a_late_rank(
    late_us: int, transfer_us: int, category: str, step_us: int, tmp_path: Path
) -> None:
    path = draw(tmp_path / "job.sqlite", {0: (10, 300, 0), 1: (10 + late_us, 300, 0)}, transfer_us)
    verdict = engine.judge(inputs.read([path]))
    main = verdict.findings[0]
    assert main.category == category
    length = verdict.seen[0].judged_ns
    assert main.evidence["recoverable_ns"] == pytest.approx(STEPS * step_us * US, abs=0.02 * length)


def test_a_rank_that_prepares_longer_costs_all_of_it(tmp_path: Path) -> None:
    job, length = judged(draw(tmp_path / "a.sqlite", {0: (10, 300, 0), 1: (610, 300, 0)}, 20))
    assert job.late == 1 and not job.once and job.late_work_ns < 0.02 * length
    assert job.imbalance_ns == pytest.approx(STEPS * 600 * US, abs=0.02 * length)


def test_work_that_is_shared_evenly_costs_what_is_above_the_mean(tmp_path: Path) -> None:
    job, length = judged(draw(tmp_path / "a.sqlite", {0: (10, 300, 0), 1: (10, 700, 0)}, 20))
    assert job.late == 1
    assert job.imbalance_ns == pytest.approx(STEPS * 200 * US, abs=0.02 * length)


def test_ranks_late_in_turns_wait_alike(tmp_path: Path) -> None:
    job, length = judged(draw(tmp_path / "a.sqlite", {0: (10, 300, 200), 1: (10, 300, 200)}, 300))
    assert job.imbalance_ns < 0.02 * length
    assert job.communication_ns == pytest.approx(STEPS * 400 * US, abs=0.02 * length)


def test_what_the_recorder_cost_the_late_rank_is_no_lateness(tmp_path: Path) -> None:
    file = draw(tmp_path / "late.sqlite", {0: (100, 400, 0), 1: (600, 400, 0)}, 50)
    recording = Export(captures.open(file)).recording
    found = ranks.of_timeline(recording, recording.span_ns)
    whole = ranks.judge(found, one_clock=True)
    part_ns = whole.imbalance_ns // 4
    waits = {rank.number: rank.exposed_ns for rank in whole.ranks}

    def judged(recorder_ns: dict[int, int]) -> Job:
        return ranks.judge(
            found,
            one_clock=True,
            shorter_ns=lambda rank: waits[rank.number] + recorder_ns[rank.number],
        )

    late = whole.late
    assert judged({late: part_ns, 1 - late: 0}).imbalance_ns == whole.imbalance_ns - part_ns
    # The others' own cost comes to light when they do not wait.
    assert judged({0: part_ns, 1: part_ns}).imbalance_ns == whole.imbalance_ns


@pytest.mark.parametrize(("shorter_us", "saved_us"), [(400, 200), (250, 200), (100, 100)])
def test_work_that_is_shared_ends_no_earlier_than_the_other_is_done(
    shorter_us: int, saved_us: int, tmp_path: Path
) -> None:
    """Rank 1 works 400 µs longer: shared evenly that saves 200, if the other's host is done by then."""
    file = draw(tmp_path / "shared.sqlite", {0: (10, 300, 0), 1: (10, 700, 0)}, 20)
    recording = Export(captures.open(file)).recording
    found = ranks.of_timeline(recording, recording.span_ns)
    job = ranks.judge(
        found, one_clock=True, shorter_ns=lambda rank: STEPS * shorter_us * US * (rank.number == 0)
    )
    assert job.imbalance_ns == pytest.approx(STEPS * saved_us * US, abs=STEPS * 10 * US)


@pytest.mark.parametrize("behind_us", [100, 450])
def test_what_a_waiting_rank_does_meanwhile_comes_to_light_when_nobody_is_late(
    behind_us: int, tmp_path: Path
) -> None:
    """Rank 1 is 600 µs late in each step. Rank 0 uses a part of that for host code of its own."""
    timeline = Timeline(tmp_path / "hidden.sqlite")
    now = 1_000_000
    for _ in range(STEPS):
        end = now + 1_100 * US
        for rank, host_us in ((0, 10), (1, 610)):
            at = {"process": rank + 1, "thread": rank + 1, "device": rank}
            begin = now + host_us * US
            call = (begin, begin + 5 * US)
            timeline.kernel(begin + 7 * US, begin + 307 * US, call=call, **at)
            call = (begin + 20 * US, begin + 25 * US)
            start = begin + 308 * US
            timeline.kernel(
                start, end, name="ncclDevKernel_AllReduce", call=call, **at | {"stream": 9}
            )
            if rank == 0:
                # It issues one small piece after the other: its device is done before each.
                for piece in range(behind_us // 50):
                    begin = now + (400 + 50 * piece) * US
                    timeline.kernel(
                        begin + 7 * US,
                        begin + 8 * US,
                        call=(begin, begin + 5 * US),
                        **at | {"stream": 11},
                    )
        now = end
    job = engine.judge(inputs.read([timeline.save()])).job
    assert job is not None and job.late == 1
    # Its pieces take up to now + 400 + behind µs; without them it is done at 318 µs.
    saved_us = 1_100 - 20 - 10 - max(308, 400 + behind_us)
    assert job.imbalance_ns == pytest.approx(STEPS * saved_us * US, abs=STEPS * 130 * US)


def test_a_watchdog_that_only_asks_is_no_part_of_the_order(tmp_path: Path) -> None:
    """It calls each 2 ms, between the calls of a thread that works: neither waits for the other."""
    timeline = Timeline(tmp_path / "watchdog.sqlite")
    for step in range(200):
        begin = 1_000_000 + 200 * US * step
        call = (begin, begin + 150 * US)
        timeline.kernel(begin + 160 * US, begin + 165 * US, call=call, thread=1)
    for step in range(1, 20):
        begin = 1_000_000 + 2_000 * US * step
        timeline.api("cudaEventQuery_v3020", begin + 160 * US, begin + 161 * US, thread=2)
    recording = Export(captures.open(timeline.save())).recording
    with_it, without = order.read(recording), order.read(recording, watchdogs=False)
    assert (with_it.why == order.HAND_OVER).any()
    assert not (without.why == order.HAND_OVER).any()
