"""Checks of `nsys_ex04`.

What is expected is read from the file by plain SQL and counted piece by piece (`truth.segments`), for
recordings and for drawings alike.
"""

from __future__ import annotations

import math
import random
import re
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import (
    agree,
    judge_finding,
    judge_recommendation,
    require,
    show,
)
from grading.checks.fixtures import recordings
from grading.checks.generate import truth
from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture

GRADED = ("ddp_timeline_overlap", "ddp_timeline_late_data", "ddp_timeline_one_bucket_narrow")
REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL"
Interval = tuple[int, int]

# -- what is in the file ------------------------------------------------------------------------------


@dataclass
class Own:
    """What the file holds of one rank."""

    process: int
    start: int
    end: int
    device: int = -1
    work: list[Interval] = field(default_factory=list)
    collectives: list[tuple[int, int, str]] = field(default_factory=list)


def facts(capture: str) -> dict[int, Own]:
    """Per rank what the tables say, by SQL."""
    connection = sqlite3.connect(captures.path(capture).resolve().as_uri() + "?mode=ro", uri=True)
    try:
        there = {row[0] for row in connection.execute("SELECT name FROM sqlite_master")}
        ranks: dict[int, Own] = {}
        for start, end, tid, name in connection.execute(
            'SELECT start, "end", globalTid, COALESCE(text, (SELECT value FROM StringIds'
            " WHERE id = textId)) FROM NVTX_EVENTS"
        ):
            if named := re.fullmatch(r"rank (\d+)", name or ""):
                own = ranks.setdefault(int(named[1]), Own(tid & ~0xFFFFFF, start, end))
                own.start, own.end = min(own.start, start), max(own.end, end)
        by_process = {own.process: own for own in ranks.values()}
        for start, end, device, process, name in connection.execute(
            'SELECT start, "end", deviceId, globalPid, value FROM CUPTI_ACTIVITY_KIND_KERNEL'
            ' JOIN StringIds ON id = shortName ORDER BY start, "end"'
        ):
            if own := by_process.get(process):
                own.device = device
                if name.startswith("nccl"):
                    if own.start <= start < own.end:
                        own.collectives.append((start, end, name))
                else:
                    own.work.append((start, end))
        for kind in ("MEMCPY", "MEMSET", "GRAPH_TRACE"):
            if (table := f"CUPTI_ACTIVITY_KIND_{kind}") in there:
                for start, end, process in connection.execute(
                    f'SELECT start, "end", globalPid FROM {table}'
                ):
                    if own := by_process.get(process):
                        own.work.append((start, end))
    finally:
        connection.close()
    return dict(sorted(ranks.items()))


def first_places(ranks: dict[int, Own]) -> dict[int, int]:
    """Of each rank, the place of the first collective that all have: every difference is tried."""
    shifts = {}
    for rank, own in ranks.items():
        shared = {}
        for shift in range(-len(ranks[0].collectives), len(own.collectives) + 1):
            pairs = [
                (ranks[0].collectives[place - shift], one)
                for place, one in enumerate(own.collectives)
                if 0 <= place - shift < len(ranks[0].collectives)
            ]
            shared[shift] = sum(max(0, min(a[1], b[1]) - max(a[0], b[0])) for a, b in pairs)
        most = max(shared.values())
        shifts[rank] = min((s for s in shared if shared[s] == most), key=abs)
    return {rank: shift - min(shifts.values()) for rank, shift in shifts.items()}


def side_by_side(ranks: dict[int, Own]) -> list[dict[int, tuple[int, int, str]]]:
    """The collectives that all ranks have, by rank."""
    rows = [ranks[rank].collectives[first:] for rank, first in first_places(ranks).items()]
    return [dict(zip(ranks, together, strict=True)) for together in zip(*rows, strict=False)]


def parts(ranks: dict[int, Own]) -> list[dict[int, tuple[int, int, int]]]:
    """Of each collective, by rank: start, end of the waiting, end."""
    out = []
    for together in side_by_side(ranks):
        last = max(start for start, _, _ in together.values())
        out.append(
            {rank: (start, min(last, end), end) for rank, (start, end, _) in together.items()}
        )
    return out


def left_out(ranks: dict[int, Own]) -> tuple[list[Interval], list[Interval]]:
    """What lacks a partner at the head and at the tail, of all ranks."""
    head, tail = [], []
    count = len(side_by_side(ranks))
    for rank, first in first_places(ranks).items():
        spans = [(start, end) for start, end, _ in ranks[rank].collectives]
        head += spans[:first]
        tail += spans[first + count :]
    return head, tail


def window(ranks: dict[int, Own]) -> Interval:
    head, tail = left_out(ranks)
    low = max([min(own.start for own in ranks.values()), *(end for _, end in head)])
    return low, min([max(own.end for own in ranks.values()), *(start for start, _ in tail)])


def shares(ranks: dict[int, Own]) -> dict[int, dict[str, int]]:
    """Where the window of each rank went, piece by piece."""
    matched, out = parts(ranks), {}
    for rank, own in ranks.items():
        groups: dict[str, Iterable[Interval]] = {
            "work": own.work,
            "wait": [(m[rank][0], m[rank][1]) for m in matched],
            "transfer": [(m[rank][1], m[rank][2]) for m in matched],
        }
        keys = ("work_ns", "exposed_transfer_ns", "exposed_wait_ns", "idle_ns", "hidden_ns")
        total = dict.fromkeys(keys, 0)
        for start, end, running in truth.segments(groups, window(ranks)):
            kind = (
                "work_ns" if running["work"]
                else "exposed_transfer_ns" if running["transfer"]
                else "exposed_wait_ns" if running["wait"]
                else "idle_ns"
            )  # fmt: skip
            total[kind] += end - start
            if running["work"] and running["wait"] + running["transfer"]:
                total["hidden_ns"] += end - start
        out[rank] = total
    return out


def blame(ranks: dict[int, Own]) -> dict[str, Any]:
    """Which rank came last, how often, and what the others waited for it."""
    account, late = dict.fromkeys(ranks, 0), dict.fromkeys(ranks, 0)
    for together in parts(ranks):
        latest = max(start for start, _, _ in together.values())
        last = min(rank for rank, (start, _, _) in together.items() if start == latest)
        late[last] += 1
        account[last] += sum(wait - start for start, wait, _ in together.values())
    worst = min(rank for rank in account if account[rank] == max(account.values()))
    time = shares(ranks)
    extra = {
        key: time[worst][key] - max(time[other][key] for other in time if other != worst)
        for key in ("work_ns", "idle_ns")
    }
    return {
        "rank": worst,
        "waited_ns": account[worst],
        "late_count": late[worst],
        "extra_work_ns": extra["work_ns"],
        "extra_idle_ns": extra["idle_ns"],
        "cause": "work" if extra["work_ns"] >= extra["idle_ns"] else "host",
    }


# -- drawings -----------------------------------------------------------------------------------------


def draw_run(
    draw: Callable[[], Any],
    rng: random.Random,
    ranks: int = 3,
    steps: int = 4,
    same_device: bool = True,
    lacks: dict[int, tuple[int, int]] | None = None,
) -> str:
    """A run of several ranks, with all that may stand around it in a recording.

    Processes are numbered otherwise than ranks. With same_device each process sees its own device as 0.
    lacks: of a rank, how many collectives at the head and at the tail were not recorded.
    """
    lacks = lacks or {}
    timeline = draw()
    processes = rng.sample(range(2, 40), ranks)
    clock = [rng.randint(100_000, 140_000) for _ in range(ranks)]
    begin = list(clock)
    for rank, process in enumerate(processes):
        place = {"process": process, "device": 0 if same_device else ranks - rank}
        # before the range: a collective and work that are not under examination
        timeline.kernel(20_000, 31_000, name=REDUCE, stream=19, **place)
        timeline.kernel(32_000 + rank, 60_000, name="warm_up", **place)
        timeline.nvtx(f"rank {rank} warm-up", 10_000, 90_000, process=process)
        timeline.nvtx(f"not rank {ranks - 1 - rank}", 10_000, 90_000, process=process)
    for step in range(steps):
        arrivals, ends = [], []
        for rank, process in enumerate(processes):
            place = {"process": process, "device": 0 if same_device else ranks - rank}
            start = clock[rank] + rng.randint(1_000, 30_000)
            timeline.copy(start, start + 4_000, stream=9, **place)
            length = rng.randint(40_000, 90_000)
            timeline.kernel(start + 2_000, start + length, name="of_nccl_no_part", **place)
            arrivals.append(start + length - rng.randint(-6_000, 25_000))
            ends.append(start + length)
        last = max(arrivals)
        for rank, process in enumerate(processes):
            place = {"process": process, "device": 0 if same_device else ranks - rank}
            end = last + rng.randint(20_000, 40_000)
            if step == 1 and rank == arrivals.index(min(arrivals)):
                end = last - 1  # this one was done before the last had begun
                end = max(end, arrivals[rank] + 500)
            head, tail = lacks.get(rank, (0, 0))
            if head <= step < steps - tail:
                timeline.kernel(arrivals[rank], end, name=REDUCE, stream=19, **place)
            more = max(end, ends[rank]) - rng.randint(0, 15_000)
            timeline.kernel(more, more + 22_000, name="update", **place)
            clock[rank] = more + 22_000
    for rank, process in enumerate(processes):
        middle = begin[rank] + 30_000
        timeline.nvtx(f"rank {rank}", middle + 1, clock[rank] - 9_000, process=process)
        timeline.nvtx(f"rank {rank}", begin[rank], middle, process=process, registered=True)
    return timeline.save()


def two_ranks(
    draw: Callable[[], Any],
    work: tuple[int, int] = (50_000, 50_000),
    late: tuple[int, int] = (0, 0),
    transfer: int = 10_000,
    end: int = 100_000,
) -> str:
    """Two ranks, a step each: idle for `late`, work, then one collective; pencil and paper suffice."""
    timeline = draw()
    arrivals = [late[rank] + work[rank] for rank in (0, 1)]
    for rank in (0, 1):
        place = {"process": 5 - rank, "device": rank}
        timeline.nvtx(f"rank {rank}", 0, end, process=5 - rank)
        timeline.kernel(late[rank], arrivals[rank], **place)
        timeline.kernel(arrivals[rank], max(arrivals) + transfer, name=REDUCE, stream=9, **place)
    return timeline.save()


# -- 1. ranks -----------------------------------------------------------------------------------------


def judge_ranks(stub: Any, capture: str) -> None:
    want = {
        rank: {"process": o.process, "device": o.device, "start_ns": o.start, "end_ns": o.end}
        for rank, o in facts(capture).items()
    }
    got = stub.find_ranks(capture)
    require(
        agree(got, want),
        f"find_ranks({capture!r}) returned {show(got)}, expected {show(want)}: the process that opened "
        "the NVTX range says which rank it is, neither its number nor its device does",
    )
    require(
        list(got) == sorted(want),
        f"find_ranks({capture!r}) lists ranks {list(got)}, expected them in order: {sorted(want)}",
    )


@task("nsys_ex04.find_ranks")
@recordings(*GRADED[:2])
def test_ranks_of_a_recording(stub, recording) -> None:
    judge_ranks(stub, recording)


@task("nsys_ex04.find_ranks")
def test_ranks_of_drawn_runs(stub, draw, seed) -> None:
    rng = random.Random(seed)
    judge_ranks(stub, draw_run(draw, rng, ranks=4))
    judge_ranks(stub, draw_run(draw, rng, ranks=11, steps=1, same_device=False))


@task("nsys_ex04.find_ranks")
def test_ranks_that_cannot_be_told(stub, draw) -> None:
    nameless = draw()
    nameless.kernel(0, 1_000)
    nameless.nvtx("step", 0, 2_000)
    with stub.raises(CaptureError, match="rank", why="no process says which rank it is"):
        stub.find_ranks(nameless.save())
    twice = draw()
    for process in (1, 2):
        twice.kernel(0, 1_000, process=process)
        twice.nvtx("rank 0", 0, 2_000, process=process)
    with stub.raises(CaptureError, match="rank 0", why="two processes are rank 0"):
        stub.find_ranks(twice.save())
    for gone in (0, 1):
        partial = draw()
        for rank in (0, 1, 2):
            if rank != gone:
                partial.kernel(0, 1_000, process=rank + 1)
                partial.nvtx(f"rank {rank}", 0, 2_000, process=rank + 1)
        with stub.raises(CaptureError, match=str(gone), why=f"rank {gone} is not in the recording"):
            stub.find_ranks(partial.save())
    hollow = draw()
    hollow.kernel(0, 1_000, process=1)
    for rank in (0, 1):
        hollow.nvtx(f"rank {rank}", 0, 2_000, process=rank + 1)
    with stub.raises(CaptureError, match="rank 1", why="rank 1 has no kernel"):
        stub.find_ranks(hollow.save())


# -- 2. the same collective on every rank -----------------------------------------------------------------


def judge_matches(stub: Any, capture: str) -> None:
    ranks = facts(capture)
    want = [
        {
            "name": together[0][2],
            "start_ns": {rank: row[0] for rank, row in together.items()},
            "end_ns": {rank: row[1] for rank, row in together.items()},
        }
        for together in side_by_side(ranks)
    ]
    firsts = first_places(ranks)
    got = stub.match_collectives(capture)
    require(
        isinstance(got, list) and len(got) == len(want),
        f"match_collectives({capture!r}) returned {show(got)}; expected {len(want)} collectives: "
        "those kernels of NCCL that start inside their rank's own range, less those at the ends "
        "that another rank did not record",
    )
    for place, (one, right) in enumerate(zip(got, want, strict=True)):
        require(
            agree(one, right),
            f"match_collectives({capture!r}): collective {place} is {show(one)}, expected "
            f"{show(right)} (ns): what all ranks recorded begins, by the clock, at these places "
            f"of their lists (counted from 0): {firsts}",
        )


@task("nsys_ex04.match_collectives")
@recordings(*GRADED[:2])
def test_matches_of_a_recording(stub, recording) -> None:
    judge_matches(stub, recording)


@task("nsys_ex04.match_collectives")
def test_matches_of_a_drawn_run(stub, draw, seed) -> None:
    judge_matches(stub, draw_run(draw, random.Random(seed + 1), ranks=4))
    timeline = draw()  # one starts with its rank's range, one with its end
    for rank in (0, 1):
        timeline.nvtx(f"rank {rank}", 1_000, 5_000, process=rank + 1)
        for start in (1_000, 5_000):
            timeline.kernel(start, start + 900, name=REDUCE, process=rank + 1)
    judge_matches(stub, timeline.save())


def draw_spans(draw: Callable[[], Any], *ranks: tuple[Interval, ...], end: int = 10_000) -> str:
    """Collectives at given times, one tuple a rank; work of 50 ns before all of them."""
    timeline = draw()
    for rank, spans in enumerate(ranks):
        timeline.nvtx(f"rank {rank}", 0, end, process=rank + 1)
        timeline.kernel(0, 50, process=rank + 1)
        for start, stop in spans:
            timeline.kernel(start, stop, name=REDUCE, stream=9, process=rank + 1)
    return timeline.save()


# Rank 1 was recorded from the second collective on, rank 0 up to the third: as many each, and two in common.
LATE_AND_SHORT = (
    ((100, 200), (1_000, 1_250), (2_000, 2_300)),
    ((1_100, 1_250), (2_050, 2_310), (3_000, 3_100)),
)
# The same times but for the ends. Rank 1's second begins before rank 0 has left the first, and so on.
LEAVING_APART = (
    ((100, 1_110), (1_200, 2_060), (2_100, 3_010), (3_100, 4_000)),
    ((1_100, 2_050), (2_050, 3_000), (3_000, 4_010)),
)


# Which difference of places wins, by votes that are close; (votes for the wrong one, for the right one) in ns.
CLOSE_VOTES = {
    "a long one against several (120, 130)": (
        ((100, 200), (250, 500), (500, 600), (700, 800)),
        ((260, 300), (380, 540), (750, 800)),
    ),
    "several early ones against late ones (10, 185)": (
        ((100, 200), (200, 300), (300, 400)),
        ((110, 205), (205, 305)),
    ),
    "equal, so the nearest to 0 (50, 50)": (((100, 200),), ((100, 150), (150, 200))),
    "a single ns against none (0, 1)": (((100, 200), (300, 400)), ((399, 450),)),
    "one that is over does not count, equal (50, 50)": (
        ((100, 150), (200, 250)),
        ((100, 400), (110, 150)),
    ),
    "one that is over does not count (50, 51)": (
        ((100, 150), (200, 251)),
        ((100, 400), (110, 150)),
    ),
}


@task("nsys_ex04.match_collectives")
@pytest.mark.parametrize("ranks", CLOSE_VOTES.values(), ids=list(CLOSE_VOTES))
def test_the_difference_with_most_votes(stub, draw, ranks) -> None:
    judge_matches(stub, draw_spans(draw, *ranks))


@task("nsys_ex04.match_collectives")
def test_matches_where_ranks_were_not_recorded_from_the_same_one_on(stub, draw, seed) -> None:
    got = stub.match_collectives(draw_spans(draw, *LATE_AND_SHORT))
    want = [
        {"name": REDUCE, "start_ns": {0: 1_000, 1: 1_100}, "end_ns": {0: 1_250, 1: 1_250}},
        {"name": REDUCE, "start_ns": {0: 2_000, 1: 2_050}, "end_ns": {0: 2_300, 1: 2_310}},
    ]
    require(
        agree(got, want),
        f"match_collectives of ranks 0 and 1 with collectives at {LATE_AND_SHORT} returned {show(got)}, "
        f"expected {show(want)}: no kernel of rank 1 ran during rank 0's first, nor of rank 0 "
        "during rank 1's last",
    )
    judge_matches(stub, draw_spans(draw, *LATE_AND_SHORT[::-1]))
    judge_matches(stub, draw_spans(draw, *LEAVING_APART))
    for lacks in ({1: (2, 0)}, {0: (2, 1), 2: (0, 3)}, {0: (0, 1)}, {2: (3, 0)}):
        judge_matches(stub, draw_run(draw, random.Random(seed + 2), steps=9, lacks=lacks))
    # two at a time on a rank, and one that ran before its partner came: places still agree
    judge_matches(stub, draw_spans(draw, ((100, 900), (200, 800)), ((150, 900), (300, 850))))
    judge_matches(stub, draw_spans(draw, ((100, 200), (300, 400)), ((250, 290), (450, 460))))


@task("nsys_ex04.match_collectives")
def test_collectives_that_do_not_belong_together(stub, draw) -> None:
    def drawn(*names: tuple[str, ...]) -> str:
        timeline = draw()
        for rank, own in enumerate(names):
            timeline.nvtx(f"rank {rank}", 0, 9_000, process=rank + 1)
            timeline.kernel(0, 50, process=rank + 1)
            for place, name in enumerate(own):
                timeline.kernel(100 + 200 * place, 250 + 200 * place, name=name, process=rank + 1)
        return timeline.save()

    gather = REDUCE.replace("Reduce", "Gather")
    for gap in (
        (((100, 200), (300, 400), (500, 600)), ((100, 200), (500, 600))),
        (((100, 200), (300, 400), (500, 600)), ((100, 200), (400, 500))),
        (((100, 200), (300, 400), (500, 600)), ((0, 100), (300, 400))),
        (((100, 200), (300, 400), (500, 600)), ((700, 800), (900, 950))),
        # what is left out leaves 5 ns to a stranger, at the head and at the tail
        (((100, 195), (200, 400), (500, 700)), ((90, 205), (510, 700))),
        (((100, 300), (500, 600), (700, 800)), ((110, 300), (595, 800))),
    ):
        with stub.raises(CaptureError, match="3.*2", why=f"one is missing in between: {gap}"):
            stub.match_collectives(draw_spans(draw, *gap))
    with stub.raises(CaptureError, match="1.*0", why="rank 1 has no collective"):
        stub.match_collectives(draw_spans(draw, ((100, 200),), ()))
    with stub.raises(CaptureError, match="Gather", why="the second ones are not the same"):
        stub.match_collectives(drawn((REDUCE, gather), (REDUCE, REDUCE)))
    with stub.raises(EmptyCapture, why="no rank has a collective"):
        stub.match_collectives(drawn((), ()))


# -- 3. waiting or transfer -------------------------------------------------------------------------------


def judge_split(stub: Any, capture: str) -> None:
    ranks = facts(capture)
    matched = parts(ranks)
    want = {
        rank: {
            "wait_ns": sum(m[rank][1] - m[rank][0] for m in matched),
            "transfer_ns": sum(m[rank][2] - m[rank][1] for m in matched),
        }
        for rank in ranks
    }
    got = stub.split_collectives(capture)
    require(
        agree(got, want),
        f"split_collectives({capture!r}) returned {show(got)}, expected {show(want)} (ns): a rank waits "
        "from its own kernel's start to the start of the last rank's, and no longer than its own end",
    )


@task("nsys_ex04.split_collectives")
@recordings(*GRADED)
def test_parts_of_a_recording(stub, recording) -> None:
    judge_split(stub, recording)


@task("nsys_ex04.split_collectives")
def test_parts_of_drawn_runs(stub, draw, seed) -> None:
    judge_split(stub, two_ranks(draw, work=(30_000, 70_000)))
    judge_split(stub, draw_run(draw, random.Random(seed + 2)))


# -- 4. busy and not working ------------------------------------------------------------------------------


def judge_time(stub: Any, capture: str) -> None:
    ranks = facts(capture)
    want, got = shares(ranks), stub.device_time(capture)
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"device_time({capture!r}) returned {show(got)}, expected a dict of ranks {list(want)}",
    )
    low, high = window(ranks)
    for rank, row in want.items():
        require(
            agree(got[rank], row),
            f"device_time({capture!r})[{rank}] is {show(got[rank])}, expected {show(row)} (ns of a window "
            f"of {high - low}): each moment counts once, work before transfer before waiting, and "
            "a device that waits in a collective does not work",
        )


@task("nsys_ex04.device_time")
@recordings(*GRADED)
def test_time_of_a_recording(stub, recording) -> None:
    judge_time(stub, recording)


@task("nsys_ex04.device_time")
def test_time_of_drawn_runs(stub, draw, seed) -> None:
    judge_time(stub, two_ranks(draw, work=(30_000, 70_000), end=75_000))
    judge_time(stub, draw_run(draw, random.Random(seed + 3)))
    judge_time(stub, draw_run(draw, random.Random(seed + 4), ranks=2, same_device=False))


@task("nsys_ex04.device_time")
def test_time_where_collectives_are_left_out(stub, draw, seed) -> None:
    capture = draw_spans(draw, *LATE_AND_SHORT, end=4_000)
    got = stub.device_time(capture)
    # The window: from 200, where rank 0 leaves the one that rank 1 lacks, to 3,000, where rank 1 enters
    # the one that rank 0 lacks.
    want = {
        0: {"work_ns": 0, "exposed_transfer_ns": 400, "exposed_wait_ns": 150, "idle_ns": 2_250,
            "hidden_ns": 0},
        1: {"work_ns": 0, "exposed_transfer_ns": 410, "exposed_wait_ns": 0, "idle_ns": 2_390,
            "hidden_ns": 0},
    }  # fmt: skip
    require(
        agree(got, want),
        f"device_time of ranks 0 and 1 with collectives at {LATE_AND_SHORT} returned {show(got)}, expected "
        f"{show(want)} (ns of a window of 2,800): what another rank did not record lies outside of it",
    )
    for lacks in ({1: (2, 0)}, {0: (2, 1), 2: (0, 3)}):
        judge_time(stub, draw_run(draw, random.Random(seed + 5), steps=9, lacks=lacks))


@task("nsys_ex04.device_time")
def test_two_collectives_at_once(stub, draw) -> None:
    timeline = draw()
    for rank, starts in enumerate(((1_000, 2_000), (1_100, 6_000))):
        timeline.nvtx(f"rank {rank}", 0, 10_000, process=rank + 1)
        timeline.kernel(0, 700, process=rank + 1)
        timeline.memset(700, 900, process=rank + 1)
        timeline.kernel(starts[0], 5_000, name=REDUCE, stream=8, process=rank + 1)
        timeline.kernel(starts[1], 9_000, name=REDUCE, stream=9, process=rank + 1)
    judge_time(stub, timeline.save())


# -- 5. who is late ---------------------------------------------------------------------------------------


def judge_blame(stub: Any, capture: str) -> None:
    want, got = blame(facts(capture)), stub.late_rank(capture)
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"late_rank({capture!r}) returned {show(got)}, expected a dict of: {', '.join(want)}",
    )
    why = {
        "rank": "The rank whose collectives take longest is the one that waits.",
        "waited_ns": "Waiting parts of all other ranks, in the collectives where it came last (ns).",
        "late_count": "Collectives in which its kernel started last.",
        "extra_work_ns": "Its work against the largest of the others (ns).",
        "extra_idle_ns": "Its idle time against the largest of the others (ns).",
        "cause": "It had more work than the others, or more idle time.",
    }
    for key, value in want.items():
        require(
            agree(got[key], value),
            f"late_rank({capture!r}): {key} is {show(got[key])}, expected {show(value)}. {why[key]}",
        )


@task("nsys_ex04.late_rank")
@recordings(*GRADED)
def test_late_rank_of_a_recording(stub, recording) -> None:
    judge_blame(stub, recording)


@task("nsys_ex04.late_rank")
def test_late_rank_of_drawn_runs(stub, draw, seed) -> None:
    judge_blame(stub, two_ranks(draw, work=(30_000, 70_000)))
    judge_blame(stub, two_ranks(draw, late=(25_000, 0)))
    judge_blame(stub, two_ranks(draw))  # at the same moment: the lowest number
    # as much more work as more idle time: rank 1 ends later, and its range is longer by both
    judge_blame(stub, two_ranks(draw, work=(40_000, 40_000), late=(0, 0)))
    # more work and more idle time, once more of the one and once of the other
    judge_blame(stub, two_ranks(draw, work=(40_000, 60_000), late=(0, 5_000)))
    judge_blame(stub, two_ranks(draw, work=(40_000, 45_000), late=(0, 20_000)))
    for nth in range(3):
        judge_blame(stub, draw_run(draw, random.Random(seed + 5 + nth), ranks=3 + nth))


@task("nsys_ex04.late_rank")
def test_one_long_wait_outweighs_many_short_ones(stub, draw) -> None:
    """Rank 1 is last three times of four: twice by 10 ns, once of a rank that waited for 400 ns and gave up."""
    timeline = draw()
    for rank, spans in enumerate(
        (
            ((1_000, 1_100), (2_000, 2_100), (9_000, 9_500), (10_000, 10_400)),
            ((1_010, 1_100), (2_010, 2_100), (3_000, 9_500), (19_000, 19_400)),
        )
    ):
        timeline.nvtx(f"rank {rank}", 0, 20_000, process=rank + 1)
        timeline.kernel(100, 700 + 100 * rank, process=rank + 1)
        for start, end in spans:
            timeline.kernel(start, end, name=REDUCE, stream=8, process=rank + 1)
    judge_blame(stub, timeline.save())


@task("nsys_ex04.late_rank")
def test_one_rank_waits_for_nobody(stub, draw) -> None:
    timeline = draw()
    timeline.nvtx("rank 0", 0, 9_000)
    timeline.kernel(100, 900, name=REDUCE)
    with stub.raises(CaptureError, why="there is only one rank"):
        stub.late_rank(timeline.save())


# -- 6. the verdict ---------------------------------------------------------------------------------------

FLOOR, BORDERLINE = 0.10, 0.02


def judge_verdict(stub: Any, capture: str, called: str = "") -> None:
    ranks = facts(capture)
    time, (low, high) = shares(ranks), window(ranks)
    own = {rank: row["work_ns"] + row["idle_ns"] for rank, row in time.items()}
    whole_ns = math.floor(max(own.values()) - Fraction(sum(own.values()), len(own)))
    turns_ns = sum(row["exposed_wait_ns"] for row in time.values()) // len(time)
    savings = {
        "communication_bound": min(
            min(row["exposed_transfer_ns"], row["work_ns"] - row["hidden_ns"])
            for row in time.values()
        ),
        "rank_imbalance": max(whole_ns, turns_ns),
    }
    exposed = {rank: row["exposed_transfer_ns"] for rank, row in time.items()}
    waiting_wins = savings["rank_imbalance"] > savings["communication_bound"]
    saved = max(savings.values())
    ratio = saved / (high - low)
    category = "rank_imbalance" if waiting_wins else "communication_bound"
    category = "healthy" if ratio < FLOOR else category
    if category == "rank_imbalance":
        subject = blame(ranks)["rank"]
    else:
        subject = min(rank for rank in exposed if exposed[rank] == max(exposed.values()))
    call = f"name_multi_gpu_bottleneck({capture!r})"
    got = stub.name_multi_gpu_bottleneck(capture)
    sharing = (
        "(the larger of the two savings, against the whole window; sharing evenly saves what a rank's own time "
        "is above the mean, or the mean waiting where that is more)"
    )
    evidence = {
        "recoverable_ns": saved,
        "window_ns": high - low,
        "recoverable_ratio": ratio,
        "margin_ratio": ratio - FLOOR,
        "left_out_count": sum(map(len, left_out(ranks))),
    }
    judge_finding(
        *(call, got, category, f"rank:{subject}", evidence),
        "that is not what saves most. Exposed transfer that could hide: "
        f"{savings['communication_bound']} ns; mean exposed waiting: {turns_ns} ns; the ranks' own times: "
        f"{own} ns, the largest above their mean by {whole_ns} ns; "
        f"window: {high - low} ns; floor: {FLOOR:.0%}",
        why=dict.fromkeys(evidence, sharing)
        | {
            "left_out_count": "The collectives at the beginning and the end that another rank lacks, of all ranks together"
        },
        about=f"the rank {'that is late' if waiting_wins else 'whose transfer is exposed most'}: exposed "
        f"transfer {exposed} ns, waited for {show(blame(ranks))}",
        rel=1e-9,
        others=True,
    )
    margin = f"its margin is {ratio - FLOOR:+.3f}, and borderline is up to {BORDERLINE}"
    judge_recommendation(call, got, margin, borderline=abs(ratio - FLOOR) <= BORDERLINE)


@task("nsys_ex04.name_multi_gpu_bottleneck")
@recordings(*GRADED)
def test_verdict_on_a_recording(stub, recording) -> None:
    judge_verdict(stub, recording)


@task("nsys_ex04.name_multi_gpu_bottleneck")
def test_verdict_on_drawn_runs(stub, draw, seed) -> None:
    rng = random.Random(seed + 9)
    judge_verdict(stub, draw_run(draw, rng))
    judge_verdict(stub, two_ranks(draw, work=(20_000, 70_000)))
    judge_verdict(stub, two_ranks(draw, late=(rng.randint(30_000, 38_000), 0)))
    covered = draw()  # most of the work hides something already
    for rank in (0, 1):
        covered.nvtx(f"rank {rank}", 0, 100_000, process=rank + 1)
        covered.kernel(0, 30_000, process=rank + 1)
        covered.kernel(10_000, 90_000, name=REDUCE, stream=9, process=rank + 1)
    judge_verdict(stub, covered.save())
    slow = (
        draw()
    )  # a transfer that goes slowly while the other rank works: no waiting, and yet uneven
    for rank, work in ((0, 30_000), (1, 80_000), (2, 50_000)):
        slow.nvtx(f"rank {rank}", 0, 100_000, process=rank + 1)
        slow.kernel(0, work, process=rank + 1, device=rank)
        slow.kernel(30_000, 90_000, name=REDUCE, stream=9, process=rank + 1, device=rank)
    judge_verdict(stub, slow.save())
    turns = draw()  # each rank is late once, by as much
    for rank, arrivals in ((0, (30_000, 85_000)), (1, (50_000, 65_000))):
        turns.nvtx(f"rank {rank}", 0, 90_000, process=rank + 1)
        for start, arrived, end in ((0, arrivals[0], 55_000), (55_000, arrivals[1], 90_000)):
            turns.kernel(start, arrived, process=rank + 1, device=rank)
            turns.kernel(arrived, end, name=REDUCE, stream=9, process=rank + 1, device=rank)
    judge_verdict(stub, turns.save())
    for lacks in ({1: (2, 0)}, {0: (2, 1), 2: (0, 3)}):
        judge_verdict(stub, draw_run(draw, rng, steps=9, lacks=lacks))
    # more transfer than there is work to hide it behind
    judge_verdict(stub, two_ranks(draw, work=(15_000, 14_000), transfer=60_000))


@pytest.mark.parametrize(
    ("transfer", "wait"),
    [(9_000, 0), (10_000, 0), (12_000, 0), (12_100, 0), (7_900, 0), (8_000, 0), (6_000, 26_000),
     (11_000, 22_000), (11_000, 21_998), (11_000, 22_002), (4_000, 16_000), (6_000, 20_000)],
)  # fmt: skip
@task("nsys_ex04.name_multi_gpu_bottleneck")
def test_verdict_at_the_floor(stub, draw, transfer, wait) -> None:
    judge_verdict(stub, two_ranks(draw, work=(40_000, 40_000 + wait), transfer=transfer))
