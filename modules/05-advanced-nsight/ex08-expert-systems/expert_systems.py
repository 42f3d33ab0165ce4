"""Expert systems: rules that find it for you.

You write rules of the kind that NVIDIA's `nsys analyze` loads: two queries, the file that the tool runs, a
score that tells good rules from loud ones, a ranking and a check for CI. The lesson is `README.md` in this
folder, hints are in `hints.md`, and

    uv run lab check advanced_ex08

tells what is right and wrong. Tables and columns stand in `captures/tool_help/nsys_schema.sql`; times are
ns. A column's heading tells the tool what it holds: "Duration:dur_ns", "Start:ts_ns" and "Bytes:mem_B"
are shown as a duration, a time and a size; without a colon a value is shown as it is.
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

# What leaves the process in a thread's id, as a number for SQL.
THREAD_MASK = "0xFFFFFFFFFF000000"

# Rows of CALL of this class repeat a call to carry its backtrace: they are no calls.
BACKTRACE_CLASS = 67

# A device that ran dry for longer than this waited for host code rather than for a launch.
LAUNCH_NS = 50_000

# A cause that accounts for less than this share of the time is no finding.
FLOOR_RATIO = 0.1

# What Day 1 finds in recordings of this course, by what would be saved without each cause.
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
    """SQL of a rule: asynchronous copies that are not, because their host memory is pageable.

    A row for each operation in COPY with pageable memory (srcKind or dstKind 0) that was issued by a call
    whose name begins with "cudaMemcpy" and holds "Async". Columns, with these headings:

        "Duration:dur_ns"   of the copy on the device
        "Start:ts_ns"       of the copy on the device
        "Bytes:mem_B"
        "Device ID"
        "API Name"          the call as it is recorded, with its version ("cudaMemcpyAsync_v3020")

    Ordered by duration, longest first, equal ones by start. A call is the copy's only if correlation id
    **and** process are the same; rows of BACKTRACE_CLASS are no calls.
    """
    raise NotImplementedError


def starved_query(tables: Iterable[str]) -> str:
    """SQL of a rule: where a device ran dry before the host had even begun to issue the next operation.

    tables: those of OPERATIONS that the capture holds. An operation comes after an idle stretch if it starts
    later than the latest end of all operations of its device that started before it. The device starved if
    moreover the call that issued the operation (same correlation id and process, no row of
    BACKTRACE_CLASS) started at that latest end or later. If the call started earlier, the operation was on
    its way, and the stretch is not listed.

    A row for each starved stretch, with these headings:

        "Duration:dur_ns"   from the latest end to the operation's start
        "Start:ts_ns"       the latest end
        "Device ID"
        "API Name"          the call that issued the operation, as recorded
        "Waited"            1 if a call whose name holds "Synchronize", on the thread of that call, ended in
                            the stretch before the call started (both limits included), else 0

    Ordered by duration, longest first, equal ones by start and device. A recording holds thousands of
    operations: a query that looks at all of them again for each one may run for minutes.

    Raises ValueError if there is no table, or one that is not in OPERATIONS.
    """
    raise NotImplementedError


def rule_source(rule: Mapping[str, Any]) -> str:
    """The text of a Python file that `nsys analyze --rule FILE` loads.

    rule: {"name": a Python class name, "title": text, "advice": text, "nothing": text, "query": a SELECT
    without a semicolon, perhaps with a LIMIT of its own, "tables": names of the tables that it reads}. All texts may hold quotes, braces,
    backslashes, percent signs and several lines, and arrive at the tool as they are.

    The file imports nsysstats and defines a class `name` derived from `nsysstats.ExpertSystemsReport`, with
    the class attributes

        display_name      the title
        usage             the tool calls usage.format(SCRIPT=…, ROW_LIMIT=…) before it shows it, so that a
                          brace must be written twice; it begins with "{SCRIPT}[:rows=<limit>] -- " and the
                          title, and holds "{ROW_LIMIT}" in a second line
        message_advice    the advice: shown above the rows
        message_noresult  "nothing": shown where the query gives no row
        table_checks      for each table what to say where it is missing; the tool calls .format(DBFILE=…) on
                          it. It names the table, and "{DBFILE}"

    and a method setup(self) that calls that of the base class and returns what it returned unless that is
    None; then it sets self.query to the query, at most self._row_limit rows of it (-1 stands for all, as in
    SQLite), and returns None. Run as a program, the file calls the class's Main(), and imported it does not.

    Raises ValueError if the name is no Python identifier, naming it, or if the query holds a semicolon.
    """
    raise NotImplementedError


def score_rules(
    alarms: Mapping[str, Collection[str]], causes: Mapping[str, str], labels: Mapping[str, str]
) -> dict[str, dict[str, Any]]:
    """How far each rule can be trusted, by captures of which the truth is known.

    alarms: for each rule the captures in which it fired. causes: for each rule the label that it is meant
    to find. labels: for each capture what is wrong with it ("healthy": nothing). Returns for each rule

        "precision_ratio"  of the captures in which it fired, the share that bears its label; None if it
                           fired nowhere: a silent rule is not precise
        "recall_ratio"     of the captures with its label, the share in which it fired; None if there is none
        "false_alarms"     captures in which it fired and that bear another label, sorted
        "missed"           captures with its label in which it did not fire, sorted

    Raises ValueError, naming it, for a capture with an alarm and without a label, or a rule without a cause.
    """
    raise NotImplementedError


def verdict(capture: str) -> Finding:
    """The alarm that accounts for most time, or that none accounts for enough.

    All is about one device: the one with the most time in operations (durations in all tables of OPERATIONS
    added up, the lowest number if equal). window_ns is from its first start to its last end. The alarms,
    each with the time that it accounts for on that device, in this order:

        "sync_bound"      starved stretches (rows of `starved_query`) with "Waited" 1
        "transfer_bound"  durations of the rows of `pageable_query`
        "launch_bound"    starved stretches with "Waited" 0, up to LAUNCH_NS long, limit included
        "host_bound"      the longer ones with "Waited" 0

    The largest is the finding, the earlier one if equal; below FLOOR_RATIO of window_ns it is "healthy" with
    the recommendation "none". subject: "device:" and its number. evidence: "recoverable_ns" (the largest
    time: a rule cannot tell how much of it would be saved, so it is an upper bound), "window_ns", and
    "alarms_count", the number of rows of that alarm on that device.

    Raises what `captures.path` raises; CaptureError, naming the file, for one that is no readable SQLite
    database; and EmptyCapture if the capture holds no device operation, or no CUDA call.
    """
    raise NotImplementedError


def check_captures(names: Sequence[str], fail_on: Collection[str]) -> dict[str, Any]:
    """The verdict on many captures, as a job of CI wants it.

    names: of captures, or paths. fail_on: categories that make the job fail. Returns

        "results"    for each capture, in order, {"capture": its name, "finding": the verdict as a dict
                     (`Finding.to_dict`)}, or {"capture": its name, "error": what was raised, as text} for one
                     that cannot be judged (any `profiling_lab.errors.LabError`): the others still are
        "exit_code"  2 if there was an error, or no capture; else 1 if a category of fail_on was found; else 0

    made of dicts, lists, texts and numbers only, so that it can be written as JSON.
    """
    raise NotImplementedError


def nsys_rows(
    rule_file: str | Path, export: str | Path, nsys: str = "nsys"
) -> list[dict[str, str]]:
    """What the tool itself finds with a rule: the rows of `nsys analyze`, by heading.

    rule_file: a file as `rule_source` writes it. export: a SQLite export. The tool is asked for CSV on its
    standard output, without a limit of rows. Headings are as the tool prints them ("Duration (ns)"), values
    as text. A rule that finds nothing gives an empty list.

    Raises RuntimeError with what the tool printed if it fails, or skips the rule.
    """
    raise NotImplementedError
