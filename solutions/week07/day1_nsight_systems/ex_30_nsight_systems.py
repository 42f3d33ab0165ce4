"""Day 1, Nsight Systems: where did the time go?

You write small functions that read a recorded timeline and say what is wrong with it. The lesson is
`README.md` in this folder, hints are in `hints.md`, and

    uv run lab check ex_30

tells what is right and wrong. A capture is opened by its name or path:

    with captures.open(capture) as recording:
        recording.kernels        # a polars DataFrame; see `help(captures.NsysCapture)`

Two definitions hold throughout. **Window**: the named NVTX range, else first to last device
operation. **Busy**: the union of kernels, graph launches, copies and memsets on a device.
All times are integer nanoseconds since the start of the recording.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import polars as pl

from profiling_lab import captures
from profiling_lab.captures.dependencies import Operation
from profiling_lab.captures.dependencies import read as read_dependencies
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CATEGORIES, Finding

# A host that issues work for the device needs some microseconds, in a framework some tens, from one
# CUDA call to the next. A stretch of host code up to this length counts as the cost of issuing
# work; a longer one is the program's own code.
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

# What can be taken away from a recording, and the category that names it.
CATEGORY_OF_CAUSE = {
    "waits": "sync_bound",
    "launch_cost": "launch_bound",
    "copies": "transfer_bound",
    "allocation": "allocation_bound",
    "host_code": "host_bound",
}


def nsys_command(questions: list[str], program: list[str], output: str) -> list[str]:
    """The `nsys profile` command that answers some questions, and records nothing else.

    questions: one or more of
        "timeline"       when did kernels, copies and CUDA calls run, and which NVTX range were they in?
        "steady_state"   the same between cudaProfilerStart and cudaProfilerStop only, and let the
                         program run on to its own end after that
        "python_lines"   which line of Python made each CUDA call?
        "graph_kernels"  which kernels run inside a CUDA graph?
        "sm_activity"    how many SMs are active and how busy is DRAM, sampled on every device?
        "device_memory"  which allocations hold the device's memory?
        "os_waits"       in which operating-system calls do the host threads wait?
        "event_waits"    which stream waits for which CUDA event?
    program: the program and its arguments, unchanged at the end of the command.
    output: where the report goes, without the suffix; an older report of that name is overwritten.

    Returns the command as a list of words, one option a word in the form `--option=value` (long
    names). Tracing has a cost, so what no question asks for stays off: what to trace is always said
    (`--trace=…`, the default is broader than needed; `none` where a question needs no source), CPU
    sampling and context-switch tracing are off unless a question needs them, and no costly option
    appears unasked.

    The options of the tool that made this course's captures: captures/tool_help/nsys_profile.txt. Read
    an option's note to its end: some do nothing unless another one is on.
    Raises ValueError, naming the question, for one that is not in this list, and for an empty list.
    """
    known = _OPTIONS_OF_QUESTION.keys()
    if not questions:
        raise ValueError(f"ask at least one question of: {', '.join(known)}")
    for question in questions:
        if question not in known:
            raise ValueError(f"unknown question {question!r}; known: {', '.join(known)}")
    sources = {source for question in questions for source in _SOURCES_OF_QUESTION[question]}
    options = [
        f"--trace={','.join(sorted(sources)) or 'none'}",
        # Without CPU sampling the tool collects no backtraces at CUDA calls, and without those no
        # Python frames (seen with nsys 2025.3.1: the report is made, and holds none).
        f"--sample={'process-tree' if 'python_lines' in questions else 'none'}",
        "--cpuctxsw=none",
    ]
    for question in known:
        if question in questions:
            options += _OPTIONS_OF_QUESTION[question]
    return [
        "nsys",
        "profile",
        *options,
        f"--output={output}",
        "--force-overwrite=true",
        *program,
    ]


_SOURCES_OF_QUESTION = {
    "timeline": ["cuda", "nvtx"],
    "steady_state": ["cuda", "nvtx"],
    "python_lines": ["cuda"],
    "graph_kernels": ["cuda"],
    "sm_activity": [],
    "device_memory": ["cuda"],
    "os_waits": ["osrt"],
    "event_waits": ["cuda"],
}
_OPTIONS_OF_QUESTION = {
    "timeline": [],
    "steady_state": ["--capture-range=cudaProfilerApi", "--capture-range-end=stop"],
    "python_lines": ["--python-backtrace=cuda", "--cudabacktrace=all"],
    "graph_kernels": ["--cuda-graph-trace=node"],
    "sm_activity": ["--gpu-metrics-devices=all"],
    "device_memory": ["--cuda-memory-usage=true"],
    "os_waits": [],
    "event_waits": ["--cuda-event-trace=true"],
}


def find_window(capture: str, nvtx_range: str | None = None) -> tuple[int, int]:
    """Start and end, in ns, of the window under examination.

    nvtx_range: the name of an NVTX range; the window reaches from the first start to the last end
    of the ranges of that name, whatever thread or process they are on. Without it, the window
    reaches from the start of the first device operation to the end of the last to end.

    Raises CaptureError if no range has that name; the message holds the names that exist, sorted and
    separated by ", ".
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


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    """Per device, the time in ns in which at least one operation ran on it.

    Operations are kernels, whole CUDA graphs, copies and memsets, from all streams and processes.
    What runs at the same time counts once. Only the part inside the window counts.

    Returns {device: busy_ns} with every device that has an operation in the capture, 0 included.
    """
    start, end = find_window(capture, nvtx_range)
    return {
        device: int((ends - starts).sum())
        for device, (starts, ends) in _busy_intervals(capture, start, end).items()
    }


def utilization(capture: str, nvtx_range: str | None = None) -> dict[int, float]:
    """Per device, the share of the window in which it was busy: 0.0 to 1.0.

    The window is the same for all devices. Raises ValueError if the window has no length.
    """
    start, end = find_window(capture, nvtx_range)
    if end <= start:
        raise ValueError(f"{capture}: the window from {start} ns to {end} ns has no length")
    return {
        device: busy_ns / (end - start)
        for device, busy_ns in busy_time(capture, nvtx_range).items()
    }


def idle_gaps(
    capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0
) -> list[dict[str, int]]:
    """The stretches of the window in which a device did nothing.

    Returns a list of {"device", "start_ns", "end_ns"}, ordered by device and start, of the gaps of
    at least `min_gap_ns` and at least 1 ns. The time before a device's first operation in the window
    and after its last are gaps too; a device without an operation in the window has one gap, the
    whole window. Per device, the gaps (min_gap_ns=0) and busy_time add up to the window.
    Raises ValueError if min_gap_ns is negative.
    """
    if min_gap_ns < 0:
        raise ValueError(f"min_gap_ns must not be negative, got {min_gap_ns}")
    start, end = find_window(capture, nvtx_range)
    gaps = []
    for device, (starts, ends) in _busy_intervals(capture, start, end).items():
        gap_starts = np.concatenate([[start], ends])
        gap_ends = np.concatenate([starts, [end]])
        keep = gap_ends - gap_starts >= max(min_gap_ns, 1)
        gaps += [
            {"device": device, "start_ns": a, "end_ns": b}
            for a, b in zip(gap_starts[keep].tolist(), gap_ends[keep].tolist(), strict=True)
        ]
    return gaps


def launch_latency(capture: str) -> dict[str, np.ndarray]:
    """For each kernel, the way from the call that launched it to its end, in three parts.

    Returns four int64 arrays of equal length, in the order of `kernels` (start_ns, end_ns, …):
        "kernel_start_ns"  when the kernel started
        "api_ns"           how long the launching call took on the host
        "queue_ns"         from the call's return to the kernel's start; 0 if the kernel started
                           before the call returned
        "execution_ns"     how long the kernel ran

    A kernel and its call belong together when correlation and process are the same. Kernels without
    a recorded call are left out, and so are the nodes of a CUDA graph: one call launched them all.
    These are the definitions of Nsight Systems' own report `cuda_kern_exec_trace`.
    """
    with captures.open(capture) as recording:
        kernels = recording.kernels.filter(pl.col("graph_node").is_null())
        calls = recording.api_calls.select(
            "process",
            "correlation",
            pl.col("duration_ns").alias("api_ns"),
            pl.col("end_ns").alias("returned_ns"),
        )
        joined = kernels.join(
            calls, on=["process", "correlation"], how="inner", maintain_order="left"
        )
    queue = (joined["start_ns"] - joined["returned_ns"]).clip(lower_bound=0)
    return {
        "kernel_start_ns": joined["start_ns"].to_numpy(),
        "api_ns": joined["api_ns"].to_numpy(),
        "queue_ns": queue.to_numpy(),
        "execution_ns": joined["duration_ns"].to_numpy(),
    }


def blocking_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    """Per CUDA call, the host time in ns that went into calls that hold the host up.

    Two kinds of call block: those in SYNCHRONIZING_CALLS; and calls that issued a copy to or from
    pageable memory, or whose name starts with cudaMemcpy or cuMemcpy and does not contain "Async".
    Only the part of a call inside the window counts. Calls of different threads add up.

    Returns {name: total_ns}, names without version suffix, only names with more than 0 ns.
    """
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
    name = pl.col("name")
    synchronous_copy = name.str.contains("^cu(da)?Memcpy") & ~name.str.contains("Async")
    blocking = calls.filter(
        name.is_in(SYNCHRONIZING_CALLS) | synchronous_copy | pl.col("pageable").fill_null(False)
    ).select(
        "name",
        (pl.col("end_ns").clip(start, end) - pl.col("start_ns").clip(start, end)).alias(
            "inside_ns"
        ),
    )
    totals = blocking.group_by("name").agg(pl.col("inside_ns").sum()).sort("name")
    return {name: int(total) for name, total in totals.iter_rows() if total > 0}


def missed_overlap(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, int]]:
    """Per device, how much copying ran alone, and how much of it could have hidden behind kernels.

    Copies here are those between host and device (H2D and D2H). Compute is kernels and graphs.
    Returns {device: {...}} for every device with an operation in the capture, with
        "copy_ns"          time in the window with at least one such copy
        "exposed_copy_ns"  time with such a copy and no compute
        "compute_only_ns"  time with compute and no such copy
        "hideable_ns"      the smaller of the last two: in a pipeline of independent batches, the
                           copies of one batch can run beside the kernels of another, but never more
                           copying can hide than there is compute to hide it behind
        "pageable_bytes"   bytes of such copies whose host memory is pageable: these cannot overlap
                           before the memory is pinned. Counted whole if they start in the window:
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
    The samples of the window are those with start < timestamp_ns <= end: a sample speaks of the time
    before its timestamp. Recorded values are percentages.

    Raises CaptureError that names `--gpu-metrics-devices` if the window holds no samples.
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

    Recorded intervals nest, and different threads overlap: what runs at the same time counts once.
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

    batches: the inputs, one a batch. stages: name → function of one argument; they run in the order
    of the dictionary, the first gets the batch, each further one gets what the one before returned.
    push_range(name) opens an NVTX range on this thread, pop_range() closes the innermost open one
    (`torch.cuda.nvtx.range_push` and `range_pop`, say).

    Each batch runs inside a range "batch <i>" (i counts from 0), and inside that each stage inside
    a range that bears the stage's name. Ranges are closed in reverse order of opening, also when a
    stage raises; the exception goes on to the caller.

    Returns the list of the last stage's results, one a batch.
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


def replay_end(operations: list[Operation]) -> int:
    """When the last device operation ends, in ns, if the operations are played again.

    operations: as `profiling_lab.captures.dependencies.read` gives them, or changed by you; each depends on
    earlier ones of the list only. An operation starts `delay_ns` after the latest of its
    dependencies allows, and a dependency allows a start `lag_ns` after the start or the end (its
    `at`) of the operation that it is on, as replayed. An operation without dependencies starts at its
    recorded `start_ns`. Each ends `duration_ns` after it started. Host operations have device -1.

    Played unchanged, this is the recorded end. Raises ValueError if there is no device operation.
    """
    starts: list[int] = []
    ends: list[int] = []
    last = None
    for operation in operations:
        allowed = None
        for dependency in operation.after:
            moments = starts if dependency.at == "start" else ends
            moment = moments[dependency.on] + dependency.lag_ns
            if allowed is None or moment > allowed:
                allowed = moment
        start = operation.start_ns if allowed is None else allowed + operation.delay_ns
        starts.append(start)
        ends.append(start + operation.duration_ns)
        if operation.device >= 0:
            last = ends[-1] if last is None else max(last, ends[-1])
    if last is None:
        raise ValueError("there is no device operation to replay")
    return last


def recoverable_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    """Per cause, how many ns earlier the device would have finished without it.

    Takes the operations of the window (`read_dependencies(recording, window)` for an NVTX range, all
    of the recording without one), changes them, and compares `replay_end` before and after. The
    causes, one at a time:
        "waits"        the host never waits in a synchronizing call: drop the "wait" dependencies of
                       operations whose `waits_in` is "synchronize"
        "launch_cost"  issuing work costs nothing: operations of kind "launch", and host code of at
                       most DISPATCH_LIMIT_NS, take no time; but for those with which the host goes on
                       after a wait (`resumes`): no fusing and no graph reaches across that
        "copies"       copies between host and device (H2D, D2H) take no time and add no delay,
                       operations of kind "copy_call" take no time, and where `waits_in` is
                       "copy_call" a positive lag of a "wait" dependency becomes 0.
                       But overlap hides a copy, it does not shorten it, and the first batch must
                       come in before anything and the last go out after all. So the end is never
                       earlier than the first recorded start of any device operation, nor, for each
                       device with such copies (H2D, D2H), than this start
                           + the sum of the copies of its busiest direction
                           + its shortest copy of the other direction (0 without one);
                       if both directions are equally busy, the later of the two ends counts
        "allocation"   operations of kind "allocation" take no time, and the "wait" dependencies of
                       operations whose `waits_in` is "allocation" are dropped
        "host_code"    host code longer than DISPATCH_LIMIT_NS, and operations of kind "host_function",
                       take no time
    Whatever the host does, the device has as much to do, one thing at a time or more as recorded. So no
    cause but "copies" saves more than a device was idle between the first recorded start and the last
    recorded end of these device operations: that time less its busy time (busy_time says what is busy;
    here in that time). Of several devices that ran some of them the one with the least idle time counts.
    Returns {cause: ns}, all five; never negative.
    """
    with captures.open(capture) as recording:
        window = find_window(capture, nvtx_range) if nvtx_range is not None else None
        operations = read_dependencies(recording, window)
    recorded_end = replay_end(operations)
    saved = {
        cause: recorded_end - replay_end([change(operation) for operation in operations])
        for cause, change in _CHANGES.items()
    }
    device_operations = [operation for operation in operations if operation.device >= 0]
    copies: dict[int, dict[str, list[int]]] = {}
    for operation in filter(_is_transfer, device_operations):
        directions = copies.setdefault(operation.device, {"H2D": [], "D2H": []})
        directions[operation.name].append(operation.duration_ns)
    least_ns = max(
        (
            sum(copies[device][busiest]) + min(copies[device][other], default=0)
            for device in copies
            for busiest, other in (("H2D", "D2H"), ("D2H", "H2D"))
            if sum(copies[device][busiest]) >= sum(copies[device][other])
        ),
        default=0,
    )
    least_end = min(operation.start_ns for operation in device_operations) + least_ns
    idle_ns = _least_idle_ns(capture, device_operations)
    bound = dict.fromkeys(saved, idle_ns) | {"copies": recorded_end - least_end}
    return {cause: max(0, min(saved[cause], bound[cause])) for cause in CATEGORY_OF_CAUSE}


def _least_idle_ns(capture: str, operations: list[Operation]) -> int:
    """Idle time, of the busiest of their devices, from the first start to the last end of operations."""
    start = min(operation.start_ns for operation in operations)
    end = max(operation.end_ns for operation in operations)
    busy = _busy_intervals(capture, start, end)
    most = max(
        int((ends - starts).sum())
        for starts, ends in (busy[device] for device in {o.device for o in operations})
    )
    return end - start - most


def name_bottleneck(capture: str, nvtx_range: str | None = None) -> Finding:
    """The main finding of a capture: the cause whose removal saves most, or "healthy".

    The window's length here is from the first start to the last end of the device operations that
    recoverable_time looked at. If the largest saving is less than HEALTHY_FLOOR_RATIO of it, the
    category is "healthy" and the recommendation "none". Equal savings: the category with the lower
    precedence number in `profiling_lab.findings.CATEGORIES` wins.

    subject: "range:<name>" if an NVTX range is given, else "device:<n>" of the device that was idle
    longest in the window (the lowest number if equal).
    evidence: "recoverable_ns" (the largest saving), "window_ns", "recoverable_ratio" (their quotient)
    and "margin_ratio" (recoverable_ratio minus HEALTHY_FLOOR_RATIO).
    recommendation: one sentence; if |margin_ratio| <= BORDERLINE_RATIO it begins with "borderline",
    for a healthy capture too.
    """
    saved = recoverable_time(capture, nvtx_range)
    with captures.open(capture) as recording:
        window = find_window(capture, nvtx_range) if nvtx_range is not None else None
        operations = [o for o in read_dependencies(recording, window) if o.device >= 0]
    window_ns = max(o.end_ns for o in operations) - min(o.start_ns for o in operations)
    cause = max(saved, key=lambda name: (saved[name], -_precedence(name)))
    ratio = saved[cause] / window_ns
    margin = ratio - HEALTHY_FLOOR_RATIO
    category = CATEGORY_OF_CAUSE[cause] if margin >= 0 else "healthy"
    recommendation = _RECOMMENDATIONS[category]
    if abs(margin) <= BORDERLINE_RATIO:
        recommendation = (
            f"borderline ({ratio:.1%} of the window against a floor of {HEALTHY_FLOOR_RATIO:.0%}): "
            + (recommendation if category != "healthy" else f"watch {CATEGORY_OF_CAUSE[cause]}")
        )
    return Finding(
        category,
        f"range:{nvtx_range}" if nvtx_range is not None else f"device:{_most_idle(capture)}",
        {
            "recoverable_ns": saved[cause],
            "window_ns": window_ns,
            "recoverable_ratio": ratio,
            "margin_ratio": margin,
        },
        recommendation,
    )


_RECOMMENDATIONS = {
    "healthy": "none",
    "sync_bound": "let the host run ahead: keep results on the device and read them a step later",
    "launch_bound": "issue less: fuse operations, use larger batches, or replay a CUDA graph",
    "transfer_bound": "pin host memory and copy on a stream of its own while kernels run",
    "allocation_bound": "allocate once outside the loop, or use a caching or stream-ordered allocator",
    "host_bound": "move host work off the critical path: prefetch it on another thread or process",
}


def _busy_intervals(capture: str, start: int, end: int) -> dict[int, tuple[np.ndarray, np.ndarray]]:
    """Per device, the disjoint busy intervals inside [start, end): their starts and ends."""
    with captures.open(capture) as recording:
        operations = recording.device_operations
    out = {}
    for device in sorted(operations["device"].unique().to_list()):
        out[device] = _merge(operations.filter(pl.col("device") == device), start, end)
    return out


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


def _is_transfer(operation: Operation) -> bool:
    return operation.kind == "copy" and operation.name in ("H2D", "D2H")


def _drop_wait(operation: Operation) -> Operation:
    return replace(operation, after=tuple(d for d in operation.after if d.why != "wait"))


def _without_waits(operation: Operation) -> Operation:
    return _drop_wait(operation) if operation.waits_in == "synchronize" else operation


def _without_launch_cost(operation: Operation) -> Operation:
    dispatch = operation.kind == "host_code" and operation.duration_ns <= DISPATCH_LIMIT_NS
    issuing = (dispatch or operation.kind == "launch") and not operation.resumes
    return replace(operation, duration_ns=0) if issuing else operation


def _without_copies(operation: Operation) -> Operation:
    if _is_transfer(operation):
        return replace(operation, duration_ns=0, delay_ns=0)
    if operation.kind == "copy_call":
        return replace(operation, duration_ns=0)
    if operation.waits_in == "copy_call":
        after = tuple(
            replace(d, lag_ns=min(d.lag_ns, 0)) if d.why == "wait" else d for d in operation.after
        )
        return replace(operation, after=after)
    return operation


def _without_allocation(operation: Operation) -> Operation:
    if operation.kind == "allocation":
        return replace(operation, duration_ns=0)
    return _drop_wait(operation) if operation.waits_in == "allocation" else operation


def _without_host_code(operation: Operation) -> Operation:
    long = operation.kind == "host_code" and operation.duration_ns > DISPATCH_LIMIT_NS
    own = long or operation.kind == "host_function"
    return replace(operation, duration_ns=0) if own else operation


_CHANGES = {
    "waits": _without_waits,
    "launch_cost": _without_launch_cost,
    "copies": _without_copies,
    "allocation": _without_allocation,
    "host_code": _without_host_code,
}


def _precedence(cause: str) -> int:
    return CATEGORIES[CATEGORY_OF_CAUSE[cause]].precedence


def _most_idle(capture: str) -> int:
    busy = busy_time(capture)
    return min(busy, key=lambda device: (busy[device], device))
