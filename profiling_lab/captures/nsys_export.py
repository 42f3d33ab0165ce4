"""An export of Nsight Systems, read as tables.

    >>> with captures.open("torch_inference_baseline") as capture:
    ...     capture.kernels.select("name", "duration_ns").head()

Every table is a polars DataFrame with names resolved, times in integer nanoseconds since the start of
the recording, rows in order of time. Tables are read when they are first asked for, and the file is
never written to.

Sources: the schema notes in Nsight Systems' own export (column comments), and "Nsight Systems User
Guide", chapter "SQLite schema reference".
"""

# Long because it has a reader for each table of one format.

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from profiling_lab.captures.nsys_schema import (
    CALLER,
    COPY_KINDS,
    CUDA_BACKTRACE,
    CUDA_EVENT,
    DEVICE_TABLES,
    GRAPH,
    INTERVAL,
    KERNEL,
    MEMCPY,
    MEMORY_KINDS,
    MEMSET,
    MIGRATION_CAUSES,
    NONE,
    NVTX_RANGES,
    PLACE,
    RUNTIME,
    SYNC_KINDS,
    SYNCHRONIZATION,
)
from profiling_lab.captures.sqlite_tables import SqliteTables, connect
from profiling_lab.errors import EmptyCapture, MissingTable

if TYPE_CHECKING:
    import polars as pl


# More than 400 lines: a property a table, and the docstring of each names the columns.
class NsysCapture(SqliteTables):
    """One Nsight Systems capture, opened read-only. Tables are read when first asked for."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self.derived: dict[Any, Any] = {}  # what others computed from this capture and keep here
        if not any(table in self._columns for table in (*DEVICE_TABLES, RUNTIME, "NVTX_EVENTS")):
            if "StringIds" in self._columns and any(
                table.startswith("TARGET_INFO_") for table in self._columns
            ):
                raise MissingTable(
                    f"{file}: a recording of Nsight Systems without anything of CUDA: it has neither "
                    f"{KERNEL} nor {RUNTIME} nor NVTX_EVENTS (record with --trace=cuda,nvtx; "
                    "did the program find a GPU?)"
                )
            raise MissingTable(
                f"{file}: a SQLite file, but not an Nsight Systems export: it has neither {KERNEL} "
                f"nor {RUNTIME} nor NVTX_EVENTS (export one with: nsys export --type sqlite)"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        """Nothing to close: no file is held open between reads."""

    def __repr__(self) -> str:
        return f"NsysCapture({str(self.file)!r})"

    # -- tables ---------------------------------------------------------------------------------

    def check_kernels(self) -> None:
        """Raise MissingTable where the recording holds neither kernels nor graphs."""
        if KERNEL not in self._columns and GRAPH not in self._columns:
            raise MissingTable(
                f"{self.file}: has no table {KERNEL} and no {GRAPH}: no kernel was recorded "
                "(was the program traced with --trace=cuda, and did the capture range hold work?)"
            )

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Kernels, one row an execution, ordered by start.

        start_ns, end_ns, duration_ns, device, stream, correlation, process, name (short),
        demangled_name, grid_x, grid_y, grid_z, block_x, block_y, block_z, registers_per_thread,
        static_shared_bytes, dynamic_shared_bytes, graph_node (null unless run as a graph's node).

        A capture at graph granularity has no rows for kernels inside CUDA graphs: see
        `graph_launches`. Raises MissingTable where the recording holds neither table.
        """
        self.check_kernels()
        return self._read(
            KERNEL,
            {
                **INTERVAL,
                **PLACE,
                "name": "shortName",
                "demangled_name": "demangledName",
                "grid_x": "gridX",
                "grid_y": "gridY",
                "grid_z": "gridZ",
                "block_x": "blockX",
                "block_y": "blockY",
                "block_z": "blockZ",
                "registers_per_thread": "registersPerThread",
                "static_shared_bytes": "staticSharedMemory",
                "dynamic_shared_bytes": "dynamicSharedMemory",
                "graph_node": "graphNodeId",
            },
            strings=("name", "demangled_name"),
            optional=("graphNodeId",),
            order=("start_ns", "end_ns", "device", "stream", "correlation"),
        )

    @cached_property
    def graph_launches(self) -> pl.DataFrame:
        """Executions of whole CUDA graphs, for captures at graph granularity, ordered by start.

        start_ns, end_ns, duration_ns, device, stream, correlation, process, graph, graph_exec.
        Empty if the recording has none.
        """
        return self._read(
            GRAPH,
            {**INTERVAL, **PLACE, "graph": "graphId", "graph_exec": "graphExecId"},
            order=("start_ns", "end_ns", "device", "stream"),
        )

    @cached_property
    def copies(self) -> pl.DataFrame:
        """Memory copies on the device's timeline, ordered by start.

        start_ns, end_ns, duration_ns, device, stream, correlation, process, bytes,
        kind ("H2D", "D2H", "D2D", "P2P", "UVM H2D", …), source and destination ("pageable", "pinned",
        "device", "managed", …), migration (why pages of managed memory moved: "prefetch", "page
        fault", "speculative prefetch", …; null for other copies). Empty if the recording has none.
        """
        frame = self._read(
            MEMCPY,
            {
                **INTERVAL,
                **PLACE,
                "bytes": "bytes",
                "kind": "copyKind",
                "source": "srcKind",
                "destination": "dstKind",
                "migration": "migrationCause",
            },
            optional=("migrationCause",),
            order=("start_ns", "end_ns", "device", "stream"),
        )
        import polars as pl

        words = {
            "kind": COPY_KINDS,
            "source": MEMORY_KINDS,
            "destination": MEMORY_KINDS,
            "migration": MIGRATION_CAUSES,
        }
        if frame.is_empty():  # most recordings of a test have none
            return pl.DataFrame(schema=frame.schema | dict.fromkeys(words, pl.String))
        return frame.with_columns(_spell(name, words[name]) for name in words)

    @cached_property
    def memsets(self) -> pl.DataFrame:
        """Memory fills, ordered by start.

        start_ns, end_ns, duration_ns, device, stream, correlation, process, bytes.
        """
        return self._read(
            MEMSET,
            {**INTERVAL, **PLACE, "bytes": "bytes"},
            order=("start_ns", "end_ns", "device", "stream"),
        )

    @cached_property
    def api_calls(self) -> pl.DataFrame:
        """CUDA runtime and driver calls on the host, ordered by start, outer before inner.

        start_ns, end_ns, duration_ns, name ("cudaMemcpyAsync": the version suffix is removed),
        correlation, process, thread (operating-system thread id), return_value.
        """
        # With backtraces at CUDA calls the export has a second row for each such call.
        own = (
            f"eventClass <> {CUDA_BACKTRACE}"
            if "eventClass" in self._columns.get(RUNTIME, ())
            else ""
        )
        return self._read(
            RUNTIME,
            {
                **INTERVAL,
                "name": "nameId",
                "correlation": "correlationId",
                **CALLER,
                "return_value": "returnValue",
            },
            strings=("name",),
            where=own,
            order=("start_ns", "-end_ns", "process", "thread"),
            plain_names=True,
        )

    @cached_property
    def synchronizations(self) -> pl.DataFrame:
        """Synchronisation as CUPTI saw it, ordered by start.

        start_ns, end_ns, duration_ns, kind ("event", "stream_wait", "stream", "context"), device,
        stream (null where none is meant), correlation, process, event_sync (joins the wait to a row
        of `event_records`; null unless recorded with --cuda-event-trace=true).

        Nsight Systems 2025.3 writes a stream's synchronization as a "stream_wait" without an event;
        it is given as "stream" here. The name of the call, joined on process and correlation, is
        the surer sign.
        """
        import polars as pl

        frame = self._read(
            SYNCHRONIZATION,
            {
                **INTERVAL,
                "kind": "syncType",
                **PLACE,
                "event": "eventId",
                "event_sync": "eventSyncId",
            },
            optional=("eventSyncId", "eventId"),
            order=("start_ns", "end_ns", "correlation"),
        )
        if frame.is_empty():
            return frame.drop("event").with_columns(pl.col("kind").cast(pl.String))
        none = pl.col("event").fill_null(NONE) == NONE
        kind = pl.when((pl.col("kind") == 2) & none).then(3).otherwise(pl.col("kind"))
        changed = {
            "kind": _spell(kind.alias("kind"), SYNC_KINDS),
            "stream": _without_none("stream"),
            "event_sync": _without_none("event_sync"),
        }
        return frame.select(changed.get(name, name) for name in frame.columns if name != "event")

    @cached_property
    def event_records(self) -> pl.DataFrame:
        """Places where an event was recorded into a stream (with --cuda-event-trace=true).

        correlation (of the recording call), device, stream, process, event_sync.
        """
        return self._read(
            CUDA_EVENT,
            {
                "correlation": "correlationId",
                "device": "deviceId",
                "stream": "streamId",
                "process": "globalPid",
                "event_sync": "eventSyncId",
            },
            optional=("eventSyncId",),
            order=("correlation", "process"),
        ).with_columns(_without_none("event_sync"))

    @cached_property
    def nvtx_ranges(self) -> pl.DataFrame:
        """NVTX ranges (push/pop and start/end), ordered by start, outer before inner.

        start_ns, end_ns, duration_ns, name, thread, process, domain, depth (0 = outermost on its
        thread). A range still open when recording stopped ends at the last event of the capture.
        """
        import polars as pl

        end = f'COALESCE("end", {self.last_ns if "NVTX_EVENTS" in self._columns else 0})'
        frame = self._read(
            "NVTX_EVENTS",
            {
                "start_ns": "start",
                "end_ns": end,
                "duration_ns": f"{end} - start",
                "name": "COALESCE(text, (SELECT value FROM StringIds WHERE id = textId), '')",
                **CALLER,
                "domain": "COALESCE(domainId, 0)",
            },
            where=f"eventType IN {NVTX_RANGES}",
            text=("name",),
            order=("start_ns", "-end_ns", "process", "thread"),
        )
        open_ends: dict[tuple[int, int], list[int]] = {}
        depths = []
        for start, end_ns, process, thread in frame.select(
            "start_ns", "end_ns", "process", "thread"
        ).iter_rows():
            stack = open_ends.setdefault((process, thread), [])
            while stack and stack[-1] <= start:
                stack.pop()
            depths.append(len(stack))
            stack.append(end_ns)
        return frame.with_columns(pl.Series("depth", depths, dtype=pl.Int64))

    @cached_property
    def os_calls(self) -> pl.DataFrame:
        """Operating-system library calls (with --trace=osrt), ordered by start.

        start_ns, end_ns, duration_ns, name, thread, process.
        """
        return self._read(
            "OSRT_API",
            {**INTERVAL, "name": "nameId", **CALLER},
            strings=("name",),
            order=("start_ns", "-end_ns", "process", "thread"),
        )

    @cached_property
    def gpu_metrics(self) -> pl.DataFrame:
        """Sampled hardware metrics (with --gpu-metrics-devices), long form, ordered by time.

        timestamp_ns, device, metric (as recorded: "SMs Active [Throughput %]"), value. A sample
        covers the time from the previous sample of its device to its own timestamp.
        """
        import polars as pl

        # The low byte of typeId is the device's number in the sampling source.
        samples = self._read(
            "GPU_METRICS",
            {
                "timestamp_ns": "timestamp",
                "device": "typeId & 255",
                "typeId": "typeId",
                "metricId": "metricId",
                "value": "value",
            },
            order=("timestamp_ns", "device", "metricId"),
        )
        metrics = self._read(
            "TARGET_INFO_GPU_METRICS",
            {"typeId": "typeId", "metricId": "metricId", "metric": "metricName"},
            text=("metric",),
            order=("typeId", "metricId"),
        )
        named = samples.join(metrics, on=["typeId", "metricId"], maintain_order="left")
        return named.select("timestamp_ns", "device", pl.col("metric"), "value")

    @cached_property
    def memory_events(self) -> pl.DataFrame:
        """Allocations and releases of device memory (with --cuda-memory-usage), ordered by time.

        start_ns, device, bytes (positive for an allocation, negative for a release), address, kind.
        """
        return self._read(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            {
                "start_ns": "start",
                "device": "deviceId",
                "bytes": "CASE memoryOperationType WHEN 1 THEN -bytes ELSE bytes END",
                "address": "address",
                "kind": "memKind",
            },
            order=("start_ns", "address"),
        ).with_columns(_spell("kind", MEMORY_KINDS))

    @cached_property
    def devices(self) -> pl.DataFrame:
        """The devices of the machine, ordered by number.

        device, name, sm_count, memory_bandwidth_bytes_per_s, clock_hz, compute_capability,
        memory_bytes.
        """
        return self._read(
            "TARGET_INFO_GPU",
            {
                "device": "COALESCE(cuDevice, id)",
                "name": "name",
                "sm_count": "smCount",
                "memory_bandwidth_bytes_per_s": "memoryBandwidth",
                "clock_hz": "clockRate",
                "compute_capability": "computeMajor || '.' || computeMinor",
                "memory_bytes": "totalMemory",
            },
            text=("name", "compute_capability"),
            order=("device",),
        )

    @cached_property
    def diagnostics(self) -> pl.DataFrame:
        """What the profiler itself had to say: timestamp_ns, severity, text, ordered by time."""
        return self._read(
            "DIAGNOSTIC_EVENT",
            {"timestamp_ns": "timestamp", "severity": "severity", "text": "text"},
            text=("text",),
            order=("timestamp_ns", "text"),
        )

    @cached_property
    def overhead(self) -> pl.DataFrame:
        """Time that the profiler itself took on the host, ordered by start.

        start_ns, end_ns, duration_ns, name, thread, process. Intervals on different threads, and
        nested ones on the same thread, overlap.
        """
        return self._read(
            "PROFILER_OVERHEAD",
            {**INTERVAL, "name": "nameId", **CALLER},
            strings=("name",),
            order=("start_ns", "-end_ns", "process", "thread"),
        )

    @property
    def collectives(self) -> pl.DataFrame:
        """The rows of `kernels` that are NCCL's: ranks meet in them."""
        return self.kernels.filter(self.kernels["name"].str.starts_with("nccl"))

    @cached_property
    def device_operations(self) -> pl.DataFrame:
        """All that ran on the devices, one row an operation, ordered by start.

        kind ("kernel", "graph", "copy", "memset"), start_ns, end_ns, duration_ns, device, stream,
        name (a copy's is its kind), correlation, process, bytes (null for kernels and graphs).
        Raises EmptyCapture if the recording holds none.
        """
        import polars as pl

        common = ["start_ns", "end_ns", "duration_ns", "device", "stream", "correlation", "process"]

        def tagged(frame: pl.DataFrame, kind: str, name: pl.Expr) -> pl.DataFrame:
            size = pl.col("bytes") if "bytes" in frame.columns else pl.lit(None, dtype=pl.Int64)
            return frame.select(
                pl.lit(kind).alias("kind"), *common, name.alias("name"), size.alias("bytes")
            )

        parts = [
            (self.graph_launches, "graph", pl.lit("CUDA graph")),
            (self.copies, "copy", pl.col("kind")),
            (self.memsets, "memset", pl.lit("memset")),
        ]
        if KERNEL in self._columns:
            parts.insert(0, (self.kernels, "kernel", pl.col("name")))
        found = [tagged(*part) for part in parts if part[0].height]
        if not found:
            raise EmptyCapture(f"{self.file}: no kernel, graph, copy or memset was recorded")
        return pl.concat(found).sort("start_ns", "end_ns", "device", "stream", "correlation")

    @property
    def span_ns(self) -> tuple[int, int]:
        """First start and last end of any device operation, in ns; EmptyCapture if there is none."""
        operations = self.device_operations
        return int(operations["start_ns"][0]), int(operations["end_ns"].max())  # type: ignore[arg-type]

    # -- reading --------------------------------------------------------------------------------

    @cached_property
    def last_ns(self) -> int:
        """The last moment of any recorded event: where ranges that were never closed end."""
        last = 0
        with connect(self.file) as connection:
            for table in (*DEVICE_TABLES, RUNTIME, "NVTX_EVENTS"):
                if table in self._columns:
                    query = f'SELECT MAX(COALESCE("end", start)) FROM {table}'
                    last = max(last, connection.execute(query).fetchone()[0] or 0)
        return last


def _spell(column: str | pl.Expr, words: dict[int, str]) -> pl.Expr:
    import polars as pl

    column = pl.col(column) if isinstance(column, str) else column
    return column.replace_strict(
        words, default="kind " + column.cast(pl.String), return_dtype=pl.String
    )


def _without_none(column: str) -> pl.Expr:
    """A column with null where CUPTI wrote its number for "none"."""
    import polars as pl

    return pl.when(pl.col(column) != NONE).then(pl.col(column)).alias(column)
