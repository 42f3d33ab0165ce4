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
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    if wait < 0 or warmup < 0 or active < 1 or repeat < 1:
        raise ValueError(
            "wait and warmup must be at least 0, active and repeat at least 1; "
            f"got {wait=}, {warmup=}, {active=}, {repeat=}"
        )
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    files: list[str] = []

    def write(profiler: Any) -> None:
        files.append(str(Path(folder) / f"trace_{len(files)}.json"))
        profiler.export_chrome_trace(files[-1])

    with profile(
        activities=activities,
        schedule=schedule(wait=wait, warmup=warmup, active=active, repeat=repeat),
        on_trace_ready=write,
        record_shapes=True,
        with_stack=True,
        profile_memory=True,
    ) as profiler:
        for _ in range((wait + warmup + active) * repeat):
            step()
            profiler.step()
    return files


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
    rows = []
    for row in profile.key_averages(group_by_input_shape=True):
        if not str(getattr(row, "device_type", "CPU")).endswith("CPU"):
            continue
        rows.append(
            {
                "name": row.key,
                "shapes": row.input_shapes,
                "calls": row.count,
                "host_self_ns": _ns_of(row, "self_cpu_time_total"),
                "host_total_ns": _ns_of(row, "cpu_time_total"),
                "device_self_ns": _ns_of(row, "self_device_time_total", "self_cuda_time_total"),
                "device_total_ns": _ns_of(row, "device_time_total", "cuda_time_total"),
            }
        )
    return sorted(
        rows, key=lambda r: (-(r["device_total_ns"] or 0), -r["host_total_ns"], r["name"])
    )


def _ns_of(row: Any, *names: str) -> int | None:
    """The first of these attributes that the row has, from µs to ns."""
    for name in names:
        if hasattr(row, name):
            return round(getattr(row, name) * 1000)
    return None


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
    file = captures.file(capture, "trace.json")
    try:
        # Numbers stay decimal: as floats, µs of this size are off by up to a ns.
        data = json.loads(captures.text(capture, "trace.json"), parse_float=Decimal)
    except ValueError as error:
        raise CaptureError(f"{file}: is no JSON, or cut off ({error})") from None
    recorded = data.get("traceEvents") if isinstance(data, dict) else None
    if not isinstance(recorded, list):
        raise CaptureError(f"{file}: holds no list traceEvents; is it a trace of torch.profiler?")
    events, memory = [], []
    for raw in recorded:
        if not isinstance(raw, dict):
            continue
        kind = KIND_OF_CATEGORY.get(str(raw.get("cat")).lower())
        if raw.get("ph") == "X" and kind is not None:
            events.append(_event(raw, kind, file))
        elif raw.get("ph") == "i" and raw.get("name") == "[memory]":
            memory.append(_memory_event(raw, file))
    if not events:
        raise CaptureError(f"{file}: traceEvents holds no operator, call, kernel or range")
    base = data.get("baseTimeNanoseconds")
    first = min(event["start_ns"] for event in events)
    for event in events:
        event["start_ns"] -= first
        event["end_ns"] -= first
    for event in memory:
        event["time_ns"] -= first
    return {
        "events": sorted(events, key=lambda e: (e["start_ns"], -e["end_ns"])),
        "memory": sorted(memory, key=lambda e: e["time_ns"]),
        "devices": data.get("deviceProperties"),
        "epoch_ns": base + first if isinstance(base, int) else None,
    }


def _event(raw: dict[str, Any], kind: str, file: Path) -> dict[str, Any]:
    args = raw.get("args") or {}
    name, start, duration = raw.get("name"), raw.get("ts"), raw.get("dur")
    if not isinstance(name, str):
        raise CaptureError(f"{file}: an event of category {raw['cat']!r} has no name")
    start_ns, duration_ns = (_time_ns(value, name, file) for value in (start, duration))
    if duration_ns < 0:
        raise CaptureError(f"{file}: {name!r} has a negative duration, {duration} µs")
    on_device = kind in DEVICE_KINDS
    place = {key: args.get(key) if on_device else None for key in ("device", "stream")}
    if on_device and None in place.values():
        raise CaptureError(f"{file}: {name!r} ran on the GPU, and its device or stream is missing")
    return {
        "kind": kind,
        "name": name,
        "start_ns": start_ns,
        "end_ns": start_ns + duration_ns,
        "process": raw.get("pid"),
        "thread": raw.get("tid"),
        **place,
        "correlation": args.get("correlation"),
        "external_id": args.get("External id", args.get("external id")),
        "shapes": args.get("Input Dims", args.get("Input dims")),
        "called_from": args.get("CallFrom"),
    }


def _memory_event(raw: dict[str, Any], file: Path) -> dict[str, Any]:
    args = raw.get("args") or {}
    return {
        "time_ns": _time_ns(raw.get("ts"), "[memory]", file),
        "device": args.get("Device Id") if args.get("Device Type") else None,
        "bytes": args.get("Bytes"),
        "address": args.get("Addr"),
        "allocated_bytes": args.get("Total Allocated"),
        "reserved_bytes": args.get("Total Reserved"),
    }


def _time_ns(value: Any, name: str, file: Path) -> int:
    """µs as written in the file, in ns."""
    if type(value) not in (int, Decimal):
        raise CaptureError(f"{file}: {name!r} has no time, or one that is no number ({value!r})")
    return int((value * 1000).to_integral_value()) if type(value) is Decimal else value * 1000


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
    events = _trace(capture)["events"]
    device_ns: dict[int, int] = defaultdict(int)
    threads: dict[tuple, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["kind"] in DEVICE_KINDS:
            device_ns[event["external_id"]] += event["end_ns"] - event["start_ns"]
        elif event["kind"] in ("operator", "range", "call"):
            threads[event["process"], event["thread"]].append(event)
    rows: dict[tuple, dict[str, Any]] = {}
    for thread in threads.values():
        for node in _tree(thread):
            _count_node(node, device_ns, rows, by_shape)
    return sorted(
        rows.values(),
        key=lambda r: (-r["device_total_ns"], -r["host_total_ns"], r["name"], str(r["shapes"])),
    )


def _tree(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of a thread, ordered by start, as nested nodes {"event", "children", "ids"}."""
    roots: list[dict[str, Any]] = []
    open_nodes: list[dict[str, Any]] = []
    for event in events:
        node = {"event": event, "children": [], "ids": [event["external_id"]]}
        while open_nodes:
            parent = open_nodes[-1]["event"]
            if event["start_ns"] < parent["end_ns"] and event["end_ns"] <= parent["end_ns"]:
                break
            open_nodes.pop()
        (open_nodes[-1]["children"] if open_nodes else roots).append(node)
        open_nodes.append(node)
    return roots


def _count_node(
    node: dict[str, Any],
    device_ns: dict[int, int],
    rows: dict[tuple, dict[str, Any]],
    by_shape: bool,
) -> int:
    """Add a node and all below it to the rows; returns the device time of both."""
    event = node["event"]
    while len(node["children"]) == 1 and node["children"][0]["event"]["name"] == event["name"]:
        only = node["children"][0]
        node = {"event": event, "children": only["children"], "ids": node["ids"] + only["ids"]}
    below_ns = sum(_count_node(child, device_ns, rows, by_shape) for child in node["children"])
    if event["kind"] == "call":
        return below_ns
    self_ns = sum(device_ns.get(number, 0) for number in node["ids"] if number is not None)
    name = re.sub(r"^ProfilerStep#\d+$", "ProfilerStep*", event["name"])
    shapes = event["shapes"] if by_shape else None
    row = rows.setdefault(
        (name, str(shapes)),
        {
            "name": name,
            "shapes": shapes,
            "calls": 0,
            "host_total_ns": 0,
            "host_self_ns": 0,
            "device_self_ns": 0,
            "device_total_ns": 0,
        },
    )
    total_ns = event["end_ns"] - event["start_ns"]
    children_ns = sum(c["event"]["end_ns"] - c["event"]["start_ns"] for c in node["children"])
    row["calls"] += 1
    row["host_total_ns"] += total_ns
    row["host_self_ns"] += total_ns - children_ns
    row["device_self_ns"] += self_ns
    row["device_total_ns"] += self_ns + below_ns
    return self_ns + below_ns


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
    events = _trace(capture)["events"]
    steps = _steps(events, capture)
    work = [event for event in events if event["kind"] in DEVICE_KINDS]
    if not work:
        raise CaptureError(
            f"{capture}: holds no device operation; record with ProfilerActivity.CUDA, on a GPU"
        )
    out = []
    for number, start, end in steps:
        for device in sorted({event["device"] for event in work}):
            here = [event for event in work if event["device"] == device]
            busy_ns = _union_ns(here, start, end)
            out.append(
                {
                    "step": number,
                    "device": device,
                    "step_ns": end - start,
                    "busy_ns": busy_ns,
                    "kernel_ns": _union_ns([e for e in here if e["kind"] == "kernel"], start, end),
                    "idle_ratio": 1 - busy_ns / (end - start),
                }
            )
    return out


def _steps(events: list[dict[str, Any]], capture: str) -> list[tuple[int, int, int]]:
    """(number, start, end) of each step, in order."""
    steps = []
    for event in events:
        found = re.fullmatch(r"ProfilerStep#(\d+)", event["name"])
        if found and event["kind"] in ("range", "operator"):
            steps.append((int(found[1]), event["start_ns"], event["end_ns"]))
    if not steps:
        raise CaptureError(
            f"{capture}: holds no ProfilerStep; call profiler.step() after each step"
        )
    return sorted(steps)


def _step_of(steps: list[tuple[int, int, int]], time_ns: int) -> int | None:
    """The number of the step that a time lies in."""
    return next((number for number, start, end in steps if start <= time_ns < end), None)


def _union_ns(events: list[dict[str, Any]], start: int, end: int) -> int:
    """The time in [start, end) in which at least one of the events, ordered by start, ran."""
    total, reach = 0, start
    for event in events:
        first, last = max(event["start_ns"], reach), min(event["end_ns"], end)
        if last > first:
            total += last - first
            reach = last
    return total


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
    events = _trace(capture)["events"]
    steps = _steps(events, capture)
    python = [event for event in events if event["kind"] == "python"]
    pageable = {e["correlation"] for e in events if e["kind"] == "copy" and "Pageable" in e["name"]}
    found: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for call in events:
        if call["kind"] != "call" or _step_of(steps, call["start_ns"]) is None:
            continue
        if call["name"] not in SYNCHRONIZING_CALLS and call["correlation"] not in pageable:
            continue
        where = _line_of(call, python)
        found[call["name"], where].append(call["end_ns"] - call["start_ns"])
    rows = [
        {"call": call, "where": where, "count": len(times), "blocked_ns": sum(times)}
        for (call, where), times in found.items()
    ]
    return sorted(
        rows, key=lambda r: (-r["blocked_ns"], r["call"], r["where"] is None, r["where"] or "")
    )


def _line_of(call: dict[str, Any], python: list[dict[str, Any]]) -> str | None:
    """ "file:line function" of the program's own code that a call was made from."""
    around = [
        event
        for event in python
        if event["start_ns"] <= call["start_ns"]
        and event["end_ns"] >= call["end_ns"]
        and event["thread"] == call["thread"]
    ]
    # Ordered by start, the longer first: from the outermost to the innermost.
    for place in range(len(around) - 1, -1, -1):
        own = _python_function(around[place]["name"])
        if own and not _of_a_library(own[0]):
            file, line, function = own
            inner = around[place + 1] if place + 1 < len(around) else None
            if inner is not None and inner["called_from"]:
                return f"{inner['called_from']} {function}"
            return f"{file}:{line} {function}"
    return None


def _python_function(name: str) -> tuple[str, int, str] | None:
    """File, line and function of "file(line): function"; None for other names."""
    found = re.fullmatch(r"(.+)\((\d+)\): (.+)", name)
    return (found[1], int(found[2]), found[3]) if found else None


def _of_a_library(file: str) -> bool:
    parts = Path(file).parts
    return (
        file.startswith("<")
        or "torch" in parts
        or "site-packages" in parts
        or parts[0].removesuffix(".py") in sys.stdlib_module_names
    )


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
    events = _trace(capture)["events"]
    steps = _steps(events, capture)
    regions = [(event, *found) for event in events if (found := _region(event))]
    if not regions:
        raise CaptureError(f"{capture}: holds no Torch-Compiled Region; nothing ran compiled")
    breaks: dict[tuple[int, int], list[str | None]] = defaultdict(list)
    for inner, to_frame, _ in regions:
        around = [
            frame
            for outer, frame, _ in regions
            if outer is not inner
            and outer["thread"] == inner["thread"]
            and outer["start_ns"] <= inner["start_ns"]
            and inner["end_ns"] <= outer["end_ns"]
        ]
        if around and _step_of(steps, inner["start_ns"]) is not None:
            breaks[around[-1], to_frame].append(_resumed_at(inner, events))
    return [
        {
            "from_frame": source,
            "to_frame": target,
            "count": len(places),
            "where": next((place for place in places if place), None),
        }
        for (source, target), places in sorted(breaks.items())
    ]


def _region(event: dict[str, Any]) -> tuple[int, int] | None:
    """Frame and version of a compiled region; None for other events."""
    found = re.fullmatch(r"Torch-Compiled Region: (\d+)/(\d+)", event["name"])
    return (int(found[1]), int(found[2])) if found and event["kind"] == "operator" else None


def _functions_inside(region: dict[str, Any], events: list[dict[str, Any]]) -> Iterable[tuple]:
    """(file, line, function) of the Python functions that start inside a region, in order."""
    for event in events:
        if (
            event["kind"] == "python"
            and event["thread"] == region["thread"]
            and region["start_ns"] <= event["start_ns"] < region["end_ns"]
            and (parts := _python_function(event["name"]))
        ):
            yield parts


def _resumed_at(region: dict[str, Any], events: list[dict[str, Any]]) -> str | None:
    for file, _, function in _functions_inside(region, events):
        found = re.fullmatch(r"torch_dynamo_resume_in_(.+)_at_(\d+)", function)
        if found:
            return f"{file}:{found[2]} {found[1]}"
    return None


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
    events = _trace(capture)["events"]
    steps = _steps(events, capture)
    out = []
    until: dict[Any, int] = {}
    for event in events:
        if event["kind"] != "operator" or event["name"] != COMPILATION:
            continue
        nested = event["start_ns"] < until.get(event["thread"], event["start_ns"])
        until[event["thread"]] = max(until.get(event["thread"], 0), event["end_ns"])
        number = _step_of(steps, event["start_ns"])
        if nested or number is None:
            continue
        region = next(
            (
                e
                for e in events
                if _region(e)
                and e["thread"] == event["thread"]
                and e["start_ns"] >= event["end_ns"]
            ),
            None,
        )
        frame, version = _region(region) or (None, None) if region else (None, None)
        functions = _functions_inside(region, events) if region else iter(())
        first = next(iter(functions), None)
        duration_ns = event["end_ns"] - event["start_ns"]
        step_ns = next(end - start for n, start, end in steps if n == number)
        out.append(
            {
                "step": number,
                "frame": frame,
                "version": version,
                "where": f"{first[0]}:{first[1]} {first[2]}" if first else None,
                "duration_ns": duration_ns,
                "step_ratio": duration_ns / step_ns,
            }
        )
    return out


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
    events = _trace(capture)["events"]
    operations = kineto.operations(events, _window(events, capture))
    compiling: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["kind"] == "operator" and event["name"] == COMPILATION:
            compiling[f"thread:{event['thread']}"].append(event)

    def own_code(operation: Operation) -> bool:
        long = operation.kind == "host_code" and operation.duration_ns > DISPATCH_LIMIT_NS
        return long or operation.kind == "host_function"

    def compiled_ns(operation: Operation) -> int:
        return _union_ns(compiling[operation.where], operation.start_ns, operation.end_ns)

    def without_waits(operation: Operation) -> Operation:
        if operation.waits_in not in ("synchronize", "copy_call"):
            return operation
        return replace(operation, after=tuple(d for d in operation.after if d.why != "wait"))

    def without_launch_cost(operation: Operation) -> Operation:
        dispatch = operation.kind == "host_code" and not own_code(operation)
        issuing = (dispatch or operation.kind == "launch") and not operation.resumes
        return replace(operation, duration_ns=0) if issuing else operation

    def without_host_code(operation: Operation) -> Operation:
        if not own_code(operation):
            return operation
        return replace(operation, duration_ns=compiled_ns(operation))

    def without_compilation(operation: Operation) -> Operation:
        if not own_code(operation):
            return operation
        return replace(operation, duration_ns=operation.duration_ns - compiled_ns(operation))

    changes = {
        "waits": without_waits,
        "launch_cost": without_launch_cost,
        "copies": _without_copies,
        "allocation": _without_allocation,
        "host_code": without_host_code,
        "compilation": without_compilation,
    }
    recorded_end = replay_end(operations)
    saved = {
        cause: recorded_end - replay_end([change(o) for o in operations])
        for cause, change in changes.items()
    }
    idle_ns = _least_idle_ns(events, _window(events, capture), {o.device for o in operations})
    bound = dict.fromkeys(saved, idle_ns) | {"copies": recorded_end - _least_end(operations)}
    return {cause: max(0, min(ns, bound[cause])) for cause, ns in saved.items()}


def _least_idle_ns(events: list[dict[str, Any]], window: tuple[int, int], devices: set[int]) -> int:
    """The idle time in a window of that one of some devices which has least."""
    start, end = window
    work: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for event in events:
        if event["kind"] in DEVICE_KINDS and event["device"] in devices:
            work[event["device"]].append(event)
    return end - start - max(_union_ns(own, start, end) for own in work.values())


def _without_copies(operation: Operation) -> Operation:
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


def _without_allocation(operation: Operation) -> Operation:
    if operation.kind == "allocation":
        return replace(operation, duration_ns=0)
    if operation.waits_in == "allocation":
        return replace(operation, after=tuple(d for d in operation.after if d.why != "wait"))
    return operation


def _least_end(operations: list[Operation]) -> int:
    """When the busiest direction of copies would be through, had it nothing to wait for (Day 1)."""
    on_device = [operation for operation in operations if operation.device >= 0]
    copies: dict[int, dict[str, list[int]]] = {}
    for operation in on_device:
        if operation.kind == "copy" and operation.name in ("H2D", "D2H"):
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
    return min(operation.start_ns for operation in on_device) + least_ns


def _window(events: list[dict[str, Any]], capture: str) -> tuple[int, int]:
    """From the start of the first step to the end of the last."""
    steps = _steps(events, capture)
    return min(start for _, start, _ in steps), max(end for _, _, end in steps)


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
    events = _trace(capture)["events"]
    start, end = _window(events, capture)
    calls = {
        event["correlation"]: event
        for event in events
        if event["kind"] == "call" and start <= event["start_ns"] < end
    }
    kernels = starved = 0
    launches = set()
    reach: dict[int, int] = defaultdict(int)  # when all that started before has ended, a device
    for event in events:
        if event["kind"] not in DEVICE_KINDS:
            continue
        call = calls.get(event["correlation"])
        if event["kind"] == "kernel" and call is not None:
            kernels += 1
            starved += call["start_ns"] >= reach[event["device"]]
            launches.add(event["correlation"])
        reach[event["device"]] = max(reach[event["device"]], event["end_ns"])
    if not kernels:
        raise CaptureError(f"{capture}: no kernel was issued in the steps")
    recoverable_ns = recoverable_time(capture)["launch_cost"]
    ratio = recoverable_ns / (end - start)
    return {
        "launch_bound": ratio >= HEALTHY_FLOOR_RATIO,
        "recoverable_ns": recoverable_ns,
        "window_ns": end - start,
        "recoverable_ratio": ratio,
        "kernel_count": kernels,
        "starved_ratio": starved / kernels,
        "launches_per_step": len(launches) / len(_steps(events, capture)),
    }


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
    file = captures.file(capture, "snapshot.pickle")
    try:
        data = file.read_bytes()
        if data[:2] == captures.GZIP_MAGIC:
            data = gzip.decompress(data)
        loaded = _PlainUnpickler(io.BytesIO(data)).load()
    except _Refused as refused:
        raise CaptureError(
            f"{file}: asks for {refused}; a snapshot holds plain data only"
        ) from None
    except (EOFError, OSError, zlib.error):
        raise CaptureError(f"{file}: is cut off or damaged") from None
    except Exception as error:  # noqa: BLE001 - a damaged pickle may raise anything
        raise CaptureError(f"{file}: is no pickle, or damaged ({error})") from None
    if not isinstance(loaded, dict):
        raise CaptureError(f"{file}: holds a {type(loaded).__name__}, and a snapshot is a dict")
    out = {}
    for key in ("segments", "device_traces"):
        if not isinstance(loaded.get(key), list):
            raise CaptureError(f"{file}: holds no list {key!r}; is it a memory snapshot?")
        out[key] = loaded[key]
    return out


class _Refused(Exception):
    """What a pickle asked for."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise _Refused(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused(f"the persistent id {pid!r}")


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
    history, _ = _history(capture, device)
    peak = max(history, key=lambda moment: moment["allocated_bytes"])  # the first of equals
    return {
        "allocated_bytes": peak["allocated_bytes"],
        "reserved_bytes": max(moment["reserved_bytes"] for moment in history),
        "place": peak["place"],
        "time_us": peak["time_us"],
    }


def _history(capture: str, device: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """What was in use after each entry of a device's history, and the blocks of it.

    The first moment is before the first entry, at place -1. A block is a dict of "from_place" (-1: it
    was there before), "to_place" (None: it is still there), "bytes", "frames" and "time_us".
    """
    snapshot = load_snapshot(capture)
    traces = snapshot["device_traces"]
    if not 0 <= device < len(traces) or not traces[device]:
        raise CaptureError(
            f"{capture}: holds no history of device {device}; was _record_memory_history on?"
        )
    entries = traces[device]
    blocks: list[dict[str, Any]] = []
    open_blocks: dict[int, dict[str, Any]] = {}
    reserved = 0  # against the beginning
    reserved_after = []
    for place, entry in enumerate(entries):
        action = entry["action"]
        if action == "alloc":
            block = {
                "from_place": place,
                "to_place": None,
                "bytes": entry["size"],
                "frames": entry.get("frames", []),
                "time_us": entry.get("time_us"),
            }
            blocks.append(block)
            open_blocks[entry["addr"]] = block
        elif action == "free_completed":
            block = open_blocks.pop(entry["addr"], None)
            if block is None:  # older than the history
                block = {"from_place": -1, "bytes": entry["size"], "frames": [], "time_us": None}
                blocks.append(block)
            block["to_place"] = place
        elif action in ("segment_alloc", "segment_map"):
            reserved += entry["size"]
        elif action in ("segment_free", "segment_unmap"):
            reserved -= entry["size"]
        reserved_after.append(reserved)
    segments = [s for s in snapshot["segments"] if s.get("device", 0) == device]
    for segment in segments:
        for block in _blocks_in_use(segment):
            if block["address"] not in open_blocks:
                old = {"from_place": -1, "to_place": None, "bytes": block["requested_size"]}
                blocks.append(old | {"frames": [], "time_us": None})
    reserved_before = sum(segment["total_size"] for segment in segments) - reserved
    change = [0] * len(entries)
    for block in blocks:
        if block["from_place"] >= 0:
            change[block["from_place"]] += block["bytes"]
        if block["to_place"] is not None:
            change[block["to_place"]] -= block["bytes"]
    allocated = sum(block["bytes"] for block in blocks if block["from_place"] < 0)
    moments = [
        {
            "place": -1,
            "allocated_bytes": allocated,
            "reserved_bytes": reserved_before,
            "time_us": None,
        }
    ]
    for place, entry in enumerate(entries):
        allocated += change[place]
        moments.append(
            {
                "place": place,
                "allocated_bytes": allocated,
                "reserved_bytes": reserved_before + reserved_after[place],
                "time_us": entry.get("time_us"),
            }
        )
    return moments, blocks


def _blocks_in_use(segment: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a segment that are in use, with their addresses."""
    found, address = [], segment["address"]
    for block in segment["blocks"]:
        if block["state"] != "inactive":
            found.append(block | {"address": block.get("address", address)})
        address += block["size"]
    return found


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
    place = peak_memory(capture, device)["place"]
    _, blocks = _history(capture, device)
    held: dict[str | None, list[int]] = defaultdict(list)
    for block in blocks:
        if block["from_place"] <= place and (
            block["to_place"] is None or block["to_place"] > place
        ):
            held[_allocating_line(block["frames"])].append(block["bytes"])
    rows = [
        {"where": where, "bytes": sum(sizes), "count": len(sizes)} for where, sizes in held.items()
    ]
    return sorted(rows, key=lambda r: (-r["bytes"], r["where"] is None, r["where"] or ""))


def _allocating_line(frames: list[dict[str, Any]]) -> str | None:
    for frame in frames:
        if frame["filename"].endswith(".py") and not _of_a_library(frame["filename"]):
            return f"{frame['filename']}:{frame['line']} {frame['name']}"
    return None


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
    trace = _trace(capture)
    steps = _steps(trace["events"], capture)
    ends = _step_end_bytes(trace, steps, device)
    if len(ends) < 2:
        raise CaptureError(
            f"{capture}: memory events of device {device} in fewer than two steps; "
            "record with profile_memory=True"
        )
    if None in ends:
        raise CaptureError(f"{capture}: its memory events hold no totals (Total Allocated)")
    growth_bytes, length = _growth(ends, _staying_bytes(trace, steps, device))
    where, where_bytes = _keeping_line(capture, device, steps, trace["epoch_ns"], length)
    return {
        "step_end_bytes": ends,
        "growth_bytes": growth_bytes,
        "where": where,
        "where_bytes": where_bytes,
    }


def _step_end_bytes(
    trace: dict[str, Any], steps: list[tuple[int, int, int]], device: int
) -> list[Any]:
    """What was allocated at the end of each step that a memory event of the device precedes."""
    events = [event for event in trace["memory"] if event["device"] == device]
    before = [[e for e in events if e["time_ns"] <= end] for _, _, end in steps]
    return [past[-1]["allocated_bytes"] for past in before if past]


def _staying_bytes(
    trace: dict[str, Any], steps: list[tuple[int, int, int]], device: int
) -> list[int] | None:
    """For each of _step_end_bytes: what had been allocated by then and is never released.

    None if an event has no address.
    """
    events = [event for event in trace["memory"] if event["device"] == device]
    if any(event["address"] is None for event in events):
        return None
    alive: dict[int, dict[str, Any]] = {}
    for event in events:
        if event["bytes"] > 0:
            alive[event["address"]] = event
        else:
            alive.pop(event["address"], None)
    return [
        sum(e["bytes"] for e in alive.values() if e["time_ns"] <= end)
        for _, _, end in steps
        if end >= events[0]["time_ns"]
    ]


def _growth(ends: list[int], staying: list[int] | None) -> tuple[int, int]:
    """What every stretch adds, a step, and the length of the stretches that show it."""
    growth, found = 0, 1
    lengths = range(1, (1 if staying is None else max(1, (len(ends) - 1) // 2)) + 1)
    for length in lengths:
        rise = min(b - a for a, b in zip(ends, ends[length:], strict=False))
        if staying is not None and length > 1:
            kept = min(b - a for a, b in zip(staying, staying[length:], strict=False))
            rise = min(rise, kept)
        if rise // length > growth:
            growth, found = rise // length, length
    return growth, found


def _keeping_line(
    capture: str,
    device: int,
    steps: list[tuple[int, int, int]],
    epoch_ns: int | None,
    length: int,
) -> tuple[str | None, int | None]:
    """The line that leaves most behind in every stretch of that many steps, and how much a step."""
    folder = captures.file(capture, "trace.json").parent
    if epoch_ns is None or not any(folder.glob("snapshot.pickle*")):
        return None, None
    _, blocks = _history(str(folder), device)
    kept: dict[str | None, dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for block in blocks:
        if block["to_place"] is None and block["time_us"] is not None:
            number = _step_of(steps, block["time_us"] * 1000 - epoch_ns)
            where = _allocating_line(block["frames"])
            if number is not None and where is not None:
                kept[where][number] += block["bytes"]
    least = {}
    for where, sums in kept.items():
        each = [sums.get(number, 0) for number, _, _ in steps]
        stretches = (sum(each[at : at + length]) for at in range(len(each) - length + 1))
        least[where] = min(stretches) // length
    where = min(least, key=lambda line: (-least[line], line), default=None)
    return (where, least[where]) if where is not None and least[where] else (None, None)


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
    trace = _trace(capture)
    busy: dict[int, int] = defaultdict(int)
    for row in step_breakdown(capture):
        busy[row["device"]] += row["busy_ns"]
    subject = f"device:{min(busy, key=lambda device: (busy[device], device))}"
    growing = _growth_finding(capture, trace, subject)
    if growing is not None:
        return growing
    start, end = _window(trace["events"], capture)
    saved = recoverable_time(capture)
    largest = max(saved, key=lambda name: (saved[name], -_precedence(name)))
    near_ns = max(
        HEALTHY_FLOOR_RATIO * (end - start), saved[largest] - BORDERLINE_RATIO * (end - start)
    )
    near = [name for name in saved if saved[name] >= near_ns]
    cause = min(near, key=_precedence, default=largest)
    ratio = saved[cause] / (end - start)
    margin = ratio - HEALTHY_FLOOR_RATIO
    category = CATEGORY_OF_CAUSE[cause] if near else "healthy"
    recommendation = _RECOMMENDATIONS[category]
    if category == "sync_bound":
        lines = [row["where"] for row in synchronizing_calls(capture) if row["where"]]
        recommendation += f" ({lines[0]})" if lines else ""
    if abs(margin) <= BORDERLINE_RATIO:
        recommendation = f"borderline ({ratio:.1%} of the steps): " + (
            recommendation if category != "healthy" else f"watch {CATEGORY_OF_CAUSE[cause]}"
        )
    return Finding(
        category,
        subject,
        {
            "recoverable_ns": saved[cause],
            "window_ns": end - start,
            "recoverable_ratio": ratio,
            "margin_ratio": margin,
        },
        recommendation,
    )


_RECOMMENDATIONS = {
    "healthy": "none",
    "sync_bound": "keep results on the device and read them after the steps",
    "launch_bound": "issue less: fuse, use larger batches, compile, or replay a CUDA graph",
    "transfer_bound": "pin host memory and copy on a stream of its own while kernels run",
    "allocation_bound": "leave memory with the caching allocator, and sizes the same from step to step",
    "host_bound": "move host work off the critical path: prefetch it on another thread or process",
    "recompilation": "make what changes from call to call dynamic, or keep it the same",
    "memory_growth": "let go of what each step keeps: detach it, or keep a number instead of a tensor",
}


def _growth_finding(capture: str, trace: dict[str, Any], subject: str) -> Finding | None:
    """The finding that memory grows; None if it does not, or was not recorded."""
    device = int(subject.removeprefix("device:"))
    ends = _step_end_bytes(trace, _steps(trace["events"], capture), device)
    if len(ends) < 2 or None in ends:
        return None
    growth = memory_growth(capture, device)
    if growth["growth_bytes"] <= GROWTH_FLOOR_RATIO * ends[0]:
        return None
    evidence = {"growth_bytes": growth["growth_bytes"], "step_end_bytes": ends[-1]}
    for properties in trace["devices"] or []:
        if properties.get("id") == device and "totalGlobalMem" in properties:
            free_bytes = properties["totalGlobalMem"] - ends[-1]
            evidence["steps_left_count"] = free_bytes // growth["growth_bytes"]
    where = f" ({growth['where']})" if growth["where"] else ""
    return Finding("memory_growth", subject, evidence, _RECOMMENDATIONS["memory_growth"] + where)


def _precedence(cause: str) -> int:
    return CATEGORIES[CATEGORY_OF_CAUSE[cause]].precedence


def _trace(capture: str) -> dict[str, Any]:
    """read_trace, with the last ones kept."""
    file = captures.file(capture, "trace.json")
    return _kept_trace(str(file), file.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _kept_trace(file: str, _changed_ns: int) -> dict[str, Any]:
    return read_trace(file)
