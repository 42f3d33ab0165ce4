"""Checks of `advanced_ex04`: queries run here against Python loops over the same rows."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from grading.checks import oracles, queries, task
from grading.checks.assertions import judge, judge_finding, judge_recommendation, require, show
from grading.checks.fixtures import recordings, repeat_hint
from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture, MissingTable, NoSuchCapture

KERNEL, COPY, CALL = oracles.KERNEL, oracles.MEMCPY, oracles.RUNTIME
OPERATIONS = (KERNEL, oracles.GRAPH, COPY, oracles.MEMSET)
BACKTRACE_CLASS = 67
FLOOR_RATIO = 0.07
Row = tuple[Any, ...]


def run(file: str | Path, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
    """The rows of a statement over a file that is opened read-only."""
    uri = captures.path(str(file)).resolve().as_uri() + "?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True)
    queries.confine(connection)
    try:
        return connection.execute(sql, parameters).fetchall()
    finally:
        connection.close()


def tables_of(file: str | Path) -> list[str]:
    return [name for (name,) in run(file, "SELECT name FROM sqlite_master WHERE type = 'table'")]


def try_query(file: str | Path, sql: Any, call: str) -> list[Row]:
    """The rows of the learner's query, or a failure that says what SQLite said."""
    require(isinstance(sql, str), f"{call} returned {show(sql)}, expected a text of SQL")
    try:
        return queries.apart(lambda: run(file, sql))
    except sqlite3.Error as error:
        require(False, f"{call}: SQLite says of the query on {Path(str(file)).name}: {error}")
        raise


def headings(file: str | Path, sql: Any, call: str) -> list[str]:
    """The names of the columns of the learner's query."""
    try_query(file, sql, call)
    uri = captures.path(str(file)).resolve().as_uri() + "?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True)
    queries.confine(connection)
    try:
        return queries.apart(lambda: [one[0] for one in connection.execute(sql).description])
    finally:
        connection.close()


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def with_backtraces(path: str | Path, folder: Path) -> str:
    """A copy of a capture in which every third call has a second row that carries its backtrace."""
    file = folder / Path(path).name
    shutil.copyfile(path, file)
    connection = sqlite3.connect(file)
    names = [row[1] for row in connection.execute(f"PRAGMA table_info({CALL})")]
    shown = [str(BACKTRACE_CLASS) if name == "eventClass" else f'"{name}"' for name in names]
    connection.execute(
        f"INSERT INTO {CALL} SELECT {', '.join(shown)} FROM {CALL} WHERE correlationId % 3 = 0"
    )
    connection.commit()
    connection.close()
    return str(file)


def compare_rows(
    call: str, got: list[Row], want: list[Row], unit: str, why: str, file: str
) -> None:
    """Fail with the first row that differs."""
    got = [tuple(row) for row in got]
    if got == want:
        return
    if len(got) != len(want):
        extra = next((row for row in got if row not in want), None)
        lost = next((row for row in want if row not in got), None)
        text = f"{len(got)} rows, expected {len(want)}"
        text += f"; {show(extra)} should not be there" if extra is not None else ""
        text += f"; {show(lost)} is missing" if lost is not None else ""
    else:
        place = next(i for i, pair in enumerate(zip(got, want, strict=True)) if pair[0] != pair[1])
        text = f"row {place} is {show(got[place])}, expected {show(want[place])}"
    require(False, f"{call}: {text} ({unit}). {why}{repeat_hint(file)}")


# -- ask ----------------------------------------------------------------------------------------------


@task("advanced_ex04.ask")
@recordings("cuda_pipeline_baseline", "decode_graph")
def test_rows_of_a_recording(stub: Any, recording: str) -> None:
    sql = f'SELECT start, "end" FROM {KERNEL} WHERE "end" - start > ? ORDER BY start'
    got = stub.ask(recording, sql, {KERNEL: ["start", "end"]}, [700])
    want = run(recording, sql, [700])
    require(
        isinstance(got, list) and [tuple(row) for row in got] == want,
        f"ask({recording!r}, …, [700]) returned {show(got)}, expected the query's {len(want)} rows: "
        f"{show(want[:2])} …",
    )


@task("advanced_ex04.ask")
def test_a_query_changes_nothing(stub: Any, generated: Callable, tmp_path: Path) -> None:
    file = tmp_path / "mine.sqlite"
    shutil.copyfile(generated("transfer_bound").path, file)
    before = digest(file)
    for sql in (
        f"DELETE FROM {KERNEL}",
        "CREATE TABLE notes (text)",
        f"CREATE INDEX quick ON {KERNEL} (start)",
        f"UPDATE {KERNEL} SET start = 0",
    ):
        try:
            with stub.raises(ValueError, why="a statement that writes must fail"):
                stub.ask(str(file), sql, {})
        finally:
            require(
                digest(file) == before and len(list(tmp_path.iterdir())) == 1,
                f"ask(…, {sql!r}, …) changed the capture or wrote beside it: a recording is "
                "evidence, and its file's hash must be the same after every question",
            )
    with stub.raises(ValueError, "no such column|syntax error", why="SQLite's own words help most"):
        stub.ask(str(file), f"SELECT begin FROM {KERNEL}", {})


@task("advanced_ex04.ask")
def test_what_is_missing_is_named(stub: Any, generated: Callable) -> None:
    old = str(generated("transfer_bound", schema="2023").path)
    with stub.raises(MissingTable, "OSRT_API", why="the capture has no such table"):
        stub.ask(old, "SELECT * FROM OSRT_API", {"OSRT_API": ["start"]})
    try:
        with stub.raises(MissingTable, "greenContextId", why="the older schema lacks it") as raised:
            stub.ask(old, "SELECT 1", {KERNEL: ["start", "greenContextId"]})
    finally:
        pass
    version = run(old, "SELECT value FROM META_DATA_EXPORT WHERE name = 'EXPORT_SCHEMA_VERSION'")
    for word in (KERNEL, str(version[0][0])):
        require(
            word in raised.message,
            f"ask(…) on an export of schema {version[0][0]}: the message {raised.message!r} does not "
            f"hold {word!r}; a reader must learn which table, and from which version of the tool",
        )
    bare = str(generated("transfer_bound", drop_tables=("META_DATA_EXPORT",)).path)
    with stub.raises(MissingTable, "unknown", why="no version is recorded"):
        stub.ask(bare, "SELECT 1", {"OSRT_API": ["start"]})
    # The need is looked at first: a wrong query over a missing table is about the table.
    with stub.raises(MissingTable, "OSRT_API", why="what is missing is told before SQL fails"):
        stub.ask(old, "SELECT nonsense FROM OSRT_API", {"OSRT_API": []})


@task("advanced_ex04.ask")
def test_files_that_are_no_capture(stub: Any, tmp_path: Path) -> None:
    text = tmp_path / "notes.sqlite"
    text.write_text("not a database, but long enough to look at its first hundred bytes " * 20)
    with stub.raises(CaptureError, "SQLite", why="a text is no database"):
        stub.ask(str(text), "SELECT 1", {})
    with stub.raises(NoSuchCapture, why="there is no such file"):
        stub.ask(str(tmp_path / "none.sqlite"), "SELECT 1", {})


# -- launches_query -----------------------------------------------------------------------------------


def launches(file: str | Path) -> list[Row]:
    """Kernels with their calls, by a loop."""
    calls = {
        (thread >> 24, correlation): (thread, start, end)
        for thread, correlation, start, end in run(
            file,
            f'SELECT globalTid, correlationId, start, "end" FROM {CALL} '
            f"WHERE eventClass <> {BACKTRACE_CLASS}",
        )
    }
    names = dict(run(file, "SELECT id, value FROM StringIds"))
    kernels = run(
        file,
        f'SELECT start, correlationId, globalPid, "end", demangledName FROM {KERNEL} '
        "ORDER BY 1, 2, 3",
    )
    rows = []
    for start, correlation, process, end, name in kernels:
        if call := calls.get((process >> 24, correlation)):
            thread, first, last = call
            shown = (thread >> 24) & 0xFFFFFF, thread & 0xFFFFFF
            rows.append((*shown, names[name], first, last, start, end))
    return rows


LAUNCHES = ["process", "thread", "name", "call_start_ns", "call_end_ns", "start_ns", "end_ns"]


def judge_launches(stub: Any, file: str) -> None:
    sql = stub.launches_query()
    call = f"launches_query() on {Path(file).name}"
    told = headings(file, sql, call)
    require(told == LAUNCHES, f"{call}: its columns are named {told}, expected {LAUNCHES}")
    got, want = try_query(file, sql, call), launches(file)
    kernels = run(file, f"SELECT count(*) FROM {KERNEL}")[0][0]
    why = "Columns: process, thread, name, call start and end, kernel start and end."
    if len(got) > kernels:
        why = (
            f"{kernels} kernels cannot be {len(got)} launches: correlation ids are counted per "
            "process, and rows that repeat a call for its backtrace are no calls."
        )
    compare_rows(call, got, want, "ns", why, file)


@task("advanced_ex04.launches_query")
@recordings("decode_eager", "two_devices")
def test_launches_of_a_recording(stub: Any, recording: str) -> None:
    judge_launches(stub, recording)


@task("advanced_ex04.launches_query")
def test_launches_of_two_processes(stub: Any, generated: Callable) -> None:
    judge_launches(stub, str(generated("two_processes_same_correlation").path))


@task("advanced_ex04.launches_query")
def test_launches_with_backtraces(stub: Any, generated: Callable, tmp_path: Path) -> None:
    judge_launches(stub, with_backtraces(generated("two_devices").path, tmp_path))


@task("advanced_ex04.launches_query")
def test_launches_on_paper(stub: Any, draw: Callable) -> None:
    timeline = draw()
    timeline.kernel(5_000, 6_000, call=(0, 10), name="later")
    timeline.kernel(1_000, 2_000, call=(20, 30), thread=2, name="first")
    timeline.kernel(3_000, 4_000, name="its call was not recorded")
    judge_launches(stub, timeline.save())


# -- gaps_query ---------------------------------------------------------------------------------------


def gaps(file: str | Path, tables: Sequence[str]) -> list[Row]:
    """Idle stretches by a loop over sorted operations."""
    operations = sorted(
        row for t in tables for row in run(file, f'SELECT deviceId, start, "end" FROM {t}')
    )
    found, until = [], {}
    for device, start, end in operations:
        if start > until.get(device, start):
            found.append((device, until[device], start))
        until[device] = max(end, until.get(device, end))
    return found


def judge_gaps(stub: Any, file: str) -> None:
    tables = [table for table in OPERATIONS if table in tables_of(file)]
    sql = stub.gaps_query(tables)
    call = f"gaps_query({[t.rpartition('_')[2] for t in tables]}) on {Path(file).name}"
    why = (
        "A gap ends the quiet of the whole device: the latest end so far of any operation, not only of "
        "the one before, to the next start."
    )
    compare_rows(
        call, try_query(file, sql, call), gaps(file, tables), "device, start, end in ns", why, file
    )


@task("advanced_ex04.gaps_query")
@recordings("cuda_pipeline_improved", "decode_graph")
def test_gaps_of_a_recording(stub: Any, recording: str) -> None:
    judge_gaps(stub, recording)


@task("advanced_ex04.gaps_query")
def test_gaps_of_generated_captures(stub: Any, generated: Callable) -> None:
    for name in ("nested_gaps", "two_devices", "graphs_only"):
        judge_gaps(stub, str(generated(name).path))


@task("advanced_ex04.gaps_query")
def test_gaps_on_paper(stub: Any, draw: Callable) -> None:
    timeline = draw()
    timeline.kernel(0, 100_000)
    timeline.kernel(10_000, 20_000, stream=8)  # inside the first: no gap behind it
    timeline.copy(100_000, 110_000, stream=9)  # back to back
    timeline.kernel(110_001, 120_000)
    timeline.kernel(150_000, 160_000, process=2)
    timeline.memset(0, 5_000, device=3)
    timeline.kernel(7_000, 9_000, device=3)
    judge_gaps(stub, timeline.save())


@task("advanced_ex04.gaps_query")
def test_tables_of_gaps(stub: Any) -> None:
    for tables in ([], ["NVTX_EVENTS"], [KERNEL, "kernels"]):
        with stub.raises(ValueError, why=f"{tables} are no tables of device operations"):
            stub.gaps_query(tables)


# -- project_ranges -----------------------------------------------------------------------------------


def projected(file: str | Path, name: str) -> list[dict[str, int]]:
    """The ranges of a name, projected by loops."""
    held = tables_of(file)
    operations = {}
    for table in OPERATIONS:
        if table in held:
            for process, correlation, *when in run(
                file, f'SELECT globalPid, correlationId, start, "end" FROM {table}'
            ):
                operations.setdefault((process >> 24, correlation), []).append(when)
    calls = run(
        file,
        f'SELECT globalTid, correlationId, start, "end" FROM {CALL} '
        f"WHERE eventClass <> {BACKTRACE_CLASS}",
    )
    calls = [call for call in calls if (call[0] >> 24, call[1]) in operations]
    names = dict(run(file, "SELECT id, value FROM StringIds"))
    ranges = run(
        file,
        'SELECT start, "end", globalTid, text, textId FROM NVTX_EVENTS WHERE eventType IN (59, 60)',
    )
    found = []
    for start, end, thread, text, number in sorted(ranges, key=lambda row: row[0]):
        if (text if text is not None else names.get(number)) != name or end is None:
            continue
        inside = [
            when
            for caller, correlation, first, last in calls
            if caller == thread and start <= first and last <= end
            for when in operations[(caller >> 24, correlation)]
        ]
        if inside:
            found.append(
                {
                    "range_start_ns": start,
                    "range_end_ns": end,
                    "start_ns": min(first for first, _ in inside),
                    "end_ns": max(last for _, last in inside),
                    "operations_count": len(inside),
                }
            )
    return found


def judge_projection(stub: Any, file: str, name: str) -> list[dict[str, int]]:
    got, want = stub.project_ranges(file, name), projected(file, name)
    call = f"project_ranges({Path(file).name!r}, {name!r})"
    require(
        isinstance(got, list) and len(got) == len(want),
        f"{call} returned {len(got) if isinstance(got, list) else show(got)} ranges, expected "
        f"{len(want)}: a dict for each range that issued a device operation{repeat_hint(file)}",
    )
    why = {
        "start_ns": "It is the first start on the device, of all kinds of operations.",
        "end_ns": "It is the last end on the device: work that was issued in the range and ran later "
        "belongs to it.",
        "operations_count": "An operation counts if its call lies in the range, on the range's thread "
        "and in its process; rows that repeat a call for its backtrace are no calls.",
    }
    for place, (one, other) in enumerate(zip(got, want, strict=True)):
        judge(f"{call}[{place}]", one, other, "ns, counts", why)
    return want


@task("advanced_ex04.project_ranges")
@recordings("cuda_pipeline_baseline", "training_item")
def test_projection_of_a_recording(stub: Any, recording: str) -> None:
    rows = run(
        recording,
        """SELECT DISTINCT coalesce(n.text, s.value) FROM NVTX_EVENTS AS n
           LEFT JOIN StringIds AS s ON s.id = n.textId WHERE n.eventType IN (59, 60)
           AND n."end" IS NOT NULL ORDER BY 1""",
    )
    for (name,) in rows[:6]:
        judge_projection(stub, recording, name)


TRANSCRIPTS = {"reports_pipeline": "cuda_pipeline_baseline", "reports_training": "training_item"}


@task("advanced_ex04.project_ranges")
def test_projection_agrees_with_the_tool(stub: Any) -> None:
    for recorded, capture in TRANSCRIPTS.items():
        for row in tool_report(recorded, "projection", "nvtx_gpu_proj_sum"):
            name = row["Range"].removeprefix(":")
            got = stub.project_ranges(capture, name)
            total = sum(r["end_ns"] - r["start_ns"] for r in got)
            count = sum(r["operations_count"] for r in got)
            said = int(row["Total Proj Time (ns)"]), int(row["Total GPU Ops"])
            require(
                (total, count) == said,
                f"project_ranges({capture!r}, {name!r}): its ranges add up to {total} ns on the device "
                f"and {count} operations; `nsys stats --report nvtx_gpu_proj_sum` says {said[0]} ns and "
                f"{said[1]}",
            )


def tool_report(recorded: str, question: str, report: str) -> list[dict[str, str]]:
    """The rows of a report in what `nsys stats` printed when it was asked."""
    told = json.loads(captures.text(recorded, "transcripts.json"))["transcripts"]
    text = next(t["stdout"] for t in told if t["name"] == question)
    part = text.partition(f"{report}.py]")[2].partition("Processing [")[0]
    lines = [line for line in part.splitlines()[1:] if line.strip()]
    return list(csv.DictReader(io.StringIO("\n".join(lines))))


@task("advanced_ex04.project_ranges")
def test_projection_of_two_processes(stub: Any, generated: Callable, tmp_path: Path) -> None:
    path = generated("two_processes_same_correlation").path
    judge_projection(stub, str(path), "worker")
    judge_projection(stub, with_backtraces(path, tmp_path), "worker")


@task("advanced_ex04.project_ranges")
def test_projection_on_paper(stub: Any, draw: Callable) -> None:
    timeline = draw()
    timeline.nvtx("step", 1_000, 9_000)
    timeline.nvtx("inner", 1_500, 3_000, registered=True)
    timeline.nvtx("step", 10_000, 20_000, kind="start_end")
    timeline.nvtx("step", 2_000, 8_000, thread=2)  # another thread, without a call
    timeline.nvtx("step", 21_000, None)
    timeline.kernel(30_000, 40_000, call=(1_000, 1_600))  # issued in the first, run long after
    timeline.copy(5_000, 50_000, call=(2_000, 3_000))
    timeline.memset(4_000, 4_500, call=(8_500, 9_000))
    timeline.kernel(60_000, 61_000, call=(8_900, 9_001))  # its call ends after the range
    timeline.graph(70_000, 71_000, call=(12_000, 13_000))
    timeline.kernel(80_000, 81_000, call=(22_000, 23_000))
    file = timeline.save()
    judge_projection(stub, file, "step")
    judge_projection(stub, file, "inner")


@task("advanced_ex04.project_ranges")
def test_ranges_that_are_not_there(stub: Any, generated: Callable, draw: Callable) -> None:
    with stub.raises(EmptyCapture, "no such range", why="no range bears this name"):
        stub.project_ranges(str(generated("healthy").path), "no such range")
    with stub.raises(MissingTable, "NVTX_EVENTS", why="the capture has no ranges at all"):
        stub.project_ranges(str(generated("nested_gaps").path), "step")
    timeline = draw()
    timeline.nvtx("step", 0, 10)
    timeline.api("cudaMalloc_v3020", 2, 5)
    file = timeline.save()
    with stub.raises(MissingTable, "KERNEL", why="no table of device operations is there"):
        stub.project_ranges(file, "step")


# -- index_statements ---------------------------------------------------------------------------------

# The query of the lesson, as the exercise gives it.
CALLS_IN_RANGES = f"""
    SELECT n.rowid, count(*)
    FROM NVTX_EVENTS AS n
    JOIN {CALL} AS r ON r.globalTid = n.globalTid AND r.start >= n.start AND r.start < n."end"
    WHERE n.eventType = 59
    GROUP BY n.rowid
    ORDER BY n.rowid
"""
MOST_STEPS_RATIO = 0.25


def counted(file: str | Path, statements: Sequence[str]) -> tuple[list[Row], int, list[str]]:
    """Rows, steps of SQLite's machine and the plan of CALLS_IN_RANGES on a copy with statements run."""
    source = sqlite3.connect(captures.path(str(file)).resolve().as_uri() + "?mode=ro", uri=True)
    copy = sqlite3.connect(":memory:")
    source.backup(copy)
    source.close()
    queries.limit(copy)

    def count() -> tuple[list[Row], int, list[str]]:
        steps = Counter()

        def step() -> int:
            steps["ten"] += 1
            return 0

        for statement in statements:
            copy.execute(statement)
        copy.set_progress_handler(step, 10)
        rows = copy.execute(CALLS_IN_RANGES).fetchall()
        copy.set_progress_handler(None, 10)
        plan = [row[3] for row in copy.execute(f"EXPLAIN QUERY PLAN {CALLS_IN_RANGES}")]
        return rows, 10 * steps["ten"], plan

    try:
        return queries.apart(count)
    except sqlite3.Error as error:
        require(False, f"index_statements(): SQLite says of {show(statements)}: {error}")
        raise
    finally:
        copy.close()


def judge_indices(stub: Any, file: str) -> None:
    statements = stub.index_statements()
    call = f"index_statements() on {Path(file).name}"
    require(
        isinstance(statements, list | tuple)
        and len(statements) > 0
        and all(isinstance(s, str) for s in statements)
        and all(" ".join(s.split()).upper().startswith("CREATE INDEX ") for s in statements),
        f"{call} returned {show(statements)}, expected a list of texts that begin with CREATE INDEX",
    )
    rows, before, plain = counted(file, [])
    same, after, plan = counted(file, statements)
    require(same == rows, f"{call}: the query gives other rows than without them")
    inner = next((line for line in plan if line.split()[1:2] == ["r"]), "")
    require(
        all(part in inner for part in ("globalTid=?", "start>?", "start<?")),
        f"{call}: the plan is {plan}, without indices it was {plain}: an index that only finds the "
        "thread leaves SQLite to look at all of its calls for every range",
    )
    require(
        after <= MOST_STEPS_RATIO * before,
        f"{call}: SQLite takes {after} steps, without indices {before}; expected less than "
        f"{MOST_STEPS_RATIO:.0%} of them",
    )


@task("advanced_ex04.index_statements")
@recordings("pipeline_slow", "training_item")
def test_indices_of_a_recording(stub: Any, recording: str) -> None:
    judge_indices(stub, recording)


@task("advanced_ex04.index_statements")
def test_indices_of_a_generated_capture(stub: Any, generated: Callable) -> None:
    judge_indices(stub, str(generated("sync_bound").path))


# -- verdict ------------------------------------------------------------------------------------------


def transfers(file: str | Path, name: str) -> dict[str, Any]:
    """What the verdict rests on, from loops over the file."""
    ranges = projected(file, name)
    window = min(r["start_ns"] for r in ranges), max(r["end_ns"] for r in ranges)
    found = {
        device: (min(row["copy_only_ns"], row["kernel_only_ns"]), row)
        for device, row in oracles.copy_overlap(captures.path(str(file)), window).items()
    }
    device = max(found, key=lambda one: (found[one][0], -one))
    saved, row = found[device]
    return {
        "recoverable_ns": saved,
        "window_ns": window[1] - window[0],
        "exposed_copy_ns": row["copy_only_ns"],
        "compute_only_ns": row["kernel_only_ns"],
        "pageable_bytes": row["pageable_bytes"],
    }


def judge_verdict(stub: Any, file: str, name: str) -> None:
    got, want = stub.verdict(file, name), transfers(file, name)
    call = f"verdict({Path(file).name!r}, {name!r})"
    why = {
        "window_ns": "The window is that of the ranges' work on the device, not of the ranges.",
        "exposed_copy_ns": "Copies between host and device without compute beside them.",
        "compute_only_ns": "Compute without a copy beside it: kernels and graphs.",
        "recoverable_ns": "No more copying can hide than there is compute to hide it behind.",
        "pageable_bytes": "Copies that start in the window and have pageable host memory.",
    }
    ratio = want["recoverable_ns"] / want["window_ns"]
    category = "transfer_bound" if ratio >= FLOOR_RATIO else "healthy"
    facts = (
        f"hiding copies could save {ratio:.1%} of the window, and the floor is {FLOOR_RATIO:.0%}"
        f"{repeat_hint(file)}"
    )
    judge_finding(call, got, category, f"range:{name}", want, facts, why=why)
    judge_recommendation(call, got, facts)


@task("advanced_ex04.verdict")
@recordings("torch_inference_baseline", "torch_inference_improved", "two_streams")
def test_verdict_of_a_recording(stub: Any, recording: str) -> None:
    names = {r[0] for r in run(recording, "SELECT value FROM StringIds")} | {
        r[0] for r in run(recording, "SELECT text FROM NVTX_EVENTS")
    }
    judged = [name for name in ("inference", "streams", "step", "forward") if name in names]
    for name in judged:
        if projected(recording, name):
            judge_verdict(stub, recording, name)


@task("advanced_ex04.verdict")
def test_verdict_of_generated_captures(stub: Any, generated: Callable) -> None:
    for scenario in ("transfer_bound", "healthy", "sync_bound"):
        judge_verdict(stub, str(generated(scenario).path), "step")
    judge_verdict(stub, str(generated("two_processes_same_correlation").path), "worker")


@task("advanced_ex04.verdict")
def test_verdict_on_paper(stub: Any, draw: Callable) -> None:
    for copy_end, device in ((13_401, 1), (13_400, 0), (13_402, 0)):
        timeline = draw()
        timeline.nvtx("step", 0, 1_000)
        timeline.nvtx("step", 2_000, 3_000)
        timeline.copy(5_000, copy_end - 1, call=(100, 200), device=device, pinned=False)
        timeline.copy(copy_end - 1, copy_end, "D2D", device=device)
        timeline.kernel(50_000, 125_000, call=(2_100, 2_200), device=device)
        timeline.graph(40_000, 50_000, device=device)
        timeline.copy(1_000, 200_000, "H2D", device=5)  # nothing computes there
        judge_verdict(stub, timeline.save(), "step")
    timeline = draw()
    timeline.nvtx("step", 0, 1_000)
    timeline.kernel(0, 10, call=(5_000, 6_000))
    with stub.raises(EmptyCapture, "step", why="the range issued nothing"):
        stub.verdict(timeline.save(), "step")
    timeline = draw()  # nothing computes: copies alone, and nothing to hide them behind
    timeline.nvtx("step", 0, 1_000)
    timeline.copy(10, 400, call=(50, 60), device=3)
    timeline.copy(300, 900, "D2H", call=(70, 80), device=3, pinned=False)
    judge_verdict(stub, timeline.save(), "step")
    timeline = draw()
    timeline.nvtx("step", 0, 1_000)
    timeline.memset(10, 400, call=(50, 60))
    file = timeline.save()
    judge(
        "verdict(memsets only).evidence",
        stub.verdict(file, "step").evidence,
        dict.fromkeys(
            ("recoverable_ns", "window_ns", "exposed_copy_ns", "compute_only_ns", "pageable_bytes"),
            0,
        )
        | {"window_ns": 390},
        "ns",
        {},
    )
