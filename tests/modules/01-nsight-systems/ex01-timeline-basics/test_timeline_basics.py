"""Checks of `nsys_ex01`: recorded, generated and drawn timelines, counted again interval by interval."""

from __future__ import annotations

import functools
import itertools
import random
import statistics
from collections import Counter
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import (
    agree,
    judge,
    judge_finding,
    judge_recommendation,
    require,
    show,
)
from grading.checks.fixtures import recordings, repeat_hint
from grading.checks.generate import truth
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture

US = 1_000


# -- what the checks count with ------------------------------------------------------------------------


def rows(frame: Any) -> list[dict[str, Any]]:
    return frame.rows(named=True)


def operations_with_calls(capture: str) -> list[tuple[dict, dict | None]]:
    """Device operations, each with its launching call."""
    recording = captures.open(capture)
    calls = {(c["process"], c["correlation"]): c for c in reversed(rows(recording.api_calls))}
    return [
        (o, calls.get((o["process"], o["correlation"]))) for o in rows(recording.device_operations)
    ]


def inside(moment: int, interval: dict) -> bool:
    return moment in range(interval["start_ns"], interval["end_ns"])


def same_thread(one: dict, other: dict) -> bool:
    return (one["process"], one["thread"]) == (other["process"], other["thread"])


def innermost(capture: str, call: dict | None) -> str:
    """The name of the shortest open range around the start of a call."""
    if call is None:
        return ""
    open_ranges = [
        r
        for r in rows(captures.open(capture).nvtx_ranges)
        if same_thread(r, call) and inside(call["start_ns"], r)
    ]
    return open_ranges[-1]["name"] if open_ranges else ""  # rows: by start, outer before inner


def a_range(capture: str) -> str:
    """ "step" if there are such ranges, else the name that most ranges bear."""
    names = Counter(captures.open(capture).nvtx_ranges["name"].to_list())
    if max(names.values(), default=0) < 3:
        raise NotGraded("not run", f"{capture} has no NVTX range that occurs three times")
    return "step" if "step" in names else max(sorted(names), key=names.__getitem__)


# -- work_per_range ------------------------------------------------------------------------------------


def judge_work(stub: Any, capture: str, shown: str = "") -> None:
    want: dict[str, dict[str, int]] = {}
    by_own_time: dict[str, int] = {}
    for operation, call in operations_with_calls(capture):
        entry = want.setdefault(innermost(capture, call), {"operations_count": 0, "device_ns": 0})
        entry["operations_count"] += 1
        entry["device_ns"] += operation["duration_ns"]
        by_own_time.setdefault(operation["kind"], 0)
    call_text = f"work_per_range({shown or capture!r}){repeat_hint(capture)}"
    got = stub.work_per_range(capture)
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call_text} returned the names {show(sorted(got) if isinstance(got, dict) else got)}, expected "
        f"{show(sorted(want))}: those ranges from within which work was launched, and the empty name for "
        "work that was launched outside of all of them",
    )
    for name, entry in want.items():
        judge(
            f"{call_text}[{name!r}]",
            got[name],
            entry,
            "operations, and ns",
            {
                "operations_count": "The launching call decides, not the time at which the operation "
                "ran: a kernel may run long after the range that launched it has closed.",
                "device_ns": "It is the sum of the durations of the operations counted.",
            },
        )


@task("nsys_ex01.work_per_range")
@recordings("nsys_baseline", "alloc_every_step", "decode_graph")
def test_recorded_work_of_ranges(stub: Any, recording: str) -> None:
    judge_work(stub, recording)


@task("nsys_ex01.work_per_range")
@pytest.mark.parametrize("scenario", ["sync_bound", "two_processes_same_correlation"])
def test_generated_work_of_ranges(stub: Any, generated: Any, scenario: str) -> None:
    judge_work(stub, str(generated(scenario).path))


@task("nsys_ex01.work_per_range")
def test_who_launched_it(stub: Any, draw: Any) -> None:
    """Nested ranges, other threads and processes, work that runs late, and work of nobody."""
    timeline = draw()
    timeline.nvtx("step", 10_000, 50_000)
    timeline.nvtx("inner", 20_000, 30_000)
    timeline.nvtx("later", 60_000, 90_000)
    timeline.nvtx("other", 15_000, 40_000, thread=2)
    timeline.kernel(61_000, 64_000, call=(20_000, 21_000))  # runs when "later" is open
    timeline.copy(65_000, 70_000, call=(30_000, 31_000))  # "inner" has just closed
    timeline.memset(71_000, 72_000, call=(25_000, 26_000), thread=2)
    timeline.graph(80_000, 88_000, call=(62_000, 63_000))
    timeline.kernel(90_000, 97_000, call=(95_000, 96_000))  # outside of all
    timeline.kernel(98_000, 99_000)  # its call was not recorded
    timeline.kernel(22_000, 22_500, call=(21_500, 22_000), process=2, correlation=1)
    judge_work(stub, timeline.save(), "a drawn capture")


@task("nsys_ex01.work_per_range")
def test_ranges_that_start_together(stub: Any, draw: Any) -> None:
    timeline = draw()
    timeline.nvtx("outer", 10_000, 50_000)
    timeline.nvtx("inner", 10_000, 20_000)
    timeline.kernel(61_000, 64_000, call=(12_000, 13_000))
    judge_work(stub, timeline.save(), "a drawn capture")


# -- first_iteration_cost ------------------------------------------------------------------------------


def iteration_ends(capture: str, name: str) -> tuple[int, list[int]]:
    """The start of the first range, and when each iteration is over."""
    ranges = [r for r in rows(captures.open(capture).nvtx_ranges) if r["name"] == name]
    ends, reached = [], ranges[0]["start_ns"]
    pairs = [(o, c) for o, c in operations_with_calls(capture) if c is not None]
    for iteration in ranges:
        own = [
            o["end_ns"]
            for o, c in pairs
            if same_thread(c, iteration) and inside(c["start_ns"], iteration)
        ]
        reached = max([reached, *own])
        ends.append(reached)
    return ranges[0]["start_ns"], ends


def judge_first(stub: Any, capture: str, name: str, shown: str = "") -> None:
    start, ends = iteration_ends(capture, name)
    others = [b - a for a, b in itertools.pairwise(ends)]
    steady = statistics.median(others)
    first = ends[0] - start
    want = {
        "first_ns": float(first),
        "steady_ns": float(steady),
        "excess_ns": float(first - steady),
        "steady_start_ns": float(ends[0]),
    }
    judge(
        f"first_iteration_cost({shown or capture!r}, {name!r}){repeat_hint(capture)}",
        stub.first_iteration_cost(capture, name),
        want,
        "ns",
        {
            "first_ns": "From the start of its range on the host to the end of the last operation that "
            "it launched: a range closes when work is issued, not when it is done.",
            "steady_ns": "The median of the iterations but the first, each from the end of the one "
            "before; one slow iteration would change a mean.",
            "steady_start_ns": "The first iteration ends with the last operation that it launched.",
        },
    )


@task("nsys_ex01.first_iteration_cost")
@recordings("nsys_baseline", "nsys_improved", "training_async")
def test_recorded_first_iteration(stub: Any, recording: str) -> None:
    judge_first(stub, recording, a_range(recording))


@task("nsys_ex01.first_iteration_cost")
@pytest.mark.parametrize("scenario", ["healthy", "host_bound"])
def test_generated_first_iteration(stub: Any, generated: Any, scenario: str) -> None:
    judge_first(stub, str(generated(scenario).path), "step")


@task("nsys_ex01.first_iteration_cost")
def test_iterations_of_an_asynchronous_program(stub: Any, draw: Any) -> None:
    """The host issues five steps at once; one launches nothing, one overtakes on another stream."""
    timeline = draw()
    for i, (start, end, stream) in enumerate(
        [(20_000, 31_000, 7), (31_000, 90_000, 7), (40_000, 50_000, 9), (95_000, 99_000, 7)]
    ):
        low = 1_000 + 2_000 * i
        timeline.nvtx("step", low, low + 1_500)
        timeline.nvtx("inner", low + 100, low + 1_000)
        timeline.kernel(start, end, stream=stream, call=(low + 200, low + 300))
        timeline.kernel(start - 9_000, start, stream=11, call=(low + 400, low + 500), thread=2)
    timeline.nvtx("step", 12_000, 13_000)
    timeline.kernel(2_000, 3_000, stream=12)  # its call was not recorded
    timeline.kernel(100_000, 200_000, stream=13, call=(1_300, 1_400), thread=2)  # not of the steps
    judge_first(stub, timeline.save(), "step", "a drawn capture")


@task("nsys_ex01.first_iteration_cost")
def test_a_first_iteration_that_launches_nothing(stub: Any, draw: Any) -> None:
    timeline = draw()
    for start in (1_000, 3_000, 5_000, 8_000):
        timeline.nvtx("step", start, start + 900)
    timeline.kernel(500, 900, call=(100, 200))  # before all steps
    timeline.kernel(3_400, 4_000, call=(3_100, 3_200))
    timeline.kernel(8_400, 9_000, call=(8_100, 8_200))
    judge_first(stub, timeline.save(), "step", "a first and a third range without work")


@task("nsys_ex01.first_iteration_cost")
def test_no_first_iteration(stub: Any, draw: Any) -> None:
    timeline = draw()
    timeline.nvtx("step", 1_000, 2_000)
    timeline.nvtx("step", 3_000, 4_000)
    timeline.kernel(1_500, 1_700, call=(1_100, 1_200))
    capture = timeline.save()
    with stub.raises(CaptureError, "phase", "no range has that name"):
        stub.first_iteration_cost(capture, "phase")
    with stub.raises(ValueError, "2", "of two iterations only one is left, and one has no median"):
        stub.first_iteration_cost(capture, "step")
    timeline.nvtx("step", 5_000, 6_000)
    judge_first(stub, timeline.save(), "step", "three ranges")


# -- utilization_series --------------------------------------------------------------------------------


def judge_series(stub: Any, capture: str, period: int, shown: str = "") -> None:
    operations = rows(captures.open(capture).device_operations)
    start = min(o["start_ns"] for o in operations)
    end = max(o["end_ns"] for o in operations)
    call = f"utilization_series({shown or capture!r}, {period}){repeat_hint(capture)}"
    got = stub.utilization_series(capture, period)
    devices = sorted({o["device"] for o in operations})
    require(
        isinstance(got, dict) and sorted(got) == devices,
        f"{call} returned the devices {show(sorted(got) if isinstance(got, dict) else got)}, expected "
        f"{devices}: every one that an operation ran on",
    )
    count = -(-(end - start) // period)
    for device in devices:
        kernels = [
            (o["start_ns"], o["end_ns"])
            for o in operations
            if o["device"] == device and o["kind"] in ("kernel", "graph")
        ]
        require(
            isinstance(got[device], list) and len(got[device]) == count,
            f"{call}[{device}] has {len(got[device])} periods, expected {count}: the first begins with "
            "the first operation on any device, the last ends with the last",
        )
        for i, entry in enumerate(got[device]):
            low = start + i * period
            window = low, min(low + period, end)
            length = window[1] - window[0]
            summed = sum(
                (b - a) * running[""] for a, b, running in truth.segments({"": kernels}, window)
            )
            want = {
                "start_ns": low,
                "utilization_ratio": truth.covered_ns(kernels, window) / length,
                "summed_ratio": summed / length,
            }
            judge(
                f"{call}[{device}][{i}]",
                entry,
                want,
                "ns, and shares of the period",
                {
                    "utilization_ratio": "It is the share of the period in which at least one kernel or "
                    "graph ran; copies do not count, and what runs at the same time counts once.",
                    "summed_ratio": "It adds the parts of all kernels and graphs inside the period.",
                },
            )


@task("nsys_ex01.utilization_series")
@recordings("two_streams", "decode_graph", "nsys_baseline")
def test_recorded_utilization(stub: Any, recording: str, seed: int) -> None:
    judge_series(stub, recording, random.Random(seed).randrange(300 * US, 3_000 * US))


@task("nsys_ex01.utilization_series")
@pytest.mark.parametrize("scenario", ["two_devices", "concurrent_kernels"])
def test_generated_utilization(stub: Any, generated: Any, seed: int, scenario: str) -> None:
    judge_series(
        stub, str(generated(scenario).path), random.Random(seed).randrange(99_000, 999_000)
    )


@task("nsys_ex01.utilization_series")
def test_a_long_kernel_and_a_copy(stub: Any, draw: Any) -> None:
    timeline = draw()
    timeline.copy(1_000, 3_000, device=2)
    timeline.kernel(2_000, 9_500, stream=7)
    timeline.kernel(2_500, 3_000, stream=8)
    timeline.graph(4_000, 5_000, stream=9)
    timeline.memset(9_500, 10_000)
    capture = timeline.save()
    judge_series(stub, capture, 2_000, "a drawn capture")
    judge_series(stub, capture, 9_000, "a drawn capture")
    for period in (0, -5):
        with stub.raises(ValueError, str(period), "a period must be longer than nothing"):
            stub.utilization_series(capture, period)
    judge_series(stub, capture, 1, "a drawn capture")


# -- idle_by_host --------------------------------------------------------------------------------------


def gaps_of(capture: str, device: int, start_ns: int) -> list[tuple[int, int, dict | None]]:
    """Start, end and launching call of each gap, found by counting what runs."""
    pairs = [(o, c) for o, c in operations_with_calls(capture) if o["device"] == device]
    if not pairs:
        return []
    spans = [(o["start_ns"], o["end_ns"]) for o, _ in pairs]
    window = min(a for a, _ in spans), max(b for _, b in spans)
    found = []
    for low, high in truth.uncovered(spans, window):
        if low >= start_ns:
            ending = [p for p in pairs if p[0]["start_ns"] == high]
            first = min(ending, key=lambda p: p[0]["correlation"])
            found.append((low, high, first[1]))
    return found


@functools.cache
def outer_calls(capture: str, process: int, thread: int) -> list[dict]:
    """The calls of a thread that lie in no other call."""
    found: list[dict] = []
    reached = 0
    for call in rows(captures.open(capture).api_calls):
        if (call["process"], call["thread"]) == (process, thread):
            if call["start_ns"] >= reached:
                found.append(call)
            reached = max(reached, call["end_ns"])
    return found


def calls_in(capture: str, launching: dict | None, low: int, high: int) -> list[dict]:
    """The outermost calls, in a stretch of time, of the thread that made a call."""
    if launching is None:
        return []
    calls = outer_calls(capture, launching["process"], launching["thread"])
    return [c for c in calls if c["end_ns"] > low and c["start_ns"] < high]


def was_queued(launching: dict | None, moment: int) -> bool:
    return launching is not None and launching["end_ns"] <= moment


def host_in_gaps(capture: str, device: int, start_ns: int) -> dict[str, Any]:
    during: Counter[str] = Counter()
    opened: Counter[str] = Counter()
    gaps = gaps_of(capture, device, start_ns)
    queued = [high - low for low, high, launching in gaps if was_queued(launching, low)]
    for low, high, launching in gaps:
        if was_queued(launching, low):
            continue
        left = high - low
        opener = ""
        for call in calls_in(capture, launching, low, high):
            part = truth.covered_ns([(call["start_ns"], call["end_ns"])], (low, high))
            during[call["name"]] += part
            left -= part
            if inside(low, call):
                opener = call["name"]
        during[""] += left
        opened[opener] += high - low
    return {
        "idle_ns": sum(high - low for low, high, _ in gaps),
        "queued_ns": sum(queued),
        "during": {k: v for k, v in during.items() if v},
        "opened_by": dict(opened),
    }


def judge_idle(stub: Any, capture: str, device: int, start_ns: int, shown: str = "") -> None:
    want = host_in_gaps(capture, device, start_ns)
    call = f"idle_by_host({shown or capture!r}, {device}, {start_ns}){repeat_hint(capture)}"
    got = stub.idle_by_host(capture, device, start_ns)
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(got)}, expected a dict of: {', '.join(want)}",
    )
    require(
        agree(got["idle_ns"], want["idle_ns"]),
        f"{call}: idle_ns is {show(got['idle_ns'])}, expected {want['idle_ns']} ns: the stretches between "
        "operations of this device in which none of them ran, on whatever stream",
    )
    require(
        agree(got["queued_ns"], want["queued_ns"]),
        f"{call}: queued_ns is {show(got['queued_ns'])}, expected {want['queued_ns']} ns: gaps that ended "
        "with an operation whose launching call was over when the gap began. The host was not late there",
    )
    reasons = {
        "during": "the thread that launched the operation which ends the gap was in these calls meanwhile",
        "opened_by": "what counts is where that thread was at the moment at which the gap began",
    }
    for key, why in reasons.items():
        for name in sorted({*want[key], *(got[key] if isinstance(got[key], dict) else ())}):
            mine = want[key].get(name, 0)
            theirs = got[key].get(name, 0) if isinstance(got[key], dict) else got[key]
            require(
                agree(theirs, mine) and (name in got[key]) == (name in want[key]),
                f"{call}: {key}[{name!r}] is {show(theirs)}, expected {mine} ns of idle time: {why}",
            )


@task("nsys_ex01.idle_by_host")
@recordings("nsys_baseline", "training_item", "alloc_every_step")
def test_recorded_idle(stub: Any, recording: str) -> None:
    start, end = captures.open(recording).span_ns
    judge_idle(stub, recording, 0, 0)
    judge_idle(stub, recording, 0, start + (end - start) // 3)


@task("nsys_ex01.idle_by_host")
@pytest.mark.parametrize("scenario", ["sync_bound", "two_devices", "nested_gaps"])
def test_generated_idle(stub: Any, generated: Any, scenario: str) -> None:
    capture = str(generated(scenario).path)
    judge_idle(stub, capture, max(generated(scenario).devices), 0)


@task("nsys_ex01.idle_by_host")
def test_the_gap_after_a_wait(stub: Any, draw: Any) -> None:
    """The wait ends just after the gap began; two threads, calls within calls, and two streams."""
    timeline = draw()
    timeline.kernel(10_000, 20_000, call=(5_000, 6_000))
    timeline.api("cudaDeviceSynchronize_v3020", 7_000, 21_000)
    for start, end in ((19_000, 21_500), (22_000, 29_000)):  # of a thread that was not late
        timeline.api("cudaHostAlloc_v3020", start, end, thread=2)
    timeline.kernel(50_000, 60_000, call=(45_000, 48_000))
    timeline.api("cudaMalloc_v3020", 30_000, 40_000)
    timeline.api("cuMemAlloc_v2", 31_000, 39_000)
    timeline.kernel(55_000, 70_000, stream=9, call=(52_000, 53_000), thread=2)
    timeline.api("cudaFree_v3020", 70_000, 71_000, thread=2)
    timeline.api("cudaEventQuery_v3020", 65_000, 70_000)
    timeline.copy(80_000, 85_000, call=(76_000, 82_000), thread=2)
    timeline.memset(80_000, 81_000, stream=3, call=(60_000, 64_000), correlation=99)
    timeline.kernel(90_000, 91_000)
    timeline.kernel(95_000, 96_000, call=(88_000, 91_000))  # its call ends as the gap begins
    timeline.api("cudaMalloc_v3020", 97_000, 98_000)
    timeline.api("cudaFree_v3020", 98_000, 99_000)  # begins as the one before it ends
    timeline.kernel(105_000, 106_000, call=(103_000, 104_000))
    timeline.kernel(7_000, 200_000, device=1, call=(6_500, 6_800))
    capture = timeline.save()
    for start_ns in (0, 20_000, 20_001, 70_000, 85_001):
        judge_idle(stub, capture, 0, start_ns, "a drawn capture")
    judge_idle(stub, capture, 1, 0, "a drawn capture")
    judge_idle_defaults(stub, capture)
    with stub.raises(EmptyCapture, "5", "nothing ran on device 5"):
        stub.idle_by_host(capture, 5)


def judge_idle_defaults(stub: Any, capture: str) -> None:
    got, want = stub.idle_by_host(capture), host_in_gaps(capture, 0, 0)
    require(
        isinstance(got, dict) and agree(got.get("idle_ns"), want["idle_ns"]),
        f"idle_by_host(a drawn capture) returned {show(got)}, expected idle_ns {want['idle_ns']}: device 0, "
        "from the beginning",
    )


# -- read_timeline -------------------------------------------------------------------------------------

WAITING = ("Synchronize", "Memcpy", "Memset")
ALLOCATING = (
    *("cudaMalloc", "cudaFree", "cudaHostAlloc", "cudaHostRegister", "cudaHostUnregister"),
    *("cuMemAlloc", "cuMemFree", "cuMemHostAlloc"),
)
ORDER = ("allocation_bound", "sync_bound", "launch_bound", "host_bound")
FLOOR, LIMIT = 0.10, 100_000


def finding_of(capture: str, name: str) -> tuple[str, dict[str, float]]:
    start, ends = iteration_ends(capture, name)
    steady = statistics.median(b - a for a, b in itertools.pairwise(ends))
    end = max(o["end_ns"] for o, _ in operations_with_calls(capture) if o["device"] == 0)
    idle, whole = dict.fromkeys(ORDER, 0), 0
    for low, high, launching in gaps_of(capture, 0, ends[0]):
        found = [c for c in calls_in(capture, launching, low, high) if inside(low, c)]
        opener = found[0]["name"] if found else ""
        whole += high - low
        if was_queued(launching, low):
            continue
        if any(word in opener for word in WAITING):
            category = "sync_bound"
        elif opener.startswith(ALLOCATING):
            category = "allocation_bound"
        else:
            category = "launch_bound" if high - low <= LIMIT else "host_bound"
        allocating = sum(
            truth.covered_ns([(c["start_ns"], c["end_ns"])], (low, high))
            for c in calls_in(capture, launching, low, high)
            if c["name"].startswith(ALLOCATING)
        )
        idle["allocation_bound"] += allocating
        idle[category] += high - low - allocating
    main = max(ORDER, key=idle.__getitem__)
    window = end - ends[0]
    ratio = idle[main] / window
    evidence = {
        "recoverable_ns": idle[main],
        "window_ns": window,
        "recoverable_ratio": ratio,
        "idle_ns": whole,
        "first_iteration_excess_ns": float(ends[0] - start - steady),
    }
    return (main if ratio >= FLOOR else "healthy"), evidence


def judge_timeline(stub: Any, capture: str, name: str, shown: str = "") -> None:
    category, evidence = finding_of(capture, name)
    call = f"read_timeline({shown or capture!r}, {name!r}){repeat_hint(capture)}"
    got = stub.read_timeline(capture, name)
    facts = (
        f"{evidence['recoverable_ns']} ns of {evidence['window_ns']} ns ({evidence['recoverable_ratio']:.1%}, the "
        f"floor is {FLOOR:.0%}) belong to another category, by the calls in the gaps and those that opened them"
    )
    judge_finding(
        *(call, got, category, "device:0", evidence, facts),
        why="The window begins when the first iteration is over on the device; allocation calls have their own "
        "time, the rest of a gap belongs to the call that opened it",
        others=True,
    )
    judge_recommendation(call, got, facts)


@task("nsys_ex01.read_timeline")
@recordings("nsys_baseline", "nsys_improved", "training_item", "decode_eager", "host_preprocess")
def test_recorded_finding(stub: Any, recording: str) -> None:
    judge_timeline(stub, recording, a_range(recording))


@task("nsys_ex01.read_timeline")
@pytest.mark.parametrize("scenario", ["healthy", "sync_bound", "allocation_bound", "launch_bound"])
def test_generated_finding(stub: Any, generated: Any, scenario: str) -> None:
    judge_timeline(stub, str(generated(scenario).path), "step")


def drawn_gaps(draw: Any, gaps: list[tuple[int, str]], busy: int) -> str:
    """Steps whose kernels are apart by gaps of given lengths, each opened by a given call ("": none)."""
    timeline = draw()
    now = 10_000
    for i, (length, opener) in enumerate([(5_000, ""), *gaps]):
        if opener:
            timeline.api(opener, now - 2_000, now + 1_000)
        start = now + length
        timeline.nvtx("step", start - 3_000, start - 1_000)
        timeline.kernel(start, start + busy, call=(start - 2_000, start - 1_500))
        timeline.kernel(start, start + 1, device=1 + i, stream=9)
        now = start + busy
    timeline.kernel(now, now + 500_000, device=1)
    return timeline.save()


@task("nsys_ex01.read_timeline")
def test_equal_causes_and_the_floor(stub: Any, draw: Any) -> None:
    sync, free = "cudaStreamSynchronize_v3020", "cudaFree_v3020"
    cases = (
        [(90_000, free), (90_000, sync)],  # equal: the first of the order
        [(100_000, ""), (100_001, "")],  # at the limit, and over it
        [(100_000, ""), (100_000, "")],
        [(40_000, "cudaMemcpy_v3020"), (60_000, free)],
        [(40_000, "cudaMemcpy_v3020"), (30_000, "")],
        [(20_000, sync), (20_000, "")],
    )
    for gaps in cases:
        for busy in (30_000, 160_000, 400_000):
            judge_timeline(
                stub, drawn_gaps(draw, gaps, busy), "step", f"gaps {gaps}, kernels {busy} ns"
            )
    timeline = draw()
    for i in range(4):  # a wait opens the gap, and a cudaMalloc takes most of it
        at = 100_000 * i
        timeline.nvtx("step", at + 60_000, at + 99_000)
        timeline.api("cudaStreamSynchronize_v3020", at + 20_000, at + 51_000)
        timeline.api("cudaMalloc_v3020", at + 60_000, at + 60_000 + 8_000 * i)
        timeline.kernel(at + 95_000, at + 150_000, call=(at + 90_000, at + 92_000))
        timeline.kernel(at + 94_000, at + 94_500, stream=9, call=(at + 93_000, at + 94_000))
    judge_timeline(stub, timeline.save(), "step", "waits and allocations in the same gaps")
    timeline = draw()
    for at in range(
        0, 1_200_000, 300_000
    ):  # a long gap is not short because an allocation fills a part
        timeline.nvtx("step", at + 110_000, at + 159_000)
        timeline.api("cudaMallocHost_v3020", at + 20_000, at + 82_000)
        timeline.kernel(at + 160_000, at + 300_000, call=(at + 150_000, at + 152_000))
    judge_timeline(stub, timeline.save(), "step", "long gaps with an allocation in the middle")
    # 20 000 of 200 000 ns: at the floor is not below it
    at_floor = drawn_gaps(draw, [(10_000, sync), (10_000, sync)], 90_000)
    judge_timeline(stub, at_floor, "step", "10 % of the window")
