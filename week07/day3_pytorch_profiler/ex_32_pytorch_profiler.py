"""Day 3, PyTorch profiler: which operator, which line?

You profile steps of a model, find the operator, the line of Python and the allocation that cause a problem, and
repair it. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check ex_32

says which tasks are right and what is wrong in the others. You write the repairs in `model_optimized.py`, next to this
file.

`capture` is the name of a capture ("torch_train_sync"), or the path of its folder or file.
`profiling_lab.captures.torch_trace` and `torch_memory` return its contents in plain form. All times are integers in
ns. A **step** is the time between two calls of `profiler.step()`. An event belongs to the step if it starts at or after
the step's start and before its end. **Busy** is the union of the kernels, copies and memsets of a device, as on Day 1.
`week07/README.md` says what to do with bad input. Only `refuses_bad_input` is checked for it.
"""

from __future__ import annotations

import itertools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from profiling_lab.captures import kineto
from profiling_lab.captures.dependencies import Operation
from profiling_lab.captures.torch_memory import bytes_in_use, memory_blocks, step_end_bytes
from profiling_lab.captures.torch_trace import (
    Operator,
    calls_in_steps,
    operators,
    own_line,
    python_function,
    read_trace,
    step_of,
    steps,
    union_ns,
    window,
)
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding

# Host time between two CUDA calls up to this length is the cost of issuing work; a longer stretch is
# the program's own code. It is ten times Day 1's limit, because PyTorch under the profiler takes up to
# a few hundred microseconds where a backward pass or an optimizer begins.
DISPATCH_LIMIT_NS = 1_000_000

# Below this share of the window no cause is worth naming: the trace is healthy.
HEALTHY_FLOOR_RATIO = 0.10

# Savings that differ by at most this share of the window count as equal. A share this close to the floor, on
# either side, is borderline, and the finding must say so.
BORDERLINE_RATIO = 0.02

# Memory that grows by no more than this share of itself from step to step is left alone.
GROWTH_FLOOR_RATIO = 0.001

# CUDA calls whose purpose is to wait.
SYNCHRONIZING_CALLS = (
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
)

# What runs on a device.
DEVICE_KINDS = ("kernel", "copy", "memset")

# The host range, an operator in the trace, in which TorchDynamo compiles one piece of code.
COMPILATION = "_compile.compile_inner (dynamo_timed)"

# What can be removed from a trace, and the category for it. Of causes that save nearly the same, the first decides.
CATEGORY_OF_CAUSE = {
    "allocation": "allocation_bound",
    "waits": "sync_bound",
    "copies": "transfer_bound",
    "launch_cost": "launch_bound",
    "host_code": "host_bound",
    "compilation": "recompilation",
}

RECOMMENDATIONS = {
    "healthy": "none",
    "sync_bound": "keep results on the device and read them after the steps",
    "launch_bound": "issue less: fuse, use larger batches, compile, or replay a CUDA graph",
    "transfer_bound": "pin host memory and copy on a stream of its own while kernels run",
    "allocation_bound": "leave memory with the caching allocator, and sizes the same from step to step",
    "host_bound": "move host work off the critical path: prefetch it on another thread or process",
    "recompilation": "make what changes from call to call dynamic, or keep it the same",
    "memory_growth": "let go of what each step keeps: detach it, or keep a number instead of a tensor",
}


def refuses_bad_input(wait: int, warmup: int, active: int, repeat: int) -> int:
    """How many steps a schedule runs, or an error that says what is wrong.

    Raises ValueError, with the name and value of the wrong argument alone, for one that is not an integer (True and 1.0
    are not), a `wait` or `warmup` below 0, an `active` or `repeat` below 1. torch itself reads repeat=0 as "for ever".

    Example: `(1, 1, 3, 2)` runs 10 steps; `(1, 1, 0, 2)` raises "active must be … at least 1, not 0".
    """
    raise NotImplementedError


def trace_writer(folder: str, files: list[str]) -> Callable[[Any], None]:
    """A function for `on_trace_ready` that writes `trace_<number>.json` and adds its path to files. Given."""

    def write(profiler: Any) -> None:
        files.append(str(Path(folder) / f"trace_{len(files)}.json"))
        profiler.export_chrome_trace(files[-1])

    return write


def profile_steps(
    step: Callable[[], object],
    folder: str,
    wait: int = 1,
    warmup: int = 1,
    active: int = 3,
    repeat: int = 1,
) -> list[str]:
    """Run a step under `torch.profiler` and write a trace of its steady state.

    Call `step` once for each step of the schedule (`torch.profiler.schedule`), and the profiler's own `step()` after each.
    A cycle is off for `wait` steps, on but discarding for `warmup` steps, and records `active` steps. There are `repeat`
    cycles.

    Record the host, and the GPU if there is one (`torch.cuda.is_available()`), with shapes of inputs, Python stacks and
    memory. Each cycle writes one file into `folder` (`trace_writer`). Return their paths. If `step` raises, stop the
    profiler; the caller gets the exception.

    Example: `profile_steps(step, "out", repeat=2)` calls `step` ten times and returns
    `["out/trace_0.json", "out/trace_1.json"]`, with the steps 2 to 4 and 7 to 9, counted from 0.
    """
    raise NotImplementedError


def grouped(rows: Iterable[dict[str, Any]], amount: str) -> list[dict[str, Any]]:
    """Rows that differ only in `amount` as one row, with the sum of their amounts and "count". Given.

    Ordered by amount, largest first, then by the other values (None last).

    Example: `grouped([{"where": "a", "bytes": 5}, {"where": "a", "bytes": 4}], "bytes")` returns
    `[{"where": "a", "bytes": 9, "count": 2}]`.
    """
    found: dict[tuple[tuple[str, Any], ...], list[int]] = defaultdict(list)
    for row in rows:
        found[tuple((key, row[key]) for key in row if key != amount)].append(row[amount])
    out = [dict(same) | {amount: sum(n), "count": len(n)} for same, n in found.items()]
    others = {key: None for same in found for key, _ in same}
    return sorted(
        out, key=lambda row: (-row[amount], *((row[key] is None, row[key] or "") for key in others))
    )


def synchronizing_calls(capture: str) -> list[dict[str, Any]]:
    """Which lines of Python make the host wait for the device, how often and how long.

    Of `calls_in_steps(capture)`, these wait: those in SYNCHRONIZING_CALLS, and those with the "correlation" of a copy (an
    event of kind "copy") whose name contains "Pageable". `own_line(capture, call)` is the line that made a call.

    Returns, `grouped` by "blocked_ns", one dict for each name and line:
        "call"         the call's name
        "where"        its line
        "count"        how many such calls there are
        "blocked_ns"   the sum of their durations, `end_ns - start_ns`

    Example: `.item()` in line 9 waits twice, for 30 and 50 ns:
    `[{"call": "cudaStreamSynchronize", "where": "train.py:9 step", "count": 2, "blocked_ns": 80}]`.
    """
    raise NotImplementedError


def name_trace_bottleneck(capture: str) -> Finding:
    """The main finding of a capture, about its `idlest_device`.

    Memory that grows (`growth_finding`) comes before everything else. Otherwise the finding is a `time_finding`.

    W is the window's length (`window(capture)` gives start and end). A cause is a candidate if its saving
    (`recoverable_time`) is at least HEALTHY_FLOOR_RATIO * W, and at least (the largest saving) - BORDERLINE_RATIO * W.
    Choose the candidate that comes first in CATEGORY_OF_CAUSE. Without a candidate the finding is "healthy", with the largest
    saving.

    The functions named here are given right below, with contracts of a line or two.

    Example: of a window of 100 ns waits save 30, launches 31: `time_finding(0, "sync_bound", 30, 100)`.
    """
    raise NotImplementedError


# -- given ------------------------------------------------------------------------------------------


def idlest_device(capture: str) -> int:
    """The device that was busy least in the steps; the lowest number if equal. Given.

    Raises CaptureError if the trace holds no step, or no device operation.
    """
    work: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in read_trace(capture)["events"]:
        if event["kind"] in DEVICE_KINDS:
            work[event["device"]].append(event)
    spans = [(start, end) for _, start, end in steps(capture)]
    if not work:
        raise CaptureError(
            f"{capture}: holds no device operation; record with ProfilerActivity.CUDA"
        )
    busy = {device: sum(union_ns(own, a, b) for a, b in spans) for device, own in work.items()}
    return min(busy, key=lambda device: (busy[device], device))


def growth_finding(capture: str, device: int) -> Finding | None:
    """The finding that the memory of a device grows, or None. Given.

    Growth is the smallest difference between the bytes in use at the end of a step and of the step before it. It counts
    if it is more than GROWTH_FLOOR_RATIO of the bytes at the first step's end.
    """
    ends = step_end_bytes(capture, device)
    growth_bytes = min((after - before for before, after in itertools.pairwise(ends)), default=0)
    if not ends or growth_bytes <= GROWTH_FLOOR_RATIO * ends[0]:
        return None
    evidence = {"growth_bytes": growth_bytes, "step_end_bytes": ends[-1]}
    advice = RECOMMENDATIONS["memory_growth"]
    return Finding("memory_growth", f"device:{device}", evidence, advice)


def time_finding(device: int, category: str, saved_ns: int, window_ns: int) -> Finding:
    """The finding that a cause costs a share of the window, or that a device is "healthy". Given.

    evidence: the saving in ns and as a share of the window, and how far this share is from the floor. The recommendation
    begins with "borderline" if the share is within BORDERLINE_RATIO of the floor.
    """
    ratio = saved_ns / window_ns
    margin = ratio - HEALTHY_FLOOR_RATIO
    evidence = {
        "recoverable_ns": saved_ns,
        "window_ns": window_ns,
        "recoverable_ratio": ratio,
        "margin_ratio": margin,
    }
    prefix = "borderline: " if abs(margin) <= BORDERLINE_RATIO else ""
    return Finding(category, f"device:{device}", evidence, prefix + RECOMMENDATIONS[category])


def recoverable_time(capture: str) -> dict[str, int]:
    """Per cause of CATEGORY_OF_CAUSE, how many ns earlier the device would have finished the steps without it. Given.

    As on Day 1: change the operations of the steps, one cause at a time, and compare `replay_end` before and after. If
    host code takes more than DISPATCH_LIMIT_NS, the part of it that overlaps a compilation on its thread is
    "compilation"; the rest is "host_code". Raises CaptureError if the trace holds no step, or no device operation.
    """
    events = read_trace(capture)["events"]
    operations = kineto.operations(events, window(capture))
    compiling: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["kind"] == "operator" and event["name"] == COMPILATION:
            compiling[f"thread:{event['thread']}"].append(event)

    def own_code(operation: Operation) -> bool:
        long = operation.kind == "host_code" and operation.duration_ns > DISPATCH_LIMIT_NS
        return long or operation.kind == "host_function"

    def compiled_ns(operation: Operation) -> int:
        return union_ns(compiling[operation.where], operation.start_ns, operation.end_ns)

    def without_host_code(operation: Operation) -> Operation:
        if not own_code(operation):
            return operation
        return replace(operation, duration_ns=compiled_ns(operation))

    def without_compilation(operation: Operation) -> Operation:
        if not own_code(operation):
            return operation
        return replace(operation, duration_ns=operation.duration_ns - compiled_ns(operation))

    changes = {
        "allocation": without_allocation,
        "waits": without_waits,
        "copies": without_copies,
        "launch_cost": without_launch_cost,
        "host_code": without_host_code,
        "compilation": without_compilation,
    }
    recorded_end = replay_end(operations)
    most = most_recoverable(capture, operations)
    saved = {}
    for cause, change in changes.items():
        earlier = recorded_end - replay_end([change(operation) for operation in operations])
        saved[cause] = max(0, min(earlier, most[cause]))
    return saved


# -- what `recoverable_time` needs, as on Day 1: you need not read it ----------------------------------


def replay_end(operations: list[Operation]) -> int:
    """When the last device operation ends, in ns, if the operations are replayed. Given, from Day 1."""
    starts: list[int] = []
    ends: list[int] = []
    last = 0
    for operation in operations:
        start = operation.start_ns
        if operation.after:
            start = operation.delay_ns + max(
                (starts if dependency.at == "start" else ends)[dependency.on] + dependency.lag_ns
                for dependency in operation.after
            )
        starts.append(start)
        ends.append(start + operation.duration_ns)
        if operation.device >= 0:
            last = max(last, ends[-1])
    return last


def without_waits(operation: Operation) -> Operation:
    """The host waits for nothing, in no call. Given, as on Day 1."""
    if operation.waits_in not in ("synchronize", "copy_call"):
        return operation
    return replace(operation, after=tuple(d for d in operation.after if d.why != "wait"))


def without_launch_cost(operation: Operation) -> Operation:
    """Issuing work takes no time, except where the host continues after a wait. Given, as on Day 1."""
    dispatch = operation.kind == "host_code" and operation.duration_ns <= DISPATCH_LIMIT_NS
    issuing = (dispatch or operation.kind == "launch") and not operation.resumes
    return replace(operation, duration_ns=0) if issuing else operation


def without_copies(operation: Operation) -> Operation:
    """Copies between host and device, and their calls, take no time. Given, as on Day 1."""
    if operation.kind == "copy" and operation.name in ("H2D", "D2H"):
        return replace(operation, duration_ns=0, delay_ns=0)
    if operation.kind == "copy_call":
        return replace(operation, duration_ns=0)
    if operation.waits_in == "copy_call":
        after = tuple(
            replace(d, lag_ns=min(d.lag_ns, 0)) if d.why == "wait" else d for d in operation.after
        )
        return replace(operation, after=after)
    return operation


def without_allocation(operation: Operation) -> Operation:
    """The driver's allocations take no time and wait for nothing. Given, as on Day 1."""
    if operation.kind == "allocation":
        return replace(operation, duration_ns=0)
    if operation.waits_in == "allocation":
        return replace(operation, after=tuple(d for d in operation.after if d.why != "wait"))
    return operation


def most_recoverable(capture: str, operations: list[Operation]) -> dict[str, int]:
    """Per cause, the most that its removal can save, in ns. Given, as on Day 1.

    For copies this is what overlap can hide, for all other causes it is the idle time.
    """
    events = read_trace(capture)["events"]
    start, end = window(capture)
    on_device = [operation for operation in operations if operation.device >= 0]
    devices = {operation.device for operation in on_device}
    idle_ns = min(
        end - start - union_ns([e for e in events if e["device"] == device], start, end)
        for device in devices
    )
    least_ns = 0
    for device in devices:
        of = {
            way: [
                o.duration_ns
                for o in on_device
                if (o.device, o.kind, o.name) == (device, "copy", way)
            ]
            for way in ("H2D", "D2H")
        }
        for busiest, other in (("H2D", "D2H"), ("D2H", "H2D")):
            if of[busiest] and sum(of[busiest]) >= sum(of[other]):
                least_ns = max(least_ns, sum(of[busiest]) + min(of[other], default=0))
    first = min(operation.start_ns for operation in on_device)
    most = dict.fromkeys(CATEGORY_OF_CAUSE, idle_ns)
    return most | {"copies": max(o.end_ns for o in on_device) - first - least_ns}


# -- further ----------------------------------------------------------------------------------------

# The numbers of a row of `operator_table`.
COLUMNS = ("calls", "host_total_ns", "host_self_ns", "device_self_ns", "device_total_ns")


def table_of(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows of the same "name" as one row, with the sums of their COLUMNS. Given.

    Ordered by device_total_ns, largest first, then host_total_ns, largest first, then name.
    """
    table: dict[str, dict[str, Any]] = {}
    for row in rows:
        same = table.setdefault(row["name"], {"name": row["name"], **dict.fromkeys(COLUMNS, 0)})
        for column in COLUMNS:
            same[column] += row[column]
    return sorted(
        table.values(), key=lambda r: (-r["device_total_ns"], -r["host_total_ns"], r["name"])
    )


def operator_table(capture: str) -> list[dict[str, Any]]:
    """The table of operators: who took the time, on the host and the device?

    `operators(capture)` gives every operator, range and CUDA call, with `name`, `kind`, `host_ns`, `device_ns` (of what it
    issued itself) and `children` (called directly). Make a row for each operator and range. A CUDA call (`kind` is
    "call") has no row, but it is a child. Returns `table_of` these rows:
        "name"
        "calls"            1
        "host_total_ns"    its time on the host
        "host_self_ns"     that time without its children's (below 0 where events cross, as in torch)
        "device_self_ns"   its time on the device
        "device_total_ns"  the same, with everything that it called, directly or not

    Example: the only linear takes 9 ns; the addmm inside it takes 5, and its kernel 7. Rows: linear
    (1, 9, 4, 0, 7), addmm (1, 5, 5, 7, 7).
    """
    raise NotImplementedError


def held_at_peak(capture: str, device: int = 0) -> list[dict[str, Any]]:
    """What holds the memory when most of it is in use, by the line that allocated it.

    `bytes_in_use(capture, device)` is a list. Its element 0 is place -1: before the history's first entry. Element i is
    place i - 1: after entry i - 1. `memory_blocks(capture, device)` gives every block, with the attributes `bytes`,
    `where` (its line, or None), `from_place` and `to_place`. A block is in use from place `from_place` on, but no
    longer at `to_place`. The peak is the first place with the most in use.

    Returns, `grouped` by "bytes", one dict for each line:
        "where"   the line, or None
        "bytes"   the bytes of its blocks at the peak
        "count"   how many blocks these are

    Example: 5 bytes of line a from place -1 to 2, 3 of line b from 1 to 4, 4 of line a from 3 to 5. The bytes in use
    are 5, 5, 8, 3, 7, 4: the peak is place 1, `[{"where": "a", "bytes": 5, "count": 1}, {"where": "b", "bytes": 3,
    "count": 1}]`.
    """
    raise NotImplementedError


def step_breakdown(capture: str) -> list[dict[str, Any]]:
    """How much of each step each device was busy.

    The part of a device operation that is inside a step belongs to that step, whoever issued it.

    Returns a list, ordered by step and device, with an entry for each step and each device that
    worked anywhere in the trace:
        "step"         the number
        "device"
        "step_ns"      length of the step
        "busy_ns"      time in the step in which the device worked; overlapping time counts once
        "kernel_ns"    the same for kernels only
        "idle_ratio"   share of the step in which the device did nothing
    Raises CaptureError if the trace holds no step (naming `profiler.step()`), or no device operation
    (naming `ProfilerActivity.CUDA`).
    """
    raise NotImplementedError


def graph_breaks(capture: str) -> list[dict[str, Any]]:
    """Where compiled code had to return to Python before its end.

    Compiled code runs in an operator "Torch-Compiled Region: <frame>/<version>". If TorchDynamo cannot
    follow the Python code, it ends the graph, lets Python run that code, and continues in another
    frame. That frame's region is inside the first frame's region. So a graph break is a region inside
    another region on the same thread. It belongs to the innermost region around it.

    Returns a list of dicts, one for each pair of frames, ordered by from_frame and to_frame,
        "from_frame", "to_frame"   integers
        "count"                    how often, over all steps
        "where"                    "file:line function" of the break, or None. The rest of a broken
                                   function runs as "file(line): torch_dynamo_resume_in_<function>_at_<line>".
                                   Take the first Python function with such a name that starts inside the
                                   inner region: its file, and the function and line in its name
    Count only inner regions that start inside a step. An empty list means that no break was seen. (If the
    rest of a function cannot be compiled at all, there is no inner region, and the trace shows no break.)
    Raises CaptureError if the trace holds no step, or no compiled region at all.
    """
    raise NotImplementedError


def recompilations(capture: str) -> list[dict[str, Any]]:
    """Code that was compiled while the steps ran, and what that cost.

    A compilation is an operator called COMPILATION that starts inside a step. It compiled what runs
    next: the first operator "Torch-Compiled Region: <frame>/<version>" that starts on its thread after
    the compilation ended. A compilation inside another one is part of that one.

    Returns a list of dicts in order of time
        "step"          the number of the step that it starts in
        "frame", "version"   integers; None if no region follows. Version 0 is a first compilation, a
                        higher version is a recompilation
        "where"         "file:line function" of the first Python function of the form
                        "file(line): function" that starts inside that region; None if none does
        "duration_ns"
        "step_ratio"    its share of the step
    Raises CaptureError if the trace holds no step.
    """
    raise NotImplementedError


def launch_bound(capture: str) -> dict[str, Any]:
    """Whether the device waits for the host to issue work, with the evidence.

    The window is that of recoverable_time. Returns
        "launch_bound"        True if recoverable_ratio is at least HEALTHY_FLOOR_RATIO
        "recoverable_ns"      what launches that cost nothing would save (recoverable_time)
        "window_ns"           length of the window
        "recoverable_ratio"   their quotient
        "kernel_count"        kernels that a CUDA call starting in the window issued
        "starved_ratio"       share of these kernels whose device was idle: the kernel's call began at
                              or after the end of everything that the device started before the kernel
                              (of any kind, in the order of read_trace)
        "launches_per_step"   CUDA calls starting in the window that issued at least one kernel, over
                              the number of steps
    A replayed CUDA graph is one call that issues many kernels.
    Raises CaptureError if the trace holds no step, or no kernel was issued in the window.
    """
    raise NotImplementedError
