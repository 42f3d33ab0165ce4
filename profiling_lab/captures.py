"""Open a recorded capture and read it as tables.

    >>> from profiling_lab import captures
    >>> with captures.open("torch_inference_baseline") as capture:
    ...     capture.kernels.select("name", "duration_ns").head()

A capture is a SQLite file that Nsight Systems exported. Every table is a polars DataFrame with
names resolved, times in integer nanoseconds since the start of the recording, rows in order of
time. Tables are read when they are first asked for, and the file is never written to.

Sources: the schema notes in Nsight Systems' own export (column comments), and "Nsight Systems User
Guide", chapter "SQLite schema reference".
"""

from __future__ import annotations

import os
import sqlite3
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling_lab.errors import CaptureError, EmptyCapture, MissingTable, NoSuchCapture

if TYPE_CHECKING:
    import polars as pl

SQLITE_MAGIC = b"SQLite format 3\x00"
TIMELINE = "timeline.sqlite"

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
MEMCPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNCHRONIZATION = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
CUDA_EVENT = "CUPTI_ACTIVITY_KIND_CUDA_EVENT"
DEVICE_TABLES = (KERNEL, GRAPH, MEMCPY, MEMSET)

# CUPTI's enumerations, spelled the way people say them.
COPY_KINDS = {1: "H2D", 2: "D2H", 3: "H2A", 4: "A2H", 8: "D2D", 9: "H2H", 10: "P2P"}
MEMORY_KINDS = {
    0: "pageable",
    1: "pinned",
    2: "device",
    3: "array",
    4: "managed",
    5: "device_static",
    6: "managed_static",
}
SYNC_KINDS = {1: "event", 2: "stream_wait", 3: "stream", 4: "context"}
NO_STREAM = 4294967295  # what CUPTI writes where no stream is meant

# globalTid = hardware id | vm id | pid (24 bits) | tid (24 bits); globalPid has the tid zeroed.
PROCESS_MASK = -16777216  # ~0xFFFFFF as a signed 64-bit integer


def folder() -> Path:
    """The folder that holds the captures of the course: `captures/` of the nearest course tree.

    `LAB_CAPTURES` overrides it. Outside a course the current folder is searched upwards, then the
    tree that this library is installed from.
    """
    if override := os.environ.get("LAB_CAPTURES"):
        return Path(override)
    here = Path.cwd().resolve()
    for parent in (here, *here.parents):
        if (parent / "course.toml").is_file() and (parent / "captures").is_dir():
            return parent / "captures"
    return Path(__file__).resolve().parent.parent / "captures"


def names() -> list[str]:
    """The names of the captures that `open` knows, sorted."""
    root = folder()
    if not root.is_dir():
        return []
    return sorted(entry.name for entry in root.iterdir() if (entry / TIMELINE).is_file())


def path(name_or_path: str | os.PathLike[str]) -> Path:
    """The SQLite file of a capture, given its name or any path to it.

    Raises NoSuchCapture, naming the captures that exist, and CaptureError for a folder without one.
    """
    text = os.fspath(name_or_path)
    named = folder() / text / TIMELINE
    if os.sep not in text and "/" not in text and named.is_file():
        return named
    given = Path(text)
    if given.is_dir():
        if (given / TIMELINE).is_file():
            return given / TIMELINE
        raise CaptureError(f"{given}: is a folder without {TIMELINE}; name a capture file")
    if not given.exists():
        known = ", ".join(names()) or "none"
        raise NoSuchCapture(f"{text}: no such file or capture; captures here: {known}")
    return given


def open(name_or_path: str | os.PathLike[str]) -> NsysCapture:  # noqa: A001 - reads as captures.open
    """Open a capture by its name (see `names`) or by the path of an exported SQLite file.

    Raises NoSuchCapture, or CaptureError if the file is not a readable Nsight Systems export.
    """
    return NsysCapture(path(name_or_path))


class NsysCapture:
    """One Nsight Systems capture, opened read-only. Use it as a context manager or let it go."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._adbc: Any = None
        self._columns = _read_schema(file)
        if not any(table in self._columns for table in (*DEVICE_TABLES, RUNTIME, "NVTX_EVENTS")):
            raise MissingTable(
                f"{file}: a SQLite file, but not an Nsight Systems export: it has neither {KERNEL} "
                f"nor {RUNTIME} nor NVTX_EVENTS (export one with: nsys export --type sqlite)"
            )

    def __enter__(self) -> NsysCapture:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"NsysCapture({str(self.file)!r})"

    def close(self) -> None:
        """Close the file; tables already read stay usable."""
        if self._adbc is not None:
            connection, database = self._adbc
            self._adbc = None
            connection.close()
            database.close()

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
            f"""
            SELECT k.start AS start_ns, k."end" AS end_ns, k."end" - k.start AS duration_ns,
                   k.deviceId AS device, k.streamId AS stream, k.correlationId AS correlation,
                   k.globalPid AS process, short.value AS name, long.value AS demangled_name,
                   k.gridX AS grid_x, k.gridY AS grid_y, k.gridZ AS grid_z,
                   k.blockX AS block_x, k.blockY AS block_y, k.blockZ AS block_z,
                   k.registersPerThread AS registers_per_thread,
                   k.staticSharedMemory AS static_shared_bytes,
                   k.dynamicSharedMemory AS dynamic_shared_bytes,
                   {self._optional(KERNEL, "graphNodeId", "k")} AS graph_node
            FROM {KERNEL} AS k
            LEFT JOIN StringIds AS short ON short.id = k.shortName
            LEFT JOIN StringIds AS long ON long.id = k.demangledName
            ORDER BY k.start, k."end", k.deviceId, k.streamId, k.correlationId
            """,
            text=("name", "demangled_name"),
            needs=(
                "start end deviceId streamId correlationId globalPid shortName demangledName "
                "gridX gridY gridZ blockX blockY blockZ registersPerThread staticSharedMemory "
                "dynamicSharedMemory"
            ),
        )

    @cached_property
    def graph_launches(self) -> pl.DataFrame:
        """Executions of whole CUDA graphs, for captures at graph granularity, ordered by start.

        start_ns, end_ns, duration_ns, device, stream, correlation, process, graph, graph_exec.
        Empty if the recording has none.
        """
        return self._read(
            GRAPH,
            f"""
            SELECT g.start AS start_ns, g."end" AS end_ns, g."end" - g.start AS duration_ns,
                   g.deviceId AS device, g.streamId AS stream, g.correlationId AS correlation,
                   g.globalPid AS process, g.graphId AS graph, g.graphExecId AS graph_exec
            FROM {GRAPH} AS g
            ORDER BY g.start, g."end", g.deviceId, g.streamId
            """,
            needs="start end deviceId streamId correlationId globalPid graphId graphExecId",
        )

    @cached_property
    def copies(self) -> pl.DataFrame:
        """Memory copies on the device's timeline, ordered by start.

        start_ns, end_ns, duration_ns, device, stream, correlation, process, bytes,
        kind ("H2D", "D2H", "D2D", "P2P", …), source and destination ("pageable", "pinned",
        "device", "managed", …). Empty if the recording has none.
        """
        import polars as pl

        frame = self._read(
            MEMCPY,
            f"""
            SELECT c.start AS start_ns, c."end" AS end_ns, c."end" - c.start AS duration_ns,
                   c.deviceId AS device, c.streamId AS stream, c.correlationId AS correlation,
                   c.globalPid AS process, c.bytes AS bytes, c.copyKind AS kind,
                   c.srcKind AS source, c.dstKind AS destination
            FROM {MEMCPY} AS c
            ORDER BY c.start, c."end", c.deviceId, c.streamId
            """,
            needs="start end deviceId streamId correlationId globalPid bytes copyKind srcKind dstKind",
        )
        return frame.with_columns(
            _spell("kind", COPY_KINDS),
            _spell("source", MEMORY_KINDS),
            _spell("destination", MEMORY_KINDS),
        ).with_columns(pl.col("bytes").cast(pl.Int64))

    @cached_property
    def memsets(self) -> pl.DataFrame:
        """Memory fills, ordered by start.

        start_ns, end_ns, duration_ns, device, stream, correlation, process, bytes.
        """
        return self._read(
            MEMSET,
            f"""
            SELECT m.start AS start_ns, m."end" AS end_ns, m."end" - m.start AS duration_ns,
                   m.deviceId AS device, m.streamId AS stream, m.correlationId AS correlation,
                   m.globalPid AS process, m.bytes AS bytes
            FROM {MEMSET} AS m
            ORDER BY m.start, m."end", m.deviceId, m.streamId
            """,
            needs="start end deviceId streamId correlationId globalPid bytes",
        )

    @cached_property
    def api_calls(self) -> pl.DataFrame:
        """CUDA runtime and driver calls on the host, ordered by start.

        start_ns, end_ns, duration_ns, name ("cudaMemcpyAsync": the version suffix is removed),
        correlation, process, thread (operating-system thread id), return_value.
        """
        import polars as pl

        frame = self._read(
            RUNTIME,
            f"""
            SELECT r.start AS start_ns, r."end" AS end_ns, r."end" - r.start AS duration_ns,
                   s.value AS name, r.correlationId AS correlation,
                   r.globalTid & {PROCESS_MASK} AS process, r.globalTid & 16777215 AS thread,
                   r.returnValue AS return_value
            FROM {RUNTIME} AS r
            LEFT JOIN StringIds AS s ON s.id = r.nameId
            ORDER BY r.start, r."end" DESC, r.globalTid
            """,
            text=("name",),
            needs="start end globalTid correlationId nameId returnValue",
        )
        return frame.with_columns(pl.col("name").str.replace(r"(_ptsz)?_v\d+(_ptsz)?$", ""))

    @cached_property
    def synchronizations(self) -> pl.DataFrame:
        """Synchronisation as CUPTI saw it, ordered by start.

        start_ns, end_ns, duration_ns, kind ("event", "stream_wait", "stream", "context"), device,
        stream (null where none is meant), correlation, process, event_sync (joins the wait to a row
        of `event_records`; null unless recorded with --cuda-event-trace=true).
        """
        frame = self._read(
            SYNCHRONIZATION,
            f"""
            SELECT y.start AS start_ns, y."end" AS end_ns, y."end" - y.start AS duration_ns,
                   y.syncType AS kind, y.deviceId AS device,
                   NULLIF(y.streamId, {NO_STREAM}) AS stream, y.correlationId AS correlation,
                   y.globalPid AS process,
                   NULLIF({self._optional(SYNCHRONIZATION, "eventSyncId", "y")}, {NO_STREAM})
                       AS event_sync
            FROM {SYNCHRONIZATION} AS y
            ORDER BY y.start, y."end", y.correlationId
            """,
            needs="start end syncType deviceId streamId correlationId globalPid",
        )
        return frame.with_columns(_spell("kind", SYNC_KINDS))

    @cached_property
    def event_records(self) -> pl.DataFrame:
        """Places where an event was recorded into a stream (with --cuda-event-trace=true).

        correlation (of the recording call), device, stream, process, event_sync.
        """
        return self._read(
            CUDA_EVENT,
            f"""
            SELECT e.correlationId AS correlation, e.deviceId AS device, e.streamId AS stream,
                   e.globalPid AS process,
                   NULLIF({self._optional(CUDA_EVENT, "eventSyncId", "e")}, {NO_STREAM})
                       AS event_sync
            FROM {CUDA_EVENT} AS e
            ORDER BY e.correlationId
            """,
            needs="correlationId deviceId streamId globalPid",
        )

    @cached_property
    def nvtx_ranges(self) -> pl.DataFrame:
        """NVTX ranges (push/pop and start/end), ordered by start, outer before inner.

        start_ns, end_ns, duration_ns, name, thread, process, domain, depth (0 = outermost on its
        thread). A range still open when recording stopped ends at the last event of the capture.
        """
        import polars as pl

        frame = self._read(
            "NVTX_EVENTS",
            f"""
            SELECT n.start AS start_ns, COALESCE(n."end", {self._last_ns}) AS end_ns,
                   COALESCE(n."end", {self._last_ns}) - n.start AS duration_ns,
                   COALESCE(n.text, s.value, '') AS name, n.globalTid & 16777215 AS thread,
                   n.globalTid & {PROCESS_MASK} AS process, COALESCE(n.domainId, 0) AS domain
            FROM NVTX_EVENTS AS n
            LEFT JOIN StringIds AS s ON s.id = n.textId
            WHERE n.eventType IN (59, 60)
            ORDER BY n.start, end_ns DESC
            """,
            text=("name",),
            needs="start end eventType text globalTid textId domainId",
        )
        open_ends: dict[tuple[int, int], list[int]] = {}
        depths = []
        for start, end, process, thread in frame.select(
            "start_ns", "end_ns", "process", "thread"
        ).iter_rows():
            stack = open_ends.setdefault((process, thread), [])
            while stack and stack[-1] <= start:
                stack.pop()
            depths.append(len(stack))
            stack.append(end)
        return frame.with_columns(pl.Series("depth", depths, dtype=pl.Int64))

    @cached_property
    def os_calls(self) -> pl.DataFrame:
        """Operating-system library calls (with --trace=osrt), ordered by start.

        start_ns, end_ns, duration_ns, name, thread, process.
        """
        return self._read(
            "OSRT_API",
            f"""
            SELECT o.start AS start_ns, o."end" AS end_ns, o."end" - o.start AS duration_ns,
                   s.value AS name, o.globalTid & 16777215 AS thread,
                   o.globalTid & {PROCESS_MASK} AS process
            FROM OSRT_API AS o
            LEFT JOIN StringIds AS s ON s.id = o.nameId
            ORDER BY o.start, o."end" DESC
            """,
            text=("name",),
            needs="start end globalTid nameId",
        )

    @cached_property
    def gpu_metrics(self) -> pl.DataFrame:
        """Sampled hardware metrics (with --gpu-metrics-devices), long form, ordered by time.

        timestamp_ns, device, metric (as recorded: "SMs Active [Throughput %]"), value. A sample
        covers the time from the previous sample of its device to its own timestamp.
        """
        # The low byte of typeId is the device's number in the sampling source.
        return self._read(
            "GPU_METRICS",
            """
            SELECT g.timestamp AS timestamp_ns, g.typeId & 255 AS device, t.metricName AS metric,
                   g.value AS value
            FROM GPU_METRICS AS g
            JOIN TARGET_INFO_GPU_METRICS AS t ON t.typeId = g.typeId AND t.metricId = g.metricId
            ORDER BY g.timestamp, device, g.metricId
            """,
            text=("metric",),
            needs="timestamp typeId metricId value",
        )

    @cached_property
    def memory_events(self) -> pl.DataFrame:
        """Allocations and releases of device memory (with --cuda-memory-usage), ordered by time.

        start_ns, device, bytes (positive for an allocation, negative for a release), address, kind.
        """
        frame = self._read(
            "CUDA_GPU_MEMORY_USAGE_EVENTS",
            """
            SELECT m.start AS start_ns, m.deviceId AS device,
                   CASE m.memoryOperationType WHEN 1 THEN -m.bytes ELSE m.bytes END AS bytes,
                   m.address AS address, m.memKind AS kind
            FROM CUDA_GPU_MEMORY_USAGE_EVENTS AS m
            ORDER BY m.start, m.address
            """,
            needs="start deviceId bytes address memKind memoryOperationType",
        )
        return frame.with_columns(_spell("kind", MEMORY_KINDS))

    @cached_property
    def devices(self) -> pl.DataFrame:
        """The devices of the machine, ordered by number.

        device, name, sm_count, memory_bandwidth_bytes_per_s, clock_hz, compute_capability,
        memory_bytes.
        """
        return self._read(
            "TARGET_INFO_GPU",
            """
            SELECT COALESCE(g.cuDevice, g.id) AS device, g.name AS name, g.smCount AS sm_count,
                   g.memoryBandwidth AS memory_bandwidth_bytes_per_s, g.clockRate AS clock_hz,
                   g.computeMajor || '.' || g.computeMinor AS compute_capability,
                   g.totalMemory AS memory_bytes
            FROM TARGET_INFO_GPU AS g
            ORDER BY device
            """,
            text=("name", "compute_capability"),
            needs="id name smCount memoryBandwidth clockRate computeMajor computeMinor totalMemory",
        )

    @cached_property
    def diagnostics(self) -> pl.DataFrame:
        """What the profiler itself had to say: timestamp_ns, severity, text, ordered by time."""
        return self._read(
            "DIAGNOSTIC_EVENT",
            """
            SELECT d.timestamp AS timestamp_ns, d.severity AS severity, d.text AS text
            FROM DIAGNOSTIC_EVENT AS d
            ORDER BY d.timestamp, d.text
            """,
            text=("text",),
            needs="timestamp severity text",
        )

    @cached_property
    def overhead(self) -> pl.DataFrame:
        """Time that the profiler itself took on the host, ordered by start.

        start_ns, end_ns, duration_ns, name, thread, process. Intervals on different threads, and
        nested ones on the same thread, overlap.
        """
        return self._read(
            "PROFILER_OVERHEAD",
            f"""
            SELECT o.start AS start_ns, o."end" AS end_ns, o."end" - o.start AS duration_ns,
                   s.value AS name, o.globalTid & 16777215 AS thread,
                   o.globalTid & {PROCESS_MASK} AS process
            FROM PROFILER_OVERHEAD AS o
            LEFT JOIN StringIds AS s ON s.id = o.nameId
            ORDER BY o.start, o."end" DESC
            """,
            text=("name",),
            needs="start end globalTid nameId",
        )

    @cached_property
    def device_operations(self) -> pl.DataFrame:
        """All that ran on the devices, one row an operation, ordered by start.

        kind ("kernel", "graph", "copy", "memset"), start_ns, end_ns, duration_ns, device, stream,
        name (a copy's is its kind), correlation, process, bytes (null for kernels and graphs).
        Raises EmptyCapture if the recording holds none.
        """
        import polars as pl

        common = ["start_ns", "end_ns", "duration_ns", "device", "stream", "correlation", "process"]
        parts = []
        if KERNEL in self._columns or GRAPH in self._columns:
            parts.append(self._tagged(self.kernels, "kernel", pl.col("name"), common))
        parts += [
            self._tagged(self.graph_launches, "graph", pl.lit("CUDA graph"), common),
            self._tagged(self.copies, "copy", pl.col("kind"), common),
            self._tagged(self.memsets, "memset", pl.lit("memset"), common),
        ]
        frame = pl.concat([part for part in parts if part.height] or parts[:1])
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
        with _connect(self.file) as connection:
            for table in (*DEVICE_TABLES, RUNTIME, "NVTX_EVENTS"):
                if table in self._columns:
                    query = f'SELECT MAX(COALESCE("end", start)) FROM {table}'
                    last = max(last, connection.execute(query).fetchone()[0] or 0)
        return last

    def _tagged(self, frame: pl.DataFrame, kind: str, name: pl.Expr, common: list[str]):
        import polars as pl

        size = pl.col("bytes") if "bytes" in frame.columns else pl.lit(None, dtype=pl.Int64)
        return frame.select(
            pl.lit(kind).alias("kind"),
            *common,
            name.alias("name").cast(pl.String),
            size.alias("bytes"),
        )

    def _optional(self, table: str, column: str, alias: str) -> str:
        """A column that older exports lack: itself, or NULL of the right type."""
        if column in self._columns.get(table, ()):
            return f"{alias}.{column}"
        return "CAST(NULL AS INTEGER)"

    def _read(self, table: str, query: str, *, needs: str, text: tuple[str, ...] = ()):
        """Run a query over one table: an empty frame if nothing was recorded there.

        Raises MissingTable naming the columns if the table is there without them.
        """
        import polars as pl

        names = [
            line.rsplit(" AS ", 1)[1].strip(" ,\n")
            for line in _select_items(query)
        ]  # fmt: skip
        schema = {name: pl.String if name in text else pl.Int64 for name in names}
        if table not in self._columns:
            return pl.DataFrame(schema=schema)
        missing = [column for column in needs.split() if column not in self._columns[table]]
        if missing:
            raise MissingTable(
                f"{self.file}: table {table} lacks the column{'s' if len(missing) > 1 else ''} "
                f"{', '.join(missing)}; this export's schema is not one that the course reads"
            )
        if "StringIds" in query and "StringIds" not in self._columns:
            raise MissingTable(f"{self.file}: has no table StringIds, so names cannot be resolved")
        frame = self._query(query)
        return frame.select(
            pl.col(name).cast(dtype, strict=False) for name, dtype in schema.items()
        )

    def _query(self, query: str) -> pl.DataFrame:
        import adbc_driver_manager
        import adbc_driver_sqlite
        import polars as pl

        try:
            if self._adbc is None:
                database = adbc_driver_manager.AdbcDatabase(
                    driver=adbc_driver_sqlite._driver_path(), uri=_uri(self.file)
                )
                self._adbc = adbc_driver_manager.AdbcConnection(database), database
            with adbc_driver_manager.AdbcStatement(self._adbc[0]) as statement:
                # Types are inferred from the first batch, so it must be large enough to see them.
                statement.set_options(**{"adbc.sqlite.query.batch_rows": "65536"})
                statement.set_sql_query(query)
                stream, _ = statement.execute_query()
                return pl.DataFrame(stream)
        except (adbc_driver_manager.Error, pl.exceptions.PolarsError) as error:
            reason = str(error).splitlines()[0]
            raise CaptureError(f"{self.file}: damaged or truncated ({reason})") from None


def _select_items(query: str) -> list[str]:
    """The columns of a query written as `expression AS name`, one string each."""
    body = query.split("FROM", 1)[0].replace("\n", " ").replace("SELECT", "", 1)
    items, depth, item = [], 0, ""
    for char in body:
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            items.append(item)
            item = ""
        else:
            item += char
    return [*items, item]


def _spell(column: str, words: dict[int, str]) -> pl.Expr:
    import polars as pl

    return pl.col(column).replace_strict(
        words, default="kind " + pl.col(column).cast(pl.String), return_dtype=pl.String
    )


def _uri(file: Path) -> str:
    # immutable: SQLite takes no lock and makes no journal, so the folder may be read-only too
    return file.resolve().as_uri() + "?mode=ro&immutable=1"


def _connect(file: Path) -> sqlite3.Connection:
    return sqlite3.connect(_uri(file), uri=True)


def _read_schema(file: Path) -> dict[str, frozenset[str]]:
    """Tables and their columns, after checking that this is a whole SQLite file."""
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
    try:
        connection = _connect(file)
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
    except sqlite3.DatabaseError as error:
        raise CaptureError(f"{file}: damaged or truncated ({error})") from None
