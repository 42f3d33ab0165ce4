"""Day 3, PyTorch profiler: which operator, which line?

You profile steps of a model, read what PyTorch wrote, and find the operator, the line of Python and
the allocation behind what is wrong. The lesson is `README.md` in this folder, hints are in `hints.md`,
and

    uv run lab check ex_32

tells what is right and wrong. Repairs are made in `model_optimized.py`, beside this file.

A capture of this day is a folder of `captures/` with `trace.json.gz` (Kineto's trace) and, where
memory is the question, `snapshot.pickle.gz`. Every function that takes `capture` takes its name
("torch_train_sync"), the path of such a folder, or the path of the file itself:

    captures.file(capture, "trace.json")     # → its path, also where it is kept as trace.json.gz
    captures.text(capture, "trace.json")     # → its text, decompressed

All times are integers in ns. A **step** is what lies between two calls of `profiler.step()`; the
trace marks it as an event `ProfilerStep#<number>` of kind "range" ("operator" in older traces),
which holds what starts at or after its start and before its end. **Busy** is, as on Day 1, the union of the
kernels, copies and memsets of a device.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import replace
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from profiling_lab import captures
from profiling_lab.captures import kineto
from profiling_lab.captures.dependencies import Operation
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CATEGORIES, Finding

# Host time between two CUDA calls up to this length is the cost of issuing work, a longer stretch is
# the program's own code. Ten times Day 1's limit: while it is profiled, PyTorch takes up to some
# hundred microseconds where a backward pass or an optimizer begins.
DISPATCH_LIMIT_NS = 1_000_000

# Below this share of the window no cause is worth naming: the trace is healthy.
HEALTHY_FLOOR_RATIO = 0.10

# A share this close to the floor, on either side, is borderline, and the finding must say so.
BORDERLINE_RATIO = 0.02

# Memory that grows by less than this share of itself from step to step is left alone.
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

# Kineto's categories, as written today and (in lower case) by PyTorch 1.8 to 1.10, and our words.
# Source: EventTypeMap in tb_plugin/torch_tb_profiler/profiler/trace.py of pytorch/kineto.
KIND_OF_CATEGORY = {
    "cpu_op": "operator",
    "operator": "operator",
    "user_annotation": "range",
    "python_function": "python",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "runtime": "call",
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "memcpy": "copy",
    "gpu_memset": "memset",
    "memset": "memset",
}

# What runs on a device.
DEVICE_KINDS = ("kernel", "copy", "memset")

# The host range, an operator in the trace, in which TorchDynamo compiles one piece of code.
COMPILATION = "_compile.compile_inner (dynamo_timed)"

# What can be taken away from a trace, and the category that names it.
CATEGORY_OF_CAUSE = {
    "waits": "sync_bound",
    "launch_cost": "launch_bound",
    "copies": "transfer_bound",
    "allocation": "allocation_bound",
    "host_code": "host_bound",
    "compilation": "recompilation",
}


def profile_steps(
    step: Callable[[], object],
    folder: str,
    wait: int = 1,
    warmup: int = 1,
    active: int = 3,
    repeat: int = 1,
) -> list[str]:
    """Run a step under `torch.profiler` and write a trace of its steady state.

    step: runs one step; called exactly (wait + warmup + active) * repeat times, each call followed by
    the profiler's own `step()`. In each of the `repeat` cycles the profiler is off for `wait` steps,
    on but discarding for `warmup` steps, and records `active` steps (source: `torch.profiler.schedule`).
    folder: an existing folder, for the traces.

    Recorded are the host, and the GPU where there is one (`torch.cuda.is_available()`), with the
    shapes of operator inputs, with Python stacks, and with memory. Each cycle writes one file,
    `trace_<cycle>.json` (cycle counts from 0), in Chrome's trace format.

    Returns the paths of the files, in order. If `step` raises, the profiler is stopped and the
    exception goes on to the caller.
    Raises ValueError if `wait` or `warmup` is negative, or `active` or `repeat` less than 1 (torch
    itself takes repeat=0 as "for ever"), before anything runs.
    """
    raise NotImplementedError


def operator_table_of(profile: Any) -> list[dict[str, Any]]:
    """The table of operators of a finished `torch.profiler.profile`, in plain form.

    One row for each row of `profile.key_averages(group_by_input_shape=True)` that is on the host: its
    `device_type`, written as text, ends in "CPU"; a row without that attribute is on the host. Each
    row is a dict
        "name"             the row's `key`
        "shapes"           its `input_shapes`, as torch gives them
        "calls"            its `count`
        "host_self_ns", "host_total_ns"      of `self_cpu_time_total` and `cpu_time_total`
        "device_self_ns", "device_total_ns"  of `self_device_time_total` and `device_time_total`
    torch counts in µs; here are ns, rounded to whole numbers. Before torch 2.4 the last two were
    called `self_cuda_time_total` and `cuda_time_total`: take those where the current names are
    missing, and None where both are. Never ask for the old names while the new ones are there: later
    versions warn, or fail.

    Order: largest device_total_ns first (None as 0), then largest host_total_ns, then name.
    """
    raise NotImplementedError


def read_trace(capture: str) -> dict[str, Any]:
    """What a Kineto trace recorded, in plain form.

    Returns a dict with
        "events"          a list of dicts, one for each complete event ("ph" is "X") of a category in
                          KIND_OF_CATEGORY (compared in lower case), ordered by start_ns, and longest
                          first where these are equal. All else in the file's list is left out, also
                          what is no object
        "memory"          a list of dicts, one for each instant event ("ph" is "i") called "[memory]",
                          ordered by time_ns
        "devices"         the trace's `deviceProperties`; None if it has none (older versions)
        "epoch_ns"        ns since 1970 at which `start_ns` is 0: `baseTimeNanoseconds` plus the time
                          of the earliest event; None if the trace does not tell its base
    An event:
        "kind"            the word in KIND_OF_CATEGORY
        "name"
        "start_ns", "end_ns"  integers; 0 is the start of the earliest event in the list
        "process", "thread"   `pid` and `tid`, as recorded
        "device", "stream"    of kernels, copies and memsets; None for all other kinds
        "correlation"     joins a device operation with the CUDA call that issued it; None if absent
        "external_id"     joins both with the operator ("External id", formerly "external id"); None
        "shapes"          of an operator's inputs ("Input Dims", formerly "Input dims"); None if absent
        "called_from"     of a Python function: "file:line" of the line that called it ("CallFrom");
                          None if absent (older versions do not tell)
    A memory event:
        "time_ns"         on the clock of start_ns
        "device"          the number of the GPU, or None for the host ("Device Type" is 0)
        "bytes"           positive for an allocation, negative for a release
        "address"         of the block ("Addr"); None if absent
        "allocated_bytes" and "reserved_bytes": the totals after it ("Total Allocated", "Total
                          Reserved"); None if absent

    The file has µs, as decimals. A float cannot hold µs of this size to the ns (53 binary digits), so
    read the numbers as they are written: a time is exact here.

    Raises CaptureError, naming the file, where it is no JSON (cut off in the middle, say), where it
    holds no list "traceEvents", where that list holds none of these events, or where such an event
    lacks a name or a time or has a negative duration, or a device operation lacks its device or stream.
    """
    raise NotImplementedError


def operator_table(capture: str, by_shape: bool = False) -> list[dict[str, Any]]:
    """The table of operators, computed from the trace: who took the time, on the host and the device?

    Considered are the events of kind "operator" and "range" (both have rows) and "call" (these only
    take part in the nesting). On one thread of one process an event is the child of the shortest one
    that it lies inside: it starts no earlier, ends no later, and starts before that one's end. Of two
    that are equal the first in the order of read_trace is the parent, and the second that of what lies
    inside both. Where two cross (compilers leave such events), the earlier one is closed, as in torch's
    own table: no child after that.

    One row a name, or a name and shapes if by_shape, as a dict
        "name"             with every "ProfilerStep#<number>" as "ProfilerStep*"
        "shapes"           if by_shape: the shapes (None if not recorded); else None
        "calls"            how many events
        "host_total_ns"    their durations, added up
        "host_self_ns"     the same without the durations of their direct children
        "device_self_ns"   the durations of the kernels, copies and memsets whose external_id is theirs
        "device_total_ns"  the same, of these events and everything below them
    An event whose only child has its own name is one with that child, as in torch's own table: the
    child is not counted, its children and its device operations are the parent's.

    Order: largest device_total_ns first, then largest host_total_ns, then name, then str(shapes).
    """
    raise NotImplementedError


def step_breakdown(capture: str) -> list[dict[str, Any]]:
    """How much of each step each device was busy.

    A device operation belongs to a step with the part of it that lies inside, whoever issued it.

    Returns a list, ordered by step and device, with an entry for each step and each device that
    worked anywhere in the trace:
        "step"         the number
        "device"
        "step_ns"      length of the step
        "busy_ns"      time in it in which the device worked: what runs at the same time counts once
        "kernel_ns"    the same for kernels only
        "idle_ratio"   share of the step in which the device did nothing
    Raises CaptureError if the trace holds no step (naming `profiler.step()`), or no device operation
    (naming `ProfilerActivity.CUDA`).
    """
    raise NotImplementedError


def synchronizing_calls(capture: str) -> list[dict[str, Any]]:
    """Which lines of Python make the host wait for the device, how often and how long.

    Considered are the calls (kind "call") that start inside a step and are in SYNCHRONIZING_CALLS, or
    issued a copy (same correlation) from or to pageable memory ("Pageable" is in the copy's name):
    such a copy goes through a buffer, and the call, though "Async", holds the host: to pageable memory
    until it is complete, from it at least until the data lies in the buffer.

    The line: of the Python functions that contain the call on its thread, take the innermost one of
    the program itself. A Python function is called "file(line): function", where line is that of its
    `def`. Not the program's own are those whose name has no such form (built-in functions, modules)
    and those whose file is part of a library: its path begins with "<", a part of it is "torch" or
    "site-packages", or its first part (without ".py") is a module of `sys.stdlib_module_names`: PyTorch
    cuts off the folders that Python imports from. If the next Python function inside the
    one taken knows where it was `called_from`, that is the line; else it is the line of the `def`.

    Returns a list of dicts, one for each call and line,
        "call"         its name
        "where"        "file:line function", or None if no such function contains the calls (backward
                       passes run on a thread without Python; or the trace was made without stacks)
        "count"
        "blocked_ns"   the durations, added up
    ordered by blocked_ns, largest first, then call, then where (None last).
    Raises CaptureError if the trace holds no step.
    """
    raise NotImplementedError


def graph_breaks(capture: str) -> list[dict[str, Any]]:
    """Where compiled code had to go back to Python in the middle.

    Compiled code runs in an operator "Torch-Compiled Region: <frame>/<version>". Where TorchDynamo
    cannot follow the Python it ends the graph, lets Python do what it could not follow, and goes on
    in another frame, whose region lies inside the first one's. So: a graph break is a region inside
    another one, on the same thread; it belongs to the innermost region around it.

    Returns a list of dicts, one for each pair of frames, ordered by from_frame and to_frame,
        "from_frame", "to_frame"   integers
        "count"                    how often, over all steps
        "where"                    "file:line function" of the break, or None. The rest of a broken
                                   function runs as "file(line): torch_dynamo_resume_in_<function>_at_<line>":
                                   take the first Python function of such a name that starts inside the
                                   inner region, and its file, the function and the line that it names
    Only inner regions that start inside a step count. An empty list: no break was seen. (Where the rest
    of a function cannot be compiled at all there is no inner region, and the trace shows no break.)
    Raises CaptureError if the trace holds no step, or no compiled region at all.
    """
    raise NotImplementedError


def recompilations(capture: str) -> list[dict[str, Any]]:
    """Code that was compiled while the steps ran, and what that cost.

    A compilation is an operator called COMPILATION that starts inside a step. It compiled what runs
    next: the first operator "Torch-Compiled Region: <frame>/<version>" that starts on its thread after
    it ended. A compilation inside another one is part of that one.

    Returns a list of dicts in order of time
        "step"          the number of the step that it starts in
        "frame", "version"   integers; None if no region follows. Version 0 is a first compilation, a
                        higher one a recompilation
        "where"         "file:line function" of the first Python function of the form
                        "file(line): function" that starts inside that region; None if none does
        "duration_ns"
        "step_ratio"    its share of the step
    Raises CaptureError if the trace holds no step.
    """
    raise NotImplementedError


def replay_end(operations: list[Operation]) -> int:
    """Given, from Day 1: when the last device operation ends, in ns, if operations are played again."""
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


def recoverable_time(capture: str) -> dict[str, int]:
    """Per cause, how many ns earlier the device would have finished the steps without it.

    The window reaches from the start of the first step to the end of the last. Take its operations
    with `profiling_lab.captures.kineto.operations(read_trace(capture)["events"], window)`, change them,
    and compare `replay_end` of both, as on Day 1. The causes, one at a time:
        "waits"        drop the "wait" dependencies of operations whose `waits_in` is "synchronize" or
                       "copy_call"
        "launch_cost"  operations of kind "launch" take no time, nor does host code of at most
                       DISPATCH_LIMIT_NS; but for those with which the host goes on after a wait
                       (`resumes`), as on Day 1
        "host_code"    host code of more than DISPATCH_LIMIT_NS takes only as long as compilations
                       (operators called COMPILATION, of the same thread, as recorded) overlap it, and
                       operations of kind "host_function" take no time
        "compilation"  host code of more than DISPATCH_LIMIT_NS takes no longer than the part of it
                       that no compilation overlaps
        "copies"       as on Day 1: copies between host and device (H2D, D2H) take no time and add no
                       delay, operations of kind "copy_call" take no time, and where `waits_in` is
                       "copy_call" a positive lag of a "wait" dependency becomes 0; but the end is
                       never earlier than, for each device with such copies, the first recorded start of
                       any device operation + the sum of the copies of its busiest direction + its
                       shortest copy of the other direction (0 without one; the later end if both
                       directions are equally busy)
        "allocation"   as on Day 1: operations of kind "allocation" take no time, and the "wait"
                       dependencies of operations whose `waits_in` is "allocation" are dropped
    As on Day 1 no cause but "copies" saves more than a device was idle: the window without that device's
    busy time in it, whoever issued the work; of the devices on which the operations ran, the one with the
    least idle time counts.
    Host code runs in `where` "thread:<thread>". Returns {cause: ns}, all six; never negative.
    Raises CaptureError if the trace holds no step, or no device operation.
    """
    raise NotImplementedError


def launch_bound(capture: str) -> dict[str, Any]:
    """Is it the issuing of work that the device waits for? With the evidence.

    The window is that of recoverable_time. Returns
        "launch_bound"        True if recoverable_ratio is at least HEALTHY_FLOOR_RATIO
        "recoverable_ns"      what free launches would save (recoverable_time)
        "window_ns"           length of the window
        "recoverable_ratio"   their quotient
        "kernel_count"        kernels that a CUDA call starting in the window issued
        "starved_ratio"       share of these that found their device empty: the call that issued them
                              began when everything that the device had started before the kernel
                              (any kind, in the order of read_trace) had ended, or at that moment
        "launches_per_step"   CUDA calls starting in the window that issued at least one kernel, over
                              the number of steps
    A replayed CUDA graph is one call that issues many kernels.
    Raises CaptureError if the trace holds no step, or no kernel was issued in the window.
    """
    raise NotImplementedError


def load_snapshot(capture: str) -> dict[str, Any]:
    """A memory snapshot of PyTorch, loaded without running anything that is in it.

    `torch.cuda.memory._dump_snapshot` writes a pickle, and loading a pickle may call any function that
    its author chose (source: the warning at the top of Python's `pickle` documentation). A snapshot
    needs none: it is made of dicts, lists, tuples, strings, bytes, numbers, booleans and None. So the
    loader refuses every class and function by name, and every persistent id.

    capture: its file is `snapshot.pickle`, also compressed as `snapshot.pickle.gz`.
    Returns {"segments": list, "device_traces": list of lists}, as recorded; other keys are left out.
    Raises CaptureError, naming the file and what is wrong: a class or function (named "module.name"),
    a file cut off in the middle or no pickle, something else than a dict with these two lists
    (`torch.cuda.memory_snapshot()`, for one, gives only the list of segments).
    """
    raise NotImplementedError


def peak_memory(capture: str, device: int = 0) -> dict[str, Any]:
    """When memory use was highest, and how high, from the history in a snapshot.

    The history is `device_traces[device]`, in order of time. In it a block is in use from its "alloc"
    to its "free_completed"; a segment belongs to the process from "segment_alloc" to "segment_free"
    ("segment_map" to "segment_unmap" where segments can grow). The history does not begin at nothing:
    the snapshot's segments and blocks (state "active_allocated" or "active_pending_free") tell how
    it stood in the end, and the history leads back from there. A block counts with the size that was
    asked for ("size" in the history, "requested_size" in a segment), a segment with its "total_size".

    Returns
        "allocated_bytes"   the most that blocks in use added up to, at any moment of the history, its
                            beginning included
        "reserved_bytes"    the most that segments added up to
        "place"             index of the entry of the history after which allocated_bytes was first
                            reached; -1 if it was before the first entry
        "time_us"           of that entry, or None (place -1, or a snapshot without times)
    Older snapshots lack some keys: a segment without "device" is of device 0, and blocks without
    "address" lie in their segment one after the other, from its "address" on, each as long as its "size".
    Raises CaptureError, naming `_record_memory_history`, if there is no such device or no history of it.
    """
    raise NotImplementedError


def held_at_peak(capture: str, device: int = 0) -> list[dict[str, Any]]:
    """What holds the memory at the peak, by the line that allocated it.

    The blocks in use right after the entry at peak_memory's "place". The line of a block is the first
    frame ("frames", innermost first) of its "alloc" that is of the program itself: its file ends in
    ".py" and is no library's, as in synchronizing_calls. Blocks from before the history have none.

    Returns a list of dicts, one a line,
        "where"   "file:line function"; None for blocks without such a frame, and for those from
                  before the history
        "bytes"   added up
        "count"   of blocks
    ordered by bytes, largest first, then where (None last). The bytes add up to the peak.
    """
    raise NotImplementedError


def memory_growth(capture: str, device: int = 0) -> dict[str, Any]:
    """Does memory grow from step to step, and which line keeps it?

    capture: a folder with a trace, recorded with memory, and, for the line, a snapshot of the same
    steps. (Given the path of the trace, look for the snapshot beside it.) "End of a step" is the last
    memory event of the device that is not after the step's end; a step that no event of the device
    precedes is left out.

    Returns
        "step_end_bytes"   allocated_bytes at the end of each step, in order
        "growth_bytes"     what every stretch of steps adds, a step (below); 0 if nothing
        "where"            the line that keeps most: for each line (as in held_at_peak) and each stretch
                           of steps, of the length that gave growth_bytes (the first step and those
                           left out among them), add up the blocks that were
                           allocated in these steps and are still in use in the end; a line keeps the
                           smallest of these sums, by the length and rounded down, as every stretch
                           leaves at least that much behind. None if that is 0 for all lines, or without
                           a snapshot, or without the times to join the two. Of lines that keep the
                           same the first by alphabet
        "where_bytes"      what that line keeps, a step; None with where
    Growth: a leak may come in every step, or in every third. For a length of k steps take the smallest
    difference between entries of step_end_bytes that are k places apart, by k and rounded down.
    growth_bytes is the largest of these, for k = 1 and for 2, 3, … as long as two stretches that do not
    overlap fit in; the shortest k that gives it is the length. Totals of batches that vary may rise by
    chance, so for k of 2 and more a difference counts up to the bytes that stay: of the blocks that were
    allocated after the end at which the stretch begins, not after the one at which it ends, and that are
    never released in the trace (a block lasts until the next event of the device at its "address").
    If any memory event of the device has no address, k is 1, as it is where growth is 0. What no trace
    can tell: whether a cache that still fills at the end of the recording will be full one day.
    The times: an entry of the snapshot has "time_us", in µs since 1970; the trace has "epoch_ns". A
    block belongs to the step with start <= time < end.
    Raises CaptureError if the trace holds no step, memory events of fewer than two steps (naming
    `profile_memory`), or memory events without totals.
    """
    raise NotImplementedError


def name_trace_bottleneck(capture: str) -> Finding:
    """The main finding of a capture.

    subject: "device:<n>" of the device with the least busy time in the steps, the lowest if equal.

    Memory that grows goes first, whatever time there is to save: the program will end with an error.
    If the trace has memory events of that device, with totals, before the end of at least two steps,
    and growth_bytes is more than GROWTH_FLOOR_RATIO of the first of step_end_bytes, the category is
    "memory_growth", with the evidence "growth_bytes", "step_end_bytes" (the last of them) and
    "steps_left_count": how many more steps fit into `totalGlobalMem` of the device (the entry of
    read_trace's "devices" with its "id"; left out where unknown), rounded down.

    Otherwise it is the cause whose removal saves most, by recoverable_time, or "healthy" (with the
    recommendation "none") where that is less than HEALTHY_FLOOR_RATIO of the window. Causes cure the
    same gap at times, so savings are told apart only down to BORDERLINE_RATIO of the window: of those
    that reach the floor and come that close to the largest (the difference is at most that share), the
    category with the lowest precedence in `profiling_lab.findings.CATEGORIES` wins. Evidence:
    "recoverable_ns" (of the cause that is named; of a healthy trace the largest), "window_ns",
    "recoverable_ratio" and "margin_ratio" (that ratio minus HEALTHY_FLOOR_RATIO).

    recommendation: one sentence; it names the line if synchronizing_calls (for sync_bound, that of
    the longest blocking) or memory_growth knows one. If |margin_ratio| <= BORDERLINE_RATIO it begins
    with "borderline", for a healthy trace too.
    """
    raise NotImplementedError
