"""Checks of `advanced_ex08`: queries against loops, rules run by a stand-in for the tool's package."""

from __future__ import annotations

import itertools
import json
import random
import shutil
import sqlite3
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from grading.checks import oracles, queries, task
from grading.checks.assertions import (
    agree,
    judge,
    judge_finding,
    judge_recommendation,
    require,
    show,
)
from grading.checks.fixtures import recordings, repeat_hint
from profiling_lab import captures
from profiling_lab.errors import EmptyCapture, NoSuchCapture

PROBE = Path(__file__).resolve().with_name("probes") / "nsysstats_stand_in.py"
KERNEL, COPY, CALL = oracles.KERNEL, oracles.MEMCPY, oracles.RUNTIME
OPERATIONS = (KERNEL, oracles.GRAPH, COPY, oracles.MEMSET)
BACKTRACE_CLASS = 67
LAUNCH_NS = 50_000
FLOOR_RATIO = 0.1
# A query may look at every pair of calls, and at little more.
STEPS_A_PAIR = 20
Row = tuple[Any, ...]


def run(file: str | Path, sql: str, most_steps: int = 0) -> tuple[list[str], list[Row]]:
    """Headings and rows of a query over a file that is opened read-only, interrupted after most_steps."""
    uri = captures.path(str(file)).resolve().as_uri() + "?mode=ro&immutable=1"
    connection = sqlite3.connect(uri, uri=True)
    queries.confine(connection, most_steps or queries.MOST_STEPS)
    try:
        cursor = connection.execute(sql)
        return [one[0] for one in cursor.description], cursor.fetchall()
    finally:
        connection.close()


def tables_of(file: str | Path) -> list[str]:
    return [name for (name,) in run(file, "SELECT name FROM sqlite_master WHERE type = 'table'")[1]]


@cache
def calls_of(file: str) -> dict[tuple[int, int], tuple[int, int, int, str]]:
    """(process, correlation) → thread, start, end, name of the call."""
    _, rows = run(
        file,
        f'SELECT r.globalTid, r.correlationId, r.start, r."end", s.value FROM {CALL} AS r '
        f"JOIN StringIds AS s ON s.id = r.nameId WHERE r.eventClass <> {BACKTRACE_CLASS}",
    )
    return {(thread >> 24, number): (thread, *rest) for thread, number, *rest in rows}


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


def judge_query(
    call: str, sql: Any, file: str, headings: list[str], want: list[Row], why: str
) -> None:
    """Run the learner's query and compare headings and rows."""
    require(isinstance(sql, str), f"{call} returned {show(sql)}, expected a text of SQL")
    where = f"{call} on {Path(file).name}"
    most_steps = STEPS_A_PAIR * len(calls_of(file)) ** 2 + 1_000_000
    try:
        told, got = queries.apart(lambda: run(file, sql, most_steps))
    except sqlite3.Error as error:
        require(
            "interrupted" not in str(error),
            f"{where}: SQLite had taken {most_steps:,} steps and was not through: the query looks at all "
            f"operations or calls again for each one; the recording has {len(calls_of(file)):,} calls",
        )
        require(False, f"{where}: SQLite says of the query: {error}")
        raise
    require(told == headings, f"{where}: its columns are {told}, expected {headings}")
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
    require(False, f"{where}: {text} (ns, bytes). {why}{repeat_hint(file)}")


# -- pageable_query -----------------------------------------------------------------------------------

PAGEABLE = ["Duration:dur_ns", "Start:ts_ns", "Bytes:mem_B", "Device ID", "API Name"]


@cache
def pageable(file: str) -> list[Row]:
    """Asynchronous copies of pageable memory, by a loop."""
    if COPY not in tables_of(file):
        return []
    calls, found = calls_of(file), []
    _, rows = run(
        file,
        f'SELECT globalPid, correlationId, start, "end", bytes, deviceId, srcKind, dstKind FROM {COPY}',
    )
    for process, number, start, end, size, device, *kinds in rows:
        call = calls.get((process >> 24, number))
        if 0 in kinds and call and call[3].startswith("cudaMemcpy") and "Async" in call[3]:
            found.append((end - start, start, size, device, call[3]))
    return sorted(found, key=lambda row: (-row[0], row[1]))


def judge_pageable(stub: Any, file: str) -> None:
    why = (
        "Asynchronous calls, pageable host memory; one call to a copy: correlation ids are counted per "
        "process, and rows that repeat a call for its backtrace are no calls."
    )
    judge_query("pageable_query()", stub.pageable_query(), file, PAGEABLE, pageable(file), why)


@task("advanced_ex08.pageable_query")
@recordings("torch_inference_baseline", "cuda_pipeline_baseline", "training_async")
def test_pageable_copies_of_a_recording(stub: Any, recording: str) -> None:
    judge_pageable(stub, recording)


@task("advanced_ex08.pageable_query")
def test_pageable_copies_of_two_processes(stub: Any, generated: Callable, tmp_path: Path) -> None:
    path = generated("two_processes_same_correlation").path
    judge_pageable(stub, str(path))
    judge_pageable(stub, with_backtraces(path, tmp_path))
    judge_pageable(stub, str(generated("copies_and_kernels").path))


@task("advanced_ex08.pageable_query")
def test_pageable_copies_on_paper(stub: Any, draw: Callable) -> None:
    timeline = draw()
    timeline.copy(0, 500, call=(0, 10), pinned=False)
    timeline.copy(1_000, 1_500, "D2H", call=(20, 30), pinned=False, api="cudaMemcpy2DAsync_v3020")
    timeline.copy(2_000, 2_500, call=(40, 50), pinned=False, api="cudaMemcpy_v3020")
    timeline.copy(3_000, 3_900, call=(60, 70), pinned=False, api="cuMemcpyHtoDAsync_v2")
    timeline.copy(4_000, 4_900, call=(80, 90))
    timeline.copy(5_000, 5_100, "D2D", call=(100, 110))
    timeline.copy(6_000, 6_100, pinned=False, device=1)  # its call was not recorded
    for process, pinned in ((1, False), (2, True)):  # both processes count alike
        timeline.copy(7_000, 7_300, call=(120, 130), pinned=pinned, process=process, correlation=90)
    judge_pageable(stub, timeline.save())


# -- starved_query ------------------------------------------------------------------------------------

STARVED = ["Duration:dur_ns", "Start:ts_ns", "Device ID", "API Name", "Waited"]


@cache
def starved(file: str) -> list[Row]:
    """Starved stretches, by loops."""
    held = tables_of(file)
    operations = []
    for table in OPERATIONS:
        if table in held:
            operations += run(
                file, f'SELECT start, "end", deviceId, globalPid, correlationId FROM {table}'
            )[1]
    calls = calls_of(file)
    waits = [(thread, end) for thread, _, end, name in calls.values() if "Synchronize" in name]
    until: dict[int, int] = {}
    found = []
    for start, end, device, process, number in sorted(operations):
        last, call = until.get(device, start), calls.get((process >> 24, number))
        if start > last and call and call[1] >= last:
            waited = any(thread == call[0] and last <= at <= call[1] for thread, at in waits)
            found.append((start - last, last, device, call[3], int(waited)))
        until[device] = max(end, until.get(device, end))
    return sorted(found, key=lambda row: (-row[0], row[1], row[2]))


def judge_starved(stub: Any, file: str) -> None:
    tables = [table for table in OPERATIONS if table in tables_of(file)]
    why = (
        "A stretch begins at the latest end of all operations before it; the device starved if the next "
        "operation's call had not begun by then; waited is about the thread of that call."
    )
    call = f"starved_query({[table.rpartition('_')[2] for table in tables]})"
    judge_query(call, stub.starved_query(tables), file, STARVED, starved(file), why)


@task("advanced_ex08.starved_query")
@recordings("host_preprocess", "training_item")
def test_starved_stretches_of_a_recording(stub: Any, recording: str) -> None:
    judge_starved(stub, recording)


@task("advanced_ex08.starved_query")
def test_starved_stretches_of_generated_captures(
    stub: Any, generated: Callable, tmp_path: Path
) -> None:
    for name in ("nested_gaps", "two_devices", "graphs_only"):
        judge_starved(stub, str(generated(name).path))
    path = generated("two_processes_same_correlation").path
    judge_starved(stub, with_backtraces(path, tmp_path))


@task("advanced_ex08.starved_query")
def test_starved_stretches_on_paper(stub: Any, draw: Callable) -> None:
    timeline = draw()
    timeline.kernel(0, 1_000, call=(0, 10))
    timeline.kernel(100, 200, call=(20, 30), stream=8)
    timeline.kernel(1_500, 2_000, call=(1_000, 1_400))  # the call began as the device ran dry
    timeline.kernel(2_500, 3_000, call=(1_999, 2_200))  # the call had begun: on its way
    timeline.api("cudaStreamSynchronize_v3020", 2_000, 3_000)
    timeline.kernel(4_000, 5_000, call=(3_500, 3_600))  # waited: it ended as the device ran dry
    timeline.api("cudaEventSynchronize_v3020", 4_500, 5_600, thread=2)  # another thread
    timeline.copy(6_000, 7_000, call=(5_700, 5_800))
    timeline.api("cudaDeviceSynchronize_v3020", 6_500, 7_500)
    timeline.graph(8_000, 9_000, call=(7_500, 7_600))  # waited: it ended as the call began
    timeline.memset(10_000, 10_500)  # its call was not recorded
    timeline.kernel(11_000, 11_100, call=(10_900, 10_950), device=1)
    timeline.kernel(12_000, 12_100, call=(11_200, 11_300))
    timeline.api("cudaEventSynchronize_v3020", 11_400, 11_800)  # waited behind the call, not before
    judge_starved(stub, timeline.save())


@task("advanced_ex08.starved_query")
def test_tables_of_operations(stub: Any) -> None:
    for tables in ([], ["StringIds"], [KERNEL, "kernels"]):
        with stub.raises(ValueError, why=f"{tables} are no tables of device operations"):
            stub.starved_query(tables)


# -- rule_source --------------------------------------------------------------------------------------

QUERY = f"""
    SELECT "end" - start AS "Duration:dur_ns", start AS "Start:ts_ns", '{{x}} \\ %' AS "Note"
    FROM {KERNEL} ORDER BY 1 DESC, 2
"""
RULE = {
    "name": "LongKernels",
    "title": "Long {kernels}: 100%",
    "advice": 'It\'s "long".\nTry {less}, \\n and 50% of %d.',
    "nothing": "No '''kernel''' is {long}\\",
    "query": QUERY,
    "tables": [KERNEL, "StringIds"],
}


def judge_rule(stub: Any, rule: dict, file: str, rows: Sequence[Row], *arguments: str) -> None:
    """Load the rule and hold what it shows against what it was made of."""
    call = f"rule_source({rule['name']!r}, …)"
    found = stub.probe(PROBE, "run_rule", rule, str(captures.path(file)), list(arguments))
    require(not found["problem"], f"{call}: the file cannot be used: {found['problem']}")
    require(
        found["mains"] == [0, 1],
        f"{call}: Main ran {found['mains'][0]} times when the file was imported and {found['mains'][1]} "
        "when it was run as a program, expected 0 and 1",
    )
    for key, what in (("title", "display_name"), ("advice", "message_advice"), ("nothing", "…")):
        require(
            found[key] == rule[key],
            f"{call}: {what if key != 'nothing' else 'message_noresult'} is {show(found[key])}, expected "
            f"{show(rule[key])}: a text must arrive as it is",
        )
    first, _, rest = found["usage"].partition("\n")
    require(
        first == f"rule[:rows=<limit>] -- {rule['title']}" and "50" in rest,
        f"{call}: usage is shown as {show(found['usage'])}, expected it to begin with "
        f"'rule[:rows=<limit>] -- {rule['title']}' and to name the default number of rows, 50",
    )
    require(
        found["skipped"] is None,
        f"{call}: setup says {found['skipped']!r} on a capture that has all",
    )
    require(
        [tuple(row) for row in found["rows"]] == list(rows),
        f"{call} with {list(arguments) or 'no argument'}: {len(found['rows'])} rows, "
        f"{show(found['rows'][:1])}, expected {len(rows)}, {show(list(rows[:1]))}: those of the query, at "
        "most so many as the tool was asked for",
    )


@task("advanced_ex08.rule_source")
@recordings("torch_inference_baseline", "two_streams")
def test_rule_on_a_recording(stub: Any, recording: str) -> None:
    rows = run(recording, QUERY)[1]
    judge_rule(stub, RULE, recording, rows[:50])
    judge_rule(stub, RULE, recording, rows[:3], "rows=3")
    judge_rule(stub, RULE, recording, rows, "rows=-1")


@task("advanced_ex08.rule_source")
def test_rule_on_a_generated_capture(stub: Any, generated: Callable, seed: int) -> None:
    file = str(generated("launch_bound").path)
    chance = random.Random(f"rule {seed}")
    texts = ["".join(chance.choices("ab'\"{}%\\\n ", k=12)) for _ in range(3)]
    rule = RULE | dict(zip(("advice", "nothing"), texts, strict=False)) | {"name": f"Rule{seed}"}
    judge_rule(stub, rule, file, run(file, QUERY)[1][:7], "rows=7")
    few = rule | {"query": f"{QUERY} LIMIT 4"}
    judge_rule(stub, few, file, run(file, QUERY)[1][:4], "rows=9")
    judge_rule(stub, few, file, run(file, QUERY)[1][:2], "rows=2")
    nothing = rule | {"query": f"SELECT start FROM {KERNEL} WHERE start < 0"}
    judge_rule(stub, nothing, file, [])


@task("advanced_ex08.rule_source")
def test_rule_without_its_table(stub: Any, generated: Callable) -> None:
    file = str(generated("nested_gaps").path)
    for tables, lost in (([KERNEL, COPY], COPY), (["NO_SUCH_TABLE"], "NO_SUCH_TABLE")):
        rule = RULE | {"tables": tables}
        found = stub.probe(PROBE, "run_rule", rule, file, [])
        require(not found["problem"], f"rule_source(…): {found['problem']}")
        said = str(found["skipped"])
        require(
            lost in said and "my_run.sqlite" in said,
            f"rule_source(…) on a capture without {lost}: the tool shows {said!r}, expected a text that "
            "names the table and the file ({DBFILE})",
        )
    broken = stub.probe(PROBE, "run_rule", RULE, file, ["nonsense=1"])
    require(
        broken["skipped"] == "unrecognized argument nonsense=1",
        f"rule_source(…): the base class refuses an argument, and the rule says {broken['skipped']!r}: "
        "what setup of the base class returns must be returned",
    )


@task("advanced_ex08.rule_source")
def test_rules_that_cannot_be_written(stub: Any) -> None:
    for name in ("two words", "1st", "a-b"):
        with stub.raises(ValueError, name, why=f"{name!r} is no name for a class"):
            stub.rule_source(RULE | {"name": name})
    with stub.raises(ValueError, "semicolon", why="two statements are not a query"):
        stub.rule_source(RULE | {"query": "SELECT 1; DROP TABLE StringIds"})


# -- score_rules --------------------------------------------------------------------------------------

LABELS = {
    "alloc_cached": "healthy",
    "alloc_every_step": "allocation_bound",
    "cuda_pipeline_baseline": "transfer_bound",
    "cuda_pipeline_improved": "healthy",
    "decode_eager": "launch_bound",
    "host_preprocess": "host_bound",
    "pipeline_fast": "host_bound",
    "torch_inference_baseline": "transfer_bound",
    "training_async": "healthy",
    "training_item": "sync_bound",
}


def judge_scores(stub: Any, alarms: dict, causes: dict, labels: dict, what: str) -> None:
    got = stub.score_rules(alarms, causes, labels)
    call = f"score_rules({what})"
    require(
        isinstance(got, dict) and got.keys() == alarms.keys(),
        f"{call} returned {show(got)}, expected an entry for each of: {', '.join(alarms)}",
    )
    for rule, fired in alarms.items():
        sick = [capture for capture in labels if labels[capture] == causes[rule]]
        hits = [capture for capture in sick if capture in fired]
        want = {
            "precision_ratio": len(hits) / len(set(fired)) if fired else None,
            "recall_ratio": len(hits) / len(sick) if sick else None,
            "false_alarms": sorted(set(fired) - set(sick)),
            "missed": sorted(set(sick) - set(fired)),
        }
        why = {
            "precision_ratio": "The share of its alarms that are right. A rule without alarms has no precision; "
            "it does not have a perfect one.",
            "recall_ratio": "The share of the captures with its cause that it finds. Without such a capture "
            "there is nothing to find.",
        }
        judge(f"{call}[{rule!r}]", got[rule], want, "ratio, names", why)


@task("advanced_ex08.score_rules")
def test_scores_on_recordings(stub: Any) -> None:
    sick = {name: [c for c in LABELS if pageable(c)] for name in ("any pageable copy",)}
    sick["a tenth of the time"] = [
        c for c in LABELS if 10 * sum(r[0] for r in pageable(c)) >= whole(c)[2]
    ]
    sick["starved after a wait"] = [
        c for c in LABELS if 10 * sum(r[0] for r in starved(c) if r[4]) >= whole(c)[2]
    ]
    causes = dict.fromkeys(sick, "transfer_bound") | {"starved after a wait": "sync_bound"}
    judge_scores(stub, sick, causes, LABELS, "three rules on recordings")


@task("advanced_ex08.score_rules")
def test_scores_of_drawn_alarms(stub: Any, seed: int) -> None:
    chance = random.Random(f"scores {seed}")
    names = [f"capture_{i}" for i in range(14)]
    kinds = ["healthy", "sync_bound", "host_bound", "launch_bound"]
    labels = {name: chance.choice(kinds) for name in names} | {"capture_0": "sync_bound"}
    alarms = {f"rule {i}": chance.sample(names, chance.randrange(1, 9)) for i in range(5)} | {
        "silent": [],
        "nothing to find": ["capture_0"],
        "everything": names,
        "twice": names[:3] * 2,
    }
    causes = {rule: chance.choice(kinds[1:]) for rule in alarms}
    causes |= {"nothing to find": "throttled", "silent": "sync_bound"}
    judge_scores(stub, alarms, causes, labels, "drawn alarms")
    with stub.raises(ValueError, "elsewhere", why="nobody knows what is wrong with that capture"):
        stub.score_rules({"r": ["elsewhere"]}, {"r": "sync_bound"}, labels)
    with stub.raises(ValueError, "unnamed", why="nobody knows what that rule is for"):
        stub.score_rules({"unnamed": []}, {}, labels)


# -- verdict ------------------------------------------------------------------------------------------


@cache
def whole(file: str) -> tuple[int, int, int]:
    """The device with most time in operations, that time, and from its first start to its last end."""
    spent: dict[int, list[int]] = {}
    for table in OPERATIONS:
        if table in tables_of(file):
            for device, start, end in run(file, f'SELECT deviceId, start, "end" FROM {table}')[1]:
                one = spent.setdefault(device, [0, start, end])
                one[:] = one[0] + end - start, min(one[1], start), max(one[2], end)
    device = max(spent, key=lambda d: (spent[d][0], -d))
    return device, spent[device][0], spent[device][2] - spent[device][1]


def judge_verdict(stub: Any, file: str, category: str = "") -> None:
    device, _, window = whole(file)
    dry = [row for row in starved(file) if row[2] == device]
    alarms = {
        "sync_bound": [row[0] for row in dry if row[4]],
        "transfer_bound": [row[0] for row in pageable(file) if row[3] == device],
        "launch_bound": [row[0] for row in dry if not row[4] and row[0] <= LAUNCH_NS],
        "host_bound": [row[0] for row in dry if not row[4] and row[0] > LAUNCH_NS],
    }
    most = max(alarms, key=lambda name: sum(alarms[name]))
    share = sum(alarms[most]) / window
    want = most if sum(alarms[most]) >= FLOOR_RATIO * window else "healthy"
    assert not category or want == category, (file, want, category)
    call = f"verdict({Path(file).name!r})"
    got = stub.verdict(file)
    told = ", ".join(f"{name} {sum(times):,} ns" for name, times in alarms.items())
    evidence = {
        "recoverable_ns": sum(alarms[most]),
        "window_ns": window,
        "alarms_count": len(alarms[most]),
    }
    facts = (
        f"by its alarms it is {want}. Alarms: {told}, of {window:,} ns; the largest has {share:.1%}, the floor is "
        f"{FLOOR_RATIO:.0%}{repeat_hint(file)}"
    )
    about = "the device with most time in operations"
    why = {"recoverable_ns": told}
    judge_finding(call, got, want, f"device:{device}", evidence, facts, why=why, about=about)
    judge_recommendation(call, got, facts)


@task("advanced_ex08.verdict")
@recordings("decode_eager", "torch_inference_baseline", "training_item", "training_async")
def test_verdict_of_a_recording(stub: Any, recording: str) -> None:
    judge_verdict(stub, recording, LABELS.get(recording, ""))


@task("advanced_ex08.verdict")
def test_verdict_of_generated_captures(stub: Any, generated: Callable) -> None:
    for name in ("host_bound", "healthy", "launch_bound", "two_devices", "graphs_only"):
        judge_verdict(stub, str(generated(name).path))


@task("advanced_ex08.verdict")
def test_verdict_on_paper(stub: Any, draw: Callable) -> None:
    for gap, category in (
        (LAUNCH_NS, "launch_bound"),
        (LAUNCH_NS + 1, "host_bound"),
        (10_000, "launch_bound"),  # a tenth of the time, to the ns
        (9_999, "healthy"),
    ):
        timeline, now = draw(), 100_000
        for _ in range(10):
            timeline.kernel(now, now + 81_000, call=(now - gap, now - 1))
            timeline.memset(now, now + 1, device=1)
            now += 81_000 + gap
        judge_verdict(stub, timeline.save(), category)
    timeline, now = draw(), 100_000
    for gap in (LAUNCH_NS, LAUNCH_NS, LAUNCH_NS + 10_000, 0):  # two short ones, and a longer one
        timeline.kernel(now, now + 81_000, call=(now - 1, now - 1))
        now += 81_000 + gap
    judge_verdict(stub, timeline.save(), "launch_bound")
    timeline = draw()
    timeline.copy(0, 100_000, call=(0, 10), pinned=False, device=3)
    timeline.copy(0, 1_100_000, call=(0, 10), pinned=False, device=4)
    timeline.kernel(0, 800_001, device=3)
    timeline.kernel(800_001, 1_000_000, device=3)
    judge_verdict(stub, timeline.save(), "transfer_bound")
    timeline = draw()
    timeline.api("cudaMalloc_v3020", 0, 10)
    with stub.raises(EmptyCapture, why="the capture holds no device operation"):
        stub.verdict(timeline.save())
    timeline = draw()
    timeline.kernel(0, 10)
    with stub.raises(EmptyCapture, why="the capture holds no call"):
        stub.verdict(timeline.save())
    with stub.raises(NoSuchCapture, why="there is no such capture"):
        stub.verdict("no_such_capture")


# -- check_captures -----------------------------------------------------------------------------------


@task("advanced_ex08.check_captures")
def test_a_run_over_captures(stub: Any, generated: Callable, tmp_path: Path) -> None:
    sick, fine = str(generated("host_bound").path), str(generated("healthy").path)
    broken = tmp_path / "cut_off.sqlite"
    broken.write_bytes(Path(sick).read_bytes()[:200])
    text = tmp_path / "notes.sqlite"
    text.write_text("no database")
    verdicts = {name: stub.verdict(name).to_dict() for name in (sick, fine, "decode_eager")}
    kinds = {one["category"] for one in verdicts.values()}
    for names, fail_on, code in (
        ([fine, sick], ["host_bound"], 1),
        ([fine, sick], ["sync_bound"], 0),
        ([sick, "decode_eager"], sorted(kinds), 1),
        ([fine], [], 0),
        ([], ["host_bound"], 2),
        (["no_such_capture", sick], ["host_bound"], 2),
        ([sick, "no_such_capture", fine], [], 2),
        ([str(broken), sick, str(text)], ["host_bound"], 2),
    ):
        got = stub.check_captures(names, fail_on)
        call = f"check_captures({[Path(name).name for name in names]}, {fail_on})"
        require(
            isinstance(got, dict) and got.keys() == {"results", "exit_code"},
            f"{call} returned {show(got)}, expected a dict of results and exit_code",
        )
        for name, one in itertools.zip_longest(names, got["results"]):
            shown = Path(name or "").name
            require(
                isinstance(one, dict) and one.get("capture") == name,
                f"{call}: results hold {show(one)} where {shown} belongs: one entry for each capture, "
                "those that cannot be judged as well",
            )
            if name in verdicts:
                require(
                    agree(one.get("finding"), verdicts[name]) and "error" not in one,
                    f"{call}: of {shown} it says {show(one)}, the verdict is {show(verdicts[name])}",
                )
            else:
                require(
                    bool(one.get("error")) and "finding" not in one and name in one["error"],
                    f"{call}: of {shown} it says {show(one)}, expected an error that names it",
                )
        require(
            got["exit_code"] == code,
            f"{call}: exit_code is {got['exit_code']!r}, expected {code}: 2 where a capture could not be "
            "judged, 1 where a category of fail_on was found",
        )
        json.dumps(got)


# -- live ---------------------------------------------------------------------------------------------


@task("advanced_ex08.nsys_rows")
def test_the_tool_finds_the_same(stub: Any, tmp_path: Path) -> None:
    from profiling_lab.course.doctor import find_nsys

    nsys = find_nsys()
    assert nsys
    for capture, key, query, want in (
        ("torch_inference_baseline", "Pageable", stub.pageable_query(), pageable),
        (
            "torch_inference_baseline",
            "Starved",
            stub.starved_query([KERNEL, COPY, oracles.MEMSET]),
            starved,
        ),
        ("two_streams", "Nothing", stub.pageable_query(), pageable),
    ):
        rule = RULE | {"name": key, "query": query, "tables": [COPY, CALL, "StringIds"]}
        file = tmp_path / f"{key.lower()}.py"
        file.write_text(stub.rule_source(rule), encoding="utf-8")
        export = tmp_path / f"{capture}.sqlite"
        shutil.copyfile(captures.path(capture), export)
        got = stub.nsys_rows(str(file), str(export), str(nsys))
        rows = want(capture)
        call = f"nsys_rows({file.name!r}, {export.name!r})"
        require(
            isinstance(got, list) and len(got) == len(rows),
            f"{call}: {len(got) if isinstance(got, list) else show(got)} rows, the query has {len(rows)}",
        )
        for one, other in zip(got, rows, strict=True):
            require(
                next(iter(one.values())).replace(",", "") == str(other[0]),
                f"{call}: a row begins {show(next(iter(one.items())))}, the query says {other[0]} ns",
            )
