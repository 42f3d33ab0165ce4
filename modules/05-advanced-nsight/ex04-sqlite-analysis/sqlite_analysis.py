"""SQLite analysis: ask the recording your own question.

You write SQL over an export of Nsight Systems: a safe way to run it, four queries and a verdict. The
lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check advanced_ex04

tells what is right and wrong. Tables and columns stand, with comments, in
`captures/tool_help/nsys_schema.sql`. Device operations are the rows of OPERATIONS; times are ns. A
process is `globalPid`, whose upper bits a thread's `globalTid` shares: `globalTid & THREAD_MASK` is the
process, (globalTid >> 24) & 0xFFFFFF its number and globalTid & 0xFFFFFF the thread's.
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

# What leaves the process in a thread's id, as a number for SQL.
THREAD_MASK = "0xFFFFFFFFFF000000"

# Rows of CALL of this class repeat a call to carry its backtrace: they are no calls.
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

# Where hiding copies would save less than this share of the window, nothing is wrong with them.
FLOOR_RATIO = 0.07


def ask(
    capture: str, sql: str, needs: Mapping[str, Sequence[str]], parameters: Sequence[Any] = ()
) -> list[tuple[Any, ...]]:
    """The rows of a query over a capture, which it cannot change.

    capture: as `captures.path` takes it. sql: one statement, with "?" for each of parameters.
    needs: the columns that it reads, by table: {"StringIds": ["id", "value"]}.

    The file is opened read-only: whatever the statement is, not a byte of the file changes, and nothing
    is written beside it.

    Raises what `captures.path` raises; CaptureError for a file that is no SQLite database; MissingTable
    for a table or column of needs that the file lacks, before the statement is run: its message names
    the table, the column if that is what is missing, and the version of the schema (the value of
    EXPORT_SCHEMA_VERSION in META_DATA_EXPORT, "unknown" where there is none); ValueError with SQLite's
    own words if the statement fails, as one that writes does.
    """
    raise NotImplementedError


def launches_query() -> str:
    """SQL: each kernel with the call that launched it.

    A row for each kernel whose call was recorded, ordered by the kernel's start, then its correlation
    id and process:

        process, thread     the numbers of the launching process and thread
        name                the kernel's demangled name
        call_start_ns, call_end_ns, start_ns, end_ns
                            of the call, and of the kernel

    Correlation ids are counted per process, so a call is the kernel's only if the process is the same
    as well. Rows of CALL of BACKTRACE_CLASS are left out.
    """
    raise NotImplementedError


def gaps_query(tables: Iterable[str]) -> str:
    """SQL: the stretches in which a device did nothing between its first and its last operation.

    tables: those of OPERATIONS that the capture holds.

    A row for each: device (deviceId), start_ns, end_ns, of at least 1 ns, as long as possible, ordered by
    device and start. Operations of one device may overlap and lie inside each other; all streams and
    processes count. In SQL alone: no loop outside the query.

    Raises ValueError if there is no table, or one that is not in OPERATIONS.
    """
    raise NotImplementedError


def project_ranges(capture: str, name: str) -> list[dict[str, int]]:
    """Where the work of an NVTX range ran: each range of this name, projected to the device.

    name: of push/pop (eventType 59) and start/end ranges (60); it is in `text`, or where that is
    NULL in StringIds under `textId`. A range that was never closed (its end is NULL) is left out.

    A device operation belongs to a range if the call that issued it (joined on correlation id and
    process) lies in the range, limits included, and on the range's own thread. So it also belongs to
    ranges around that one. Returns a dict for each range that issued an operation, ordered by range
    start:

        "range_start_ns", "range_end_ns"    of the range, on the host
        "start_ns", "end_ns"                first start and last end of its operations, on the device
        "operations_count"                  how many operations

    Raises EmptyCapture if the capture holds no such range, naming it; MissingTable for a capture
    without NVTX_EVENTS or without any table of OPERATIONS: its message names the tables that are missing.
    """
    raise NotImplementedError


def index_statements() -> list[str]:
    """What makes CALLS_IN_RANGES fast on a copy of a capture: statements that create indices.

    Each begins with CREATE INDEX, and they change nothing that a query returns. After them the query
    plan (EXPLAIN QUERY PLAN) finds the calls of a range by searching an index for their thread **and**
    for both limits of their start, and a large capture takes a small part of the steps that it took.
    """
    raise NotImplementedError


def verdict(capture: str, name: str) -> Finding:
    """Whether the ranges of one name wait for copies that could have run beside kernels.

    The window is from the first start to the last end of `project_ranges(capture, name)`; all
    operations count, whoever issued them, as far as they lie inside it. For each device, with copies
    being those from host to device and back (copyKind 1 and 2) and compute being kernels and graphs:
    exposed_copy_ns is the time with a copy and no compute, compute_only_ns the time with compute and no
    copy, recoverable_ns the smaller of the two: no more copying can hide than there is compute beside it.

    The finding is about the device where recoverable_ns is largest, the lowest number if equal. It is
    "transfer_bound" if recoverable_ns is at least FLOOR_RATIO of the window, else "healthy" with the
    recommendation "none". subject: "range:" and the name. evidence: "recoverable_ns", "window_ns",
    "exposed_copy_ns", "compute_only_ns", and "pageable_bytes": the bytes of such copies on that device
    that start in the window (its end excluded) and have pageable host memory (srcKind or dstKind 0).

    Raises what `project_ranges` raises, and EmptyCapture if no range of this name issued an operation.
    """
    raise NotImplementedError
