"""Checks of `advanced_ex06`: recorded and drawn threads, counted edge by edge."""

from __future__ import annotations

import random
import re
import sqlite3
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from grading.checks import task
from grading.checks.assertions import (
    agree,
    judge,
    judge_finding,
    judge_recommendation,
    require,
    show,
)
from grading.checks.fixtures import recordings
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import EmptyCapture

WAITS = recordings("waits_inline", "waits_paced", "waits_free", "waits_locked")
PROCESS = (1 << 48) + (1_001 << 24)
KINDS = re.compile(
    "(?P<lock>pthread_(mutex|cond|rwlock|join)|sem_|futex)"
    "|(?P<sleep>sched_yield|u?sleep|(clock_)?nanosleep)"
    "|(?P<poll>p?(poll|select)|epoll_)"
    "|(?P<memory>m(un|re)?map|mprotect|madvise|s?brk)"
    "|(?P<io>p?(read|write)|f?(open|close|sync)|f(read|write|gets|flush|datasync|cntl)|send|recv|accept|connect)"
)


def kind_of(name: str) -> str:
    """The class of a call, by a rule of the check's own: what its name begins with."""
    found = KINDS.match(name)
    kinds = found.groupdict() if found else {}
    return next((kind for kind, text in kinds.items() if text), "other")


class Threads:
    """What is true of a recording, from its tables."""

    def __init__(self, capture: str) -> None:
        file = captures.path(capture).resolve()
        connection = sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)
        try:
            known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
            for table, means in (("OSRT_API", "osrt"), ("CUPTI_ACTIVITY_KIND_KERNEL", "cuda")):
                if table not in known:
                    raise NotGraded(
                        "not run", f"{Path(capture).name} has no table {table} (--trace={means})"
                    )
            rows = connection.execute(
                'SELECT globalTid & 16777215, start, "end", value FROM OSRT_API JOIN StringIds'
                " ON id = nameId WHERE value <> '[Unknown]'"
            ).fetchall()
            self.device = []
            for kind in ("KERNEL", "MEMCPY", "MEMSET"):
                if f"CUPTI_ACTIVITY_KIND_{kind}" in known:
                    query = f'SELECT start, "end" FROM CUPTI_ACTIVITY_KIND_{kind}'
                    self.device += connection.execute(query).fetchall()
            launches = connection.execute(
                "SELECT globalTid & 16777215, count(*) FROM CUPTI_ACTIVITY_KIND_KERNEL k JOIN"
                " CUPTI_ACTIVITY_KIND_RUNTIME r ON k.correlationId = r.correlationId"
                " AND k.globalPid = r.globalTid - (r.globalTid & 16777215)"
                " GROUP BY 1 ORDER BY 2 DESC, 1"
            ).fetchall()
        finally:
            connection.close()
        if not launches or not rows:
            what = "calls of the OS" if launches else "kernel with the call that launched it"
            raise NotGraded("not run", f"{Path(capture).name} has no {what}")
        self.launching = launches[0][0]
        self.first = min(start for start, _ in self.device)
        self.last = max(end for _, end in self.device)
        by_thread = defaultdict(list)
        for thread, start, end, name in rows:
            by_thread[thread].append((start, end, name))
        self.calls = {
            thread: [
                (start, end, name)
                for start, end, name in found
                if not any(a <= start and end <= b and (a, b) != (start, end) for a, b, _ in found)
            ]
            for thread, found in by_thread.items()
        }
        edges = sorted({edge for pair in self.device for edge in pair})
        self.idle_parts = []
        sorted_device = sorted(self.device)
        reach = sorted_device[0][1]
        for start, end in sorted_device:
            if start > reach:
                self.idle_parts.append((reach, start))
            reach = max(reach, end)
        require(bool(edges), f"{capture}: nothing on the device")

    def classes(self) -> dict[int, dict[str, int]]:
        found: dict[int, Counter] = defaultdict(Counter)
        for thread, calls in self.calls.items():
            for start, end, name in calls:
                if end > start:
                    found[thread][kind_of(name)] += end - start
        return {thread: dict(classes) for thread, classes in found.items()}

    def waits(self) -> list[tuple[int, int, str]]:
        clipped = [
            (max(start, self.first), min(end, self.last), name)
            for start, end, name in self.calls.get(self.launching, [])
            if kind_of(name) in ("io", "lock", "sleep", "poll")
        ]
        return [wait for wait in clipped if wait[0] < wait[1]]

    def rows(self) -> list[dict[str, Any]]:
        names = {name for _, _, name in self.waits()}
        rows = [
            {
                "name": name,
                "class": kind_of(name),
                "count": sum(other == name for _, _, other in self.waits()),
                "blocked_ns": sum(b - a for a, b, other in self.waits() if other == name),
                "idle_ns": sum(
                    self.common(self.idle_parts, [(a, b)])
                    for a, b, other in self.waits()
                    if other == name
                ),
            }
            for name in names
        ]
        return sorted(rows, key=lambda row: (-row["idle_ns"], row["name"]))

    @staticmethod
    def common(some: list, others: list) -> int:
        return sum(max(0, min(b, d) - max(a, c)) for a, b in some for c, d in others)

    def holder(self) -> dict[str, Any]:
        locked = [(a, b) for a, b, name in self.waits() if kind_of(name) == "lock"]
        beside = {}
        for thread, calls in self.calls.items():
            for name in {name for _, _, name in calls}:
                if thread != self.launching and kind_of(name) not in ("lock", "poll"):
                    own = [(a, b) for a, b, other in calls if other == name]
                    beside[-self.common(own, locked), thread, name] = True
        overlap, thread, name = min(beside, default=(0, None, None))
        if not overlap:
            thread = name = None
        return {
            "lock_wait_ns": sum(b - a for a, b in locked),
            "thread": thread,
            "name": name,
            "overlap_ns": -overlap,
        }


_known: dict[str, Threads] = {}


def truth(capture: str) -> Threads:
    """What is true of a capture; that of a recorded one is kept."""
    if capture in _known:
        return _known[capture]
    found = Threads(capture)
    if capture in captures.names():
        _known[capture] = found
    return found


def os_call(
    timeline: Any, name: str, start: int, end: int, thread: int = 1, nested: int = 0
) -> None:
    """Draw a call of the OS."""
    row = {"start": start, "end": end, "eventClass": 27, "globalTid": PROCESS + thread}
    timeline._add("OSRT_API", nameId=timeline._string(name), nestingLevel=nested, **row)


def drawn_threads(draw: Any, seed: int, longest: int = 900) -> str:
    """A loop that launches and waits, a writer that waits for the disk, and a service thread."""
    chance = random.Random(f"threads {seed} {longest}")
    timeline, at = draw(), 2_000_000
    os_call(timeline, "[Unknown]", at - 900_000, at - 900_000)
    os_call(timeline, "[Unknown]", at - 900_000, at - 700_000, thread=9)
    # Another thread launches first, and calls CUDA most often.
    timeline.kernel(at - 7_000, at - 1_000, call=(at - 60_000, at - 50_000), thread=5)
    for moment in range(at - 40_000, at - 8_000, 1_000):
        timeline.api("cudaEventQuery_v3020", moment, moment + 100, thread=5)
    for _ in range(chance.randrange(4, 7)):
        busy = chance.randrange(300, 500) * 1_000
        timeline.kernel(at + 9_000, at + busy, call=(at, at + 6_000))
        timeline.kernel(at + 12_000, at + busy - 9_000, stream=8, call=(at + 7_000, at + 8_000))
        sync = chance.randrange(10, 60) * 1_000
        locked = chance.randrange(longest // 3, longest + 1) * 1_000
        os_call(timeline, "mmap64", at + 8_100, at + 9_100)
        os_call(timeline, "ioctl", at + 10_000, at + 10_000 + sync)
        lock_at = at + busy - 40_000
        name = chance.choice(("sem_wait", "pthread_cond_wait"))
        os_call(timeline, name, lock_at, lock_at + locked)
        os_call(timeline, "futex", lock_at + 2_000, lock_at + locked - 2_000, nested=1)
        os_call(timeline, "fsync", lock_at - 30_000, lock_at + locked - 5_000, thread=3)
        os_call(timeline, "write", lock_at - 20_000, lock_at + locked - 9_000, thread=3, nested=1)
        os_call(timeline, "clock_nanosleep", lock_at, lock_at + locked // 3, thread=4)
        for other in (6, 8):  # together longer in one kind of call than the one thread in its own
            os_call(timeline, "read", lock_at + 5_000, lock_at + locked * 2 // 3, thread=other)
        at = lock_at + locked + 15_000
        pause = chance.randrange(5, 20) * 1_000
        os_call(timeline, "clock_nanosleep", at - 12_000, at - 12_000 + pause)
        at += pause
    os_call(timeline, "poll", 1_000, at + 500_000, thread=2)
    os_call(timeline, "read", 5_000, 5_000, thread=7)
    timeline.kernel(at, at + 20_000, call=(at - 3_000, at - 1_000), thread=5)
    timeline.copy(at + 21_000, at + 23_000, "D2H")
    os_call(timeline, "pthread_cond_wait", at + 10_000, at + 900_000)
    return timeline.save()


# -- time_by_class ------------------------------------------------------------------------------------


def judge_classes(stub: Any, capture: str) -> None:
    want = truth(capture).classes()
    got = stub.time_by_class(capture)
    call = f"time_by_class({capture!r})"
    keys = sorted(got) if isinstance(got, dict) else got
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned threads {show(keys)}, expected {sorted(want)}: those with outermost calls",
    )
    for thread, classes in want.items():
        require(
            agree(got[thread], classes),
            f"{call}: thread {thread} has {show(got[thread])}, expected {show(classes)} (ns). A call "
            "inside another call of the same thread is part of that call and counts once, with it",
        )


@task("advanced_ex06.time_by_class")
@WAITS
def test_classes_of_a_recording(stub: Any, recording: str) -> None:
    judge_classes(stub, recording)


@task("advanced_ex06.time_by_class")
def test_classes_of_drawn_threads(stub: Any, draw: Any, seed: int) -> None:
    judge_classes(stub, drawn_threads(draw, seed))


@task("advanced_ex06.time_by_class")
def test_a_recording_without_os_calls(stub: Any, draw: Any) -> None:
    timeline = draw()
    timeline.kernel(10, 20, call=(1, 5))
    path = timeline.save()
    with stub.raises(EmptyCapture, "osrt", why="nobody traced the OS there"):
        stub.time_by_class(path)


# -- threshold_for ------------------------------------------------------------------------------------


def judge_threshold(stub: Any, durations: list[int], loss: float) -> None:
    total = sum(durations)
    right = [
        limit
        for limit in set(durations)
        if sum(duration for duration in durations if duration < limit) <= loss * total
    ]
    limit = max(right)
    want = {
        "threshold_ns": limit,
        "kept_count": sum(duration >= limit for duration in durations),
        "lost_ratio": sum(duration for duration in durations if duration < limit) / total,
    }
    why = {
        "threshold_ns": "It is the largest duration below which at most that share of the time lies.",
        "kept_count": "Calls that are exactly as long as the threshold are kept.",
    }
    got = stub.threshold_for(durations, loss)
    if isinstance(got, dict) and type(got.get("lost_ratio")) is int:
        got = got | {"lost_ratio": float(got["lost_ratio"])}
    judge(f"threshold_for({show(durations)}, {loss})", got, want, "ns, calls, a ratio", why)


@task("advanced_ex06.threshold_for")
def test_threshold_of_made_up_calls(stub: Any, seed: int) -> None:
    chance = random.Random(f"threshold {seed}")
    for loss in (0, 0.01, 0.2, 0.9):
        durations = [int(chance.expovariate(1 / 40_000)) + 1_000 for _ in range(60)]
        durations += [2_000_000, 2_000_000, 1_000, 1_000]
        chance.shuffle(durations)
        judge_threshold(stub, durations, loss)
    judge_threshold(stub, [10, 10, 20], 0.5)
    judge_threshold(stub, [1, 1, 2], 0.5)
    judge_threshold(stub, [5], 0)
    for wrong in (([], 0.1), ([1, 0], 0.1), ([1], 1), ([1], -0.1)):
        with stub.raises(ValueError, why="no threshold follows from these"):
            stub.threshold_for(*wrong)


@task("advanced_ex06.threshold_for")
@WAITS
def test_threshold_for_a_recording(stub: Any, recording: str) -> None:
    truth(recording)
    with captures.open(recording) as capture:
        durations = [d for d in capture.os_calls["duration_ns"].to_list() if d > 0]
    for loss in (0.001, 0.05):
        judge_threshold(stub, durations, loss)


# -- costly_waits -------------------------------------------------------------------------------------


def judge_waits(stub: Any, capture: str) -> None:
    want = truth(capture).rows()
    got = stub.costly_waits(capture)
    call = f"costly_waits({capture!r})"
    require(
        isinstance(got, list | tuple) and len(got) == len(want),
        f"{call} returned {show(got)}, expected {len(want)} rows: {[row['name'] for row in want]}, the "
        "names of the launching thread's own waits inside the window",
    )
    for mine, right in zip(got, want, strict=True):
        require(
            agree(mine, right),
            f"{call} has the row {show(mine)}, expected {show(right)} (ns). Blocked counts inside the "
            "window only; idle is the part of it in which nothing runs on the device, on any stream",
        )


@task("advanced_ex06.costly_waits")
@WAITS
def test_waits_of_a_recording(stub: Any, recording: str) -> None:
    judge_waits(stub, recording)


@task("advanced_ex06.costly_waits")
def test_waits_of_drawn_threads(stub: Any, draw: Any, seed: int) -> None:
    judge_waits(stub, drawn_threads(draw, seed))
    timeline = draw()
    timeline.kernel(100, 200, call=(50, 60))
    os_call(timeline, "poll", 70, 100)  # all of it before the window
    judge_waits(stub, timeline.save())
    timeline = draw()
    timeline.kernel(100, 200)
    os_call(timeline, "poll", 50, 300)
    path = timeline.save()
    with stub.raises(EmptyCapture, why="no call in the recording launched the kernel"):
        stub.costly_waits(path)


# -- holder -------------------------------------------------------------------------------------------


def judge_holder(stub: Any, capture: str) -> dict[str, Any]:
    want = truth(capture).holder()
    why = {
        "lock_wait_ns": "The launching thread's outermost lock calls, their parts inside the window.",
        "thread": "Leave out threads that poll or wait for a lock themselves. Two threads in calls of the "
        "same name stay separate.",
        "name": "Of nested calls the outer one counts.",
        "overlap_ns": "It is the time of that thread in that call inside the lock waits.",
    }
    judge(f"holder({capture!r})", stub.holder(capture), want, "ns, ids, names", why)
    return want


@task("advanced_ex06.holder")
@WAITS
def test_holder_of_a_recording(stub: Any, recording: str) -> None:
    judge_holder(stub, recording)


@task("advanced_ex06.holder")
def test_holder_of_drawn_threads(stub: Any, draw: Any, seed: int) -> None:
    found = judge_holder(stub, drawn_threads(draw, seed))
    require(found["name"] == "fsync", "the check drew no holder: tell the authors")
    timeline = draw()
    timeline.kernel(100, 200, call=(50, 60))
    timeline.kernel(900, 1_000, call=(850, 860))
    os_call(timeline, "sem_wait", 300, 800)
    os_call(timeline, "poll", 100, 900, thread=2)
    os_call(timeline, "fsync", 1_200, 1_900, thread=3)
    judge_holder(stub, timeline.save())
    os_call(timeline, "write", 100, 301, thread=4)
    judge_holder(stub, timeline.save())
    os_call(timeline, "read", 302, 400, thread=4)
    os_call(timeline, "fsync", 700, 1_100, thread=3)
    judge_holder(stub, timeline.save())


# -- os_verdict ---------------------------------------------------------------------------------------


def judge_verdict(stub: Any, capture: str, floor: float | None = None) -> str:
    given = () if floor is None else (floor,)
    threads = truth(capture)
    got = stub.os_verdict(capture, *given)
    call = f"os_verdict({capture!r}{'' if floor is None else f', {floor}'})"
    rows = threads.rows()
    idle = {
        f"{kind}_ns": sum(row["idle_ns"] for row in rows if row["class"] == kind)
        for kind in ("io", "lock", "sleep", "poll")
    }
    saved, window = sum(idle.values()), threads.last - threads.first
    evidence = {"recoverable_ns": saved, "window_ns": window, **idle}
    evidence["held_ns"] = threads.holder()["overlap_ns"]
    why = {
        "recoverable_ns": "Only waits of the launching thread with an idle device cost the window."
    }
    want = "healthy" if saved < (floor or 0.05) * window else "host_bound"
    facts = (
        f"{saved:,} ns of {window:,} ns ({saved / window:.1%}) the device idles while its launching thread "
        "waits for the OS"
    )
    judge_finding(call, got, want, "device:0", evidence, facts, why=why)
    names = (rows[0]["name"] if rows else "", "the call with the most idle time")
    judge_recommendation(call, got, facts, names=names)
    return want


@task("advanced_ex06.os_verdict")
@WAITS
def test_verdict_on_a_recording(stub: Any, recording: str) -> None:
    judge_verdict(stub, recording)


@task("advanced_ex06.os_verdict")
def test_verdict_on_drawn_threads(stub: Any, draw: Any, seed: int) -> None:
    sick = drawn_threads(draw, seed)
    require(judge_verdict(stub, sick) == "host_bound", "the check drew no such loop")
    judge_verdict(stub, sick, 0.95)
    timeline = draw()  # what is saved is just the floor
    timeline.kernel(1_000_000, 1_000_100, call=(999_000, 999_500))
    os_call(timeline, "sem_wait", 1_000_100, 1_000_200)
    timeline.kernel(1_000_200, 1_001_000)
    judge_verdict(stub, timeline.save(), 0.1)
    timeline = draw()  # the longest wait is beside a busy device
    timeline.kernel(1_000_000, 1_010_000, call=(999_000, 999_500))
    os_call(timeline, "poll", 1_000_100, 1_009_000)
    os_call(timeline, "fsync", 1_010_000, 1_012_000)
    timeline.kernel(1_012_000, 1_013_000)
    judge_verdict(stub, timeline.save())
    require(
        judge_verdict(stub, drawn_threads(draw, seed, 44)) == "healthy",
        "the check drew no such loop",
    )
    for wrong in (0, 1):
        with stub.raises(ValueError, why="a share of the window lies between"):
            stub.os_verdict(sick, wrong)
