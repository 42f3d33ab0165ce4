"""Basic profiling: which part of a training step, on the host or on the device?

You put the profiler around a training loop without changing the training, and read its trace:
phases, operators, the profiler's overhead, and where to look first. `profile_training.py` beside this file
is such a loop. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check torch_ex01

tells what is right and wrong.
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
# Less than this share of the steps is not worth a change.
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
    """Train on all batches, and write a trace of some steady steps while doing so.

    Calls `train_step(batch)` once for each batch, in order, and returns the results of the calls in a
    list: training is the same as without the profiler, and the profiler adds no step.

    The first `skip` steps are not recorded; the profiler warms up in the last two of them (in the only one,
    if skip is 1). The next `active` steps are recorded, and their trace (`export_chrome_trace`) is in
    `trace_file` when the step after them begins, or when the training ends with them. From then on the
    profiler is off. If the batches end, or a step raises, before all of these are done, no file is written.
    If a step raises, its exception is passed on, with the profiler off.

    It records the host, and the GPU if torch finds one. Source: torch.profiler.schedule (without
    `repeat=1` it starts again after `active` steps).

    Raises ValueError, before the first step, for skip < 1 or active < 1.
    """
    raise NotImplementedError


def read_events(capture: str) -> list[dict[str, Any]]:
    """The events of a Kineto trace that the tasks here ask about (given).

    Returns dicts with "kind" ("range": of record_function; "operator"; "call": of CUDA, on the host;
    "device": kernel, copy or memset), "name", "start_ns", "end_ns", "thread" (of the host) and
    "correlation" (of calls and device work, else None), by start. Raises CaptureError if there are none.
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
    """What each phase of the recorded steps cost, on the host and on the device.

    A phase is a range inside a range "ProfilerStep#…" of its thread, and inside no other range of that
    thread: what a library marks within a phase (`Optimizer.step#AdamW.step`) is a part of it. Ranges of one
    name are one phase. "Inside" means from start to end, both bounds included.

    Returns, in the order in which they first start, a dict for each:
        "phase"      its name
        "count"      how many ranges
        "host_ns"    their durations, added up
        "waiting_ns" of it in WAITING_CALLS: the calls that started in one of the ranges, on any thread,
                     added up
        "python_ns"  of it while no operator and no CUDA call ran, on any thread: what is left of the ranges
                     without the union of these
        "device_ns"  how long at least one kernel, copy or memset ran that was issued in the phase: their
                     call, found by the correlation, started in one of the ranges, on any thread
                     (backward issues from a thread of its own)

    Starts count from a range's start up to but without its end.
    Raises EmptyCapture if there is no step, or no phase in it; the message says which.
    """
    raise NotImplementedError


def top_operators(
    rows: list[dict[str, Any]], by: str = "device", count: int = 5
) -> list[dict[str, Any]]:
    """The operators in which the time was spent, from torch's own table.

    rows: of `key_averages()` as plain data, each with "name", "calls", "device_type", "is_user_annotation" and
    times in µs. The device's column is "self_device_time_total", in torch before 2.4
    "self_cuda_time_total"; the host's is "self_cpu_time_total".
    by: "device" or "host".

    An operator is a row whose device_type is "CPU" and that is no user annotation. Rows of device_type
    "CUDA" are the kernels that operators launched, or the marks of ranges on the device: their time is in
    the operators' rows already.

    Returns the `count` operators with the largest *self* time, largest first (of equal ones in the order of
    rows), without those of time 0: [{"name", "calls", "self_us", "share_ratio"}], the share being that of the
    self times of all operators.

    Raises ValueError for another `by`, naming it, and for an operator that lacks the column, naming the
    column.
    """
    raise NotImplementedError


def profiler_overhead(capture: str) -> list[dict[str, Any]]:
    """By how much the profiler makes a step longer, for each setting.

    capture: has `overhead.json`: {"samples_ns": {way: [time of one step, …]}, "file_bytes": {way: size of a
    trace}, "steps_in_file": steps in it, …}. The way "none" is without the profiler.

    Returns a dict for each other way, in the order of the file:
        "way"
        "overhead_ns"     its median minus that of "none" (below 0 if it came out faster)
        "overhead_ratio"  that over the median of "none"
        "visible"         whether overhead_ns is above the spread of "none": third quartile minus first
                          (statistics.quantiles, "inclusive"); otherwise it may be chance
        "step_bytes"      what a step adds to the file

    Raises CaptureError, naming what is missing, for a file without "none", or with "none" alone.
    """
    raise NotImplementedError


def first_look(capture: str) -> Finding:
    """Where to look first: is the device busy, and if not, because of which phase?

    The window is from the start of the first "ProfilerStep#…" to the end of the last one. The device is
    busy while at least one kernel, copy or memset of the trace runs in it; the rest is idle. With the phases
    of `phase_times`:

    1. idle below FLOOR_RATIO of the window: "healthy", subject "device:0", recommendation "none".
    2. else, if all phases' waiting_ns together are at least FLOOR_RATIO of the window: "sync_bound", about the
       phase with the largest waiting_ns; recoverable_ns is the idle time.
    3. else about the phase with the largest host_ns: "host_bound" if its python_ns is more than half of
       its host_ns, else "launch_bound"; recoverable_ns is the smaller of that host_ns and the idle time.

    Of equal phases the first. subject of 2 and 3: "range:" and the phase.
    evidence: "recoverable_ns", "window_ns", "idle_ratio" (idle over window), and for 2 and 3 "host_ns" and
    "python_ns" of the phase. In 1 recoverable_ns is the idle time. It is the *most* that a change can save; Day 3
    computes what it really saves.
    recommendation of 2 and 3: one sentence, not "none".

    Raises what `phase_times` raises, and EmptyCapture if no device operation ran in the window.
    """
    raise NotImplementedError
