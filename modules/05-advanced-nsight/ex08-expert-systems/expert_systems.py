"""Expert systems: rules that find it for you.

You write rules of the kind that NVIDIA's `nsys analyze` loads: two queries, and the file that the tool runs.
You also write a score that shows which rules can be trusted, a ranking, and a check for CI. The lesson is
`README.md` in this folder, hints are in `hints.md`, and

    uv run lab check advanced_ex08

checks your solution. `captures/tool_help/nsys_schema.sql` lists tables and columns. Times are ns. A column's
heading tells the tool what the column holds: "Duration:dur_ns", "Start:ts_ns" and "Bytes:mem_B" are shown as
a duration, a time and a size. Values of a column without a colon in its heading are shown as they are.
"""

from __future__ import annotations

import csv
import io
import sqlite3
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture, LabError
from profiling_lab.findings import Finding

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
GRAPH = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE"
COPY = "CUPTI_ACTIVITY_KIND_MEMCPY"
MEMSET = "CUPTI_ACTIVITY_KIND_MEMSET"
CALL = "CUPTI_ACTIVITY_KIND_RUNTIME"
OPERATIONS = (KERNEL, GRAPH, COPY, MEMSET)

# Mask that leaves only the process in a thread's id, as a number for SQL.
THREAD_MASK = "0xFFFFFFFFFF000000"

# Rows of CALL of this class repeat a call to carry its backtrace. They are not calls.
BACKTRACE_CLASS = 67

# A device that was idle for longer than this waited for host code rather than for a launch.
LAUNCH_NS = 50_000

# A cause that accounts for less than this share of the time is not a finding.
FLOOR_RATIO = 0.1

# What Day 1 finds in recordings of this course: the cause whose removal saves most.
LABELS = {
    "alloc_cached": "healthy",
    "alloc_every_step": "allocation_bound",
    "cuda_pipeline_baseline": "transfer_bound",
    "cuda_pipeline_improved": "healthy",
    "decode_eager": "launch_bound",
    "decode_graph": "healthy",
    "host_prefetch": "healthy",
    "host_preprocess": "host_bound",
    "pipeline_fast": "host_bound",
    "pipeline_slow": "host_bound",
    "torch_inference_baseline": "transfer_bound",
    "torch_inference_improved": "healthy",
    "training_async": "healthy",
    "training_item": "sync_bound",
    "two_devices": "healthy",
    "two_streams": "healthy",
}


def pageable_query() -> str:
    """SQL of a rule: asynchronous copies that are synchronous in fact, because their host memory is pageable.

    Returns a row for each operation in COPY with pageable memory (srcKind or dstKind 0) that was issued by a call
    whose name begins with "cudaMemcpy" and contains "Async". Columns, with these headings:

        "Duration:dur_ns":  duration of the copy on the device.
        "Start:ts_ns":      start of the copy on the device.
        "Bytes:mem_B",
        "Device ID",
        "API Name":         the call as it is recorded, with its version ("cudaMemcpyAsync_v3020").

    Rows are ordered by duration, longest first, equal durations by start. A call issued the copy only if
    correlation id **and** process are the same. Rows whose class is BACKTRACE_CLASS are not calls.
    """
    raise NotImplementedError


def starved_query(tables: Iterable[str]) -> str:
    """SQL of a rule: where a device was idle before the host had even begun to issue the next operation.

    tables: those of OPERATIONS that the capture holds.

    An operation comes after an idle stretch if it starts later than the latest end of all operations of its
    device that started before it. The device starved if, in addition, the call that issued the operation (same
    correlation id and process, not a row of BACKTRACE_CLASS) started at that latest end or later. If the call
    started earlier, the host was already issuing the operation, and the stretch is not listed.

    Returns a row for each starved stretch, with these headings:

        "Duration:dur_ns":  from the latest end to the operation's start.
        "Start:ts_ns":      the latest end.
        "Device ID",
        "API Name":         the call that issued the operation, as recorded.
        "Waited":           1 if a call whose name contains "Synchronize", on the issuing call's thread, ended
                            in the stretch before the issuing call started (both limits included), else 0.

    Rows are ordered by duration, longest first, equal durations by start and device. A recording holds thousands
    of operations: a query that looks at all of them again for each operation may run for minutes.

    Raises ValueError if there is no table, or one that is not in OPERATIONS.
    """
    raise NotImplementedError


def rule_source(rule: Mapping[str, Any]) -> str:
    """The text of a Python file that `nsys analyze --rule FILE` loads.

    rule: {"name": a Python class name, "title": text, "advice": text, "nothing": text, "query": a SELECT
    without a semicolon, perhaps with a LIMIT of its own, "tables": names of the tables that it reads}. All
    texts may contain quotes, braces, backslashes, percent signs and several lines; the tool must receive them
    unchanged.

    The file imports nsysstats and defines a class `name` derived from `nsysstats.ExpertSystemsReport`. It has
    these class attributes:

        display_name:     the title.
        usage:            begins with "{SCRIPT}[:rows=<limit>] -- " and the title, and has "{ROW_LIMIT}" in a
                          second line. The tool calls usage.format(SCRIPT=…, ROW_LIMIT=…) before it shows the
                          text, so write every other brace twice.
        message_advice:   the advice, which the tool shows above the rows.
        message_noresult: "nothing", which the tool shows if the query gives no row.
        table_checks:     for each table, the message if it is missing. The tool calls .format(DBFILE=…) on the
                          message. The message contains the name of the table, and "{DBFILE}".

    The class has a method setup(self), which calls setup of the base class. If the result of this call is not
    None, it returns this result. Otherwise it sets self.query to the query, limited to self._row_limit rows (-1
    means all, as in SQLite), and returns None. If the file is run as a program, it calls the class's Main(); if
    it is imported, it does not.

    Raises ValueError, with the name in its message, if the name is not a Python identifier. Raises ValueError if
    the query contains a semicolon.
    """
    raise NotImplementedError


def score_rules(
    alarms: Mapping[str, Collection[str]], causes: Mapping[str, str], labels: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """How far each rule can be trusted, from captures whose true cause is known.

    alarms: for each rule, the captures in which it fired.
    causes: for each rule, the label that it should find.
    labels: for each capture, its true cause ("healthy": none).
    Returns for each rule

        "precision_ratio": share of the captures in which it fired that have its label; None if it fired
                           nowhere: a rule that never fires is not precise.
        "recall_ratio":    share of the captures with its label in which it fired; None if no capture has it.
        "false_alarms":    captures in which it fired and that have another label, sorted.
        "missed":          captures with its label in which it did not fire, sorted.

    Raises ValueError for a capture with an alarm but without a label, and for a rule without a cause; the message
    names it.
    """
    raise NotImplementedError


def verdict(capture: str) -> Finding:
    """The alarm that accounts for the most time, or "healthy" if none accounts for enough.

    Use only the device with the largest sum of durations in all tables of OPERATIONS. On a tie, use the lowest
    number. window_ns is from its first start to its last end. These are the alarms in order, each with
    the time that it accounts for on that device:

        "sync_bound":     starved stretches (rows of `starved_query`) with "Waited" 1.
        "transfer_bound": durations of the rows of `pageable_query`.
        "launch_bound":   starved stretches with "Waited" 0, up to LAUNCH_NS long, limit included.
        "host_bound":     longer starved stretches with "Waited" 0.

    The finding is the alarm with the most time, or the earlier one if equal. It is "healthy", with the
    recommendation "none", if that time is below FLOOR_RATIO of window_ns. subject: "device:" and its number.
    evidence: "recoverable_ns" (that time; it is an upper bound, because a rule cannot know how much of it
    would be saved), "window_ns", and "alarms_count", the number of rows of that alarm on that device.

    Raises the errors of `captures.path`. Raises CaptureError, with the file in its message, for a file that
    is not a readable SQLite database. Raises EmptyCapture if the capture holds no device operation, or no
    CUDA call.
    """
    raise NotImplementedError


def check_captures(names: Sequence[str], fail_on: Collection[str]) -> dict[str, Any]:
    """The verdicts on many captures, for a CI job.

    names: names or paths of captures. fail_on: categories that make the job fail. Returns

        "results":   for each capture, in order, {"capture": its name, "finding": the verdict as a dict
                     (`Finding.to_dict`)}. If a capture cannot be judged (any `profiling_lab.errors.LabError`), it
                     is {"capture": its name, "error": text of the error}; the other captures are still judged.
        "exit_code": 2 if there was an error, or no capture; else 1 if a category of fail_on was found; else 0.

    The result consists of dicts, lists, texts and numbers only, so that it can be written as JSON.
    """
    raise NotImplementedError


def nsys_rows(
    rule_file: str | Path, export: str | Path, nsys: str = "nsys"
) -> list[dict[str, str]]:
    """The rows that `nsys analyze` itself finds with a rule, by heading.

    rule_file: a file as `rule_source` writes it. export: a SQLite export. Ask the tool for CSV on its standard
    output, without a limit of rows. Headings are as the tool prints them ("Duration (ns)"), values are text. A
    rule that finds nothing gives an empty list.

    Raises RuntimeError with the tool's output if the tool fails or skips the rule.
    """
    raise NotImplementedError
