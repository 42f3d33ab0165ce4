"""Day 1, Nsight Systems: where did the time go?

You write small functions that read a recorded timeline and say what is wrong with it. The lesson is
`README.md` in this folder, hints are in `hints.md`, and

    uv run lab check ex_30

says which tasks are right and what is wrong in the others. Open a capture by its name or path:

    with captures.open(capture) as recording:
        recording.kernels        # a polars DataFrame; see `help(captures.NsysCapture)`

These definitions hold in all tasks. **Window**: the named NVTX range; without a name, the time from the
first start to the last end of a device operation (`find_window`). **Operations** of a device: kernels,
whole CUDA graphs, copies and memsets, on all its streams and from all processes. **Busy**: the union of
their intervals inside the window. All times are integer nanoseconds since the start of the recording.
`week07/README.md` says what to do with bad input. Only `refuses_bad_input` is checked for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import polars as pl

from profiling_lab import captures
from profiling_lab.captures.dependencies import Operation
from profiling_lab.captures.dependencies import read as read_dependencies
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CATEGORIES, Finding

# A host that issues work for the device needs some microseconds from one CUDA call to the next, with
# a framework some tens of microseconds. Host code up to this length counts as the cost of issuing
# work; longer host code is the program's own.
DISPATCH_LIMIT_NS = 100_000

# Below this share of the window no cause is worth naming: the capture is healthy.
HEALTHY_FLOOR_RATIO = 0.10

# A share this close to the floor, on either side, is borderline, and the finding must say so.
BORDERLINE_RATIO = 0.02

# CUDA calls whose purpose is to wait.
SYNCHRONIZING_CALLS = (
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
)

# What can be removed from a recording, and the category for it.
CATEGORY_OF_CAUSE = {
    "waits": "sync_bound",
    "launch_cost": "launch_bound",
    "copies": "transfer_bound",
    "allocation": "allocation_bound",
    "host_code": "host_bound",
}


def profile_command(
    sources: set[str], options: list[str], program: list[str], output: str
) -> list[str]:
    """`nsys profile` with these sources and options, each once; CPU sampling and context switches are off unless
    an option turns them on; `output` is overwritten. Given."""
    trace = f"--trace={','.join(sorted(sources)) or 'none'}"
    named = {option.partition("=")[0] for option in options}
    off = [f"{name}=none" for name in ("--sample", "--cpuctxsw") if name not in named]
    once = list(dict.fromkeys(options))
    end = [f"--output={output}", "--force-overwrite=true", *program]
    return ["nsys", "profile", trace, *off, *once, *end]


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    """The `nsys profile` command that answers some questions, and records nothing else.

    questions: one or more of
        "timeline"       when did kernels, copies and CUDA calls run, in which NVTX range?
        "steady_state"   the same from cudaProfilerStart to cudaProfilerStop; the program runs on to its end
        "graph_kernels"  which kernels run inside a CUDA graph?
        "sm_activity"    how many SMs of every device are active, sampled?

    Choose for each question the sources of `--trace` that it needs, and the options beside them (`--option=value`, long
    names); `profile_command` makes the command. The lesson has the tool's words on each option.

    Example: `nsys_command(["timeline"], ["./app"], "r1")` is `["nsys", "profile", "--trace=cuda,nvtx",
    "--sample=none", "--cpuctxsw=none", "--output=r1", "--force-overwrite=true", "./app"]`.
    """
    sources = {source for question in questions for source in _SOURCES_OF_QUESTION[question]}
    options = [option for question in questions for option in _OPTIONS_OF_QUESTION[question]]
    return profile_command(sources, options, program, output)


_SOURCES_OF_QUESTION = {
    "timeline": ["cuda", "nvtx"],
    "steady_state": ["cuda", "nvtx"],
    "graph_kernels": ["cuda"],
    "sm_activity": [],
}
_OPTIONS_OF_QUESTION = {
    "timeline": [],
    "steady_state": ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"],
    "graph_kernels": ["--cuda-graph-trace=node"],
    "sm_activity": ["--gpu-metrics-devices=all"],
}


def find_window(capture: str, nvtx_range: str | None = None) -> tuple[int, int]:
    """Start and end, in ns, of the window under examination. Given.

    nvtx_range: the name of an NVTX range. The window is from the first start to the last end of the ranges
    with that name, on any thread of any process. Without it, the window is from the first start to the last
    end of a device operation. Raises CaptureError if no range has that name; the message lists the names that
    exist.
    """
    with captures.open(capture) as recording:
        if nvtx_range is None:
            return recording.span_ns
        ranges = recording.nvtx_ranges
        named = ranges.filter(pl.col("name") == nvtx_range)
        if named.is_empty():
            known = ", ".join(sorted(ranges["name"].unique().to_list())) or "none"
            raise CaptureError(f"{capture}: no NVTX range {nvtx_range!r}; ranges here: {known}")
        return int(named["start_ns"].min()), int(named["end_ns"].max())  # type: ignore[arg-type]


def operations_inside(
    capture: str, nvtx_range: str | None = None
) -> dict[int, list[tuple[int, int]]]:
    """Per device with an operation in the capture, start and end of each operation in ns, by start: the parts
    inside the window. Given."""
    first, last = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        rows = recording.device_operations
    devices, starts, ends = (rows[name].to_list() for name in ("device", "start_ns", "end_ns"))
    parts: dict[int, list[tuple[int, int]]] = {device: [] for device in sorted(set(devices))}
    for device, start, end in zip(devices, starts, ends, strict=True):
        inside = max(start, first), min(end, last)
        if inside[0] < inside[1]:
            parts[device].append(inside)
    for own in parts.values():
        own.sort()
    return parts


def merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of intervals (start, end): disjoint intervals that cover the same time, in order. Given."""
    union: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if union and start <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((start, end))
    return union


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    """Per device, the time in ns in which at least one operation ran on it.

    Overlapping operations count once. Only the part inside the window counts.
    Returns {device: busy_ns} with every device that has an operation in the capture, even at 0.

    Example: kernels run from 0 to 10 and 5 to 20 µs on two streams, a copy from 30 to 40 µs: `{0: 30_000}`.
    """
    return {
        device: sum(end - start for start, end in merged(parts))
        for device, parts in operations_inside(capture, nvtx_range).items()
    }


def utilization(capture: str, nvtx_range: str | None = None) -> dict[int, float]:
    """Per device, the share of the window in which it was busy: 0.0 to 1.0.

    The window is the same for all devices.

    Example: device 0 is busy for 30 of 40 µs, device 1 only outside the window: `{0: 0.75, 1: 0.0}`.
    """
    start, end = find_window(capture, nvtx_range)
    return {
        device: busy_ns / (end - start)
        for device, busy_ns in busy_time(capture, nvtx_range).items()
    }


def idle_gaps(
    capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0
) -> list[dict[str, int]]:
    """The stretches of the window in which a device did nothing.

    Returns a list of {"device", "start_ns", "end_ns"} for the devices of busy_time, ordered by device and start: all gaps of
    at least `min_gap_ns`, and at least 1 ns. The time before a device's first operation in the window
    and after its last are gaps too. A device without an operation in the window has one gap, the
    whole window. Per device, all gaps (min_gap_ns=0) and busy_time add up to the window.

    Example: the window is 0 to 40 µs, the device busy from 5 to 20 and 30 to 40 µs, the minimum 6 µs:
    `[{"device": 0, "start_ns": 20_000, "end_ns": 30_000}]`.
    """
    start, end = find_window(capture, nvtx_range)
    gaps = []
    for device, parts in operations_inside(capture, nvtx_range).items():
        edges = [start, *(edge for stretch in merged(parts) for edge in stretch), end]
        gaps += [
            {"device": device, "start_ns": first, "end_ns": last}
            for first, last in zip(edges[::2], edges[1::2], strict=True)
            if last - first >= max(min_gap_ns, 1)
        ]
    return gaps


def calls_inside(capture: str, nvtx_range: str | None = None) -> pl.DataFrame:
    """The CUDA calls of all threads, a row each: "name" without version suffix, "inside_ns" (the part in the window),
    and "pageable" (True if the call issued a copy to or from pageable memory). Given."""
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        pageable = (
            recording.copies.filter(
                (pl.col("source") == "pageable") | (pl.col("destination") == "pageable")
            )
            .select("process", "correlation", pl.lit(True).alias("pageable"))
            .unique()
        )
        calls = recording.api_calls.join(pageable, on=["process", "correlation"], how="left")
    inside = pl.col("end_ns").clip(start, end) - pl.col("start_ns").clip(start, end)
    return calls.select("name", inside.alias("inside_ns"), pl.col("pageable").fill_null(False))


def blocking_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    """Per name of CUDA call, the host time in ns that was spent in calls that block the host.

    These calls of `calls_inside` block: those in SYNCHRONIZING_CALLS; those that issued a copy to or from pageable
    memory; and those whose name starts with cudaMemcpy or cuMemcpy and does not contain "Async".

    Returns {name: total_ns}, only names with more than 0 ns.

    Example: a cudaMemcpyAsync of 30 µs to pinned memory, one of 50 µs to pageable memory, of which 20 µs are in
    the window: `{"cudaMemcpyAsync": 20_000}`.
    """
    name = pl.col("name")
    synchronous_copy = name.str.contains("^cu(da)?Memcpy") & ~name.str.contains("Async")
    blocking = calls_inside(capture, nvtx_range).filter(
        name.is_in(SYNCHRONIZING_CALLS) | synchronous_copy | pl.col("pageable")
    )
    totals = blocking.group_by("name").agg(pl.col("inside_ns").sum()).sort("name")
    return {name: int(total) for name, total in totals.iter_rows() if total > 0}


def issue(
    batches: int, decide: Callable[[str, int], tuple[int, int, list[tuple[str, int]]]]
) -> list[dict]:
    """What the host issues: "copy_in", "compute", "copy_out" of batch 0, then of batch 1, and so on. Given.

    decide(operation, batch) returns the slot, the stream, and the operations to wait for: a list of pairs like
    ("compute", 3). Pairs with a negative batch are left out.
    """
    places = {"copy_in": 0, "compute": 1, "copy_out": 2}
    issued = []
    for batch in range(batches):
        for kind in places:
            slot, stream, waits = decide(kind, batch)
            after = [3 * of + places[other] for other, of in waits if of >= 0]
            one = {"operation": kind, "batch": batch, "slot": slot, "stream": stream}
            issued.append(one | {"after": after})
    return issued


def slow_schedule(batches: int, slots: int) -> list[dict]:
    """The pipeline as it was first written: one slot, one stream, no events. Given."""
    return issue(batches, lambda operation, batch: (0, 0, []))


def pipeline_schedule(batches: int, slots: int) -> list[dict]:
    """`slow_schedule`, repaired so that copies and kernels overlap: `issue` with a better `decide`.

    A slot is a pair of buffers on the device: "copy_in" writes its input, "compute" reads that and writes its output,
    "copy_out" reads the output. Slots are numbered from 0. A stream is named by any integer; use as many streams as you
    like. Operations of one stream run in order. An operation starts only after the operations that `decide` names have
    ended; the host never waits. Three engines (one copies in, one computes, one copies out) each run their operations
    in the order of issue.

    However long operations take, nothing is read before it is written or overwritten before it is read, and each
    operation starts as early as data, slots and engines allow.

    Example: three operations of 10 µs, 3 batches, 2 slots: `slow_schedule` ends after 90 µs, a repaired one after 50.
    """

    def decide(operation: str, batch: int) -> tuple[int, int, list[tuple[str, int]]]:
        earlier = batch - slots  # the batch that had this slot before
        waits = {
            "copy_in": [("compute", earlier)],
            "compute": [("copy_in", batch), ("copy_out", earlier)],
            "copy_out": [("compute", batch)],
        }
        return batch % slots, list(waits).index(operation), waits[operation]

    return issue(batches, decide)


def replay_end(operations: list[Operation]) -> int:
    """When the last device operation ends, in ns, if the operations are replayed.

    operations: what `profiling_lab.captures.dependencies.read` returns, unchanged or changed by
    you. Each depends only on earlier ones of the list. A dependency names an operation (`on`) and
    its start or end (`at`). It allows a start `lag_ns` after that replayed time. An operation
    starts `delay_ns` after all its dependencies allow it, or at its recorded `start_ns` if it has
    none. It ends `duration_ns` after it started. Host operations have device -1.

    If nothing is changed, the result is the recorded end.

    Example: the five operations of the lesson's section "Five operations by hand" end at 57 µs.
    """
    starts: list[int] = []
    ends: list[int] = []
    for operation in operations:
        allowed = [
            (starts if dependency.at == "start" else ends)[dependency.on] + dependency.lag_ns
            for dependency in operation.after
        ]
        start = max(allowed) + operation.delay_ns if allowed else operation.start_ns
        starts.append(start)
        ends.append(start + operation.duration_ns)
    return max(end for o, end in zip(operations, ends, strict=True) if o.device >= 0)


def operations_of(capture: str, nvtx_range: str | None = None) -> list[Operation]:
    """The operations that calls in an NVTX range issued (no range: all), each after those that it depends on. Given."""
    with captures.open(capture) as recording:
        window = find_window(capture, nvtx_range) if nvtx_range is not None else None
        return read_dependencies(recording, window)


def without_copies(operation: Operation) -> Operation:
    """Copies between host and device, and their calls, take no time. Given."""
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
    """The driver's allocations take no time and wait for nothing. Given."""
    if operation.kind == "allocation":
        return replace(operation, duration_ns=0)
    if operation.waits_in == "allocation":
        return replace(operation, after=tuple(d for d in operation.after if d.why != "wait"))
    return operation


def without_host_code(operation: Operation) -> Operation:
    """The program's own code, longer than DISPATCH_LIMIT_NS, takes no time. Given."""
    long = operation.kind == "host_code" and operation.duration_ns > DISPATCH_LIMIT_NS
    own = long or operation.kind == "host_function"
    return replace(operation, duration_ns=0) if own else operation


GIVEN_CHANGES = {
    "copies": without_copies,
    "allocation": without_allocation,
    "host_code": without_host_code,
}


def most_recoverable(capture: str, operations: list[Operation]) -> dict[str, int]:
    """Per cause, the most that its removal can save, in ns: the idle time of the device that was idle least. For "copies":
    those of one direction run one after the other, and at least one of the other direction comes before or after
    them; the window less this time is the most. Given."""
    on_device = [operation for operation in operations if operation.device >= 0]
    start = min(operation.start_ns for operation in on_device)
    end = max(operation.end_ns for operation in on_device)
    idle = dict.fromkeys((operation.device for operation in on_device), 0)
    for gap in idle_gaps(capture):
        if gap["device"] in idle:
            inside = min(gap["end_ns"], end) - max(gap["start_ns"], start)
            idle[gap["device"]] += max(0, inside)
    least_ns = 0
    for device in idle:
        of = {
            way: [
                o.duration_ns
                for o in on_device
                if (o.device, o.kind, o.name) == (device, "copy", way)
            ]
            for way in ("H2D", "D2H")
        }
        for busiest, other in (("H2D", "D2H"), ("D2H", "H2D")):
            if sum(of[busiest]) >= sum(of[other]):
                least_ns = max(least_ns, sum(of[busiest]) + min(of[other], default=0))
    most = dict.fromkeys(CATEGORY_OF_CAUSE, min(idle.values()))
    return most | {"copies": max(0, end - start - least_ns)}


def savings(
    capture: str,
    operations: list[Operation],
    changes: Mapping[str, Callable[[Operation], Operation]],
) -> dict[str, int]:
    """Per change, how many ns earlier the last device operation ends if the change is made to each operation;
    at most what `most_recoverable` says. Given."""
    recorded_end = replay_end(list(operations))
    most = most_recoverable(capture, operations)
    saved = {}
    for cause, change in changes.items():
        changed = [change(operation) for operation in operations]
        for operation, other in zip(operations, changed, strict=True):
            if other is None:
                raise TypeError(
                    f"the change for {cause!r} returned None for an operation of kind {operation.kind!r}: "
                    "return the operation itself where nothing changes"
                )
        earlier = recorded_end - replay_end(changed)
        saved[cause] = min(earlier, most[cause])
    return saved


def recoverable_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    """Per cause, how many ns earlier the device would have finished without it.

    `savings` replays the window's operations (`operations_of`) once for each change. GIVEN_CHANGES holds three;
    write two in the same form:
        "waits"        the host never waits in `cudaDeviceSynchronize` and its like: operations whose
                       `waits_in` is "synchronize" lose their "wait" dependencies
        "launch_cost"  issuing work costs nothing: operations of kind "launch" (of any length), and of kind
                       "host_code" of at most DISPATCH_LIMIT_NS, have `duration_ns` 0. Operations with
                       `resumes` True keep theirs. (They are the host's operations from the end of a wait up
                       to and including the next call that issues work.)
    Returns {cause: ns} for the five causes of CATEGORY_OF_CAUSE.

    Example: launch (0–5 µs), kernel (10–110), wait for it (until 112), launch (112–117), kernel (122–222). Without
    the wait the second launch follows at once. This saves 11 of the 12 µs in which the device was idle.
    """
    changes = {"waits": _without_waits, "launch_cost": _without_launch_cost, **GIVEN_CHANGES}
    return savings(capture, operations_of(capture, nvtx_range), changes)


def _without_waits(operation: Operation) -> Operation:
    if operation.waits_in != "synchronize":
        return operation
    return replace(operation, after=tuple(d for d in operation.after if d.why != "wait"))


def _without_launch_cost(operation: Operation) -> Operation:
    dispatch = operation.kind == "host_code" and operation.duration_ns <= DISPATCH_LIMIT_NS
    issuing = (dispatch or operation.kind == "launch") and not operation.resumes
    return replace(operation, duration_ns=0) if issuing else operation


RECOMMENDATIONS = {
    "healthy": "none",
    "sync_bound": "let the host run ahead: keep results on the device and read them a step later",
    "launch_bound": "issue less: fuse operations, use larger batches, or replay a CUDA graph",
    "transfer_bound": "pin host memory and copy on a stream of its own while kernels run",
    "allocation_bound": "allocate once outside the loop, or use a caching or stream-ordered allocator",
    "host_bound": "move host work off the critical path: prefetch it on another thread or process",
}


def finding_of(category: str, subject: str, recoverable_ns: int, window_ns: int) -> Finding:
    """The finding with its evidence; "borderline" where the saving is near the floor. Given."""
    ratio = recoverable_ns / window_ns
    margin = ratio - HEALTHY_FLOOR_RATIO
    evidence = {
        "recoverable_ns": recoverable_ns,
        "window_ns": window_ns,
        "recoverable_ratio": ratio,
        "margin_ratio": margin,
    }
    near = "borderline: " if abs(margin) <= BORDERLINE_RATIO else ""
    return Finding(category, subject, evidence, near + RECOMMENDATIONS[category])


def subject_and_window(capture: str, nvtx_range: str | None = None) -> tuple[str, int]:
    """What a finding is about, and the length of its window in ns. Given.

    The subject is "range:<name>" if an NVTX range is given, else "device:<n>" of the least busy device (the lowest
    number if equal). The window is from the first start to the last end of the device operations in `operations_of`.
    """
    operations = [o for o in operations_of(capture, nvtx_range) if o.device >= 0]
    window_ns = max(o.end_ns for o in operations) - min(o.start_ns for o in operations)
    busy = busy_time(capture)
    idlest = min(busy, key=lambda device: (busy[device], device))
    subject = f"range:{nvtx_range}" if nvtx_range is not None else f"device:{idlest}"
    return subject, window_ns


def name_bottleneck(capture: str, nvtx_range: str | None = None) -> Finding:
    """The main finding of a capture: the cause whose removal saves most, or "healthy".

    It is "healthy" if the largest saving is less than HEALTHY_FLOOR_RATIO of the window (`subject_and_window`). Of equal
    savings, choose the category with the lower `CATEGORIES[category].precedence`.
    Return what `finding_of` makes of the category, the subject, the largest saving and the window.

    Example: waits save 30 of 100 µs, the rest less: `finding_of("sync_bound", "device:0", 30_000, 100_000)`.
    """
    saved = recoverable_time(capture, nvtx_range)
    subject, window_ns = subject_and_window(capture, nvtx_range)
    cause = max(
        saved, key=lambda name: (saved[name], -CATEGORIES[CATEGORY_OF_CAUSE[name]].precedence)
    )
    is_worth_naming = saved[cause] / window_ns >= HEALTHY_FLOOR_RATIO
    category = CATEGORY_OF_CAUSE[cause] if is_worth_naming else "healthy"
    return finding_of(category, subject, saved[cause], window_ns)


def refuses_bad_input(
    capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0
) -> tuple[int, int]:
    """The window that `idle_gaps` would examine, or an error that says what is wrong.

    Raises ValueError if `min_gap_ns` is negative or not an integer (True and 5.0 are not), or if the window has
    no length (the message names the range, or start and end); CaptureError if the range does not exist. Messages:
    `week07/README.md`, "Bad input".

    Example: `refuses_bad_input("decode_eager", None, -5)` raises ValueError("min_gap_ns must not be negative: -5").
    """
    if type(min_gap_ns) is not int:
        raise ValueError(f"min_gap_ns must be a whole number: {min_gap_ns!r}")
    if min_gap_ns < 0:
        raise ValueError(f"min_gap_ns must not be negative: {min_gap_ns}")
    start, end = find_window(capture, nvtx_range)
    if end <= start:
        raise ValueError(f"{capture}: the window from {start} ns to {end} ns has no length")
    return start, end


# == Further: no core task needs what follows ==


def kernels_with_calls(capture: str) -> pl.DataFrame:
    """The kernels whose launching call was recorded, in their order: the columns of `kernels`, and "api_ns" and
    "returned_ns", the call's length and its end. Given.

    A kernel and its call have the same correlation in the same process.
    """
    with captures.open(capture) as recording:
        calls = recording.api_calls.select(
            "process",
            "correlation",
            pl.col("duration_ns").alias("api_ns"),
            pl.col("end_ns").alias("returned_ns"),
        )
        return recording.kernels.join(
            calls, on=["process", "correlation"], how="inner", maintain_order="left"
        )


def launch_latency(capture: str) -> dict[str, np.ndarray]:
    """For each kernel, the time from its launching call to its end, in three parts.

    Returns four int64 arrays of equal length, in the order of `kernels` (start_ns, end_ns, …):
        "kernel_start_ns"  when the kernel started
        "api_ns"           how long the launching call took on the host
        "queue_ns"         from the call's return to the kernel's start; 0 if the kernel started
                           before the call returned
        "execution_ns"     how long the kernel ran

    Use `kernels_with_calls`. Leave out the nodes of a CUDA graph, because one call launched them all.
    These are the definitions of Nsight Systems' own report `cuda_kern_exec_trace`.

    Example: a call from 0 to 5 µs, its kernel from 12 to 20 µs: api 5,000, queue 7,000, execution 8,000.
    """
    joined = kernels_with_calls(capture).filter(pl.col("graph_node").is_null())
    queue = (joined["start_ns"] - joined["returned_ns"]).clip(lower_bound=0)
    return {
        "kernel_start_ns": joined["start_ns"].to_numpy(),
        "api_ns": joined["api_ns"].to_numpy(),
        "queue_ns": queue.to_numpy(),
        "execution_ns": joined["duration_ns"].to_numpy(),
    }


def missed_overlap(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, int]]:
    """Per device, how much copying was exposed, and how much of it kernels could have hidden.

    Copies here are those between host and device (H2D and D2H). Compute is kernels and graphs.
    Returns {device: {...}} for every device with an operation in the capture, with
        "copy_ns"          time in the window with at least one such copy
        "exposed_copy_ns"  time with such a copy and no compute
        "compute_only_ns"  time with compute and no such copy
        "hideable_ns"      the smaller of the last two. In a pipeline of independent batches, the copies
                           of one batch can overlap the kernels of another. Compute can hide copying for
                           at most as long as it runs
        "pageable_bytes"   bytes of such copies whose host memory is pageable; these cannot overlap
                           until the memory is pinned. A copy counts in full if it starts in the window:
                           window start <= start_ns < window end
    """
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        operations = recording.device_operations
        transfers = recording.copies.filter(pl.col("kind").is_in(["H2D", "D2H"]))
    compute = operations.filter(pl.col("kind").is_in(["kernel", "graph"]))
    out = {}
    for device in sorted(operations["device"].unique().to_list()):
        here = pl.col("device") == device
        copy_ns = _union_ns(transfers.filter(here), start, end)
        compute_ns = _union_ns(compute.filter(here), start, end)
        either = pl.concat(
            [frame.filter(here).select("start_ns", "end_ns") for frame in (transfers, compute)]
        )
        either_ns = _union_ns(either, start, end)
        pageable = transfers.filter(
            here
            & pl.col("start_ns").is_between(start, end, closed="left")
            & ((pl.col("source") == "pageable") | (pl.col("destination") == "pageable"))
        )
        exposed_copy_ns, compute_only_ns = either_ns - compute_ns, either_ns - copy_ns
        out[device] = {
            "copy_ns": copy_ns,
            "exposed_copy_ns": exposed_copy_ns,
            "compute_only_ns": compute_only_ns,
            "hideable_ns": min(exposed_copy_ns, compute_only_ns),
            "pageable_bytes": int(pageable["bytes"].sum()),
        }
    return out


def busy_against_active(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, float]]:
    """Per sampled device, how busy it looks and how much of it works, as shares from 0.0 to 1.0.

    Returns {device: {...}} for each device with samples in the window, with
        "busy_ratio"        share of the window in which a kernel or graph ran (copies do not use SMs)
        "sm_active_ratio"   mean of the metric "SMs Active [Throughput %]" over the samples
        "dram_ratio"        mean of "DRAM Read Bandwidth [Throughput %]" plus the mean of
                            "DRAM Write Bandwidth [Throughput %]"
    A sample describes the time before its timestamp, so the samples of the window are those with
    start < timestamp_ns <= end. Recorded values are percentages.

    Raises CaptureError if the window has no samples; the message names `--gpu-metrics-devices`.
    """
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        samples = recording.gpu_metrics.filter(
            (pl.col("timestamp_ns") > start) & (pl.col("timestamp_ns") <= end)
        )
        operations = recording.device_operations
    if samples.is_empty():
        raise CaptureError(
            f"{capture}: no GPU metrics in the window; record with --gpu-metrics-devices=all"
        )
    compute = operations.filter(pl.col("kind").is_in(["kernel", "graph"]))
    out = {}
    for device in sorted(samples["device"].unique().to_list()):
        here = pl.col("device") == device
        means = dict(
            samples.filter(here).group_by("metric").agg(pl.col("value").mean()).iter_rows()
        )
        out[device] = {
            "busy_ratio": _union_ns(compute.filter(here), start, end) / (end - start),
            "sm_active_ratio": means["SMs Active [Throughput %]"] / 100,
            "dram_ratio": (
                means["DRAM Read Bandwidth [Throughput %]"]
                + means["DRAM Write Bandwidth [Throughput %]"]
            )
            / 100,
        }
    return out


def profiler_overhead(capture: str, nvtx_range: str | None = None) -> int:
    """Time in ns inside the window in which the profiler itself was at work on any host thread.

    Recorded intervals nest, and those of different threads overlap. Overlapping time counts once.
    """
    start, end = find_window(capture, nvtx_range)
    with captures.open(capture) as recording:
        return _union_ns(recording.overhead, start, end)


def annotate_pipeline(
    batches: list,
    stages: dict[str, Callable],
    push_range: Callable[[str], object],
    pop_range: Callable[[], object],
) -> list:
    """Run an inference pipeline with NVTX ranges around every batch and every stage.

    batches: the inputs, one for each batch. stages: name → function of one argument. They run in the order of
    the dictionary. The first gets the batch; each later one gets what the one before it returned.
    push_range(name) opens an NVTX range on this thread, pop_range() closes the innermost open one (for
    example `torch.cuda.nvtx.range_push` and `range_pop`).

    Each batch runs inside a range "batch <i>" (i counts from 0). Inside it, each stage runs inside a range with
    the stage's name. Close the ranges in reverse order, also when a stage raises; the caller gets that
    exception.

    Returns the list of the last stage's results, one for each batch.
    """
    results = []
    for i, value in enumerate(batches):
        push_range(f"batch {i}")
        try:
            for name, stage in stages.items():
                push_range(name)
                try:
                    value = stage(value)
                finally:
                    pop_range()
        finally:
            pop_range()
        results.append(value)
    return results


def _merge(frame: pl.DataFrame, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Disjoint intervals that cover the rows of a frame ordered by start, clipped to a window."""
    starts = frame["start_ns"].to_numpy().clip(start, end)
    ends = frame["end_ns"].to_numpy().clip(start, end)
    keep = ends > starts
    starts, ends = starts[keep], ends[keep]
    if not len(starts):
        return starts, ends
    order = np.argsort(starts, kind="stable")
    starts, reach = starts[order], np.maximum.accumulate(ends[order])
    first = np.concatenate([[True], starts[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return starts[first], reach[last]


def _union_ns(frame: pl.DataFrame, start: int, end: int) -> int:
    starts, ends = _merge(frame, start, end)
    return int((ends - starts).sum())
