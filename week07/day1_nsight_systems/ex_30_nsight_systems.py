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
    raise NotImplementedError


def find_window(capture: str, nvtx_range: str | None = None) -> tuple[int, int]:
    """Start and end, in ns, of the window under examination.

    nvtx_range: the name of an NVTX range; the window reaches from the first start to the last end
    of the ranges of that name, whatever thread or process they are on. Without it, the window
    reaches from the start of the first device operation to the end of the last to end.

    Raises CaptureError if no range has that name; the message holds the names that exist, sorted and
    separated by ", ".
    """
    raise NotImplementedError


def busy_time(capture: str, nvtx_range: str | None = None) -> dict[int, int]:
    """Per device, the time in ns in which at least one operation ran on it.

    Operations are kernels, whole CUDA graphs, copies and memsets, from all streams and processes.
    What runs at the same time counts once. Only the part inside the window counts.

    Returns {device: busy_ns} with every device that has an operation in the capture, 0 included.
    """
    raise NotImplementedError


def utilization(capture: str, nvtx_range: str | None = None) -> dict[int, float]:
    """Per device, the share of the window in which it was busy: 0.0 to 1.0.

    The window is the same for all devices. Raises ValueError if the window has no length.
    """
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


def blocking_time(capture: str, nvtx_range: str | None = None) -> dict[str, int]:
    """Per CUDA call, the host time in ns that went into calls that hold the host up.

    Two kinds of call block: those in SYNCHRONIZING_CALLS; and calls that issued a copy to or from
    pageable memory, or whose name starts with cudaMemcpy or cuMemcpy and does not contain "Async".
    Only the part of a call inside the window counts. Calls of different threads add up.

    Returns {name: total_ns}, names without version suffix, only names with more than 0 ns.
    """
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


def profiler_overhead(capture: str, nvtx_range: str | None = None) -> int:
    """Time in ns inside the window in which the profiler itself was at work on any host thread.

    Recorded intervals nest, and different threads overlap: what runs at the same time counts once.
    """
    raise NotImplementedError


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
    raise NotImplementedError


def replay_end(operations: list[Operation]) -> int:
    """When the last device operation ends, in ns, if the operations are played again.

    operations: as `profiling_lab.captures.dependencies.read` gives them, or changed by you; each depends on
    earlier ones of the list only. An operation starts `delay_ns` after the latest of its
    dependencies allows, and a dependency allows a start `lag_ns` after the start or the end (its
    `at`) of the operation that it is on, as replayed. An operation without dependencies starts at its
    recorded `start_ns`. Each ends `duration_ns` after it started. Host operations have device -1.

    Played unchanged, this is the recorded end. Raises ValueError if there is no device operation.
    """
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError
