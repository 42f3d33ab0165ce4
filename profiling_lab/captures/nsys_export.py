"""An export of Nsight Systems, read as tables.

    >>> with captures.open("torch_inference_baseline") as capture:
    ...     capture.kernels.select("name", "duration_ns").head()

Every table is a polars DataFrame with names resolved, times in integer nanoseconds since the start of
the recording, rows in order of time. Tables are read when they are first asked for, and the file is
never written to.

Sources: the schema notes in Nsight Systems' own export (column comments), and "Nsight Systems User
Guide", chapter "SQLite schema reference".
"""

from __future__ import annotations

import itertools
import os
import re
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from profiling_lab.errors import CaptureError, EmptyCapture, MissingTable

if TYPE_CHECKING:
    import polars as pl

SQLITE_MAGIC = b"SQLite format 3\x00"

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNCHRONIZATION = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CUDA_EVENT = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
DEVICE_TABLES = (KERNEL, GRAPH, MEMCPY, MEMSET)

# CUPTI's enumerations, spelled the way people say them.
COPY_KINDS = {
    1: "H2D",
    2: "D2H",
    3: "H2A",
    4: "A2H",
    5: "A2A",
    6: "A2D",
    7: "D2A",
    8: "D2D",
    9: "H2H",
    10: "P2P",
    # Managed memory that moves because it is touched, or prefetched; most belong to no call.
    11: "UVM H2D",
    12: "UVM D2H",
    13: "UVM D2D",
}
MIGRATION_CAUSES = {1: "prefetch", 2: "page fault", 3: "speculative prefetch", 4: "eviction"}
MEMORY_KINDS = {
    0: "pageable",
    1: "pinned",
    2: "device",
    3: "array",
    4: "managed",
    5: "device_static",
    6: "managed_static",
    7: "unknown",
}
SYNC_KINDS = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
CUDA_BACKTRACE = 67  # the eventClass of a CUDA call's row that only carries its backtrace
NVTX_RANGES = (59, 60)  # ENUM_NSYS_EVENT_TYPE: push/pop and start/end ranges
NONE = 4294967295  # what CUPTI writes where no stream or event is meant

# globalTid = hardware id | vm id | pid (24 bits) | tid (24 bits); globalPid has the tid zeroed.
PROCESS_MASK = -16777216  # ~0xFFFFFF as a signed 64-bit integer

# Columns that many tables share: name here → expression over the table.
INTERVAL = {"start_ns": "start", "end_ns": "end", "duration_ns": '"end" - start'}
PLACE = {
    "device": "deviceId",
    "stream": "streamId",
    "correlation": "correlationId",
    "process": "globalPid",
}
CALLER = {"process": f"globalTid & {PROCESS_MASK}", "thread": "globalTid & 16777215"}

# What stands in the SQL expressions below besides names of columns.
_SQL = {*"COALESCE CASE WHEN THEN ELSE END SELECT FROM WHERE StringIds id value".split()}  # noqa: SIM905
_VERSION_SUFFIX = r"(_ptsz)?_v\d+(_ptsz)?$"

# Above this many rows a table is read in parts, side by side.
_PARALLEL_ROWS = 200_000


class NsysCapture:
    """One Nsight Systems capture, opened read-only. Tables are read when first asked for."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.derived: dict[Any, Any] = {}  # what others computed from this capture and keep here
        self._columns = _read_schema(file)
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

    @cached_property
    def kernels(self) -> pl.DataFrame:
        """Kernels, one row an execution, ordered by start.

        start_ns, end_ns, duration_ns, device, stream, correlation, process, name (short),
        demangled_name, grid_x, grid_y, grid_z, block_x, block_y, block_z, registers_per_thread,
        static_shared_bytes, dynamic_shared_bytes, graph_node (null unless run as a graph's node).

        A capture at graph granularity has no rows for kernels inside CUDA graphs: see
        `graph_launches`. Raises MissingTable where the recording holds neither table.
        """
        if KERNEL not in self._columns and GRAPH not in self._columns:
            raise MissingTable(
                f"{self.file}: has no table {KERNEL} and no {GRAPH}: no kernel was recorded "
                "(was the program traced with --trace=cuda, and did the capture range hold work?)"
            )
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
        return frame.with_columns(
            _spell("kind", COPY_KINDS),
            _spell("source", MEMORY_KINDS),
            _spell("destination", MEMORY_KINDS),
            _spell("migration", MIGRATION_CAUSES),
        )

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
        none = pl.col("event").fill_null(NONE) == NONE
        return (
            frame.with_columns(
                pl.when((pl.col("kind") == 2) & none)
                .then(3)
                .otherwise(pl.col("kind"))
                .alias("kind"),
                _without_none("stream"),
                _without_none("event_sync"),
            )
            .select(pl.exclude("event"))
            .with_columns(_spell("kind", SYNC_KINDS))
        )

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

        end = f'COALESCE("end", {self._last_ns if "NVTX_EVENTS" in self._columns else 0})'
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
            tagged(self.graph_launches, "graph", pl.lit("CUDA graph")),
            tagged(self.copies, "copy", pl.col("kind")),
            tagged(self.memsets, "memset", pl.lit("memset")),
        ]
        if KERNEL in self._columns:
            parts.insert(0, tagged(self.kernels, "kernel", pl.col("name")))
        frame = pl.concat(parts)
        if not frame.height:
            raise EmptyCapture(f"{self.file}: no kernel, graph, copy or memset was recorded")
        return frame.sort("start_ns", "end_ns", "device", "stream", "correlation")

    @property
    def span_ns(self) -> tuple[int, int]:
        """First start and last end of any device operation, in ns; EmptyCapture if there is none."""
        operations = self.device_operations
        return int(operations["start_ns"][0]), int(operations["end_ns"].max())  # type: ignore[arg-type]

    # -- reading --------------------------------------------------------------------------------

    @cached_property
    def _last_ns(self) -> int:
        """The last moment of any recorded event: where ranges that were never closed end."""
        last = 0
        with connect(self.file) as connection:
            for table in (*DEVICE_TABLES, RUNTIME, "NVTX_EVENTS"):
                if table in self._columns:
                    query = f'SELECT MAX(COALESCE("end", start)) FROM {table}'
                    last = max(last, connection.execute(query).fetchone()[0] or 0)
        return last

    def _read(
        self,
        table: str,
        columns: dict[str, str],
        *,
        order: tuple[str, ...],
        strings: tuple[str, ...] = (),
        text: tuple[str, ...] = (),
        optional: tuple[str, ...] = (),
        where: str = "",
        plain_names: bool = False,
    ) -> pl.DataFrame:
        """Read a table: an empty frame if nothing was recorded there.

        columns: name → SQL expression over the table. strings: those that are numbers of strings, to
        be resolved. text: those that are text. optional: columns that older exports lack, null then.
        order: columns to sort by, "-" for descending. Raises MissingTable naming absent columns.

        Sorting and resolving names happen here and not in SQL, which took four times as long for a
        million rows (benchmarks/results).
        """
        import polars as pl

        names = [*strings, *text]
        schema = {name: pl.String if name in names else pl.Int64 for name in columns}
        if table not in self._columns:
            return pl.DataFrame(schema=schema)
        have = self._columns[table]
        expressions = " ".join(re.sub(r"'[^']*'", "", e) for e in columns.values())
        needed = set(re.findall(r"[A-Za-z]\w*", expressions)) - _SQL
        missing = sorted(w for w in needed if w not in have and w not in optional)
        if missing:
            raise MissingTable(
                f"{self.file}: table {table} lacks the column{'s' if len(missing) > 1 else ''} "
                f"{', '.join(missing)}; this export's schema is not one that the course reads"
            )
        select = ", ".join(
            (f'"{e}"' if e in have else "CAST(NULL AS INTEGER)" if e in optional else e)
            + f" AS {n}"
            for n, e in columns.items()
        )
        frame = self._query(select, table, where)
        frame = frame.select(
            pl.col(n).cast(pl.String if n in text else pl.Int64, strict=False) for n in columns
        )
        times = [n for n in ("start_ns", "end_ns") if n in columns and frame[n].null_count()]
        if times:
            raise CaptureError(f"{self.file}: damaged: a row of {table} has no {times[0][:-3]}")
        for name in strings:
            values = self._strings
            if plain_names:
                values = values.with_columns(pl.col("value").str.replace(_VERSION_SUFFIX, ""))
            values = values.rename({"value": "_resolved"})
            frame = frame.join(
                values, left_on=name, right_on="id", how="left", maintain_order="left"
            )
            frame = frame.with_columns(pl.col("_resolved").alias(name)).drop("_resolved")
        return frame.sort(
            [column.lstrip("-") for column in order],
            descending=[column.startswith("-") for column in order],
            maintain_order=True,
        )

    @cached_property
    def _strings(self) -> pl.DataFrame:
        """The table that numbers of names refer to: id, value."""
        import polars as pl

        if "StringIds" not in self._columns:
            raise MissingTable(f"{self.file}: has no table StringIds, so names cannot be resolved")
        frame = self._query("id, value", "StringIds")
        return frame.select(pl.col("id").cast(pl.Int64), pl.col("value").cast(pl.String))

    def _query(self, select: str, table: str, where: str = "") -> pl.DataFrame:
        """Run one SELECT over a table; a large one in parts, side by side, by row number."""
        import polars as pl

        bounds = self._parts(table)
        queries = [
            f"SELECT {select} FROM {table} WHERE rowid >= {low} AND rowid < {high}"
            + (f" AND {where}" if where else "")
            for low, high in itertools.pairwise(bounds)
        ]
        if len(queries) == 1:
            return self._run(queries[0])
        with ThreadPoolExecutor(len(queries)) as pool:
            return pl.concat(list(pool.map(self._run, queries)))

    def _parts(self, table: str) -> list[int]:
        connection = connect(self.file)
        try:
            low, high = connection.execute(
                f"SELECT COALESCE(MIN(rowid), 0), COALESCE(MAX(rowid), 0) + 1 FROM {table}"
            ).fetchone()
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            raise CaptureError(f"{self.file}: damaged or truncated ({error})") from None
        finally:
            connection.close()
        parts = min(4, os.cpu_count() or 1) if high - low > _PARALLEL_ROWS else 1
        return [low + (high - low) * part // parts for part in range(parts + 1)]

    def _run(self, query: str) -> pl.DataFrame:
        import adbc_driver_manager
        import adbc_driver_sqlite
        import polars as pl

        driver = adbc_driver_sqlite._driver_path()
        try:
            with (
                adbc_driver_manager.AdbcDatabase(driver=driver, uri=uri(self.file)) as database,
                adbc_driver_manager.AdbcConnection(database) as connection,
                adbc_driver_manager.AdbcStatement(connection) as statement,
            ):
                # Types are inferred from the first batch, so it must be large enough to see them.
                statement.set_options(**{"adbc.sqlite.query.batch_rows": "65536"})
                statement.set_sql_query(query)
                stream, _ = statement.execute_query()
                return pl.DataFrame(stream)
        except (adbc_driver_manager.Error, pl.exceptions.PolarsError) as error:
            reason = str(error).splitlines()[0]
            raise CaptureError(f"{self.file}: damaged or truncated ({reason})") from None


def _spell(column: str, words: dict[int, str]) -> pl.Expr:
    import polars as pl

    return pl.col(column).replace_strict(
        words, default="kind " + pl.col(column).cast(pl.String), return_dtype=pl.String
    )


def _without_none(column: str) -> pl.Expr:
    """A column with null where CUPTI wrote its number for "none"."""
    import polars as pl

    return pl.when(pl.col(column) != NONE).then(pl.col(column)).alias(column)


def uri(file: Path) -> str:
    """A file as SQLite opens it to be read only."""
    # immutable: SQLite takes no lock and makes no journal, so the folder may be read-only too
    return file.resolve().as_uri() + "?mode=ro&immutable=1"


def connect(file: Path) -> sqlite3.Connection:
    """A connection that reads a file and never writes to it."""
    return sqlite3.connect(uri(file), uri=True)


def check_file(file: Path) -> None:
    """Check that a file can be read and is a whole SQLite file; cheap enough for every opening."""
    try:
        with file.open("rb") as handle:
            header = handle.read(100)
        size = file.stat().st_size
    except PermissionError:
        raise CaptureError(f"{file}: no permission to read it") from None
    except OSError as error:
        raise CaptureError(f"{file}: cannot be read ({error.strerror})") from None
    if not size:
        raise CaptureError(f"{file}: is empty")
    if not header.startswith(SQLITE_MAGIC):
        hint = ""
        if file.suffix == ".nsys-rep":
            hint = f"; export it first: nsys export --type sqlite {file.name}"
        raise CaptureError(f"{file}: is not a SQLite file{hint}")
    # Bytes 16 and 28 of the header give the page size and the number of pages.
    page_bytes = int.from_bytes(header[16:18], "big")
    page_bytes = 65536 if page_bytes == 1 else page_bytes
    pages = int.from_bytes(header[28:32], "big")
    if size < page_bytes * pages:
        raise CaptureError(
            f"{file}: truncated: it says {page_bytes * pages:,} bytes and has {size:,}"
        )


def _read_schema(file: Path) -> dict[str, frozenset[str]]:
    """Tables and their columns."""
    try:
        connection = connect(file)
        try:
            tables = [
                row[0]
                for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
            ]
            return {
                table: frozenset(
                    row[1] for row in connection.execute(f'PRAGMA table_info("{table}")')
                )
                for table in tables
            }
        finally:
            connection.close()
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
        raise CaptureError(f"{file}: damaged or truncated ({error})") from None
