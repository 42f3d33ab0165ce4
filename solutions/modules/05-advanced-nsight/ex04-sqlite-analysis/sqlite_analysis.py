"""SQLite analysis: ask the recording your own question.

You write SQL over an export of Nsight Systems: a safe way to run it, four queries and a verdict. The
lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check advanced_ex04

checks your solution. `captures/tool_help/nsys_schema.sql` lists tables and columns, with comments. Device
operations are the rows of OPERATIONS. Times are ns. A process is `globalPid`; a thread's `globalTid` has
the same upper bits. `globalTid & THREAD_MASK` is the process, (globalTid >> 24) & 0xFFFFFF the number of the
process, and globalTid & 0xFFFFFF the number of the thread.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture, MissingTable
from profiling_lab.findings import Finding

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
CALL = "CUPTI_ACTIVITY_KIND_RUNTIME"

# Tables of device operations. A table is only there if something of its kind was recorded.
OPERATIONS = (KERNEL, GRAPH, COPY, MEMSET)

# Mask that leaves only the process in a thread's id, as a number for SQL.
THREAD_MASK = "0xFFFFFFFFFF000000"

# Rows of CALL of this class repeat a call to carry its backtrace. They are not calls.
BACKTRACE_CLASS = 67

# For each push/pop range, how many calls began in it.
CALLS_IN_RANGES = f"""
    SELECT n.rowid, count(*)
    FROM NVTX_EVENTS AS n
    JOIN {CALL} AS r ON r.globalTid = n.globalTid AND r.start >= n.start AND r.start < n."end"
    WHERE n.eventType = 59
    GROUP BY n.rowid
    ORDER BY n.rowid
"""

# If hiding copies would save less than this share of the window, the window is healthy.
FLOOR_RATIO = 0.07


def ask(
    capture: str, sql: str, needs: Mapping[str, Sequence[str]], parameters: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """The rows of a query over a capture. The query cannot change the capture.

    capture: as `captures.path` takes it.
    sql: one statement, with "?" for each of parameters.
    needs: the columns that it reads, by table: {"StringIds": ["id", "value"]}.

    The file is opened read-only: no statement changes a byte of the file, and nothing is written next to it.

    Raises
    - the errors of `captures.path`;
    - CaptureError for a file that is not a SQLite database;
    - MissingTable for a table or column of needs that the file lacks, before the statement is run. The message
      names the table, the column if only that is missing, and the version of the schema (the value of
      EXPORT_SCHEMA_VERSION in META_DATA_EXPORT, or "unknown" if there is none);
    - ValueError, with SQLite's own message, if the statement fails, as every statement that writes does.
    """
    file = captures.path(capture)
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        try:
            held = _columns(connection)
        except sqlite3.DatabaseError:
            raise CaptureError(f"{file}: is no SQLite database") from None
        for table, columns in needs.items():
            missing = [column for column in columns if column not in held.get(table, ())]
            if table not in held or missing:
                what = (
                    f"column {', '.join(missing)} of table {table}"
                    if table in held
                    else f"table {table}"
                )
                raise MissingTable(
                    f"{file}: holds no {what} (export schema {_schema(connection, held)}): record "
                    "what it is for, or export the report with another version of nsys"
                )
        try:
            return connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise ValueError(f"the statement failed: {error}") from None
    finally:
        connection.close()


def _columns(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """The columns of each table."""
    rows = connection.execute(
        "SELECT m.name, p.name FROM sqlite_master AS m, pragma_table_info(m.name) AS p "
        "WHERE m.type = 'table'"
    )
    held: dict[str, set[str]] = {}
    for table, column in rows:
        held.setdefault(table, set()).add(column)
    return held


def _schema(connection: sqlite3.Connection, held: Mapping[str, set[str]]) -> str:
    if "META_DATA_EXPORT" not in held:
        return "unknown"
    query = "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'"
    return ", ".join(str(version) for (version,) in connection.execute(query)) or "unknown"


def launches_query() -> str:
    """SQL: each kernel with the call that launched it.

    Returns a row for each kernel whose call was recorded, ordered by the kernel's start, then its correlation
    id and process:

        process, thread:    the numbers of the launching process and thread.
        name:               the kernel's demangled name.
        call_start_ns, call_end_ns, start_ns, end_ns:
                            start and end of the call, and of the kernel.

    Correlation ids are counted per process. So a call launched the kernel only if correlation id and process are
    both the same. Rows of CALL whose class is BACKTRACE_CLASS are left out.
    """
    return f"""
        SELECT
            (r.globalTid >> 24) & 0xFFFFFF AS process,
            r.globalTid & 0xFFFFFF AS thread,
            s.value AS name,
            r.start AS call_start_ns,
            r."end" AS call_end_ns,
            k.start AS start_ns,
            k."end" AS end_ns
        FROM {KERNEL} AS k
        JOIN {CALL} AS r
            ON r.correlationId = k.correlationId AND r.globalTid & {THREAD_MASK} = k.globalPid
        JOIN StringIds AS s ON s.id = k.demangledName
        WHERE r.eventClass <> {BACKTRACE_CLASS}
        ORDER BY k.start, k.correlationId, k.globalPid
    """


def gaps_query(tables: Iterable[str]) -> str:
    """SQL: the stretches between a device's first and last operation in which no operation ran.

    tables: those of OPERATIONS that the capture holds.

    Returns a row for each stretch: device (deviceId), start_ns, end_ns. Stretches are at least 1 ns long and as
    long as possible, and ordered by device and start. Operations of a device may overlap and lie inside each
    other; use all streams and processes. Use only SQL: no loop outside the query.

    Raises ValueError if there is no table, or one that is not in OPERATIONS.
    """
    return f"""
        WITH
            operation AS ({_union(tables)}),
            until AS (
                SELECT
                    device,
                    start_ns AS end_ns,
                    max(end_ns) OVER (
                        PARTITION BY device ORDER BY start_ns
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                    ) AS start_ns
                FROM operation
            )
        SELECT device, start_ns, end_ns FROM until WHERE end_ns > start_ns
        ORDER BY device, start_ns
    """


def _union(tables: Iterable[str], where: str = "TRUE") -> str:
    """All rows of several tables of operations."""
    tables = list(tables)
    if not tables or not set(tables) <= set(OPERATIONS):
        raise ValueError(f"tables {tables}: one or more of {', '.join(OPERATIONS)} are needed")
    return " UNION ALL ".join(
        f'SELECT deviceId AS device, start AS start_ns, "end" AS end_ns, globalPid, correlationId '
        f"FROM {table} WHERE {where}"
        for table in tables
    )


def project_ranges(capture: str, name: str) -> list[dict[str, int]]:
    """When the work of an NVTX range ran on the device, for each range with this name.

    name: the name of push/pop (eventType 59) and start/end ranges (60). The name is in `text`, or, if that is
    NULL, in StringIds under `textId`. A range that was never closed (its end is NULL) is left out.

    A device operation belongs to a range if the call that issued it (joined on correlation id and process) lies
    in the range, limits included, and on the range's own thread. So it also belongs to the ranges around this
    range. Returns a dict for each range that issued an operation, ordered by range start:

        "range_start_ns", "range_end_ns":   start and end of the range, on the host.
        "start_ns", "end_ns":               first start and last end of its operations, on the device.
        "operations_count":                 number of its operations.

    Raises EmptyCapture, with the name in its message, if the capture holds no such range. Raises MissingTable for
    a capture without NVTX_EVENTS or without any table of OPERATIONS; the message names the missing tables.
    """
    operation = _union(_held(capture))
    named = "FROM NVTX_EVENTS AS n LEFT JOIN StringIds AS s ON s.id = n.textId"
    which = 'coalesce(n.text, s.value) = ? AND n.eventType IN (59, 60) AND n."end" IS NOT NULL'
    needs = {"NVTX_EVENTS": ["text", "textId", "globalTid"], CALL: ["globalTid", "correlationId"]}
    if ask(capture, f"SELECT count(*) {named} WHERE {which}", needs, [name]) == [(0,)]:
        raise EmptyCapture(f"{capture}: holds no NVTX range named {name!r}")
    rows = ask(
        capture,
        f"""
        SELECT n.start, n."end", min(o.start_ns), max(o.end_ns), count(*)
        {named}
        JOIN {CALL} AS r
            ON r.globalTid = n.globalTid AND r.start >= n.start AND r."end" <= n."end"
        JOIN ({operation}) AS o
            ON o.correlationId = r.correlationId AND o.globalPid = r.globalTid & {THREAD_MASK}
        WHERE {which} AND r.eventClass <> {BACKTRACE_CLASS}
        GROUP BY n.rowid ORDER BY n.start
        """,
        needs,
        [name],
    )
    keys = ("range_start_ns", "range_end_ns", "start_ns", "end_ns", "operations_count")
    return [dict(zip(keys, row, strict=True)) for row in rows]


def _held(capture: str) -> list[str]:
    """The tables of operations that a capture holds."""
    rows = ask(capture, "SELECT name FROM sqlite_master WHERE type = 'table'", {})
    held = [table for table in OPERATIONS if (table,) in rows]
    if not held:
        raise MissingTable(f"{capture}: holds none of {', '.join(OPERATIONS)}")
    return held


def index_statements() -> list[str]:
    """Statements that create indices and make CALLS_IN_RANGES fast on a copy of a capture.

    Each begins with CREATE INDEX. Indices do not change what a query returns. With yours the query plan
    (EXPLAIN QUERY PLAN) finds the calls of a range by searching an index for their thread **and** for both
    limits of their start. A query over a large capture then needs a small part of its earlier steps.
    """
    return [f"CREATE INDEX calls_by_thread ON {CALL} (globalTid, start)"]


def verdict(capture: str, name: str) -> Finding:
    """Whether the ranges with one name wait for copies that could have run at the same time as kernels.

    The window is from the first start to the last end of `project_ranges(capture, name)`. Use all operations
    inside it, whoever issued them; if an operation crosses a limit, use the part inside. Copies are those from
    host to device and back (copyKind 1 and 2); compute is kernels and graphs. For each device, exposed_copy_ns is
    the time with a copy and no compute, and compute_only_ns the time with compute and no copy. recoverable_ns is
    the smaller of the two, because a copy can only be hidden behind compute that exists.

    The finding is about the device with the largest recoverable_ns (the lowest number if equal). It is
    "transfer_bound" if recoverable_ns is at least FLOOR_RATIO of the window, else "healthy" with the
    recommendation "none". subject: "range:" and the name. evidence: "recoverable_ns", "window_ns",
    "exposed_copy_ns", "compute_only_ns", and "pageable_bytes": the bytes of such copies on that device
    that start in the window (its end excluded) and have pageable host memory (srcKind or dstKind 0).

    Raises the errors of `project_ranges`, and EmptyCapture if no range with this name issued an operation.
    """
    ranges = project_ranges(capture, name)
    if not ranges:
        raise EmptyCapture(f"{capture}: no range named {name!r} issued an operation")
    window = min(r["start_ns"] for r in ranges), max(r["end_ns"] for r in ranges)
    held = _held(capture)
    compute = _union([t for t in (KERNEL, GRAPH) if t in held]) if {KERNEL, GRAPH} & {*held} else ""
    copies = _union([COPY], "copyKind IN (1, 2)") if COPY in held else ""
    copy_ns, compute_ns = _covered(capture, window, copies), _covered(capture, window, compute)
    either_ns = _covered(capture, window, " UNION ALL ".join(filter(None, (copies, compute))))
    found = []
    for device in sorted(either_ns):
        exposed = either_ns[device] - compute_ns.get(device, 0)
        alone = either_ns[device] - copy_ns.get(device, 0)
        found.append((min(exposed, alone), -device, exposed, alone))
    saved, device, exposed, alone = max(found, default=(0,) * 4)
    is_bound = saved >= FLOOR_RATIO * (window[1] - window[0])
    return Finding(
        "transfer_bound" if is_bound else "healthy",
        f"range:{name}",
        {
            "recoverable_ns": saved,
            "window_ns": window[1] - window[0],
            "exposed_copy_ns": exposed,
            "compute_only_ns": alone,
            "pageable_bytes": _pageable(capture, window, -device) if copies else 0,
        },
        "pin the host memory and copy on a stream of its own, one batch ahead"
        if is_bound
        else "none",
    )


def _covered(capture: str, window: tuple[int, int], operation: str) -> dict[int, int]:
    """By device, the time in the window with at least one of the operations."""
    if not operation:
        return {}
    rows = ask(
        capture,
        f"""
        WITH
            inside AS (
                SELECT device, max(start_ns, ?) AS start_ns, min(end_ns, ?) AS end_ns
                FROM ({operation})
            ),
            until AS (
                SELECT device, end_ns, max(start_ns, coalesce(max(end_ns) OVER (
                    PARTITION BY device ORDER BY start_ns
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ), start_ns)) AS start_ns
                FROM inside WHERE end_ns > start_ns
            )
        SELECT device, sum(max(0, end_ns - start_ns)) FROM until GROUP BY device
        """,
        {},
        window,
    )
    return dict(rows)


def _pageable(capture: str, window: tuple[int, int], device: int) -> int:
    [(size,)] = ask(
        capture,
        f"""SELECT coalesce(sum(bytes), 0) FROM {COPY} WHERE start >= ? AND start < ? AND deviceId = ?
            AND copyKind IN (1, 2) AND (srcKind = 0 OR dstKind = 0)""",
        {COPY: ["bytes", "srcKind", "dstKind"]},
        [*window, device],
    )
    return size
