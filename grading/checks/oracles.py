"""Independent computations from an Nsight Systems export: plain SQL and plain Python.

Nothing here uses `profiling_lab`, polars or numpy, so that what the course computes with them can be
held against a second opinion. Times are ns; a window is (start, end), None means from the first
start to the last end of any device operation. Tables that are not in the file hold nothing.

Definitions: device operations are kernels, replayed graphs, copies and memsets. Compute is kernels
and graphs (in a capture at node granularity, the graphs' kernels). The definitions of kernel_exec
are those of Nsight Systems' report cuda_kern_exec_trace.
"""

from __future__ import annotations

import functools
import os
import re
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

Path_ = str | PathLike[str]
Window = tuple[int, int]

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNCHRONIZING = (
    "cudaDeviceSynchronize",
    "cudaStreamSynchronize",
    "cudaEventSynchronize",
    "cuCtxSynchronize",
    "cuStreamSynchronize",
    "cuEventSynchronize",
)


class _Export:
    """One file; what was asked of it once is kept."""

    def __init__(self, path: str) -> None:
        uri = Path(path).resolve().as_uri() + "?mode=ro&immutable=1"
        self.connection = sqlite3.connect(uri, uri=True)
        self.kept: dict[str, list[tuple[Any, ...]]] = {}
        query = "SELECT name FROM sqlite_master WHERE type = 'table'"
        self.tables = {row[0] for row in self.connection.execute(query)}

    def __del__(self) -> None:
        self.connection.close()

    def query(self, query: str) -> list[tuple[Any, ...]]:
        if query not in self.kept:
            self.kept[query] = self.connection.execute(query).fetchall()
        return list(self.kept[query])

    def rows(self, table: str, query: str) -> list[tuple[Any, ...]]:
        """The rows of a query over a table, none if the file lacks it."""
        return self.query(query) if table in self.tables else []

    def intervals(self, tables: Iterable[str], device: int) -> list[Window]:
        found: list[Window] = []
        for table in tables:
            query = f'SELECT start, "end" FROM {table} WHERE deviceId = {int(device)}'
            found += self.rows(table, query)
        return found

    def devices(self) -> list[int]:
        found: set[int] = set()
        for table in (KERNEL, GRAPH, MEMCPY, MEMSET):
            found |= {row[0] for row in self.rows(table, f"SELECT DISTINCT deviceId FROM {table}")}
        return sorted(found)

    def span(self) -> Window:
        starts, ends = [], []
        for table in (KERNEL, GRAPH, MEMCPY, MEMSET):
            for first, last in self.rows(table, f'SELECT MIN(start), MAX("end") FROM {table}'):
                if first is not None:
                    starts.append(first)
                    ends.append(last)
        return min(starts), max(ends)


@contextmanager
def _open(path: Path_) -> Iterator[_Export]:
    status = os.stat(path)
    yield _export(os.fspath(path), status.st_ino, status.st_mtime_ns, status.st_size)


@functools.lru_cache(64)
def _export(path: str, *_state: int) -> _Export:
    return _Export(path)


def query(path: Path_, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query; none if a table is not in the file."""
    with _open(path) as export:
        try:
            return export.query(sql)
        except sqlite3.OperationalError as error:
            assert "no such table" in str(error), error
            return []


def _merged(intervals: Iterable[Window], window: Window) -> list[Window]:
    """Disjoint intervals that cover the same time inside the window, in order."""
    merged: list[list[int]] = []
    for start, end in sorted(intervals):
        start, end = max(start, window[0]), min(end, window[1])
        if start >= end:
            continue
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return [(start, end) for start, end in merged]


def _length(merged: Iterable[Window]) -> int:
    return sum(end - start for start, end in merged)


def span(path: Path_) -> Window:
    """First start and last end of any device operation."""
    with _open(path) as export:
        return export.span()


def nvtx_window(path: Path_, name: str) -> Window:
    """First start to last end of the push/pop and start/end ranges of this name.

    A range that was never closed ends with the last event of the capture.
    """
    with _open(path) as export:
        found = export.rows(
            "NVTX_EVENTS",
            """SELECT n.start, n."end", COALESCE(n.text, s.value) FROM NVTX_EVENTS AS n
               LEFT JOIN StringIds AS s ON s.id = n.textId WHERE n.eventType IN (59, 60)""",
        )
        found = [(start, end) for start, end, text in found if text == name]
        if not found:
            raise ValueError(f"{path}: no NVTX range {name!r}")
        last = 0
        if any(end is None for _, end in found):
            for table in (KERNEL, GRAPH, MEMCPY, MEMSET, RUNTIME, "NVTX_EVENTS"):
                query = f'SELECT MAX(COALESCE("end", start)) FROM {table}'
                last = max(last, *(row[0] or 0 for row in export.rows(table, query)), 0)
    return min(row[0] for row in found), max(last if row[1] is None else row[1] for row in found)


def busy_ns(
    path: Path_, window: Window | None = None, kernels_only: bool = False
) -> dict[int, int]:
    """Per device, time with at least one operation (kernels_only: with compute), in the window."""
    with _open(path) as export:
        window = window or export.span()
        tables = (KERNEL, GRAPH) if kernels_only else (KERNEL, GRAPH, MEMCPY, MEMSET)
        return {
            device: _length(_merged(export.intervals(tables, device), window))
            for device in export.devices()
        }


def idle_gaps(
    path: Path_, window: Window | None = None, min_gap_ns: int = 0
) -> list[tuple[int, int, int]]:
    """(device, start, end) of each stretch of the window without an operation, of at least 1 ns."""
    with _open(path) as export:
        window = window or export.span()
        gaps = []
        for device in export.devices():
            at = window[0]
            for start, end in _merged(
                export.intervals((KERNEL, GRAPH, MEMCPY, MEMSET), device), window
            ):
                gaps.append((device, at, start))
                at = end
            gaps.append((device, at, window[1]))
        return [gap for gap in gaps if gap[2] - gap[1] >= max(min_gap_ns, 1)]


def calls_of(export: Any) -> str:
    """A query for the CUDA calls; a second row that only carries a call's backtrace is left out."""
    columns = {row[1] for row in export.rows(RUNTIME, f"PRAGMA table_info({RUNTIME})")}
    return f"SELECT * FROM {RUNTIME}" + (
        " WHERE eventClass <> 67" if "eventClass" in columns else ""
    )


def calls_query(path: Path_) -> str:
    """`calls_of` for a file."""
    with _open(path) as export:
        return calls_of(export)


def kernel_exec(path: Path_, *, graph_nodes: bool = False) -> list[dict[str, Any]]:
    """Per kernel with a recorded launching call: the way from the call to the kernel's end.

    process, correlation, name, api (with version suffix), api_start_ns, api_ns, queue_ns (None if
    the kernel started before the call returned), kernel_start_ns, execution_ns, total_ns (from the
    start of the call to the end of the kernel, or of the call if that is later). Ordered by call and kernel start. graph_nodes adds
    the kernels of graphs, which share one call.
    """
    with _open(path) as export:
        if RUNTIME not in export.tables:
            return []
        found = export.rows(
            KERNEL,
            f"""SELECT k.globalPid, k.correlationId, kn.value, an.value, r.start, r."end",
                       k.start, k."end"
                FROM {KERNEL} AS k
                JOIN ({calls_of(export)}) AS r
                  ON r.correlationId = k.correlationId AND (r.globalTid >> 24) = (k.globalPid >> 24)
                JOIN StringIds AS kn ON kn.id = k.demangledName
                JOIN StringIds AS an ON an.id = r.nameId
                {"" if graph_nodes else "WHERE k.graphNodeId IS NULL"}
                ORDER BY r.start, k.start""",
        )
    rows = []
    for process, correlation, name, api, call_start, call_end, start, end in found:
        rows.append(
            {
                "process": process,
                "correlation": correlation,
                "name": name,
                "api": api,
                "api_start_ns": call_start,
                "api_ns": call_end - call_start,
                "queue_ns": start - call_end if start >= call_end else None,
                "kernel_start_ns": start,
                "execution_ns": end - start,
                "total_ns": max(end, call_end) - call_start,
            }
        )
    return rows


def blocking_calls(path: Path_, window: Window | None = None) -> list[tuple[str, int, int]]:
    """(name, start, end), clipped to the window, of every call that holds the host up.

    Those are the synchronising calls, the synchronous copies (cudaMemcpy… without "Async" in its
    name), and the copies to or from pageable memory.
    """
    with _open(path) as export:
        low, high = window or export.span()
        pageable = {
            (process >> 24, correlation)
            for process, correlation in export.rows(
                MEMCPY,
                f"SELECT globalPid, correlationId FROM {MEMCPY} WHERE srcKind = 0 OR dstKind = 0",
            )
        }
        calls = export.rows(
            RUNTIME,
            f"""SELECT s.value, r.start, r."end", r.globalTid, r.correlationId
                FROM ({calls_of(export)}) AS r JOIN StringIds AS s ON s.id = r.nameId
                ORDER BY r.start""",
        )
    found = []
    for versioned, start, end, thread, correlation in calls:
        name = re.sub(r"(_ptsz)?_v[0-9]+(_ptsz)?$", "", versioned)
        synchronous = name.startswith(("cudaMemcpy", "cuMemcpy")) and "Async" not in name
        if name in SYNCHRONIZING or synchronous or (thread >> 24, correlation) in pageable:
            start, end = max(start, low), min(end, high)
            if start < end:
                found.append((name, start, end))
    return found


def blocking(path: Path_, window: Window | None = None) -> dict[str, int]:
    """Per call, host time in `blocking_calls`; calls of different threads add up."""
    total: dict[str, int] = {}
    for name, start, end in blocking_calls(path, window):
        total[name] = total.get(name, 0) + end - start
    return total


def copy_overlap(path: Path_, window: Window | None = None) -> dict[int, dict[str, int]]:
    """Per device, copies between host and device (H2D, D2H) against compute.

    copy_only_ns, kernel_only_ns, both_ns, and pageable_bytes: bytes of such copies that start in
    the window and whose host memory is pageable.
    """
    with _open(path) as export:
        low, high = window = window or export.span()
        found = {}
        for device in export.devices():
            copies = export.rows(
                MEMCPY,
                f"""SELECT start, "end", bytes, srcKind, dstKind FROM {MEMCPY}
                    WHERE deviceId = {device} AND copyKind IN (1, 2)""",
            )
            moved = _merged([row[:2] for row in copies], window)
            compute = _merged(export.intervals((KERNEL, GRAPH), device), window)
            both, i, j = 0, 0, 0
            while i < len(moved) and j < len(compute):
                both += max(0, min(moved[i][1], compute[j][1]) - max(moved[i][0], compute[j][0]))
                if moved[i][1] < compute[j][1]:
                    i += 1
                else:
                    j += 1
            found[device] = {
                "copy_only_ns": _length(moved) - both,
                "kernel_only_ns": _length(compute) - both,
                "both_ns": both,
                "pageable_bytes": sum(
                    bytes
                    for start, _, bytes, source, destination in copies
                    if low <= start < high and 0 in (source, destination)
                ),
            }
        return found


def gpu_metric_means(path: Path_, window: Window | None = None) -> dict[int, dict[str, float]]:
    """Per sampled device and metric, the mean of the samples with start < timestamp <= end."""
    with _open(path) as export:
        low, high = window or export.span()
        found: dict[int, dict[str, float]] = {}
        for device, metric, mean in export.rows(
            "GPU_METRICS",
            f"""SELECT g.typeId & 255, t.metricName, SUM(g.value) * 1.0 / COUNT(*)
                FROM GPU_METRICS AS g
                JOIN TARGET_INFO_GPU_METRICS AS t
                  ON t.typeId = g.typeId AND t.metricId = g.metricId
                WHERE g.timestamp > {int(low)} AND g.timestamp <= {int(high)}
                GROUP BY g.typeId, t.metricName""",
        ):
            found.setdefault(device, {})[metric] = mean
        return found


def overhead_ns(path: Path_, window: Window | None = None) -> int:
    """Time in the window during which the profiler was at work on at least one thread."""
    with _open(path) as export:
        window = window or export.span()
        table = "PROFILER_OVERHEAD"
        return _length(_merged(export.rows(table, f'SELECT start, "end" FROM {table}'), window))
