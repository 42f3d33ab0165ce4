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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError
