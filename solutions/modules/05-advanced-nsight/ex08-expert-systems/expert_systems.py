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
    return f"""
        SELECT
            m."end" - m.start AS "Duration:dur_ns",
            m.start AS "Start:ts_ns",
            m.bytes AS "Bytes:mem_B",
            m.deviceId AS "Device ID",
            s.value AS "API Name"
        FROM {COPY} AS m
        JOIN {CALL} AS r
            ON r.correlationId = m.correlationId AND r.globalTid & {THREAD_MASK} = m.globalPid
        JOIN StringIds AS s ON s.id = r.nameId
        WHERE (m.srcKind = 0 OR m.dstKind = 0) AND s.value LIKE 'cudaMemcpy%Async%'
            AND r.eventClass <> {BACKTRACE_CLASS}
        ORDER BY 1 DESC, 2
    """


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
    tables = list(tables)
    if not tables or not set(tables) <= set(OPERATIONS):
        raise ValueError(f"tables {tables}: one or more of {', '.join(OPERATIONS)} are needed")
    operations = " UNION ALL ".join(
        f'SELECT deviceId, start, "end", globalPid, correlationId FROM {table}' for table in tables
    )
    return f"""
        WITH
            operation AS (
                SELECT *, max("end") OVER (
                    PARTITION BY deviceId ORDER BY start
                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
                ) AS until
                FROM ({operations})
            ),
            wait AS (
                SELECT r.globalTid, r."end" FROM {CALL} AS r JOIN StringIds AS s ON s.id = r.nameId
                WHERE s.value LIKE '%Synchronize%' AND r.eventClass <> {BACKTRACE_CLASS}
            )
        SELECT
            o.start - o.until AS "Duration:dur_ns",
            o.until AS "Start:ts_ns",
            o.deviceId AS "Device ID",
            s.value AS "API Name",
            EXISTS (
                SELECT 1 FROM wait AS w
                WHERE w.globalTid = r.globalTid AND w."end" BETWEEN o.until AND r.start
            ) AS "Waited"
        FROM operation AS o
        JOIN {CALL} AS r
            ON r.correlationId = o.correlationId AND r.globalTid & {THREAD_MASK} = o.globalPid
        JOIN StringIds AS s ON s.id = r.nameId
        WHERE o.start > o.until AND r.start >= o.until AND r.eventClass <> {BACKTRACE_CLASS}
        ORDER BY 1 DESC, 2, 3
    """


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
    if not str(rule["name"]).isidentifier():
        raise ValueError(f"{rule['name']!r} is no name for a class")
    if ";" in rule["query"]:
        raise ValueError("the query holds a semicolon: one SELECT is needed")
    title = _braces(rule["title"])
    usage = f"{{SCRIPT}}[:rows=<limit>] -- {title}\n\n    rows - at most that many, default {{ROW_LIMIT}}\n"
    checks = {table: f"{{DBFILE}} holds no table {table}." for table in rule["tables"]}
    limited = f"SELECT * FROM ({rule['query']}) LIMIT "
    return f'''"""A rule for nsys analyze, written by rule_source."""

import nsysstats


class {rule["name"]}(nsysstats.ExpertSystemsReport):
    display_name = {rule["title"]!r}
    usage = {usage!r}
    message_advice = {rule["advice"]!r}
    message_noresult = {rule["nothing"]!r}
    table_checks = {checks!r}

    def setup(self):
        problem = super().setup()
        if problem is not None:
            return problem
        self.query = {limited!r} + str(self._row_limit)


if __name__ == "__main__":
    {rule["name"]}.Main()
'''


def _braces(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


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
    out = {}
    for rule, fired in alarms.items():
        unknown = sorted({*fired} - {*labels})
        if unknown or rule not in causes:
            raise ValueError(
                f"rule {rule!r}: no label of {unknown}" if unknown else f"no cause: {rule}"
            )
        true = {capture for capture, label in labels.items() if label == causes[rule]}
        hits = len(true & {*fired})
        out[rule] = {
            "precision_ratio": hits / len({*fired}) if fired else None,
            "recall_ratio": hits / len(true) if true else None,
            "false_alarms": sorted({*fired} - true),
            "missed": sorted(true - {*fired}),
        }
    return out


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
    file = captures.path(capture)
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        held = [table for table in OPERATIONS if (table,) in rows]
        if not held or (CALL,) not in rows:
            raise EmptyCapture(f"{file}: holds no device operation, or no CUDA call")
        spent = " UNION ALL ".join(f'SELECT deviceId, start, "end" FROM {table}' for table in held)
        device, start, end = connection.execute(
            f'SELECT deviceId, min(start), max("end") FROM ({spent}) GROUP BY deviceId '
            'ORDER BY sum("end" - start) DESC, deviceId'
        ).fetchone()
        starved = [row for row in connection.execute(starved_query(held)) if row[2] == device]
        copies = connection.execute(pageable_query()).fetchall() if COPY in held else []
    except sqlite3.DatabaseError as error:
        raise CaptureError(f"{file}: is no readable SQLite database ({error})") from None
    finally:
        connection.close()
    alarms = {
        "sync_bound": [row[0] for row in starved if row[4]],
        "transfer_bound": [row[0] for row in copies if row[3] == device],
        "launch_bound": [row[0] for row in starved if not row[4] and row[0] <= LAUNCH_NS],
        "host_bound": [row[0] for row in starved if not row[4] and row[0] > LAUNCH_NS],
    }
    cause = max(alarms, key=lambda name: sum(alarms[name]))
    category = cause if sum(alarms[cause]) >= FLOOR_RATIO * (end - start) else "healthy"
    return Finding(
        category,
        f"device:{device}",
        {
            "recoverable_ns": sum(alarms[cause]),
            "window_ns": end - start,
            "alarms_count": len(alarms[cause]),
        },
        _RECOMMENDATIONS[category],
    )


_RECOMMENDATIONS = {
    "healthy": "none",
    "sync_bound": "let the host run ahead: read results a step later, wait where it is needed",
    "transfer_bound": "pin the host memory",
    "launch_bound": "issue less: fuse operations, use larger batches, or replay a CUDA graph",
    "host_bound": "look at what the host does meanwhile, and prepare it on another thread",
}


def check_captures(names: Sequence[str], fail_on: Collection[str]) -> dict[str, Any]:
    """The verdicts on many captures, for a CI job.

    names: names or paths of captures. fail_on: categories that make the job fail. Returns

        "results":   for each capture, in order, {"capture": its name, "finding": the verdict as a dict
                     (`Finding.to_dict`)}. If a capture cannot be judged (any `profiling_lab.errors.LabError`), it
                     is {"capture": its name, "error": text of the error}; the other captures are still judged.
        "exit_code": 2 if there was an error, or no capture; else 1 if a category of fail_on was found; else 0.

    The result consists of dicts, lists, texts and numbers only, so that it can be written as JSON.
    """
    results: list[dict[str, Any]] = []
    for name in names:
        try:
            results.append({"capture": name, "finding": verdict(name).to_dict()})
        except LabError as error:
            results.append({"capture": name, "error": str(error)})
    failed = any(r["finding"]["category"] in fail_on for r in results if "finding" in r)
    broken = not results or any("error" in result for result in results)
    return {"results": results, "exit_code": 2 if broken else int(failed)}


def nsys_rows(
    rule_file: str | Path, export: str | Path, nsys: str = "nsys"
) -> list[dict[str, str]]:
    """The rows that `nsys analyze` itself finds with a rule, by heading.

    rule_file: a file as `rule_source` writes it. export: a SQLite export. Ask the tool for CSV on its standard
    output, without a limit of rows. Headings are as the tool prints them ("Duration (ns)"), values are text. A
    rule that finds nothing gives an empty list.

    Raises RuntimeError with the tool's output if the tool fails or skips the rule.
    """
    rule = f"{Path(rule_file).resolve()}:rows=-1"
    command = [nsys, "analyze", "--rule", rule, "--format", "csv", "--output", "-", str(export)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    said = done.stdout + done.stderr
    if done.returncode or "SKIPPED" in said or "ERROR" in said:
        raise RuntimeError(f"nsys analyze: {said}")
    lines = done.stdout.splitlines()
    start = next((i for i, line in enumerate(lines) if line.startswith("Duration")), len(lines))
    return list(csv.DictReader(io.StringIO("\n".join(line for line in lines[start:] if line))))
