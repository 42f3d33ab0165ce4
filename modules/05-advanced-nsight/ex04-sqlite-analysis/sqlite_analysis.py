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
    raise NotImplementedError


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
    raise NotImplementedError


def gaps_query(tables: Iterable[str]) -> str:
    """SQL: the stretches between a device's first and last operation in which no operation ran.

    tables: those of OPERATIONS that the capture holds.

    Returns a row for each stretch: device (deviceId), start_ns, end_ns. Stretches are at least 1 ns long and as
    long as possible, and ordered by device and start. Operations of a device may overlap and lie inside each
    other; use all streams and processes. Use only SQL: no loop outside the query.

    Raises ValueError if there is no table, or one that is not in OPERATIONS.
    """
    raise NotImplementedError


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
    raise NotImplementedError


def index_statements() -> list[str]:
    """Statements that create indices and make CALLS_IN_RANGES fast on a copy of a capture.

    Each begins with CREATE INDEX. Indices do not change what a query returns. With yours the query plan
    (EXPLAIN QUERY PLAN) finds the calls of a range by searching an index for their thread **and** for both
    limits of their start. A query over a large capture then needs a small part of its earlier steps.
    """
    raise NotImplementedError


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
    raise NotImplementedError
