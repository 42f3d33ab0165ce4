"""A trace of torch.profiler (Kineto) in plain form, as Day 3's functions read it.

    >>> from profiling_lab.captures import torch_trace
    >>> trace = torch_trace.read_trace("torch_train_sync")     # dicts: events, memory, devices
    >>> torch_trace.steps("torch_train_sync")[0]               # (number, start_ns, end_ns)
    >>> torch_trace.operators("torch_train_sync")[0].children  # what ran inside it

`capture` is a capture's name, the path of its folder, or of the file itself. All times are integers in ns. It decides
nothing: which operator is expensive, which wait matters and which line is to blame is for whoever reads it.
"""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

from profiling_lab import captures
from profiling_lab.captures.kineto import DEVICE_KINDS, STEP_RANGE
from profiling_lab.errors import CaptureError

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

    The same dict is given for the same file each time: leave it as it is.
    Raises CaptureError, naming the file, where it is no JSON (cut off in the middle, say), where it
    holds no list "traceEvents", where that list holds none of these events, or where such an event
    lacks a name or a time or has a negative duration, or a device operation lacks its device or stream.
    """
    file = captures.file(capture, "trace.json")
    return _read(str(file), file.stat().st_mtime_ns)


@lru_cache(maxsize=32)
def _read(capture: str, _changed_ns: int) -> dict[str, Any]:
    file = Path(capture)
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


def steps(capture: str) -> list[tuple[int, int, int]]:
    """(number, start_ns, end_ns) of each step, in order: what lies between two calls of `profiler.step()`.

    Raises CaptureError, naming `profiler.step()`, if the trace holds no step.
    """
    out = []
    for event in read_trace(capture)["events"]:
        found = STEP_RANGE.fullmatch(event["name"])
        if found and event["kind"] in ("range", "operator"):
            out.append((int(found[1]), event["start_ns"], event["end_ns"]))
    if not out:
        raise CaptureError(
            f"{capture}: holds no ProfilerStep; call profiler.step() after each step"
        )
    return sorted(out)


def step_of(capture: str, time_ns: int) -> int | None:
    """The number of the step that a time lies in (start <= time < end); None outside of all."""
    return next((number for number, start, end in steps(capture) if start <= time_ns < end), None)


def window(capture: str) -> tuple[int, int]:
    """From the start of the first step to the end of the last, in ns. Raises CaptureError without steps."""
    found = steps(capture)
    return min(start for _, start, _ in found), max(end for _, _, end in found)


def calls_in_steps(capture: str) -> list[dict[str, Any]]:
    """The CUDA calls of `read_trace` that start inside a step. Raises CaptureError without steps."""
    spans = [(start, end) for _, start, end in steps(capture)]
    return [
        event
        for event in read_trace(capture)["events"]
        if event["kind"] == "call" and any(a <= event["start_ns"] < b for a, b in spans)
    ]


@dataclass
class Operator:
    """An operator, range or CUDA call on the host.

    kind: "operator", "range" or "call". host_ns: its duration. device_ns: how long the kernels, copies and
    memsets took that bear its external id (0 for a call). children: what it called directly, in order.
    """

    name: str
    kind: str
    host_ns: int
    device_ns: int
    children: list[Operator] = field(default_factory=list)


def operators(capture: str) -> list[Operator]:
    """Every operator, range and CUDA call of a trace, each with its children; outer ones before inner ones.

    On one thread of one process an event is the child of the shortest one that it lies inside. Of two that are
    equal the first in the order of read_trace is the parent. Where two cross (compilers leave such events), the earlier
    one is closed, as in torch's own table: no child after that. An event whose only child has its own name is
    one with that child, as in torch's table, too. The steps are called "ProfilerStep*".
    """
    device_ns: dict[int, int] = defaultdict(int)
    threads: dict[tuple, list[dict[str, Any]]] = defaultdict(list)
    for event in read_trace(capture)["events"]:
        if event["kind"] in DEVICE_KINDS:
            device_ns[event["external_id"]] += event["end_ns"] - event["start_ns"]
        elif event["kind"] in ("operator", "range", "call"):
            threads[event["process"], event["thread"]].append(event)
    device_ns.pop(None, None)  # type: ignore[call-overload]
    out: list[Operator] = []
    for thread in threads.values():
        for node in _tree(thread):
            _collect(node, device_ns, out)
    return out


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


def _collect(node: dict[str, Any], device_ns: dict[int, int], out: list[Operator]) -> Operator:
    """Turn a node and all below it into operators, add them to a list, and return the node's."""
    event = node["event"]
    while len(node["children"]) == 1 and node["children"][0]["event"]["name"] == event["name"]:
        only = node["children"][0]
        node = {"event": event, "children": only["children"], "ids": node["ids"] + only["ids"]}
    operator = Operator(
        "ProfilerStep*" if STEP_RANGE.fullmatch(event["name"]) else event["name"],
        event["kind"],
        event["end_ns"] - event["start_ns"],
        0 if event["kind"] == "call" else sum(device_ns.get(number, 0) for number in node["ids"]),
    )
    out.append(operator)
    operator.children = [_collect(child, device_ns, out) for child in node["children"]]
    return operator


def own_line(capture: str, call: dict[str, Any]) -> str | None:
    """ "file:line function" of the program's own Python that made a call; None where no stack tells.

    Of the Python functions that contain the call on its thread, the innermost one that belongs to no library: its
    path does not begin with "<", no part of it is "torch" or "site-packages", and its first part is no module of the
    standard library (PyTorch cuts off the folders that Python imports from). If the next function inside it knows
    where it was called from, that is the line; else it is the line of the `def`.
    """
    around = [
        event
        for event in read_trace(capture)["events"]
        if event["kind"] == "python"
        and event["start_ns"] <= call["start_ns"]
        and event["end_ns"] >= call["end_ns"]
        and event["thread"] == call["thread"]
    ]
    # Ordered by start, the longer first: from the outermost to the innermost.
    for place in range(len(around) - 1, -1, -1):
        own = python_function(around[place]["name"])
        if own and not of_a_library(own[0]):
            file, line, function = own
            inner = around[place + 1] if place + 1 < len(around) else None
            if inner is not None and inner["called_from"]:
                return f"{inner['called_from']} {function}"
            return f"{file}:{line} {function}"
    return None


def python_function(name: str) -> tuple[str, int, str] | None:
    """File, line and function of "file(line): function"; None for other names."""
    found = re.fullmatch(r"(.+)\((\d+)\): (.+)", name)
    return (found[1], int(found[2]), found[3]) if found else None


def of_a_library(file: str) -> bool:
    """Whether a file, as PyTorch names it, is not the program's own."""
    parts = Path(file).parts
    return (
        file.startswith("<")
        or "torch" in parts
        or "site-packages" in parts
        or parts[0].removesuffix(".py") in sys.stdlib_module_names
    )


def union_ns(events: list[dict[str, Any]], start: int, end: int) -> int:
    """The time in [start, end) in which at least one of some events, ordered by start, ran."""
    total, reach = 0, start
    for event in events:
        first, last = max(event["start_ns"], reach), min(event["end_ns"], end)
        if last > first:
            total += last - first
            reach = last
    return total
