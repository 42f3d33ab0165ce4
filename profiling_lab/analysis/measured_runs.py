"""What a timeline, a trace, or the traces of all ranks say about themselves, as a `measures.Run`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from profiling_lab.analysis import columns, spent, steps
from profiling_lab.analysis.columns import Recording
from profiling_lab.analysis.intervals import Intervals
from profiling_lab.analysis.kernel_page import Kernel
from profiling_lab.analysis.measures import (
    COUNTERS,
    DURATION,
    STEP,
    WINDOW,
    Launches,
    Run,
    device_label,
)
from profiling_lab.captures import Kind, nsys_schema
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import is_below_floor
from profiling_lab.units import without_serial_numbers

if TYPE_CHECKING:
    from profiling_lab.analysis.nsys_columns import Export
    from profiling_lab.analysis.spent import Spent
    from profiling_lab.captures import Part
    from profiling_lab.diagnosis.engine import Seen, Verdict
    from profiling_lab.diagnosis.kernels import Judged
    from profiling_lab.findings import Finding

NO_NAME = "(no name)"


def of_verdict(part: Part, verdict: Verdict) -> Run:
    """What a capture says about itself, with the engine's verdict on it."""
    if part.kind == Kind.KERNELS:
        run = of_pages(part, verdict.kernels, verdict.findings)
    elif part.kind == Kind.TIMELINE:
        run = of_timeline(part.name, verdict.seen[0])
    else:
        ranks = verdict.job.ranks if verdict.job is not None else [None] * len(verdict.seen)
        runs = [
            of_trace(seen.name, seen, {rank.device: rank.waiting} if rank else None)
            for seen, rank in zip(verdict.seen, ranks, strict=True)
        ]
        run = runs[0] if part.kind == Kind.TRACE else of_traces(part.name, runs)
        run.name = part.name
        run.add_provenance(part.path)
    # Below the floor, what the verdict says to do first would save next to nothing.
    run.claim = verdict.claim if is_below_floor(verdict.findings[0]) else verdict.headline
    if part.kind != Kind.KERNELS:
        run.findings = {"": verdict.findings[0]}
    return run


def of_timeline(name: str, seen: Seen) -> Run:
    """What a timeline says, in its window."""
    run = Run(name, Kind.TIMELINE, devices=tuple(one.device for one in seen.spent))
    recording, window = seen.recording, seen.window_ns
    assert seen.export is not None
    run.put("time", WINDOW, window[1] - window[0])
    for one in seen.spent:
        _put_device(run, recording, one)
    _put_named(run, recording, *(_starts_in(table.start, window) for table in _tables(recording)))
    _put_saved(run, seen)
    work = recording.operations
    inside = _starts_in(work.start, window)
    _put_copies(run, recording, inside)
    shapes = _shapes(seen.export)
    run.launches = {
        kernel: Launches(launches.count, shapes.get(kernel, frozenset()))
        for kernel, launches in run.launches.items()
    }
    graphs = inside & (work.kind == columns.GRAPH)
    if graphs.any():
        run.put("kernels", "CUDA graphs", int(graphs.sum()), "count")
        run.put("kernels", "CUDA graph", _total(work.start, work.end, graphs))
        run.conditions["CUDA graphs"] = "recorded as wholes, without their kernels"
    else:
        by_kernel = bool((inside & work.node).any())
        run.conditions["CUDA graphs"] = "recorded kernel by kernel" if by_kernel else "none"
    found = steps.read(recording, window)
    if found:
        run.put("time", f"{STEP}, {found['name']}", found["mean_ns"])
    for row in np.flatnonzero(_outermost(recording) & _starts_in(recording.ranges.start, window)):
        what = f"range {_stage(recording, int(recording.ranges.name[row]))}"
        run.work[what] = run.work.get(what, 0) + 1
    told = {recording.device_names.get(device, "") for device in recording.devices}
    run.conditions["device"] = ", ".join(sorted(told - {""}))
    run.add_provenance(seen.export.file)
    return run


def of_trace(name: str, seen: Seen, waits: dict[int, Intervals] | None = None) -> Run:
    """What a trace says: of its steps (`profiler.step()`) if it has any, else of all of it.

    The window reaches from the first to the last device operation that calls in the steps launched: the device
    lags behind, and in the time of the steps it may still run what was issued before them. waits: by device, when
    it was in a collective that not all ranks had reached.
    """
    recording, trace = seen.recording, seen.trace
    assert trace is not None
    run = Run(name, Kind.TRACE, devices=tuple(one.device for one in seen.spent))
    work, calls = recording.operations, recording.calls
    span = (
        (min(start for start, _ in trace.steps_ns), max(end for _, end in trace.steps_ns))
        if (trace.steps_ns)
        else None
    )
    chosen = np.ones(len(work), dtype=bool)
    tables = [np.ones(len(table), dtype=bool) for table in _tables(recording)]
    if span is not None:
        issued = calls.correlation[_starts_in(calls.start, span) & (calls.correlation > 0)]
        chosen = np.isin(work.correlation, issued)
        tables = [_starts_in(table.start, span) for table in _tables(recording)]
    if not chosen.any():
        raise EmptyCapture(f"{recording.file}: holds no device operation")
    window = int(work.start[chosen].min()), int(work.end[chosen].max())
    window_ns = window[1] - window[0]
    chosen = _starts_in(work.start, window)
    run.put("time", WINDOW, window_ns)
    if trace.steps_ns:
        run.put("time", STEP, window_ns / len(trace.steps_ns))
        run.work["steps"] = len(trace.steps_ns)
    for one in spent.read(seen.time, window, waits):
        _put_device(run, recording, one)
    _put_named(run, recording, chosen, *tables[1:])
    _put_saved(run, seen)
    _put_copies(run, recording, chosen)
    run.conditions["device"] = ", ".join(sorted(set(trace.device_names.values()) - {""}))
    return run


def of_traces(name: str, runs: Sequence[Run]) -> Run:
    """What the traces of all ranks of a job say: times of the slowest rank, else sums over ranks.

    What would be saved is left out: ranks gain together, not each by itself.
    """
    out = Run(name, Kind.TRACES, conditions=dict(runs[0].conditions), work=runs[0].work)
    out.conditions["ranks"] = str(len(runs))
    for key in dict.fromkeys(key for run in runs for key in run.measures if key[0] != "saved"):
        known = [value for run in runs if (value := run.measures.get(key)) is not None] or [0]
        together = max(known) if key[0] == "time" else sum(known)
        out.put(key[0], key[1], together, key[2])
    for run in runs:
        for kernel, launches in run.launches.items():
            count = launches.count + out.launches.get(kernel, Launches()).count
            out.launches[kernel] = replace(launches, count=count)
    return out


def of_pages(part: Part, judged: Sequence[Judged], findings: Sequence[Finding]) -> Run:
    """What a page of kernels says. Launches of a kernel in the same shape count as one, with their mean."""
    run = Run(part.name, Kind.KERNELS)
    by_shape: dict[str, dict[str, list[Kernel]]] = {}
    for one in judged:
        shape = f"{one.kernel.grid} × {one.kernel.block}"
        by_shape.setdefault(one.kernel.name, {}).setdefault(shape, []).append(one.kernel)
    first = {finding.subject: finding for finding in reversed(findings)}
    for name, shapes in by_shape.items():
        for shape, kernels in shapes.items():
            label = name if len(shapes) == 1 else f"{name} {shape}"
            run.put("kernels", label, _mean(kernels, DURATION))
            for counter, (what, unit) in COUNTERS.items():
                run.put("counters", f"{label}: {what}", _mean(kernels, counter), unit)
            run.launches[label] = Launches(len(kernels), frozenset((shape,)))
            if found := first.get(f"kernel:{name}"):
                run.findings[label] = found
    run.conditions["compute capability"] = ", ".join(sorted({one.kernel.cc for one in judged}))
    run.add_provenance(part.path)
    return run


def _mean(kernels: Sequence[Kernel], counter: str) -> float | None:
    known = [value for kernel in kernels if (value := kernel.get(counter)) is not None]
    return sum(known) / len(known) if known else None


def _tables(recording: Recording) -> tuple:
    return recording.operations, recording.calls, recording.ranges, recording.operators


def _starts_in(starts: np.ndarray, window: tuple[int, int]) -> np.ndarray:
    return (starts >= window[0]) & (starts < window[1])


def _total(starts: np.ndarray, ends: np.ndarray, chosen: np.ndarray) -> int:
    return int((ends[chosen] - starts[chosen]).sum())


def _put_device(run: Run, recording: Recording, one: Spent) -> None:
    label = device_label(one.device)
    gaps = one.idle.ends_ns - one.idle.starts_ns
    idle = int(gaps.sum())
    run.put("time", f"Busy{label}", one.length_ns - idle)
    run.put("time", f"Idle{label}", idle)
    run.put("time", f"Longest gap{label}", int(gaps.max(initial=0)))
    for name, ns in one.classes.items():
        run.put("spent", f"{spent.in_words(name)}{label}", ns)
    run.put("gaps", f"Gaps{label}", len(gaps), "count")
    for name, ns in _gaps_by_neighbours(recording, one).items():
        run.put("gaps", name, (run.get("gaps", name) or 0) + ns)


def _gaps_by_neighbours(recording: Recording, one: Spent) -> dict[str, int]:
    """Idle time by what ran before a gap and what ran after it, in ns."""
    work = recording.operations
    own = np.flatnonzero(work.device == one.device)
    by_end = own[np.argsort(work.end[own], kind="stable")]
    out: dict[str, int] = {}
    first = np.searchsorted(work.start[own], one.idle.ends_ns, side="left").tolist()
    last = (np.searchsorted(work.end[by_end], one.idle.starts_ns, side="right") - 1).tolist()
    lengths = (one.idle.ends_ns - one.idle.starts_ns).tolist()
    for before, after, ns in zip(last, first, lengths, strict=True):
        names = [
            (recording.names[int(work.name[rows[at]])] or NO_NAME) if 0 <= at < len(rows) else edge
            for rows, at, edge in ((by_end, before, "(begin)"), (own, after, "(end)"))
        ]
        key = " → ".join(names)
        out[key] = out.get(key, 0) + ns
    return out


def _put_named(
    run: Run,
    recording: Recording,
    operations: np.ndarray,
    calls: np.ndarray,
    ranges: np.ndarray,
    operators: np.ndarray,
) -> None:
    """Totals by name: the chosen rows of each table."""
    work = recording.operations
    kernels = operations & (work.kind == columns.KERNEL)
    run.put("kernels", "Kernels", int(kernels.sum()), "count")
    for group, table, chosen in (
        ("kernels", work, kernels),
        ("calls", recording.calls, calls),
        ("stages", recording.ranges, ranges),
        ("operators", recording.operators, operators),
    ):
        codes, place, count = np.unique(table.name[chosen], return_inverse=True, return_counts=True)
        total = np.zeros(len(codes), dtype=np.int64)
        np.add.at(total, place, table.end[chosen] - table.start[chosen])
        for code, ns, times in zip(codes.tolist(), total.tolist(), count.tolist(), strict=True):
            name = recording.names[code] or NO_NAME
            if group == "calls" and not recording.names[code]:
                continue  # where a window begins, no call
            if group in ("stages", "operators"):
                name = without_serial_numbers(name)
                if name.startswith("ProfilerStep"):
                    continue
            run.put(group, name, (run.get(group, name) or 0) + ns)
            if group == "kernels":
                run.launches[name] = Launches(times)


def _put_copies(run: Run, recording: Recording, chosen: np.ndarray) -> None:
    work = recording.operations
    copies = chosen & (work.kind == columns.COPY)
    link = np.zeros(len(work), dtype=bool)
    for kind in ("H2D", "D2H"):
        own = copies & (work.name == recording.code(kind))
        run.put("copies", f"Copies {kind}", _total(work.start, work.end, own))
        link |= own
    run.put("copies", "Other copies", _total(work.start, work.end, copies & ~link))
    moved = int(np.maximum(work.bytes[copies], 0).sum())
    run.put("copies", "Bytes copied", moved, "bytes")
    pageable = int(np.maximum(work.bytes[link & work.pageable], 0).sum())
    run.put("copies", "of these pageable", pageable, "bytes")
    run.work["bytes copied"] = moved


def _put_saved(run: Run, seen: Seen) -> None:
    for cause, ns in seen.saved.causes.items():
        run.put("saved", cause, ns)


def _stage(recording: Recording, code: int) -> str:
    return without_serial_numbers(recording.names[code])


def _outermost(recording: Recording) -> np.ndarray:
    """The ranges that lie in no other of their thread."""
    table = recording.ranges
    out = np.zeros(len(table), dtype=bool)
    for thread in np.unique(table.thread).tolist():
        own = np.flatnonzero(table.thread == thread)
        own = own[np.lexsort((-table.end[own], table.start[own]))]
        reach = np.append(np.iinfo(np.int64).min, np.maximum.accumulate(table.end[own])[:-1])
        out[own] = table.end[own] > reach
    return out


def _shapes(export: Export) -> dict[str, frozenset[str]]:
    """By a kernel's name, the shapes of its launches ("(132, 1, 1) × (256, 1, 1)"). Raises MissingTable."""
    export.capture.check_kernels()
    sizes = ("gridX", "gridY", "gridZ", "blockX", "blockY", "blockZ")
    if not all(export.capture.has(nsys_schema.KERNEL, size) for size in sizes):
        return {}
    rows = export.rows(
        f"SELECT DISTINCT value, {', '.join(sizes)} FROM {nsys_schema.KERNEL} "
        "LEFT JOIN StringIds ON id = shortName"
    )
    out: dict[str, set[str]] = {}
    for name, *size in rows:
        grid, block = (", ".join(map(str, part)) for part in (size[:3], size[3:]))
        out.setdefault(name or NO_NAME, set()).add(f"({grid}) × ({block})")
    return {name: frozenset(shapes) for name, shapes in out.items()}
