"""Basic profiling: which part of a training step, on the host or on the device?

You put the profiler around a training loop without changing the training, and read its trace:
phases, operators, the profiler's overhead, and where to look first. `profile_training.py` in this folder
is such a loop. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check torch_ex01

checks your solution.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture
from profiling_lab.findings import Finding

# CUDA calls in which the host does nothing but wait for the device.
WAITING_CALLS = (
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
)
# A smaller share of the steps is not worth a change.
FLOOR_RATIO = 0.10
KIND_OF_CATEGORY = {
    "user_annotation": "range",
    "cpu_op": "operator",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "kernel": "device",
    "gpu_memcpy": "device",
    "gpu_memset": "device",
}

Interval = tuple[int, int]


def train_with_profile(
    train_step: Callable[[Any], Any],
    batches: Iterable[Any],
    trace_file: str,
    skip: int = 5,
    active: int = 3,
) -> list[Any]:
    """Train on all batches, and write a trace of some steady steps during the training.

    Calls `train_step(batch)` once for each batch, in order, and returns a list of the calls' results. The
    training is the same as without the profiler: the profiler adds no step.

    The first `skip` steps are not recorded. In the last two of them (in the only one, if skip is 1) the profiler
    warms up. The next `active` steps are recorded. Their trace (`export_chrome_trace`) is in `trace_file` when
    the step after them begins. If no step follows, it is there when the training ends. From then on the
    profiler is off. No file is written if the batches end, or a step raises, before all of these steps are
    done. If a step raises, its exception is passed on, and the profiler is off.

    The profiler records the host, and the GPU if torch finds one. Source: torch.profiler.schedule (without
    `repeat=1` the schedule starts again after `active` steps).

    Raises ValueError, before the first step, for skip < 1 or active < 1.
    """
    if skip < 1 or active < 1:
        raise ValueError(f"skip {skip}, active {active}: both must be at least 1")
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    results: list[Any] = []

    def write(profiler: profile) -> None:
        if len(results) >= skip + active:  # else the batches ended, or a step failed
            profiler.export_chrome_trace(trace_file)

    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    warmup = min(skip, 2)
    plan = schedule(wait=skip - warmup, warmup=warmup, active=active, repeat=1)
    with profile(activities=activities, schedule=plan, on_trace_ready=write) as profiler:
        for batch in batches:
            results.append(train_step(batch))
            profiler.step()
    return results


def read_events(capture: str) -> list[dict[str, Any]]:
    """The events of a Kineto trace that the tasks here use (given).

    Returns dicts, ordered by start, with
        "kind":        "range" (of record_function), "operator", "call" (of CUDA, on the host) or "device"
                       (kernel, copy or memset).
        "name", "start_ns", "end_ns",
        "thread":      the host's thread.
        "correlation": correlation ID of calls and device work, else None.
    Raises CaptureError if there are no events.
    """
    try:
        rows = json.loads(captures.text(capture, "trace.json"), parse_float=Decimal)["traceEvents"]
        out = [
            {
                "kind": KIND_OF_CATEGORY[row["cat"]],
                "name": row["name"],
                "start_ns": int(row["ts"] * 1000),
                "end_ns": int((row["ts"] + row["dur"]) * 1000),
                "thread": row["tid"],
                "correlation": row.get("args", {}).get("correlation"),
            }
            for row in rows
            if row.get("cat") in KIND_OF_CATEGORY and row.get("ph") == "X"
        ]
    except (ValueError, LookupError, TypeError) as error:
        raise CaptureError(f"{capture}: trace.json is no Kineto trace: {error!r}") from None
    if not out:
        raise CaptureError(f"{capture}: the trace holds no events")
    return sorted(out, key=lambda event: event["start_ns"])


def phase_times(capture: str) -> list[dict[str, Any]]:
    """How long each phase of the recorded steps took, on the host and on the device.

    A phase is a range inside a range "ProfilerStep#…" of its thread, and inside no other range of that thread.
    A range that a library opens inside a phase (`Optimizer.step#AdamW.step`) is part of the phase. Ranges with
    the same name are one phase. "Inside" means from start to end, both bounds included.

    Returns a dict for each phase, in the order in which the phases first start:
        "phase":     its name.
        "count":     number of its ranges.
        "host_ns":   sum of their durations.
        "waiting_ns": sum of the durations of the WAITING_CALLS that started in one of its ranges, on any thread.
        "python_ns": time in its ranges in which no operator and no CUDA call ran, on any thread: the ranges
                     without the union of these.
        "device_ns": time in which at least one kernel, copy or memset of the phase ran. Device work belongs to
                     the phase if its call, found by the correlation, started in one of its ranges, on any
                     thread (backward issues from another thread).

    A call starts in a range if range start <= start of the call < range end.

    Raises EmptyCapture if there is no step, or no phase in a step; the message says which.
    """
    events = read_events(capture)
    steps = _of_kind(events, "range", "ProfilerStep#")
    if not steps:
        raise EmptyCapture(f"{capture}: no range ProfilerStep#…: was profiler.step() called?")
    others = [e for e in _of_kind(events, "range") if not e["name"].startswith("ProfilerStep#")]
    ranges = [
        one
        for one in others
        if any(_inside(one, step) for step in steps)
        and not any(_inside(one, other) for other in others if other is not one)
    ]
    if not ranges:
        raise EmptyCapture(f"{capture}: no range inside a step: name phases with record_function")
    calls = _of_kind(events, "call")
    host = _union([(e["start_ns"], e["end_ns"]) for e in [*calls, *_of_kind(events, "operator")]])
    device: dict[Any, list[Interval]] = {}
    for event in _of_kind(events, "device"):
        device.setdefault(event["correlation"], []).append((event["start_ns"], event["end_ns"]))
    out = []
    for name in dict.fromkeys(one["name"] for one in ranges):
        own = [(e["start_ns"], e["end_ns"]) for e in ranges if e["name"] == name]
        issued = [e for e in calls if any(start <= e["start_ns"] < end for start, end in own)]
        waits = [e for e in issued if e["name"] in WAITING_CALLS]
        length = sum(end - start for start, end in own)
        covered = _length([part for one in own for part in _clipped(host, one)])
        work = [one for call in issued for one in device.get(call["correlation"], [])]
        out.append(
            {
                "phase": name,
                "count": len(own),
                "host_ns": length,
                "waiting_ns": sum(e["end_ns"] - e["start_ns"] for e in waits),
                "python_ns": length - covered,
                "device_ns": _length(_union(work)),
            }
        )
    return out


def _of_kind(events: list[dict[str, Any]], kind: str, name: str = "") -> list[dict[str, Any]]:
    return [e for e in events if e["kind"] == kind and e["name"].startswith(name)]


def _inside(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return (
        one["thread"] == other["thread"]
        and other["start_ns"] <= one["start_ns"]
        and one["end_ns"] <= other["end_ns"]
    )


def _union(intervals: list[Interval]) -> list[Interval]:
    out: list[Interval] = []
    for start, end in sorted(intervals):
        if out and start <= out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]))
        else:
            out.append((start, end))
    return out


def _clipped(intervals: list[Interval], window: Interval) -> list[Interval]:
    first, last = window
    return [(max(s, first), min(e, last)) for s, e in intervals if s < last and e > first]


def _length(intervals: list[Interval]) -> int:
    return sum(end - start for start, end in intervals)


def top_operators(
    rows: list[dict[str, Any]], by: str = "device", count: int = 5
) -> list[dict[str, Any]]:
    """The operators in which most time was spent, from torch's own table.

    rows: rows of `key_averages()` as plain data, each with "name", "calls", "device_type",
        "is_user_annotation" and times in µs. The device's column is "self_device_time_total", in torch before
        2.4 "self_cuda_time_total"; the host's is "self_cpu_time_total".
    by: "device" or "host".

    An operator is a row whose device_type is "CPU" and which is not a user annotation. Rows of device_type
    "CUDA" are the kernels that operators launched, or the marks of ranges on the device. Their time is already
    in the operators' rows.

    Returns the `count` operators with the largest *self* time, largest first (if equal, in the order of rows).
    Operators with time 0 are left out. Each is {"name", "calls", "self_us", "share_ratio": its share of the self
    times of all operators}.

    Raises ValueError, with the value in its message, if `by` has any other value. Raises ValueError, with the column's name
    in its message, for an operator without the column.
    """
    columns = {
        "device": ("self_device_time_total", "self_cuda_time_total"),
        "host": ("self_cpu_time_total",),
    }
    if by not in columns:
        raise ValueError(f"by is {by!r}: device or host")
    found = []
    for row in rows:
        if row["device_type"] != "CPU" or row["is_user_annotation"]:
            continue
        value = next((row[name] for name in columns[by] if name in row), None)
        if value is None:
            raise ValueError(f"{row['name']} has no column {columns[by][0]}")
        found.append((row, value))
    total = sum(value for _, value in found)
    found.sort(key=lambda pair: -pair[1])
    return [
        {
            "name": row["name"],
            "calls": row["calls"],
            "self_us": value,
            "share_ratio": value / total,
        }
        for row, value in found[:count]
        if value > 0
    ]


def profiler_overhead(capture: str) -> list[dict[str, Any]]:
    """How much longer the profiler makes a step, for each setting.

    capture: has `overhead.json`: {"samples_ns": {way: [time of one step, …]}, "file_bytes": {way: size of a
        trace}, "steps_in_file": number of steps in it, …}. A way is a setting of the profiler; "none" is
        without it.

    Returns a dict for each other way, in the order of the file:
        "way",
        "overhead_ns":    its median minus that of "none" (negative if it was faster).
        "overhead_ratio": overhead_ns / median of "none".
        "visible":        whether overhead_ns is above the spread of "none": third quartile minus first
                          quartile (statistics.quantiles, "inclusive"). If not, the overhead may be chance.
        "step_bytes":     bytes that a step adds to the file.

    Raises CaptureError if the file has no "none", or only "none"; the message names what is missing.
    """
    try:
        found = json.loads(captures.text(capture, "overhead.json"))
        samples, sizes = found["samples_ns"], found["file_bytes"]
        plain = samples["none"]
    except (ValueError, KeyError) as error:
        raise CaptureError(f"{capture}: overhead.json lacks {error}") from None
    if len(samples) < 2:
        raise CaptureError(f"{capture}: overhead.json holds only 'none', no way to compare with it")
    base = statistics.median(plain)
    low, _, high = statistics.quantiles(plain, n=4, method="inclusive")
    return [
        {
            "way": way,
            "overhead_ns": statistics.median(times) - base,
            "overhead_ratio": (statistics.median(times) - base) / base,
            "visible": statistics.median(times) - base > high - low,
            "step_bytes": sizes[way] / found["steps_in_file"],
        }
        for way, times in samples.items()
        if way != "none"
    ]


def first_look(capture: str) -> Finding:
    """Where to look first: is the device busy, and if not, because of which phase?

    The window is from the start of the first "ProfilerStep#…" to the end of the last one. The device is busy
    while at least one kernel, copy or memset of the trace runs in the window, and idle for the rest of it. Use
    the phases of `phase_times`, and decide in this order:

    1. If the idle time is below FLOOR_RATIO of the window: "healthy", subject "device:0", recommendation "none".
       recoverable_ns is the idle time.
    2. Else, if waiting_ns of all phases together is at least FLOOR_RATIO of the window: "sync_bound", for the
       phase with the largest waiting_ns. recoverable_ns is the idle time.
    3. Else take the phase with the largest host_ns: "host_bound" if its python_ns is more than half of its
       host_ns, else "launch_bound". recoverable_ns is the smaller of that host_ns and the idle time.

    If phases are equal, take the first. subject in 2 and 3: "range:" and the phase.
    evidence: "recoverable_ns", "window_ns", "idle_ratio" (idle / window), and in 2 and 3 "host_ns" and
    "python_ns" of the phase. recoverable_ns is the *most* that a change can save; Day 3 computes what it really
    saves.
    recommendation in 2 and 3: one sentence, not "none".

    Raises the errors of `phase_times`, and EmptyCapture if no device operation ran in the window.
    """
    phases = phase_times(capture)
    events = read_events(capture)
    steps = _of_kind(events, "range", "ProfilerStep#")
    window = (min(e["start_ns"] for e in steps), max(e["end_ns"] for e in steps))
    work = [(e["start_ns"], e["end_ns"]) for e in _of_kind(events, "device")]
    busy = _length(_clipped(_union(work), window))
    if not busy:
        raise EmptyCapture(f"{capture}: no device operation ran in the steps: was it a CPU trace?")
    length = window[1] - window[0]
    idle = length - busy
    evidence = {"recoverable_ns": idle, "window_ns": length, "idle_ratio": idle / length}
    if idle < FLOOR_RATIO * length:
        return Finding("healthy", "device:0", evidence, "none")
    if sum(phase["waiting_ns"] for phase in phases) >= FLOOR_RATIO * length:
        category = "sync_bound"
        phase = max(phases, key=lambda one: one["waiting_ns"])
    else:
        phase = max(phases, key=lambda one: one["host_ns"])
        by_python = phase["python_ns"] > phase["host_ns"] / 2
        category = "host_bound" if by_python else "launch_bound"
        evidence["recoverable_ns"] = min(idle, phase["host_ns"])
    evidence |= {"host_ns": phase["host_ns"], "python_ns": phase["python_ns"]}
    return Finding(category, f"range:{phase['phase']}", evidence, _ADVICE[category])


_ADVICE = {
    "sync_bound": "look for what reads a number from the device in this phase, and read it later",
    "host_bound": "let other threads prepare this while the device works on the step before",
    "launch_bound": "issue fewer, larger operations: larger batches, compiled code, a CUDA graph",
}
