"""The recorded order of dependencies, on the recordings: exact when unchanged, true when changed."""

from __future__ import annotations

import statistics
from pathlib import Path
from types import ModuleType

import pytest

from grading.checks.generate.drawn_timeline import Timeline
from profiling_lab import captures
from profiling_lab.captures import dependencies
from profiling_lab.captures.dependencies import Operation
from profiling_lab.course import manifest as course
from profiling_lab.mine.functions import load_file

ROOT = Path(__file__).resolve().parents[2]
NAMES = captures.names()


@pytest.fixture(scope="module")
def ex_30() -> ModuleType:
    file = course.load(ROOT).solution(course.load(ROOT).exercise("ex_30").stub)
    return load_file(file, "reference_ex_30_replay")


def replayed_starts(operations: list[Operation]) -> list[int]:
    starts: list[int] = []
    for operation in operations:
        moments = [
            starts[d.on] + (operations[d.on].duration_ns if d.at == "end" else 0) + d.lag_ns
            for d in operation.after
        ]
        starts.append(max(moments, default=operation.start_ns) + operation.delay_ns)
    return starts


@pytest.mark.parametrize("name", NAMES)
def test_played_unchanged_the_recording_comes_back(name: str) -> None:
    operations = dependencies.read(captures.open(name))
    assert replayed_starts(operations) == [operation.start_ns for operation in operations]
    assert all(operation.delay_ns >= 0 for operation in operations)
    assert all(operation.duration_ns >= 0 for operation in operations)
    assert all(d.on < operation.index for operation in operations for d in operation.after)


def test_back_to_back_kernels_follow_each_other_after_about_a_microsecond() -> None:
    gaps = []
    for name in ("training_async", "alloc_cached", "torch_inference_improved"):
        operations = dependencies.read(captures.open(name))
        for operation in operations:
            order = [d for d in operation.after if d.why == "stream order"]
            launch = [d for d in operation.after if d.why == "launch"]
            if operation.kind == "kernel" and order and launch and not operation.delay_ns:
                before = operations[order[0].on]
                if operations[launch[0].on].end_ns + 10_000 < before.end_ns:  # it was queued
                    gaps.append(operation.start_ns - before.end_ns)
    assert len(gaps) > 50
    # The library never takes more than its constant, so the recorded gaps themselves are asked.
    ratio = statistics.median(gaps) / dependencies.BACK_TO_BACK_NS
    assert 0.5 <= ratio <= 2, ratio


def test_a_kernel_that_begins_before_its_predecessor_ends_still_comes_after_it(
    ex_30: ModuleType,
) -> None:
    operations = dependencies.read(captures.open("case_adversarial_b"))
    early = 0
    last: dict[str, Operation] = {}
    for operation in (o for o in operations if o.device >= 0):
        before = last.get(operation.where)
        last[operation.where] = operation
        if before is not None:
            [order] = [d for d in operation.after if d.why == "stream order"]
            assert (order.on, order.at) == (before.index, "end")
            early += operation.start_ns < before.end_ns
    assert early > 10
    # The device is busy: issuing work faster would save little.
    assert ex_30.recoverable_time("case_adversarial_b")["launch_cost"] < 0.1 * _window_ns(
        ex_30, "case_adversarial_b"
    )


def test_a_backward_pass_is_waited_for_by_the_thread_that_started_it() -> None:
    operations = dependencies.read(captures.open("training_item"))
    handed = [d for operation in operations for d in operation.after if d.why == "hand-over"]
    steps = captures.open("training_item").nvtx_ranges["name"].to_list().count("step")
    assert len(handed) >= 2 * (steps - 1)  # over and back, once a step


def _window_ns(ex_30: ModuleType, name: str) -> int:
    start, end = ex_30.find_window(name)
    return end - start


# Each sick program and its twin that has only this cause removed: what the replay of the sick one
# predicts against what the twin took. The twins are recordings of their own, so clocks and host
# noise differ, and a CUDA graph also shortens the way between kernels: hence the tolerance.
@pytest.mark.parametrize(
    ("sick", "fixed", "cause"),
    [
        ("training_item", "training_async", "waits"),
        ("alloc_every_step", "alloc_cached", "allocation"),
        ("host_preprocess", "host_prefetch", "host_code"),
        ("decode_eager", "decode_graph", "launch_cost"),
    ],
)
def test_prediction_holds_against_the_fixed_twin(
    sick: str, fixed: str, cause: str, ex_30: ModuleType
) -> None:
    before = _window_ns(ex_30, sick)
    predicted = before - ex_30.recoverable_time(sick)[cause]
    measured = _window_ns(ex_30, fixed)
    assert abs(predicted - measured) < 0.1 * before, (predicted, measured, before)


@pytest.mark.parametrize(
    ("name", "category"),
    [
        ("training_item", "sync_bound"),
        ("alloc_every_step", "allocation_bound"),
        ("host_preprocess", "host_bound"),
        ("decode_eager", "launch_bound"),
        ("torch_inference_baseline", "transfer_bound"),
        ("cuda_pipeline_baseline", "transfer_bound"),
        ("backtrace_masking", "sync_bound"),
        ("backtrace_logging", "host_bound"),
        *[
            (name, "healthy")
            for name in (
                "training_async",
                "alloc_cached",
                "host_prefetch",
                "decode_graph",
                "torch_inference_improved",
                "cuda_pipeline_improved",
                "two_streams",
                "two_devices",
                "backtrace_clean",
            )
        ],
    ],
)
def test_each_planted_cause_is_named(name: str, category: str, ex_30: ModuleType) -> None:
    finding = ex_30.name_bottleneck(name)
    assert finding.category == category, finding


def test_events_are_followed_through_a_stream_that_runs_nothing() -> None:
    """The communicator's side stream only passes events on; rank 1's rows say device 0."""
    capture = captures.open("ddp_timeline_straggler")
    operations = dependencies.read(capture)
    waiting = {o.where for o in operations if any(d.why == "event" for d in o.after)}
    collectives = {o.where for o in operations if o.name.startswith("nccl")}
    computing = {o.where for o in operations if o.device >= 0} - collectives
    assert {where.split("/")[0] for where in collectives} == {"device:0", "device:1"}
    assert collectives <= waiting  # for the gradients
    assert len(computing & waiting) >= 2  # for the collectives, on both devices
    events = sum(d.why == "event" for o in operations for d in o.after)
    assert events <= 2 * capture.api_calls["name"].to_list().count("cudaStreamWaitEvent")


def _drawn(timeline: Timeline) -> list[Operation]:
    operations = dependencies.read(captures.open(timeline.save()))
    assert replayed_starts(operations) == [operation.start_ns for operation in operations]
    return operations


def _is(operations: list[Operation], kind: str) -> list[tuple[int, int]]:
    return [(o.start_ns, o.duration_ns) for o in operations if o.kind == kind]


@pytest.mark.parametrize(("other", "waits"), [(None, True), ("cudaMemGetInfo_v3020", False)])
def test_asking_until_the_answer_is_yes_is_a_wait(
    tmp_path: Path, other: str | None, waits: bool
) -> None:
    timeline = Timeline(tmp_path / "asked.sqlite")
    timeline.kernel(10_000, 110_000, call=(0, 3_000))
    timeline.kernel(111_000, 119_000, call=(3_000, 5_000))  # after what is asked for
    timeline.api("cudaEventQuery_v3020", 6_000, 7_000, returns=dependencies.NOT_READY)
    timeline.api("cudaEventQuery_v3020", 60_000, 61_000, returns=dependencies.NOT_READY)
    if other:
        timeline.api(other, 80_000, 81_000)
    timeline.api("cudaEventQuery_v3020", 112_000, 113_000)
    timeline.kernel(120_000, 130_000, call=(114_000, 116_000))
    operations = _drawn(timeline)
    found = [o for o in operations if o.waits_in == "synchronize"]
    assert [o.start_ns for o in found] == ([113_000] if waits else [])
    if waits:
        lags = [d.lag_ns for d in found[0].after if operations[d.on].kind == "kernel"]
        assert lags == [3_000], "it waits for the kernel, and goes on 3 µs after its end"


def test_what_stays_inside_the_device_is_issued_by_a_launch(tmp_path: Path) -> None:
    timeline = Timeline(tmp_path / "issued.sqlite")
    timeline.memset(10_000, 11_000, call=(0, 2_000))
    timeline.copy(12_000, 13_000, "D2D", call=(2_000, 4_000))
    timeline.copy(14_000, 15_000, "H2D", call=(4_000, 6_000))
    timeline.api("cudaGraphInstantiate_v12000", 6_000, 9_000)
    timeline.kernel(20_000, 21_000, call=(9_000, 10_000))
    operations = _drawn(timeline)
    assert _is(operations, "launch") == [(0, 2_000), (2_000, 2_000), (9_000, 1_000)]
    assert _is(operations, "copy_call") == [(4_000, 2_000)]
    assert _is(operations, "host_code") == [(6_000, 3_000)], "a call that issues nothing"


@pytest.mark.parametrize("frees", [True, False])
def test_a_pool_gives_memory_back_while_the_host_waits(tmp_path: Path, frees: bool) -> None:
    timeline = Timeline(tmp_path / "pool.sqlite")
    timeline.kernel(10_000, 110_000, call=(0, 5_000))
    if frees:
        timeline.api("cudaFreeAsync_v11020", 5_000, 6_000)
    timeline.api("cudaStreamSynchronize_v3020", 6_000, 640_000, waits_for_stream=7)
    timeline.kernel(650_000, 651_000, call=(641_000, 645_000))
    timeline.api("cudaStreamSynchronize_v3020", 646_000, 900_000, waits_for_stream=7)
    timeline.kernel(910_000, 911_000, call=(901_000, 905_000))
    released = 640_000 - 110_000 - dependencies.WAIT_RETURN_NS
    found = [one for one in _is(_drawn(timeline), "allocation") if one[1] > 1_000]
    assert found == ([(640_000 - released, released)] if frees else [])


@pytest.mark.parametrize(
    "stands",
    ["between", "before", "after", "on another thread", "without a delay", "beside other work"],
)
def test_a_function_of_the_host_holds_up_what_follows_in_its_stream(
    tmp_path: Path, stands: str, ex_30: ModuleType
) -> None:
    timeline = Timeline(tmp_path / "function.sqlite")
    where = {"before": (17_000, 18_000), "after": (30_000, 31_000)}.get(stands, (26_000, 27_000))
    thread = 2 if stands == "on another thread" else 1
    timeline.kernel(5_000, 29_000, call=(0, 1_000))
    timeline.kernel(30_000, 130_000, call=(20_000, 25_000))
    timeline.api("cudaLaunchHostFunc_v10000", *where, thread=thread)
    start = 131_000 if stands == "without a delay" else 200_000
    if stands == "beside other work":  # the kernel may have waited for room
        timeline.kernel(40_000, 150_000, stream=9, thread=2, call=(11_000, 12_000))
    timeline.kernel(start, start + 10_000, call=(28_000, 29_000))
    found = _is(_drawn(timeline), "host_function")
    assert found == ([(131_000, 69_000)] if stands == "between" else [])
    saved = ex_30.recoverable_time(str(tmp_path / "function.sqlite"))
    assert saved["host_code"] == (69_000 if stands == "between" else 0)


@pytest.mark.parametrize(("cause", "stalled_ns"), [(2, 45_000), (3, 45_000), (1, 0)])
def test_a_kernel_stands_still_while_pages_come_that_it_asked_for(
    tmp_path: Path, cause: int, stalled_ns: int, ex_30: ModuleType
) -> None:
    timeline = Timeline(tmp_path / "managed.sqlite")
    timeline.kernel(10_000, 110_000, call=(0, 5_000))
    timeline.kernel(111_000, 211_000, call=(5_000, 6_000))
    for start, end in ((5_000, 15_000), (20_000, 40_000), (30_000, 50_000), (100_000, 110_500)):
        timeline.copy(start, end, "UVM H2D", migration=cause, stream=0, correlation=0)
    operations = _drawn(timeline)
    kernels = _is(operations, "kernel")
    assert kernels == [(10_000 + stalled_ns, 100_000 - stalled_ns), (111_000, 100_000)]
    saved = ex_30.recoverable_time(str(tmp_path / "managed.sqlite"))
    # The device is idle from 110.5 to 111 µs.
    assert saved == dict.fromkeys(saved, 0) | {"launch_cost": 500, "copies": stalled_ns}


def _told(folder: Path, case: str, *, steps: int = 13) -> tuple[str, list[tuple[int, int]]]:
    """A capture of a thread that launches a kernel, which lasts longer or shorter, and then pauses.

    A second thread sends the result to the host when it is there. Both put a function of the host into a
    stream after that. Returns the file, and of each pause its end and that of the copy in it.
    """
    timeline = Timeline(folder / "told.sqlite")
    function = "cudaEventRecord_v3020" if case == "no function" else "cuLaunchHostFunc"
    other = {"thread": 2, "process": 2 if case == "another process" else 1}
    at, pauses = 0, []
    for step in range(steps):
        busy_ns = 100_000 + (0 if case == "always the same" else 10_000 * (step * 7 % 5))
        timeline.kernel(at + 10_000, at + 10_000 + busy_ns, call=(at, at + 5_000))
        timeline.api(function, at + 6_000, at + 8_000)
        sent = at + 60_000 + busy_ns
        copied = sent + (700_000 if case == "ends later" else 8_000)
        timeline.copy(sent + 6_000, copied, "D2H", stream=9, call=(sent, sent + 5_000), **other)
        timeline.api("cuLaunchHostFunc", sent + 5_000, sent + 6_000, **other)
        pause_ns = copied - at - 8_000
        at = {
            "own code": at + 500_000 + 1_000 * (step % 3),
            "twice": at + 8_000 + 2 * pause_ns,
            "loosely": copied + 150_000 + 40_000 * (step * 5 % 7),
            "ends later": sent + 150_000,
        }.get(case, copied + 150_000 + 1_000 * (step % 3))
        pauses.append((at, copied))
    return timeline.save(), pauses[:-1]


@pytest.mark.parametrize(
    "case",
    [
        "waits",
        "too few to tell",
        "own code",
        "twice",
        "loosely",
        "always the same",
        "ends later",
        "no function",
        "another process",
    ],
)
def test_a_thread_that_is_told_when_work_is_done_waits_for_it(
    case: str, tmp_path: Path, ex_30: ModuleType
) -> None:
    file, pauses = _told(tmp_path, case, steps=10 if case == "too few to tell" else 11)
    with captures.open(file) as capture:
        operations = dependencies.read(capture)
    found = [o for o in operations if (o.kind, o.where) == ("wait", "thread:1")]
    if case != "waits":
        assert not found
        return
    assert [o.start_ns for o in found] == [end for end, _ in pauses]
    for wait, (end, copied) in zip(found, pauses, strict=True):
        assert (wait.waits_in, wait.duration_ns, wait.delay_ns) == ("synchronize", 0, 0)
        _, reason = wait.after
        awaited = operations[reason.on]
        assert (awaited.name, awaited.end_ns) == ("D2H", copied)
        assert (reason.why, reason.at, reason.lag_ns) == ("wait", "end", end - copied)
    assert replayed_starts(operations) == [operation.start_ns for operation in operations]
    assert ex_30.name_bottleneck(file).category == "sync_bound"
    saved = ex_30.recoverable_time(file)
    assert saved["host_code"] == 0 < saved["waits"]


def test_own_code_behind_a_function_of_the_host_is_own_code(
    tmp_path: Path, ex_30: ModuleType
) -> None:
    file, _ = _told(tmp_path, "own code")
    assert ex_30.name_bottleneck(file).category == "host_bound"
