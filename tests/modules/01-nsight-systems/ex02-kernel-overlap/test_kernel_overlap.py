"""Checks of `nsys_ex02`: recorded, generated and drawn streams, counted again interval by interval."""

from __future__ import annotations

import functools
import math
import random
import statistics
from collections import Counter
from itertools import combinations, pairwise
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import (
    agree,
    judge,
    judge_finding,
    judge_recommendation,
    near,
    require,
    show,
)
from grading.checks.fixtures import recordings, repeat_hint
from grading.checks.generate import truth
from profiling_lab import captures
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding

Span = tuple[int, int]


# -- what the checks count with ------------------------------------------------------------------------


def rows(frame: Any) -> list[dict[str, Any]]:
    return frame.rows(named=True)


def span_of(row: dict) -> Span:
    return row["start_ns"], row["end_ns"]


def kernels_of(capture: str, device: int = 0) -> list[dict[str, Any]]:
    """Kernels and whole graphs of a device."""
    operations = rows(captures.open(capture).device_operations)
    return [o for o in operations if o["device"] == device and o["kind"] in ("kernel", "graph")]


def all_time(found: list[dict]) -> Span:
    return min(o["start_ns"] for o in found), max(o["end_ns"] for o in found)


def named(capture: str, shown: str) -> str:
    return f"{shown or repr(capture)}){repeat_hint(capture)}"


# -- concurrency ---------------------------------------------------------------------------------------


def counted(capture: str, device: int = 0) -> dict[str, Any]:
    found = kernels_of(capture, device)
    at: Counter[int] = Counter()
    for start, end, running in truth.segments({"": map(span_of, found)}, all_time(found)):
        if running[""]:
            at[running[""]] += end - start
    kernel_ns = sum(count * ns for count, ns in at.items())
    busy_ns = sum(at.values())
    return {
        "kernel_ns": kernel_ns,
        "busy_ns": busy_ns,
        "average_count": kernel_ns / busy_ns,
        "peak_count": max(at),
        "ns_at_count": dict(at),
    }


def judge_concurrency(stub: Any, capture: str, device: int = 0, shown: str = "") -> None:
    judge(
        f"concurrency({named(capture, shown)}",
        stub.concurrency(capture, device),
        counted(capture, device),
        "ns, and kernels at once",
        {
            "busy_ns": "What runs at the same time counts once.",
            "average_count": "It is the mean while any kernel ran: idle time is not in it.",
            "peak_count": "A kernel that ends when another starts does not run beside it.",
            "ns_at_count": "Between two changes the number that runs is constant.",
        },
    )


@task("nsys_ex02.concurrency")
@recordings("overlap_legacy", "overlap_streams", "overlap_big")
def test_recorded_concurrency(stub: Any, recording: str) -> None:
    judge_concurrency(stub, recording)


@task("nsys_ex02.concurrency")
@pytest.mark.parametrize("scenario", ["concurrent_kernels", "graphs_only"])
def test_generated_concurrency(stub: Any, generated: Any, scenario: str) -> None:
    judge_concurrency(stub, str(generated(scenario).path))


@task("nsys_ex02.concurrency")
def test_kernels_that_touch(stub: Any, draw: Any) -> None:
    timeline = draw()
    timeline.kernel(10_000, 20_000, stream=1)
    timeline.kernel(20_000, 30_000, stream=2)
    timeline.kernel(12_000, 21_000, stream=3)
    timeline.graph(28_000, 50_000, stream=4)
    timeline.kernel(40_000, 41_000, stream=5)
    timeline.copy(11_000, 60_000, stream=6)
    timeline.memset(12_000, 60_000, stream=6)
    timeline.kernel(70_000, 75_000, stream=1)
    timeline.kernel(1_000, 90_000, device=1)
    capture = timeline.save()
    judge_concurrency(stub, capture, 0, "a drawn capture")
    judge_concurrency(stub, capture, 1, "a drawn capture, 1")
    timeline = draw()
    timeline.kernel(10_000, 20_000, stream=1)
    timeline.kernel(10_000, 20_000, stream=2)
    judge_concurrency(stub, timeline.save(), 0, "two kernels that start and end together")
    got = stub.concurrency(capture)
    require(
        isinstance(got, dict) and got.get("peak_count") == 2,
        f"concurrency(a drawn capture) returned {show(got)}, expected peak_count 2 on device 0",
    )
    with stub.raises(EmptyCapture, "3", "no kernel ran on device 3"):
        stub.concurrency(capture, 3)


# -- stream_overlap ------------------------------------------------------------------------------------


def judge_pairs(stub: Any, capture: str, device: int = 0, shown: str = "") -> None:
    found = kernels_of(capture, device)
    streams = sorted({o["stream"] for o in found})
    want = []
    for one, other in combinations(streams, 2):
        spans = [[span_of(o) for o in found if o["stream"] == stream] for stream in (one, other)]
        both = truth.overlap_ns(spans[0], spans[1], all_time(found))["both_ns"]
        want.append((one, other, both))
    call = f"stream_overlap({named(capture, shown)}"
    got = stub.stream_overlap(capture, device)
    require(
        isinstance(got, list) and [tuple(g[:2]) for g in got] == [w[:2] for w in want],
        f"{call} returned {show(got)}, expected an entry (stream, greater stream, ns) for each of the pairs "
        f"{[w[:2] for w in want]}, also for those that never met",
    )
    for mine, theirs in zip(want, got, strict=True):
        require(
            agree(theirs, mine),
            f"{call}: the streams {mine[0]} and {mine[1]} overlap for {show(theirs[2])} ns, expected {mine[2]} "
            "ns: time in which both have a kernel, each moment once. That there are two streams does not say "
            "that they ever meet.",
        )


@task("nsys_ex02.stream_overlap")
@recordings("overlap_legacy", "overlap_streams", "overlap_per_thread")
def test_recorded_pairs(stub: Any, recording: str) -> None:
    judge_pairs(stub, recording)


@task("nsys_ex02.stream_overlap")
def test_generated_pairs(stub: Any, generated: Any) -> None:
    judge_pairs(stub, str(generated("concurrent_kernels").path))


@task("nsys_ex02.stream_overlap")
def test_pairs_that_never_meet(stub: Any, draw: Any) -> None:
    timeline = draw()
    timeline.kernel(10_000, 20_000, stream=9)
    timeline.kernel(15_000, 30_000, stream=9)  # may overlap its own stream
    timeline.kernel(12_000, 18_000, stream=4)
    timeline.kernel(40_000, 50_000, stream=11)
    timeline.kernel(50_000, 60_000, stream=4)
    timeline.graph(55_000, 58_000, stream=9)
    for start, end in ((70_000, 80_000), (71_000, 72_000), (75_000, 90_000)):
        timeline.kernel(start, end, stream=9)
    timeline.kernel(72_500, 99_000, stream=4)
    timeline.copy(10_000, 60_000, stream=2)
    timeline.kernel(10_000, 60_000, stream=9, device=1)
    capture = timeline.save()
    judge_pairs(stub, capture, 0, "a drawn capture")
    require(
        stub.stream_overlap(capture) == stub.stream_overlap(capture, 0),
        "stream_overlap(a drawn capture) is not that of device 0, the one to look at unless another is given",
    )
    judge_pairs(stub, capture, 1, "a drawn capture with one stream on device 1")


# -- readiness -----------------------------------------------------------------------------------------


def issued(capture: str, device: int = 0) -> list[dict[str, Any]]:
    """Operations of a device with `call`, in the order of their calls, and when each was ready."""
    recording = captures.open(capture)
    calls = {(c["process"], c["correlation"]): c for c in reversed(rows(recording.api_calls))}
    found: list[dict[str, Any]] = []
    for operation in rows(recording.device_operations):
        call = calls.get((operation["process"], operation["correlation"]))
        if operation["device"] == device and call is not None:
            found.append({**operation, "call": call})
    found.sort(key=lambda o: o["call"]["start_ns"])
    latest: dict[int, int] = {}
    for operation in found:
        before = latest.get(operation["stream"], 0)
        operation["ready_ns"] = max(operation["call"]["end_ns"], before)
        latest[operation["stream"]] = max(before, operation["end_ns"])
    return found


# -- default_stream_waits ------------------------------------------------------------------------------


def judge_default(
    stub: Any, capture: str, stream: int = 7, shown: str = "", device: int = 0
) -> None:
    found = issued(capture, device)
    given = f", {device}" if device else ""
    held, crossing = [], 0
    for place, operation in enumerate(found):
        mine = operation["stream"] == stream
        other = [o["end_ns"] for o in found[:place] if (o["stream"] == stream) != mine]
        if other and max(other) > operation["ready_ns"]:
            if operation["start_ns"] < max(other):
                crossing += 1
            else:
                held.append(max(other) - operation["ready_ns"])
    want = {"held_count": len(held), "held_ns": sum(held), "crossing_count": crossing}
    judge(
        f"default_stream_waits({shown or repr(capture)}, {stream}{given}){repeat_hint(capture)}",
        stub.default_stream_waits(capture, stream, device),
        want,
        "operations, and ns",
        {
            "held_count": "An operation is held if it was ready before the other side's earlier operations had ended, "
            "and started only after that. The default stream holds the others, and they hold it.",
            "held_ns": "From ready to the last end of the other side; waiting for its own stream does not count.",
            "crossing_count": "What starts before the other side has ended shows that no rule held it.",
        },
    )


@task("nsys_ex02.default_stream_waits")
@recordings("overlap_legacy", "overlap_legacy_three", "overlap_per_thread")
def test_recorded_default_stream(stub: Any, recording: str) -> None:
    judge_default(stub, recording)


@task("nsys_ex02.default_stream_waits")
def test_generated_default_stream(stub: Any, generated: Any) -> None:
    for scenario in ("concurrent_kernels", "copies_and_kernels"):
        capture = str(generated(scenario).path)
        for stream in sorted({o["stream"] for o in issued(capture)})[:3]:
            judge_default(stub, capture, stream)


@task("nsys_ex02.default_stream_waits")
def test_before_and_behind_the_default_stream(stub: Any, draw: Any) -> None:
    timeline = draw()
    timeline.kernel(10_000, 50_000, stream=13, call=(1_000, 2_000))
    timeline.kernel(51_000, 60_000, stream=7, call=(3_000, 4_000))  # held by stream 13
    timeline.copy(60_000, 70_000, stream=14, call=(5_000, 6_000))  # held by stream 7
    timeline.kernel(62_000, 65_000, stream=7, call=(7_000, 8_000))  # crossing
    timeline.kernel(71_000, 80_000, stream=13, call=(60_500, 64_000))  # held, though not for long
    timeline.memset(90_000, 91_000, stream=7, call=(80_000, 85_000))  # nothing to wait for
    timeline.kernel(95_000, 99_000, stream=13, call=(90_000, 91_000))  # ready when the memset ends
    timeline.kernel(1_000, 2_000, stream=7)  # no call
    timeline.kernel(2_000, 500_000, stream=7, device=1, call=(500, 600))
    timeline.kernel(500_000, 510_000, stream=13, device=1, call=(700, 800))  # held on device 1
    capture = timeline.save()
    judge_default(stub, capture, 7, "a drawn capture")
    judge_default(stub, capture, 13, "a drawn capture")
    judge_default(stub, capture, 99, "a drawn capture")
    judge_default(stub, capture, 7, "a drawn capture", device=1)
    got = stub.default_stream_waits(capture)
    require(
        isinstance(got, dict) and got.get("crossing_count") == 1,
        f"default_stream_waits(a drawn capture) returned {show(got)}, expected one crossing on stream 7",
    )


# -- start_delays --------------------------------------------------------------------------------------


def judge_delays(stub: Any, capture: str, device: int = 0, shown: str = "") -> None:
    delays: dict[int, list[int]] = {}
    for operation in issued(capture, device):
        if operation["kind"] in ("kernel", "graph"):
            delay = max(0, operation["start_ns"] - operation["ready_ns"])
            delays.setdefault(operation["stream"], []).append(delay)
    call = f"start_delays({named(capture, shown)}"
    got = stub.start_delays(capture, device)
    require(
        isinstance(got, dict) and got.keys() == delays.keys(),
        f"{call} returned {show(got)}, expected the streams {sorted(delays)}",
    )
    for stream, found in delays.items():
        want = {
            "kernels_count": len(found),
            "median_ns": float(statistics.median(found)),
            "worst_ns": float(max(found)),
        }
        judge(
            f"{call}[{stream}]",
            got[stream],
            want,
            "kernels, and ns",
            {
                "kernels_count": "Copies and memsets are not kernels.",
                "median_ns": "A kernel that waits for its own stream is in line, not ready: only the time "
                "after that is delay.",
                "worst_ns": "It is the longest time from ready to start.",
            },
        )


@task("nsys_ex02.start_delays")
@recordings("overlap_equal", "overlap_priority", "two_streams")
def test_recorded_delays(stub: Any, recording: str) -> None:
    judge_delays(stub, recording)


@task("nsys_ex02.start_delays")
def test_generated_delays(stub: Any, generated: Any) -> None:
    judge_delays(stub, str(generated("concurrent_kernels").path))
    judge_delays(stub, str(generated("copies_and_kernels").path))


@task("nsys_ex02.start_delays")
def test_in_line_is_not_delayed(stub: Any, draw: Any) -> None:
    timeline = draw()
    timeline.kernel(1_500, 50_000, stream=3, call=(1_000, 2_000))  # starts inside its call
    timeline.copy(52_000, 60_000, stream=3, call=(3_000, 4_000))
    timeline.kernel(61_000, 62_000, stream=3, call=(5_000, 6_000))
    timeline.graph(70_000, 75_000, stream=3, call=(63_000, 64_000))
    timeline.kernel(20_000, 30_000, stream=5, call=(8_000, 9_000))
    timeline.kernel(22_000, 23_000, stream=5, call=(12_000, 13_000))  # beside its own stream
    timeline.kernel(90_000, 91_000, stream=8)
    timeline.kernel(90_000, 91_000, stream=9, device=1, call=(80_000, 81_000))
    capture = timeline.save()
    judge_delays(stub, capture, 0, "a drawn capture")
    require(
        stub.start_delays(capture) == stub.start_delays(capture, 0),
        "start_delays(a drawn capture) is not that of device 0, the one to look at unless another is given",
    )
    judge_delays(stub, capture, 1, "a drawn capture, 1")


# -- device_share --------------------------------------------------------------------------------------


def shares(capture: str, device: int, warps: int, blocks: int) -> list[float]:
    """Of each kernel of a device, in the order of `NsysCapture.kernels`."""
    recording = captures.open(capture)
    sms = dict.fromkeys([device], 1)
    sms |= {d["device"]: d["sm_count"] for d in rows(recording.devices)}
    out = []
    for kernel in rows(recording.kernels):
        if kernel["device"] != device:
            continue
        threads = kernel["block_x"] * kernel["block_y"] * kernel["block_z"]
        block_warps = math.ceil(threads / 32)
        # A warp's registers come in units of 256 from a quarter of the SM's 64 K.
        units = math.ceil(kernel["registers_per_thread"] * 32 / 256)
        register_warps = 4 * (64 // units) if units else warps
        # A block's shared memory comes in units of 128 bytes, 1 KiB of it for the system.
        used = kernel["static_shared_bytes"] + kernel["dynamic_shared_bytes"]
        lines = math.ceil((used + 1024) / 128)
        resident = max(
            1, min(blocks, warps // block_warps, register_warps // block_warps, 228 * 8 // lines)
        )
        out.append(
            kernel["grid_x"] * kernel["grid_y"] * kernel["grid_z"] / (sms[device] * resident)
        )
    return out


def judge_shares(
    stub: Any, capture: str, limits: tuple[int, ...], shown: str = "", device: int = 0
) -> None:
    warps, blocks = limits or (64, 32)
    want: dict[str, float] = {}
    kernels = [k for k in rows(captures.open(capture).kernels) if k["device"] == device]
    for kernel, share in zip(kernels, shares(capture, device, warps, blocks), strict=True):
        want[kernel["name"]] = max(share, want.get(kernel["name"], 0.0))
    given = "".join(f", {n}" for n in (device, *limits)) if limits else ""
    call = f"device_share({shown or repr(capture)}{given}){repeat_hint(capture)}"
    got = stub.device_share(capture, device, *limits) if limits else stub.device_share(capture)
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(got)}, expected the names {show(sorted(want))}",
    )
    for name, share in want.items():
        require(
            near(got[name], share),
            f"{call}: {name} asks for {show(got[name])} of the device, expected {show(share)}: its blocks over "
            "those that all SMs hold at once, and an SM holds at most so many warps and so many blocks, and no "
            "more of them than have their registers and their shared memory",
        )


@task("nsys_ex02.device_share")
@recordings("overlap_big", "overlap_streams", "cuda_pipeline_improved")
def test_recorded_shares(stub: Any, recording: str) -> None:
    judge_shares(stub, recording, ())
    judge_shares(stub, recording, (48, 24))


@task("nsys_ex02.device_share")
def test_generated_shares(stub: Any, generated: Any, seed: int) -> None:
    chance = random.Random(seed)
    capture = str(generated("concurrent_kernels").path)
    judge_shares(stub, capture, (chance.randint(32, 64), chance.randint(3, 9)))
    judge_shares(stub, capture, ())


@task("nsys_ex02.device_share")
def test_half_a_warp_takes_a_whole_one(stub: Any, draw: Any) -> None:
    """Blocks and grids of three dimensions, on 2 SMs; the largest launch of a name counts."""
    for sms in (None, 2):
        timeline = draw() if sms is None else with_devices(draw(), sms)
        for i, (name, grid, block) in enumerate(
            [
                ("odd", (2, 3, 5), (11, 3, 1)),
                ("odd", (1, 1, 1), (32, 2, 1)),
                ("cube", (7, 1, 2), (4, 8, 16)),
                ("cube", (70, 1, 2), (4, 8, 16)),  # on device 1, as all from here on
                ("elsewhere", (3, 1, 1), (64, 1, 1)),
            ]
        ):
            timeline.kernel(1_000 * i, 1_000 * i + 500, name=name, device=int(i > 2))
            sizes = zip(("X", "Y", "Z"), grid, block, strict=True)
            row = timeline._rows["CUPTI_ACTIVITY_KIND_KERNEL"][-1]
            for letter, blocks, threads in sizes:
                row |= {f"grid{letter}": blocks, f"block{letter}": threads}
        timeline.graph(5_000, 6_000)
        capture = timeline.save()
        judge_shares(stub, capture, (), "a drawn capture")
        judge_shares(stub, capture, (17, 5), "a drawn capture")
        judge_shares(stub, capture, (17, 32), "a drawn capture")
        judge_shares(stub, capture, (64, 32), "a drawn capture", device=1)


def launch(
    timeline: Any, blocks: int, threads: int, registers: int, static: int, dynamic: int
) -> None:
    """Say what the kernel that was drawn last asks for."""
    timeline._rows["CUPTI_ACTIVITY_KIND_KERNEL"][-1] |= {
        "gridX": blocks,
        "blockX": threads,
        "registersPerThread": registers,
        "staticSharedMemory": static,
        "dynamicSharedMemory": dynamic,
    }


@task("nsys_ex02.device_share")
@pytest.mark.parametrize(
    ("threads", "registers", "static", "dynamic"),
    [
        (256, 32, 0, 0),  # warps are the limit
        (256, 40, 0, 0),  # registers are
        (256, 41, 0, 0),  # in units of 8 a thread
        (96, 255, 0, 0),  # in whole warps a quarter
        (224, 88, 0, 0),  # and not across two quarters
        (1024, 72, 0, 0),  # more than there are, and yet it ran
        (64, 16, 6_272, 0),  # 32 blocks have just this much memory
        (64, 16, 6_273, 0),
        (64, 16, 3_000, 3_273),
        (64, 16, 0, 20_000),
        (128, 24, 48 * 1024, 0),
        (128, 24, 0, 227 * 1024),
        (512, 64, 40_000, 40_000),  # registers allow two blocks, so does memory
    ],
)
def test_registers_and_shared_memory_take_room(
    stub: Any, draw: Any, threads: int, registers: int, static: int, dynamic: int
) -> None:
    timeline = with_devices(draw(), 3)
    timeline.kernel(1_000, 2_000, name="asks")
    launch(timeline, 7, threads, registers, static, dynamic)
    shown = f"{threads} threads, {registers} registers each, {static} + {dynamic} bytes shared"
    judge_shares(stub, timeline.save(), (), shown)


# -- judge_streams -------------------------------------------------------------------------------------

FLOOR, BORDER, START_COST = 0.10, 0.02, 5_000


def held_by_events(capture: str, device: int) -> dict[tuple[int, int, int], int]:
    """By process, correlation and start: when what events hold an operation back for has ended."""
    recording = captures.open(capture)
    calls = {(c["process"], c["correlation"]): c["start_ns"] for c in rows(recording.api_calls)}
    places = {
        (r["process"], r["event_sync"]): (r["stream"], calls[r["process"], r["correlation"]])
        for r in rows(recording.event_records)
    }
    waits = [
        (w["process"], w["stream"], calls[w["process"], w["correlation"]], w["event_sync"])
        for w in rows(recording.synchronizations)
        if w["kind"] == "stream_wait"
    ]
    work = [
        (o["process"], o["stream"], calls[o["process"], o["correlation"]], o["end_ns"])
        for o in rows(recording.device_operations)
        if (o["process"], o["correlation"]) in calls
    ]

    @functools.cache
    def reached(process: int, stream: int, at: int) -> int:
        """When a stream gets to what is issued to it then."""
        ends = [
            end for p, s, issued_at, end in work if (p, s) == (process, stream) and issued_at < at
        ]
        for p, s, waited_at, event in waits:
            if (p, s) == (process, stream) and waited_at < at and (p, event) in places:
                ends.append(reached(p, *places[p, event]))
        return max(ends, default=0)

    out = {}
    for o in rows(recording.device_operations):
        call = calls.get((o["process"], o["correlation"]))
        if o["device"] == device and call is not None:
            held = [
                reached(p, *places[p, event])
                for p, s, waited_at, event in waits
                if (p, s) == (o["process"], o["stream"])
                and waited_at < call
                and (p, event) in places
            ]
            out[o["process"], o["correlation"], o["start_ns"]] = max(held, default=0)
    return out


def bounds(capture: str, device: int) -> tuple[int, dict[str, float]]:
    """Recoverable ns and the evidence, worked out moment by moment."""
    found = kernels_of(capture, device)
    share_of = iter(
        shares(capture, device, 64, 32) if captures.open(capture).kernels.height else ()
    )
    in_order = {(o["process"], o["correlation"], o["start_ns"]): 1.0 for o in found}
    for kernel in rows(captures.open(capture).kernels):
        if kernel["device"] == device:
            place = kernel["process"], kernel["correlation"], kernel["start_ns"]
            in_order[place] = next(share_of)
    ready = {
        (o["process"], o["correlation"], o["start_ns"]): o["ready_ns"]
        for o in issued(capture, device)
    }
    held = held_by_events(capture, device)
    ready = {place: max(at, held[place]) for place, at in ready.items()}
    jobs = []
    for operation in found:
        place = operation["process"], operation["correlation"], operation["start_ns"]
        jobs.append((*span_of(operation), operation["stream"], in_order[place], ready.get(place)))
    lengths: Counter[int] = Counter()
    for start, end, stream, _, _ in jobs:
        lengths[stream] += end - start
    area = sum((end - start) * min(1.0, share) for start, end, _, share, _ in jobs)
    count = counted(capture, device)
    packing = count["busy_ns"] - max([area, *lengths.values()])
    moments = {t for start, end, *_ in jobs for t in (start, end)}
    moments |= {at + START_COST for *_, at in jobs if at is not None}
    waiting = 0
    for low, high in pairwise(sorted(moments)):
        running = [job for job in jobs if job[0] <= low < job[1]]
        room = 1.0 + 1e-9 - sum(job[3] for job in running)
        busy = {job[2] for job in running}
        if running and any(
            job[4] is not None
            and job[4] + START_COST <= low < job[0]
            and job[3] <= room
            and job[2] not in busy
            for job in jobs
        ):
            waiting += high - low
    if len(lengths) < 2:
        waiting = 0
    recoverable = max(0, min(packing, waiting))
    low, high = all_time(found)
    return recoverable, {
        "window_ns": high - low,
        "recoverable_ratio": recoverable / (high - low),
        "margin_ratio": recoverable / (high - low) - FLOOR,
        "average_count": count["average_count"],
        "streams_count": len(lengths),
    }


def judge_verdict(stub: Any, capture: str, device: int = 0, shown: str = "") -> None:
    recoverable, evidence = bounds(capture, device)
    call = f"judge_streams({named(capture, shown)}"
    got = stub.judge_streams(capture, device)
    category = "serialized_streams" if evidence["recoverable_ratio"] >= FLOOR else "healthy"
    saved = (
        f"{recoverable} of {evidence['window_ns']} ns could be saved by overlap, "
        f"{evidence['recoverable_ratio']:.1%}, and the floor is {FLOOR:.0%}"
    )
    judge_finding(
        *(call, got, category, f"device:{device}"),
        {"recoverable_ns": recoverable, **evidence},
        saved,
        why="Two bounds: time in which a kernel was ready and would have fitted beside those that ran, and what "
        "the kernels need at least. What an event holds back is not ready.",
        rel=1e-6,
        others=True,
    )
    borderline = abs(evidence["margin_ratio"]) <= BORDER
    judge_recommendation(call, got, saved, borderline=borderline)


@task("nsys_ex02.judge_streams")
@recordings(
    "overlap_legacy_three",
    "overlap_per_thread",
    "overlap_big",
    "two_streams",
    "decode_graph",
    "ddp_timeline_one_bucket",
)
def test_recorded_verdict(stub: Any, recording: str) -> None:
    judge_verdict(stub, recording)


@task("nsys_ex02.judge_streams")
def test_generated_verdict(stub: Any, generated: Any) -> None:
    judge_verdict(stub, str(generated("concurrent_kernels").path))


def with_devices(timeline: Any, sms: int = 2) -> Any:
    """The device's row, which a drawn capture has not by itself."""
    for number in (0, 1):
        timeline._add(
            "TARGET_INFO_GPU",
            id=number,
            cuDevice=number,
            name="drawn",
            smCount=sms + 2 * number,
            isDiscrete=1,
        )
    return timeline


@task("nsys_ex02.judge_streams")
@pytest.mark.parametrize("sms", [1, 2, 3])
def test_room_beside_it(stub: Any, draw: Any, sms: int) -> None:
    """Kernels of one block, of which an SM holds 32; a graph fills the device."""
    timeline = with_devices(draw(), sms)
    for i in range(6):
        at = 20_000 * i
        timeline.kernel(
            at + 30_000, at + 48_000, stream=3 + i % 2, call=(1_000 * i, 1_000 * i + 500)
        )
    timeline.kernel(150_000, 170_000, stream=9, call=(7_000, 8_000))
    timeline.graph(150_000, 160_000, stream=11, call=(9_000, 10_000))
    timeline.kernel(165_001, 166_000, stream=12, call=(159_000, 160_000))
    timeline.kernel(30_000, 48_000, stream=3, device=1, call=(20_000, 21_000))
    timeline.kernel(48_000, 90_000, stream=4, device=1, call=(22_000, 30_000))
    timeline.kernel(60_000, 95_000, stream=5, device=1, call=(31_000, 32_000))
    capture = timeline.save()
    judge_verdict(stub, capture, 0, "a drawn capture")
    judge_verdict(stub, capture, 1, "a drawn capture, 1")


@task("nsys_ex02.judge_streams")
@pytest.mark.parametrize(
    "blocks", [(16, 16, 16), (16, 17, 16), (20, 20, 20), (1, 31, 30), (16, 16, 96)]
)
def test_what_fits(stub: Any, draw: Any, blocks: tuple[int, ...]) -> None:
    """One SM holds 32 of these blocks; all kernels are ready at once and run one after the other."""
    timeline = with_devices(draw(), 1)
    for i, grid in enumerate(blocks):
        at = 100_000 * (i + 1)
        call = 1_000 * i, 1_000 * i + 900
        timeline.kernel(at, at + 100_000, stream=3 + i, call=call)
        timeline._rows["CUPTI_ACTIVITY_KIND_KERNEL"][-1]["gridX"] = grid
    judge_verdict(stub, timeline.save(), 0, f"kernels of {blocks} blocks, room for 32")


@task("nsys_ex02.judge_streams")
@pytest.mark.parametrize("axis", ["gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ"])
def test_what_fits_by_every_axis(stub: Any, draw: Any, axis: str) -> None:
    """Kernels that grow with one axis, ready at once and run one after the other, on two devices."""
    timeline = with_devices(draw(), 1)
    for i, size in enumerate((12, 14, 9)):
        for device in (0, 1):
            start, call = 100_000 * (i + 1), 1_000 * i + 500 * device
            timeline.kernel(
                start, start + 100_000, stream=3 + i, device=device, call=(call, call + 400)
            )
            row = timeline._rows["CUPTI_ACTIVITY_KIND_KERNEL"][-1]
            row.update(gridX=3, blockX=32)
            row[axis] = size * (32 if axis == "blockX" else 1)
    capture = timeline.save()
    for device in (0, 1):
        judge_verdict(stub, capture, device, f"kernels of which {axis} differs, {device}")


@task("nsys_ex02.judge_streams")
def test_waiting_begins_when_it_is_late(stub: Any, draw: Any) -> None:
    """One kernel waits for 95 000 ns of the 100 000 for which another runs; packing allows more."""
    timeline = with_devices(draw(), 4)
    timeline.kernel(100_000, 200_000, stream=3, call=(1_000, 2_000))
    timeline.kernel(200_000, 300_000, stream=4, call=(90_000, 100_000))
    judge_verdict(stub, timeline.save(), 0, "a kernel that is ready when another starts")


@task("nsys_ex02.judge_streams")
def test_a_graph_leaves_no_room(stub: Any, draw: Any) -> None:
    timeline = with_devices(draw(), 4)
    timeline.graph(100_000, 200_000, stream=3, call=(1_000, 2_000))
    timeline.kernel(200_000, 300_000, stream=4, call=(3_000, 4_000))
    timeline.kernel(50_000, 60_000, stream=5, device=1, call=(5_000, 6_000))
    capture = timeline.save()
    judge_verdict(stub, capture, 0, "a kernel behind a graph")
    got = stub.judge_streams(capture)
    require(
        isinstance(got, Finding) and got.subject == "device:0",
        f"judge_streams(a drawn capture) returned {show(got)}, expected a Finding on device 0",
    )


@task("nsys_ex02.judge_streams")
def test_at_the_floor(stub: Any, draw: Any) -> None:
    """10 000 of 100 000 ns are the floor; of 100 001 they are less."""
    for end in (100_000, 100_001):
        timeline = with_devices(draw())
        timeline.kernel(10_000, 85_000 + end - 90_000, stream=3, call=(1_000, 2_000))
        timeline.kernel(end - 5_000, end + 5_000, stream=4, call=(3_000, 4_000))
        timeline.kernel(end + 5_000, end + 10_000, stream=3, call=(5_000, 6_000))
        judge_verdict(stub, timeline.save(), 0, "a drawn capture")


def event(timeline: Any, number: int, stream: int, at: int, waiting: int, waits_at: int) -> None:
    """An event is recorded in one stream and waited for in another; it holds no host up."""
    place = {"deviceId": 0, "eventId": number, "eventSyncId": number}
    for name, start, where, table in (
        ("cudaEventRecord_v3020", at, stream, "CUPTI_ACTIVITY_KIND_CUDA_EVENT"),
        ("cudaStreamWaitEvent_v3020", waits_at, waiting, "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"),
    ):
        correlation = timeline.api(name, start, start + 100)
        call = timeline._rows["CUPTI_ACTIVITY_KIND_RUNTIME"][-1]
        row = place | {"streamId": where, "correlationId": correlation}
        row["globalPid"] = call["globalTid"] - 1
        if table.endswith("SYNCHRONIZATION"):
            row |= {"start": start, "end": start + 100, "syncType": 2}
        timeline._add(table, **row)


@task("nsys_ex02.judge_streams")
@pytest.mark.parametrize(
    "held", ["directly", "through an empty stream", "not", "after it", "in part"]
)
def test_what_an_event_holds_back_is_not_ready(stub: Any, draw: Any, held: str) -> None:
    """Two kernels, one after the other, with room beside each; another one follows without a reason."""
    timeline = with_devices(draw(), 4)
    timeline.kernel(100_000, 200_000, stream=3, call=(1_000, 1_500))
    if held == "directly":
        event(timeline, 1, 3, 2_000, 4, 3_000)
    elif held == "through an empty stream":
        event(timeline, 1, 3, 2_000, 9, 3_000)
        event(timeline, 2, 9, 4_000, 4, 5_000)
    elif held == "after it":
        event(timeline, 1, 3, 2_000, 4, 8_000)
    elif held == "in part":
        timeline.kernel(20_000, 150_000, stream=6, call=(1_600, 1_900))
        event(timeline, 1, 6, 2_000, 4, 3_000)
    timeline.kernel(200_500, 300_000, stream=4, call=(6_000, 6_500))
    timeline.kernel(300_500, 340_000, stream=4, call=(9_000, 9_500))
    timeline.kernel(340_500, 400_000, stream=5, call=(310_000, 311_000))
    judge_verdict(stub, timeline.save(), 0, f"two kernels, the second held by an event {held}")


@task("nsys_ex02.judge_streams")
@pytest.mark.parametrize(("registers", "dynamic"), [(32, 0), (168, 0), (32, 60_000), (32, 120_000)])
def test_what_fits_by_registers_and_memory(
    stub: Any, draw: Any, registers: int, dynamic: int
) -> None:
    """By warps alone four such kernels fit side by side; by what they hold besides, fewer do."""
    timeline = with_devices(draw(), 1)
    for i in range(4):
        at, call = 100_000 * (i + 1), 1_000 * i
        timeline.kernel(at, at + 100_000, stream=3 + i, call=(call, call + 900))
        launch(timeline, 2, 256, registers, 0, dynamic)
    shown = f"kernels of {registers} registers a thread and {dynamic} bytes a block"
    judge_verdict(stub, timeline.save(), 0, shown)


@task("nsys_ex02.judge_streams")
@pytest.mark.parametrize("saved", [7_999, 8_000, 9_999, 10_000, 12_000, 12_001])
def test_close_to_the_floor(stub: Any, draw: Any, saved: int) -> None:
    timeline = with_devices(draw())
    timeline.kernel(0, 50_000, stream=3, call=(-9_000, -8_000))
    late = 50_000 - saved - START_COST
    timeline.kernel(50_000, 100_000, stream=4, call=(late - 500, late))
    judge_verdict(stub, timeline.save(), 0, f"{saved} of 100000 ns could be saved")
