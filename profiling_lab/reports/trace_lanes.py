"""From a trace of PyTorch's profiler to the lanes and series of a report's timeline.

What is drawn is what `analysis.kineto_columns` reads. One trace is one process; several, a rank each, stand on one
timeline, joined by the clock that they tell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from profiling_lab import captures
from profiling_lab.analysis import columns
from profiling_lab.analysis.columns import Ranges
from profiling_lab.captures import MAIN_FILES, Kind
from profiling_lab.reports.builder import (
    COPY_KIND,
    SYNCHRONIZING_CALL,
    device_kind,
    lane,
    launched_as,
)
from profiling_lab.reports.model import CaptureSection, Lane, MetricSeries, Table
from profiling_lab.reports.tables import COPY_NAME, kernel_table, memory_table
from profiling_lab.units import format_bytes

if TYPE_CHECKING:
    import polars as pl

    from profiling_lab.analysis.kineto_columns import LaunchShape, Trace
    from profiling_lab.captures import Part

DEEPEST = 6  # nested operators and functions below this depth are not drawn
_KINDS = {columns.KERNEL: "kernel", columns.COPY: "copy_device", columns.MEMSET: "memset"}


def section(
    part: Part, traces: Sequence[Trace], windows: Sequence[tuple[int, int]]
) -> CaptureSection:
    """What was recorded in a trace, or in one a rank: lanes, memory, kernels by name."""
    ranks = captures.rank_traces(part.path) if len(traces) > 1 else [""]
    read = dict(zip(map(str, ranks), traces, strict=True))
    shift = shifts(read) if len(read) > 1 else {}
    moved = [shift.get(rank, 0) for rank in read]
    window = (
        min(start + by for (start, _), by in zip(windows, moved, strict=True)),
        max(end + by for (_, end), by in zip(windows, moved, strict=True)),
    )
    beside = part.path / MAIN_FILES[Kind.TRACE] if part.path.is_dir() else part.path
    made = CaptureSection(
        part.name, provenance=captures.provenance_beside(beside), window_ns=window
    )
    for (rank, trace), by in zip(read.items(), moved, strict=True):
        made.lanes += lanes_of(trace, window, rank=rank, shift_ns=by)
        made.metrics += memory_of(trace, window, rank=rank, shift_ns=by)
        made.devices = {**made.devices, **trace.device_names}
    made.tables = [*kernels_of(made.lanes, window), *memory_table(made.metrics)]
    if len(read) > 1 and not shift:
        made.rests_on = ["the ranks on one clock: a trace does not tell its own; each begins at 0"]
    return made


def shifts(traces: Mapping[str, Trace]) -> dict[str, int]:
    """For each of several traces, the ns to add to its times so that all count from one moment.

    The earliest has 0. Empty if one of them does not tell its clock: they cannot be joined then.
    """
    epochs = {rank: trace.epoch_ns for rank, trace in traces.items() if trace.epoch_ns is not None}
    if len(epochs) < len(traces):
        return {}
    first = min(epochs.values())
    return {rank: epoch - first for rank, epoch in epochs.items()}


def lanes_of(
    trace: Trace, window_ns: tuple[int, int], *, rank: str = "", shift_ns: int = 0
) -> list[Lane]:
    """The lanes of one trace: host threads, then devices by stream; only what overlaps the window.

    window_ns: on the shared clock, that is, with `shift_ns` added to the trace's own times.
    """
    return [
        *_host_lanes(trace, window_ns, rank, shift_ns),
        *_device_lanes(trace, window_ns, rank, shift_ns),
    ]


def _host_lanes(trace: Trace, window_ns: tuple[int, int], rank: str, shift_ns: int) -> list[Lane]:
    import polars as pl

    recording = trace.recording
    calls = recording.calls
    issued = Ranges(calls.start, calls.end, calls.name, calls.thread)
    tables = {
        "nvtx": ("Ranges", recording.ranges),
        "operator": ("Operators", recording.operators),
        "python": ("Python", trace.python),
        "api": ("CUDA calls", issued),
    }
    threads = sorted(
        {thread for _, table in tables.values() for thread in np.unique(table.thread).tolist()},
        key=lambda thread: (thread != trace.step_thread, thread),
    )
    group = f"Rank {rank}, host" if rank else "Host"
    lanes = []
    for number, thread in enumerate(threads):
        for kind, (label, table) in tables.items():
            own = _inside(table.start, table.end, window_ns, shift_ns) & (table.thread == thread)
            rows = np.flatnonzero(own & (table.end > table.start))
            if not len(rows):
                continue
            frame = _frame(trace, table, rows, shift_ns).with_columns(kind=pl.lit(kind))
            if kind == "api":
                waits = pl.col("name").str.contains(SYNCHRONIZING_CALL)
                frame = frame.with_columns(
                    kind=pl.when(waits).then(pl.lit("wait")).otherwise(pl.lit(kind)),
                    launch=pl.Series(np.maximum(calls.correlation[rows], 0)).cast(pl.UInt32),
                )
            depth = pl.Series(_depths(table.start[rows].tolist(), table.end[rows].tolist()))
            title = f"{label}, thread {recording.threads[thread][1]}" if len(threads) > 1 else label
            for level in range(min(DEEPEST, int(depth.max()) + 1)):  # type: ignore[arg-type]
                lanes.append(
                    lane(
                        group,
                        title if not level else "",
                        frame.filter(depth == level),
                        window_ns,
                        key="api" if kind == "api" else f"{kind}:{number}:{level}",
                        rank=rank,
                    )
                )
    return lanes


def _inside(
    start: np.ndarray, end: np.ndarray, window_ns: tuple[int, int], shift_ns: int
) -> np.ndarray:
    return (end + shift_ns > window_ns[0]) & (start + shift_ns < window_ns[1])


def _frame(trace: Trace, table: Ranges, rows: np.ndarray, shift_ns: int) -> pl.DataFrame:
    """Rows in order of start, outer before inner."""
    import polars as pl

    names = trace.recording.names
    order = np.lexsort((-table.end[rows], table.start[rows]))
    rows[:] = rows[order]
    return pl.DataFrame(
        {
            "start_ns": table.start[rows] + shift_ns,
            "end_ns": table.end[rows] + shift_ns,
            "name": pl.Series([names[code] for code in table.name[rows].tolist()], dtype=pl.String),
        }
    )


def _depths(starts: list[int], ends: list[int]) -> list[int]:
    """How many open intervals each one lies in: of one thread, in order of start, outer before inner."""
    out, around = [], []
    for start, end in zip(starts, ends, strict=True):
        while around and around[-1] <= start:
            around.pop()
        out.append(len(around))
        around.append(end)
    return out


def _device_lanes(trace: Trace, window_ns: tuple[int, int], rank: str, shift_ns: int) -> list[Lane]:
    import polars as pl

    work = trace.recording.operations
    before = f"Rank {rank}, " if rank else ""
    shapes = [_in_words(shape) for shape in trace.launch_shapes]
    lanes = []
    streams = sorted(
        range(len(trace.recording.streams)), key=lambda at: trace.recording.streams[at][1:]
    )
    for stream in streams:
        _, device, number = trace.recording.streams[stream]
        own = _inside(work.start, work.end, window_ns, shift_ns) & (work.stream == stream)
        rows = np.flatnonzero(own)
        if not len(rows):
            continue
        table = Ranges(work.start, work.end, work.name, work.stream)
        frame = _frame(trace, table, rows, shift_ns)
        kinds = [_KINDS.get(kind, "kernel") for kind in work.kind[rows].tolist()]
        names = frame["name"].to_list()
        copies = [kind == "copy_device" for kind in kinds]
        sizes = [format_bytes(size) if size >= 0 else "" for size in work.bytes[rows].tolist()]
        pageable = work.pageable[rows].tolist()
        told = trace.launch_shape[rows].tolist()
        frame = frame.with_columns(
            kind=pl.Series(
                [
                    COPY_KIND.get(name, kind) if copy else device_kind(kind, name)
                    for name, kind, copy in zip(names, kinds, copies, strict=True)
                ],
                dtype=pl.String,
            ),
            name=pl.Series(
                [
                    COPY_NAME.get(name, "Copy") if copy else name
                    for name, copy in zip(names, copies, strict=True)
                ],
                dtype=pl.String,
            ),
            detail=pl.Series(
                [
                    f"{size}{', pageable' if page else ''}" if copy or kind == "memset" else ""
                    for size, page, copy, kind in zip(sizes, pageable, copies, kinds, strict=True)
                ],
                dtype=pl.String,
            ),
            shape=pl.Series([shapes[at] if at >= 0 else "" for at in told], dtype=pl.String),
            launch=pl.Series(np.maximum(work.correlation[rows], 0)).cast(pl.UInt32, strict=False),
        )
        lanes.append(
            lane(
                f"{before}GPU {device}",
                f"Stream {number}",
                frame.with_columns(pl.col("launch").fill_null(0)),
                window_ns,
                key=f"stream:{number}",
                device=device,
                rank=rank,
            )
        )
    return lanes


def _in_words(shape: LaunchShape) -> str:
    return launched_as(shape.grid, shape.block, shape.registers, shape.shared_bytes)


def kernels_of(lanes: list[Lane], window_ns: tuple[int, int]) -> list[Table]:
    """The kernels on lanes by name, as `tables.kernel_table` has them."""
    import polars as pl

    rows = [
        (name, one.device, one.key.removeprefix("stream:"), start, end, end - start)
        for one in lanes
        if one.device is not None
        for name, kind, start, end in zip(
            one.names, one.kinds, one.start_ns, one.end_ns, strict=True
        )
        if kind in ("kernel", "collective")
    ]
    names = ["name", "device", "stream", "start_ns", "end_ns", "duration_ns"]
    frame = pl.DataFrame(rows, schema=names, orient="row")
    return kernel_table(frame.with_columns(demangled_name=pl.col("name")), window_ns, lanes)


def memory_of(
    trace: Trace, window_ns: tuple[int, int], *, rank: str = "", shift_ns: int = 0
) -> list[MetricSeries]:
    """PyTorch's memory over time, a device two series: in use, and held by the allocator."""
    before = f"Rank {rank}, " if rank else ""
    memory = trace.memory
    series = []
    for device in np.unique(memory.device[memory.device >= 0]).tolist():
        own = (memory.device == device) & (memory.time + shift_ns < window_ns[1])
        totals = {"In use by tensors": memory.allocated, "Held by PyTorch": memory.reserved}
        highest = max((int(total[own].max(initial=0)) for total in totals.values()), default=0)
        for label, total in totals.items():
            rows = np.flatnonzero(own & (total >= 0))
            # The last one before the window still holds when it begins.
            late = int((memory.time[rows] + shift_ns <= window_ns[0]).sum())
            rows = rows[max(0, late - 1) :]
            if len(rows):
                series.append(
                    MetricSeries(
                        f"{before}GPU {device}",
                        label,
                        (memory.time[rows] + shift_ns).tolist(),
                        total[rows].tolist(),
                        unit="bytes",
                        maximum=highest,
                        holds_on=True,
                        key="memory",
                    )
                )
    return series
