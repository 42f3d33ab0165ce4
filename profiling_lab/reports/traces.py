"""From a Kineto trace to the lanes of a report's timeline.

What is drawn is what the learner's `read_trace` (Day 3) returns: this module opens no file. One trace is
one process; several, a rank each, stand on one timeline, joined by the clock that they tell.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profiling_lab.captures import kineto
from profiling_lab.reports.builder import COPY_KIND, SYNCHRONIZING_CALL, device_kind
from profiling_lab.reports.model import Lane, MetricSeries, Table
from profiling_lab.reports.tables import kernel_table

# What `read_trace` calls host work, in the order of the lanes, and how the report draws it.
HOST_KINDS = {
    "range": ("Ranges", "nvtx"),
    "operator": ("Operators", "operator"),
    "python": ("Python", "python"),
    "call": ("CUDA calls", "api"),
}
NEEDED = ("kind", "name", "start_ns", "end_ns")
DEEPEST = 6  # nested operators below this depth are counted in the text, not drawn


def problem(trace: Any) -> str:
    """What keeps a trace from being drawn, as a clause; "" if nothing does."""
    events = trace.get("events") if isinstance(trace, Mapping) else None
    if not isinstance(events, Sequence) or not events:
        return 'no list "events" with something in it'
    for event in events:
        if not isinstance(event, Mapping) or any(key not in event for key in NEEDED):
            return f"an event without one of {', '.join(NEEDED)}"
        if type(event["start_ns"]) is not int or type(event["end_ns"]) is not int:
            return "an event whose start_ns or end_ns is no integer"
        if event["kind"] in kineto.DEVICE_KINDS and type(event.get("device")) is not int:
            return f"a {event['kind']} without its device"
    return ""


def window_of(events: Iterable[Mapping[str, Any]]) -> tuple[int, int]:
    """From the first to the last of the profiler's steps; without steps, of all events."""
    events = list(events)
    steps = [event for event in events if kineto.STEP_RANGE.match(str(event["name"]))]
    host = [event for event in steps if event["kind"] in ("range", "operator")] or events
    return min(event["start_ns"] for event in host), max(event["end_ns"] for event in host)


def shifts(traces: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    """For each of several traces, the ns to add to its times so that all count from one moment.

    The earliest has 0. Empty if one of them does not tell its clock: they cannot be joined then.
    """
    epochs = {rank: trace.get("epoch_ns") for rank, trace in traces.items()}
    if any(type(epoch) is not int for epoch in epochs.values()):
        return {}
    first = min(epochs.values())  # type: ignore[type-var]
    return {rank: epoch - first for rank, epoch in epochs.items()}  # type: ignore[operator]


def lanes_of(
    trace: Mapping[str, Any],
    window_ns: tuple[int, int],
    *,
    rank: str = "",
    shift_ns: int = 0,
) -> list[Lane]:
    """The lanes of one trace: host threads, then devices by stream; only what overlaps the window.

    window_ns: on the shared clock, that is, with `shift_ns` added to the trace's own times.
    """
    before = f"Rank {rank}, " if rank else ""
    start, end = window_ns
    host: dict[Any, dict[str, list[Mapping[str, Any]]]] = {}
    device: dict[tuple[int, Any], list[Mapping[str, Any]]] = {}
    for event in trace["events"]:
        if event["end_ns"] + shift_ns <= start or event["start_ns"] + shift_ns >= end:
            continue
        if event["kind"] in kineto.DEVICE_KINDS:
            device.setdefault((event["device"], event.get("stream")), []).append(event)
        elif event["kind"] in HOST_KINDS:
            threads = host.setdefault((event.get("process"), event.get("thread")), {})
            threads.setdefault(event["kind"], []).append(event)
    lanes: list[Lane] = []
    order = sorted(host, key=lambda thread: (not _has_steps(host[thread]), str(thread)))
    for number, thread in enumerate(order):
        for kind, (label, look) in HOST_KINDS.items():
            events = host[thread].get(kind, [])
            if not events:
                continue
            title = f"{label}, thread {thread[1]}" if len(order) > 1 else label
            nested = _by_depth(events)
            for depth, rows in enumerate(nested[:DEEPEST]):
                lanes.append(
                    _lane(
                        f"{before}host" if before else "Host",
                        title if not depth else "",
                        rows,
                        [_host_look(event, look) for event in rows],
                        shift_ns,
                        key="api" if kind == "call" else f"{kind}:{number}:{depth}",
                        rank=rank,
                    )
                )
    for number, stream in sorted(device, key=lambda key: (key[0], str(key[1]))):
        rows = sorted(device[number, stream], key=lambda event: event["start_ns"])
        lanes.append(
            _lane(
                f"{before}GPU {number}",
                f"Stream {stream}",
                rows,
                [_device_look(event) for event in rows],
                shift_ns,
                key=f"stream:{stream}",
                rank=rank,
                device=number,
            )
        )
    return lanes


def _has_steps(kinds: Mapping[str, Sequence[Mapping[str, Any]]]) -> bool:
    return any(
        kineto.STEP_RANGE.match(str(event["name"]))
        for kind in ("range", "operator")
        for event in kinds.get(kind, ())
    )


def kernels_of(lanes: Sequence[Lane], window_ns: tuple[int, int]) -> list[Table]:
    """The kernels on lanes by name, as `builder.kernel_table` has them."""
    import polars as pl

    rows = [
        (name, lane.device, lane.key.removeprefix("stream:"), start, end, end - start)
        for lane in lanes
        if lane.device is not None
        for name, kind, start, end in zip(
            lane.names, lane.kinds, lane.start_ns, lane.end_ns, strict=True
        )
        if kind == "kernel"
    ]
    names = ["name", "device", "stream", "start_ns", "end_ns", "duration_ns"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return kernel_table(frame.with_columns(demangled_name=pl.col("name")), window_ns, lanes)


def memory_of(
    trace: Mapping[str, Any], window_ns: tuple[int, int], *, rank: str = "", shift_ns: int = 0
) -> list[MetricSeries]:
    """PyTorch's memory over time, a device two series: in use, and held by the allocator."""
    before = f"Rank {rank}, " if rank else ""
    rows: dict[int, list[Mapping[str, Any]]] = {}
    for event in trace.get("memory") or ():
        if type(event.get("device")) is int and type(event.get("time_ns")) is int:
            rows.setdefault(event["device"], []).append(event)
    series = []
    for device, events in sorted(rows.items()):
        parts = {"allocated_bytes": "In use by tensors", "reserved_bytes": "Held by PyTorch"}
        highest = max((event.get(key) or 0 for event in events for key in parts), default=0)
        for key, label in parts.items():
            known = [event for event in events if type(event.get(key)) is int]
            # The last one before the window still holds when it begins.
            inside = [
                (event["time_ns"] + shift_ns, event[key])
                for event in known
                if event["time_ns"] + shift_ns < window_ns[1]
            ]
            late = sum(time <= window_ns[0] for time, _ in inside)
            inside = inside[max(0, late - 1) :]
            if inside:
                series.append(
                    MetricSeries(
                        f"{before}GPU {device}",
                        label,
                        [time for time, _ in inside],
                        [value for _, value in inside],
                        unit="bytes",
                        maximum=highest,
                        holds_on=True,
                        key="memory",
                    )
                )
    return series


def _by_depth(events: Sequence[Mapping[str, Any]]) -> list[list[Mapping[str, Any]]]:
    """Intervals of one thread in as many rows as they are nested deep."""
    out: list[list[Mapping[str, Any]]] = []
    open_ends: list[int] = []
    for event in sorted(events, key=lambda event: (event["start_ns"], -event["end_ns"])):
        while open_ends and open_ends[-1] <= event["start_ns"]:
            open_ends.pop()
        if len(open_ends) == len(out):
            out.append([])
        out[len(open_ends)].append(event)
        open_ends.append(event["end_ns"])
    return out


def _host_look(event: Mapping[str, Any], look: str) -> str:
    waits = look == "api" and re.search(SYNCHRONIZING_CALL, str(event["name"]))
    return "wait" if waits else look


def _device_look(event: Mapping[str, Any]) -> str:
    if event["kind"] != "copy":
        return device_kind(event["kind"], str(event["name"]))
    return COPY_KIND.get(kineto.copy_direction(str(event["name"])), "copy_device")


def _lane(
    group: str,
    label: str,
    rows: Sequence[Mapping[str, Any]],
    kinds: list[str],
    shift_ns: int,
    **more: Any,
) -> Lane:
    return Lane(
        group=group,
        label=label,
        start_ns=[event["start_ns"] + shift_ns for event in rows],
        end_ns=[event["end_ns"] + shift_ns for event in rows],
        names=[str(event["name"]) for event in rows],
        kinds=kinds,
        launches=[
            number if type(number := event.get("correlation")) is int and number > 0 else 0
            for event in rows
        ],
        **more,
    )
