"""Checks of `torch_ex01`: a watched loop, recorded and drawn traces, tables and a sweep of options."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import judge, require, show
from grading.checks.fixtures import recordings
from grading.checks.generate.kineto import Trace
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture
from profiling_lab.findings import Finding, problems

PROBE = Path(__file__).resolve().with_name("probes") / "basic_profiling.py"
TRACES = recordings(
    "training_phases_inline",
    "training_phases_ready",
    "training_phases_narrow",
    "torch_train_sync",
    holding="trace.json",
)
SWEEPS = recordings("profiler_overhead_narrow", "profiler_overhead_wide", holding="overhead.json")
FLOOR = 0.10
WAITS = {"cudaDeviceSynchronize", "cudaStreamSynchronize", "cudaEventSynchronize"}

Interval = tuple[int, int]


# -- train_with_profile -------------------------------------------------------------------------------


def judge_training(stub: Any, count: int, plan: dict[str, int]) -> None:
    found = stub.probe(PROBE, "trained", count, plan)
    skip, active = plan.get("skip", 5), plan.get("active", 3)
    call = f"train_with_profile(step, {count} batches, file, skip={skip}, active={active})"
    everything = list(range(count))
    require(
        found["trained"] == everything,
        f"{call} trained the batches {found['trained']}, expected {everything}: each batch once, in "
        "order, to the end. A profiler that drops or repeats steps changes the model.",
    )
    require(
        found["returned"] == [f"loss {number}" for number in everything],
        f"{call} returned {show(found['returned'])}, expected what the {count} steps returned, in a list",
    )
    whole = count >= skip + active
    want = everything[skip : skip + active] if whole else []
    require(
        found["file"] == whole,
        f"{call}: there is {'a' if found['file'] else 'no'} file afterwards, expected "
        + (
            f"the trace of steps {want}"
            if whole
            else "none: the batches ended before the steps did"
        ),
    )
    require(
        found["recorded"] == want and found["steps"] == len(want),
        f"{call}: the file holds the batches {found['recorded']} in {found['steps']} steps, expected "
        f"{want}. The first {skip} steps are not typical: they compile, allocate and fill caches. "
        "(One trace: a schedule without an end starts again, and overwrites it.)",
    )
    on = [number for number in everything if found["on"][number]]
    require(
        not whole or on == want,
        f"{call}: the profiler recorded during the steps {on}, expected {want}: what it records, it slows.",
    )
    late = [number for number in everything[skip + active :] if not found["there"][number]]
    require(
        not late,
        f"{call}: the file was not there yet in the steps {late}. Write it as soon as its steps are "
        "done: nobody waits until a long run has ended.",
    )
    require(not found["left_on"], f"{call} left the profiler on")


@task("torch_ex01.train_with_profile")
def test_training_is_the_same_and_some_steps_are_recorded(stub, seed):
    chance = random.Random(f"train {seed}")
    judge_training(stub, 10 + chance.randrange(3), {})
    skip, active = chance.randint(1, 4), chance.randint(1, 3)
    # Long enough that a schedule that begins anew would come round a second time.
    judge_training(
        stub, 2 * (skip + active) + chance.randint(0, 2), {"skip": skip, "active": active}
    )


@task("torch_ex01.train_with_profile")
def test_a_loop_that_ends_exactly_or_early(stub):
    judge_training(stub, 5, {"skip": 3, "active": 2})
    judge_training(stub, 4, {"skip": 3, "active": 2})
    judge_training(stub, 0, {"skip": 1, "active": 1})


@task("torch_ex01.train_with_profile")
def test_the_profiler_warms_up_in_the_steps_before(stub):
    for skip, active in ((5, 2), (2, 1), (1, 2)):
        ready = stub.probe(PROBE, "warm_up", {"skip": skip, "active": active})
        want = [max(skip - 2, 0)]
        require(
            ready == want,
            f"train_with_profile(step, batches, file, skip={skip}, active={active}) made the profiler ready "
            f"after {ready} batches, expected {want}: it warms up in the last two skipped steps, once. "
            "What it costs to switch on must not fall into the first recorded step.",
        )


@task("torch_ex01.train_with_profile")
@pytest.mark.parametrize("fail_at", [1, 5, 8])
def test_a_step_that_fails(stub, fail_at):
    found = stub.probe(PROBE, "trained", 12, {"skip": 4, "active": 3}, fail_at)
    call = f"train_with_profile(step, 12 batches, file, skip=4, active=3), step {fail_at} raises"
    require(
        found["raised"] == "ArithmeticError",
        f"{call}: {found['raised'] or 'nothing'} came out, expected the step's own ArithmeticError",
    )
    require(not found["left_on"], f"{call}: the profiler is still on")
    require(
        found["file"] == (fail_at >= 7),
        f"{call}: there is {'a' if found['file'] else 'no'} file. A trace of some of the steps looks like "
        "one of all of them; one that was whole before the failure stays.",
    )


@task("torch_ex01.train_with_profile")
def test_a_plan_without_steps_is_refused(stub):
    for plan in ({"skip": 0}, {"active": 0}):
        found = stub.probe(PROBE, "trained", 9, plan)
        require(
            found["raised"] == "ValueError" and not found["trained"],
            f"train_with_profile(…, {plan}): {found['raised'] or 'nothing'} was raised, after "
            f"{len(found['trained'])} steps; expected ValueError before the first one",
        )


@task("torch_ex01.train_with_profile")
@pytest.mark.parametrize("gpu", [False, True], ids=["without a GPU", "with one"])
def test_what_is_watched(stub, gpu):
    asked = stub.probe(PROBE, "activities", gpu)
    want = ["CPU", "CUDA"] if gpu else ["CPU"]
    require(
        asked is None or asked == want,
        f"train_with_profile {'with' if gpu else 'without'} a GPU asks torch to watch {asked}, expected {want}",
    )


# -- traces, read again -------------------------------------------------------------------------------


def parts_of(capture: str) -> dict[str, list[dict[str, Any]]]:
    """The events of a trace by category, times in ns."""
    out: dict[str, list[dict[str, Any]]] = {}
    for row in json.loads(captures.text(capture, "trace.json"), parse_float=Decimal)["traceEvents"]:
        if row.get("ph") == "X" and "cat" in row:
            start, length = Decimal(row["ts"]) * 1000, Decimal(row["dur"]) * 1000
            event = {"name": row["name"], "thread": row["tid"], "start": int(start)}
            event |= {"end": int(start + length), "of": (row.get("args") or {}).get("correlation")}
            out.setdefault(row["cat"], []).append(event)
    return out


def covered(intervals: Iterable[Interval], within: Iterable[Interval] | None = None) -> int:
    """How long at least one interval (and one of `within`) is open: a walk along the bounds."""
    marks = [(t, 0, d) for s, e in intervals for t, d in ((s, 1), (e, -1))]
    windows = [(t, 1, d) for s, e in within or () for t, d in ((s, 1), (e, -1))]
    open_, total, last = [0, 0 if within is not None else 1], 0, 0
    for time, which, change in sorted(marks + windows):
        if open_[0] > 0 and open_[1] > 0:
            total += time - last
        open_[which] += change
        last = time
    return total


def span(event: dict[str, Any]) -> Interval:
    return event["start"], event["end"]


def of_a_loop(capture: str) -> dict[str, list[dict[str, Any]]]:
    """The events of a recording with steps and phases, which one of the learner's own may lack."""
    parts = parts_of(capture)
    if not phases_of(parts):
        raise NotGraded("not run", f"{Path(capture).name} has no phases in steps")
    return parts


def phases_of(parts: dict[str, list[dict[str, Any]]]) -> list[dict[str, Any]]:
    """What phase_times must say."""
    ranges = sorted(parts.get("user_annotation", []), key=lambda e: (e["start"], -e["end"]))
    by_name: dict[str, list[Interval]] = {}
    for place, one in enumerate(ranges):
        if one["name"].startswith("ProfilerStep#"):
            continue
        around = [
            other["name"].startswith("ProfilerStep#")
            for number, other in enumerate(ranges)
            if number != place
            and other["thread"] == one["thread"]
            and other["start"] <= one["start"] <= one["end"] <= other["end"]
        ]
        if around and all(around):
            by_name.setdefault(one["name"], []).append(span(one))
    calls = parts.get("cuda_runtime", []) + parts.get("cuda_driver", [])
    busy_host = [span(e) for e in calls + parts.get("cpu_op", [])]
    work = [e for cat in ("kernel", "gpu_memcpy", "gpu_memset") for e in parts.get(cat, [])]
    out = []
    for name, own in by_name.items():
        issued = [c for c in calls if any(s <= c["start"] < e for s, e in own)]
        known = {call["of"] for call in issued}
        length = sum(e - s for s, e in own)
        out.append(
            {
                "phase": name,
                "count": len(own),
                "host_ns": length,
                "waiting_ns": sum(c["end"] - c["start"] for c in issued if c["name"] in WAITS),
                "python_ns": length - covered(busy_host, own),
                "device_ns": covered([span(e) for e in work if e["of"] in known]),
            }
        )
    return out


WHY_PHASES = {
    "count": "Ranges of this name inside a step.",
    "host_ns": "The ranges' own durations.",
    "waiting_ns": "Only calls that wait and nothing else, started inside the phase.",
    "python_ns": "The part that no operator and no CUDA call of any thread covers: backward runs its operators "
    "on a separate thread.",
    "device_ns": "The device works later than the host issues: the correlation leads from a call to its work. "
    "Where two kernels run at once, the device is busy once.",
}


def judge_phases(stub: Any, capture: str, where: str) -> None:
    got, want = stub.phase_times(capture), phases_of(parts_of(capture))
    call = f"phase_times({where})"
    names = [row.get("phase") for row in got] if isinstance(got, list) else got
    require(
        names == [row["phase"] for row in want],
        f"{call} found the phases {show(names)}, expected {[row['phase'] for row in want]}: ranges that lie "
        "directly in a step, in the order in which they begin. Libraries mark parts of a phase by ranges too.",
    )
    for row, expected in zip(got, want, strict=True):
        judge(f"{call}, {expected['phase']!r}", row, expected, "ns or a count", WHY_PHASES)


def drawn_trace(folder: Path, chance: random.Random, style: str, work_us: int = 60) -> str:
    """A training loop. style: "host", "launch", "sync" or "busy": what its device waits for."""
    trace = Trace(folder)
    trace.kernel(0, 3_000)  # issued before anybody watched: there is no call
    time, free = 10_000, 10_000
    for number in range(chance.randint(2, 4)):
        first = time
        inner: list[tuple[str, int, int]] = []
        for name in ("load", "forward", "backward", "update"):
            start = time
            time += chance.randrange(300, 900)
            count = {"load": 1}.get(name, chance.randint(3, 6))
            thread = 2 if name == "backward" else 1
            if name == "load" and style == "host":
                time += 900_000 + chance.randrange(90_000)
            for _ in range(count):
                begin = time
                length = chance.randrange(8_000, 14_000)
                if style == "launch":
                    length += 40_000
                operator = trace.operator("aten::mm", begin, begin + length, thread=thread)
                launch = (begin + 2_000, begin + 5_000)
                lasts = chance.randrange(2_000, 6_000) * (work_us if style == "busy" else 1)
                free = max(free, launch[1] + 1_000)
                more: dict[str, Any] = {"call": launch, "operator": operator, "thread": thread}
                if name == "load":
                    trace.copy(free, free + lasts, **more)
                elif chance.random() < 0.3:  # on another stream, at the same time
                    trace.kernel(free, free + lasts, stream=9, **more)
                    again = (launch[1] + 200, launch[1] + 700)
                    trace.kernel(free + lasts // 2, free + lasts + 900, call=again, thread=thread)
                    lasts += 900
                else:
                    trace.kernel(free, free + lasts, **more)
                free += lasts
                time = begin + length + chance.randrange(50, 400)
            if name == "update":
                inner.append(("Optimizer.step#SGD.step", start + 100, time - 20))
            if style == "sync" and name == "backward":
                end = max(time, free) + 400_000
                trace.call("cudaStreamSynchronize", time, end)
                free = time = end
            trace.range(name, start, time)
            time += chance.randrange(0, 300)
        for one in inner:
            trace.range(*one)
        trace.range("helper", first + 500, time - 500, thread=5)  # of a thread that has no steps
        trace.step(number + 5, first, time)
        trace.noise(time)
        time += chance.randrange(100, 2_000)
    trace.range("load", time + 10, time + 5_000)  # after the last step
    return trace.save(packed=chance.random() < 0.5)


STYLES = ("host", "launch", "sync", "busy")


@task("torch_ex01.phase_times")
@TRACES
def test_phases_of_a_recorded_loop(stub, recording):
    of_a_loop(recording)
    judge_phases(stub, recording, recording)


@task("torch_ex01.phase_times")
def test_phases_of_drawn_loops(stub, seed, tmp_path):
    for style in STYLES:
        chance = random.Random(f"phases {seed} {style}")
        folder = drawn_trace(tmp_path / style, chance, style)
        judge_phases(stub, folder, f"a drawn loop, seed {seed}")


@task("torch_ex01.phase_times")
def test_bounds_of_phases(stub, tmp_path):
    trace = Trace(tmp_path / "bounds")
    trace.step(1, 0, 100_000)
    trace.range("all of it", 0, 60_000)
    trace.range("the rest", 60_000, 100_000)
    trace.range("part", 0, 30_000)
    trace.kernel(200_000, 210_000, call=(0, 1_000))
    trace.kernel(220_000, 225_000, call=(60_000, 61_000))
    trace.call("cudaStreamSynchronize", 99_000, 100_000)
    trace.call("cudaStreamWaitEvent", 61_000, 62_000)
    trace.kernel(230_000, 233_000, call=(100_000, 101_000))
    judge_phases(stub, trace.save(), "two phases that meet, with work at their bounds")


@task("torch_ex01.phase_times")
def test_a_trace_without_steps_or_phases(stub, tmp_path):
    trace = Trace(tmp_path / "no steps")
    trace.range("forward", 0, 10_000)
    with stub.raises(EmptyCapture, "(?i)step", "which of it is a steady step?"):
        stub.phase_times(trace.save())
    trace = Trace(tmp_path / "no phases")
    trace.step(3, 0, 10_000)
    trace.range("forward", 20_000, 30_000)
    with stub.raises(EmptyCapture, "(?i)range|phase", "without ranges there are no phases"):
        stub.phase_times(trace.save())


# -- top_operators ------------------------------------------------------------------------------------


def table_of(capture: str) -> list[dict[str, Any]]:
    found = json.loads(captures.text(capture, "key_averages.json"))
    if isinstance(found, dict) and "by_name" not in found:  # a trace of the learner's own
        raise NotGraded("not run", f"{Path(capture).name} is no table of operators")
    rows = found["by_name"] if isinstance(found, dict) else found
    keep = ("name", "calls", "device_type", "is_user_annotation", "self_cpu_time_total")
    keep += ("cpu_time_total", "self_device_time_total", "device_time_total")
    return [{key: row[key] for key in keep} for row in rows]


def judge_top(stub: Any, rows: list[dict[str, Any]], by: str, count: int, where: str) -> None:
    column = {"host": "self_cpu_time_total", "device": "self_device_time_total"}[by]
    old = column.replace("device", "cuda")
    chosen = [
        (row, row.get(column, row.get(old)))
        for row in rows
        if row["device_type"] == "CPU" and not row["is_user_annotation"]
    ]
    total = sum(value for _, value in chosen)
    ranked = sorted((-value, i) for i, (_, value) in enumerate(chosen) if value > 0)[:count]
    want = [
        {"name": chosen[i][0]["name"], "calls": chosen[i][0]["calls"], "self_us": -value}
        | {"share_ratio": -value / total}
        for value, i in ranked
    ]
    got = stub.top_operators(rows, by, count)
    call = f"top_operators({where}, {by!r}, {count})"
    names = [row.get("name") for row in got] if isinstance(got, list) else got
    require(
        names == [row["name"] for row in want],
        f"{call} names {show(names)}, expected {show([row['name'] for row in want])}: operators by *self* "
        "time. Total time counts an operator in each one that called it; kernels and ranges are in the "
        "table besides.",
    )
    for row, expected in zip(got, want, strict=True):
        judge(
            f"{call}, {expected['name']!r}",
            row,
            expected,
            "us, or a ratio",
            {"share_ratio": f"Of the self times of all operators, {total:.3f} us."},
        )


@task("torch_ex01.top_operators")
@TRACES
def test_operators_of_a_recorded_table(stub, recording):
    rows = table_of(recording)
    judge_top(stub, rows, "device", 5, f"the table of {recording}")
    judge_top(stub, rows, "host", 4, f"the table of {recording}")


def drawn_table(chance: random.Random) -> list[dict[str, Any]]:
    rows = []
    for number in range(9):
        self_us, host_us = chance.randrange(4) * 50.5, float(chance.randrange(1, 900))
        kind = chance.choice(("CPU", "CPU", "CUDA"))
        rows.append(
            {
                "name": f"aten::op{number}",
                "calls": chance.randint(1, 9),
                "device_type": kind,
                "is_user_annotation": chance.random() < 0.3,
                "self_cpu_time_total": host_us,
                "cpu_time_total": host_us + chance.randrange(900),
                "self_device_time_total": self_us,
                "device_time_total": self_us + chance.randrange(900),
            }
        )
    plain = {"device_type": "CPU", "is_user_annotation": False}
    more = [("aten::last", 50.5), ("aten::short", 0.4), ("aten::none", 0.0)]
    return rows + [rows[0] | plain | {"name": n, "self_device_time_total": t} for n, t in more]


@task("torch_ex01.top_operators")
def test_five_operators_if_nobody_says_how_many(stub, seed):
    plain = {"device_type": "CPU", "is_user_annotation": False}
    rows = [row | plain for row in drawn_table(random.Random(f"five {seed}"))]
    rows = [row | {"self_device_time_total": 10.0 + i} for i, row in enumerate(rows)]
    got = stub.top_operators(rows)
    names = [row.get("name") for row in got] if isinstance(got, list) else got
    want = [row["name"] for row in rows[::-1][:5]]
    require(
        names == want,
        f"top_operators(a made-up table) names {show(names)}, expected {want}: five, by the device's time",
    )


@task("torch_ex01.top_operators")
def test_operators_of_drawn_tables(stub, seed):
    for number in range(6):
        rows = drawn_table(random.Random(f"table {seed} {number}"))
        judge_top(stub, rows, "device", 3, "a made-up table")
        judge_top(stub, rows, "host", 20, "a made-up table")
        judge_top(stub, rows, "device", 20, "a made-up table")


@task("torch_ex01.top_operators")
def test_operators_of_a_table_of_an_older_torch(stub, seed):
    rows = drawn_table(random.Random(f"old {seed}"))
    old = [{key.replace("device_time", "cuda_time"): row[key] for key in row} for row in rows]
    judge_top(stub, old, "device", 4, "a table of torch 2.3")


@task("torch_ex01.top_operators")
def test_tables_without_the_column_are_refused(stub, seed):
    rows = drawn_table(random.Random(f"bad {seed}"))
    with stub.raises(ValueError, "gpu", "a misspelled word must not count as the other one"):
        stub.top_operators(rows, "gpu", 3)
    lost = [{k: v for k, v in row.items() if k != "self_device_time_total"} for row in rows]
    with stub.raises(ValueError, "self_device_time_total", "no column is not a time of 0"):
        stub.top_operators(lost, "device", 3)


# -- profiler_overhead --------------------------------------------------------------------------------


def spread(samples: list[int]) -> float:
    low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
    return high - low


def judge_overhead(stub: Any, capture: str, where: str) -> None:
    table = json.loads(captures.text(capture, "overhead.json"))
    if "samples_ns" not in table:
        raise NotGraded("not run", f"{Path(capture).name} is no sweep of overheads")
    plain = table["samples_ns"]["none"]
    base = statistics.median(plain)
    want = []
    for way, times in table["samples_ns"].items():
        if way == "none":
            continue
        more = statistics.median(times) - base
        want.append(
            {
                "way": way,
                "overhead_ns": float(more),
                "overhead_ratio": more / base,
                "visible": more > spread(plain),
                "step_bytes": table["file_bytes"][way] / table["steps_in_file"],
            }
        )
    got = stub.profiler_overhead(capture)
    call = f"profiler_overhead({where})"
    ways = [row.get("way") for row in got] if isinstance(got, list) else got
    require(
        ways == [row["way"] for row in want],
        f"{call} speaks of {show(ways)}, expected {[row['way'] for row in want]}: every way but 'none', "
        "which the others are compared with",
    )
    for row, expected in zip(got, want, strict=True):
        judge(
            f"{call}, {expected['way']!r}",
            row,
            expected,
            "ns, a ratio, or bytes",
            {
                "overhead_ns": f"The median without the profiler is {base:.0f} ns.",
                "overhead_ratio": f"Relative to a step without the profiler, {base:.0f} ns.",
                "visible": f"Steps without the profiler spread over {spread(plain):.0f} ns, this way adds "
                f"{expected['overhead_ns']:.0f} ns.",
                "step_bytes": f"The file holds {table['steps_in_file']} steps.",
            },
        )


@task("torch_ex01.profiler_overhead")
@SWEEPS
def test_overhead_in_a_recorded_sweep(stub, recording):
    judge_overhead(stub, recording, recording)


def save_sweep(folder: Path, chance: random.Random, ways: list[str]) -> str:
    level = chance.randrange(200_000, 900_000)
    samples, sizes = {}, {}
    for way in ways:
        more = 0 if way == "none" else chance.choice((-2_000, 4_000, 9_000, 60_000, 300_000))
        samples[way] = [level + more + chance.randrange(20_000) for _ in range(9)]
        samples[way][chance.randrange(9)] *= 4
        sizes[way] = 0 if way == "none" else chance.randrange(10_000, 900_000)
    table = {"samples_ns": samples, "file_bytes": sizes, "steps_in_file": chance.randint(2, 9)}
    folder.mkdir()
    (folder / "overhead.json").write_text(json.dumps(table), encoding="utf-8")
    return str(folder)


@task("torch_ex01.profiler_overhead")
def test_overhead_in_a_made_up_sweep(stub, seed, tmp_path):
    for number in range(4):
        chance = random.Random(f"sweep {seed} {number}")
        ways = ["none", "cpu", "shapes", "stacks", "all"][: 5 if number else 2]
        chance.shuffle(ways)
        folder = save_sweep(tmp_path / str(number), chance, ways)
        judge_overhead(stub, folder, "a made-up sweep")


@task("torch_ex01.profiler_overhead")
def test_an_overhead_as_large_as_the_spread(stub, tmp_path):
    samples = {"none": [100, 110, 120, 130, 140], "as much": [140] * 5, "more": [141] * 5}
    sizes = {"none": 0, "as much": 5, "more": 6}
    table = {"samples_ns": samples, "file_bytes": sizes, "steps_in_file": 2}
    (tmp_path / "overhead.json").write_text(json.dumps(table), encoding="utf-8")
    judge_overhead(stub, str(tmp_path), "a sweep in which one way costs exactly the spread")


@task("torch_ex01.profiler_overhead")
def test_a_sweep_with_nothing_to_compare(stub, seed, tmp_path):
    chance = random.Random(f"lone {seed}")
    with stub.raises(CaptureError, "none", "overhead is more than something"):
        stub.profiler_overhead(save_sweep(tmp_path / "a", chance, ["cpu", "stacks"]))
    with stub.raises(CaptureError, "", "nothing was watched, so nothing is known of watching"):
        stub.profiler_overhead(save_sweep(tmp_path / "b", chance, ["none"]))


# -- first_look ---------------------------------------------------------------------------------------


def look_of(capture: str) -> tuple[str, str, dict[str, Any]]:
    """Category, subject and evidence that first_look must give."""
    parts = parts_of(capture)
    rows = phases_of(parts)
    steps = [e for e in parts["user_annotation"] if e["name"].startswith("ProfilerStep#")]
    window = (min(e["start"] for e in steps), max(e["end"] for e in steps))
    work = [e for cat in ("kernel", "gpu_memcpy", "gpu_memset") for e in parts.get(cat, [])]
    length = window[1] - window[0]
    idle = length - covered([span(e) for e in work], [window])
    evidence: dict[str, Any] = {"window_ns": length, "idle_ratio": idle / length}
    if idle / length < FLOOR:
        return "healthy", "device:0", evidence | {"recoverable_ns": idle}
    if sum(row["waiting_ns"] for row in rows) / length >= FLOOR:
        chosen, category = max(rows, key=lambda row: row["waiting_ns"]), "sync_bound"
        evidence["recoverable_ns"] = idle
    else:
        chosen = max(rows, key=lambda row: row["host_ns"])
        category = "host_bound" if 2 * chosen["python_ns"] > chosen["host_ns"] else "launch_bound"
        evidence["recoverable_ns"] = min(idle, chosen["host_ns"])
    evidence |= {"host_ns": chosen["host_ns"], "python_ns": chosen["python_ns"]}
    return category, f"range:{chosen['phase']}", evidence


def judge_look(stub: Any, capture: str, where: str, wanted: str = "") -> None:
    category, subject, evidence = look_of(capture)
    assert wanted in ("", category), f"the drawn loop is {category}, meant to be {wanted}"
    found = stub.first_look(capture)
    call = f"first_look({where})"
    require(isinstance(found, Finding), f"{call} returned {show(found)}, expected a Finding")
    words = f"The device is idle for {evidence['idle_ratio']:.1%} of the steps"
    if category != "healthy":
        words += (
            f"; of {subject.partition(':')[2]}'s {evidence['host_ns']} ns on the host, "
            f"{evidence['python_ns']} ns are in no operator and no CUDA call"
        )
    require(
        (found.category, found.subject) == (category, subject),
        f"{call} says {found.category} of {found.subject!r}, expected {category} of {subject!r}. {words}.",
    )
    judge(
        f"{call}, evidence",
        dict(found.evidence),
        evidence,
        "ns, or a ratio",
        {
            "idle_ratio": "Time of the steps in which no kernel, copy or memset ran, over all of it.",
            "recoverable_ns": "It is at most the device's idle time, and at most the phase's time.",
            "window_ns": "From the first recorded step's start to the last one's end.",
        },
    )
    require(
        (found.recommendation == "none") == (category == "healthy"),
        f"{call} recommends {found.recommendation!r}; 'none' is for a loop that keeps its device busy",
    )
    wrong = problems(found)
    require(not wrong, f"{call}: {'; '.join(wrong)}")


@task("torch_ex01.first_look")
@TRACES
def test_first_look_at_a_recorded_loop(stub, recording):
    if not {"kernel", "gpu_memcpy", "gpu_memset"} & of_a_loop(recording).keys():
        raise NotGraded("not run", f"{Path(recording).name} was made without a GPU")
    judge_look(stub, recording, recording)


@task("torch_ex01.first_look")
@pytest.mark.parametrize("style", STYLES)
def test_first_look_at_a_drawn_loop(stub, seed, tmp_path, style):
    category = "healthy" if style == "busy" else f"{style}_bound"
    chance = random.Random(f"look {seed} {style}")
    judge_look(
        stub, drawn_trace(tmp_path / style, chance, style), f"a drawn loop, seed {seed}", category
    )


@task("torch_ex01.first_look")
def test_equal_phases_and_the_floors(stub, tmp_path):
    for name, work, waits in (
        ("below", 90_001, 0),
        ("at", 90_000, 0),
        ("waits", 80_000, 10_000),
        ("hardly", 80_000, 9_000),
    ):
        trace = Trace(tmp_path / name)
        trace.step(1, 0, 100_000)
        trace.range("one", 0, 50_000)
        trace.range("two", 50_000, 100_000)
        trace.kernel(5_000, 5_000 + work, call=(0, 1_000))
        if waits:
            trace.call("cudaDeviceSynchronize", 60_000, 60_000 + waits)
        trace.operator("aten::mm", 0, 25_000)
        judge_look(
            stub, trace.save(), "two equal phases, and the device idle for a tenth of the step"
        )


@task("torch_ex01.first_look")
def test_a_trace_of_the_host_alone_is_refused(stub, tmp_path):
    trace = Trace(tmp_path / "cpu")
    trace.step(1, 0, 100_000)
    trace.range("forward", 0, 50_000)
    trace.operator("aten::mm", 0, 25_000)
    with stub.raises(EmptyCapture, "", "without device work nothing is known of the device"):
        stub.first_look(trace.save())
