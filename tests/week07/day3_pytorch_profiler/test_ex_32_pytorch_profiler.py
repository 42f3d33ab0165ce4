"""Checks of `ex_32`: what each function says about recorded, simulated and drawn traces.

Expected values come from torch's own operator table beside a recording, from what the recorded program
told about itself, from plain computations on the file below, or from the truth of a simulated
program (`grading.checks.generate.kineto`). A wrong answer is compared with what typical mistakes
give, so that the message can say which evidence it contradicts.
"""

from __future__ import annotations

import gzip
import itertools
import json
import pickle
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import agree, call_words, show
from grading.checks.fixtures import recordings
from grading.checks.generate import kineto as made
from grading.checks.worlds import Family, World, judge_families
from grading.runner.computed_once import kept_of_recordings
from profiling_lab import captures
from profiling_lab.captures import kineto
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CATEGORIES, Finding, problems

PROBE = Path(__file__).resolve().with_name("probes") / "profiling.py"
Variants = Iterable[tuple[Any, str]]
DEVICE = ("kernel", "copy", "memset")
COMPILATION = "_compile.compile_inner (dynamo_timed)"
CATEGORY_OF_CAUSE = {
    "waits": "sync_bound",
    "launch_cost": "launch_bound",
    "copies": "transfer_bound",
    "allocation": "allocation_bound",
    "host_code": "host_bound",
    "compilation": "recompilation",
}

# -- fixtures -------------------------------------------------------------------------------------


@pytest.fixture
def draw(tmp_path_factory: pytest.TempPathFactory) -> Callable[[], made.Trace]:
    """`draw()`: an empty trace to put events into."""
    return lambda: made.Trace(tmp_path_factory.mktemp("drawn"))


@pytest.fixture
def allocator(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., made.Memory]:
    """`allocator()`: an allocator whose history is drawn by hand."""
    return lambda **more: made.Memory(tmp_path_factory.mktemp("memory"), **more)


@pytest.fixture(scope="session")
def program(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], made.Program]:
    """`program("sync")`: a simulated program of that kind, made once a session."""
    kept: dict[str, made.Program] = {}

    def make(kind: str) -> made.Program:
        if kind not in kept:
            kept[kind] = made.random_program(kind, seed, tmp_path_factory.mktemp("simulated"))
        return kept[kind]

    return make


# -- words ----------------------------------------------------------------------------------------


def comparable(got: Any, want: Any) -> bool:
    """Whether both are of one type; a whole number may stand for a decimal one."""
    return type(got) is type(want) or (type(got) is int and isinstance(want, float))


def difference(got: Any, want: Any, where: str = "") -> str:
    """The first place at which two values differ, as a sentence."""
    at = f" at {where}" if where else ""
    if not comparable(got, want):
        return f"It says{at} {show(got)}, a {type(got).__name__}; expected {show(want)}."
    if isinstance(want, dict):
        if missing := [key for key in want if key not in got]:
            return f"Missing{at}: {show(missing)}."
        if extra := [key for key in got if key not in want]:
            return f"Should not be there{at}: {show(extra)}."
        key = next(key for key in want if not agree(got[key], want[key]))
        return difference(got[key], want[key], f"{where}[{key!r}]")
    if isinstance(want, list):
        for place, (one, other) in enumerate(zip(got, want, strict=False)):
            if not agree(one, other):
                return difference(one, other, f"{where}[{place}]") + (
                    f" There are {len(got)} entries; expected {len(want)}."
                    if len(got) != len(want)
                    else ""
                )
        return f"There are {len(got)} entries{at}; expected {len(want)}: {show(want)}."
    return f"It says{at} {show(got)}; expected {show(want)}."


def judge(
    call: str, got: Any, want: Any, why: str, mistakes: Callable[[], Variants] = list
) -> None:
    """Fail unless got is want, with the sentence of the mistake that gives the same value."""
    if agree(got, want):
        return
    why = next((sentence for value, sentence in mistakes() if agree(got, value)), why)
    pytest.fail(f"{call}: {difference(got, want)} {why}".rstrip(), pytrace=False)


# -- a reading of the file of its own -------------------------------------------------------------

KINDS = made.OLD_CATEGORIES | {"python_function": "python_function", "cuda_driver": "Runtime"}
WORDS = {
    "cpu_op": "operator",
    "user_annotation": "range",
    "python_function": "python",
    "cuda_runtime": "call",
    "cuda_driver": "call",
    "kernel": "kernel",
    "gpu_memcpy": "copy",
    "gpu_memset": "memset",
    "Operator": "operator",
    "Runtime": "call",
    "Kernel": "kernel",
    "Memcpy": "copy",
    "Memset": "memset",
}


def ns(value: Any) -> int:
    """µs of the file in ns."""
    return int(Decimal(value) * 1000)


@lru_cache(maxsize=128)
def _content(file: str, _changed: int) -> dict[str, Any]:
    return json.loads(captures.text(file, "trace.json"), parse_float=Decimal)


def content(capture: str) -> dict[str, Any]:
    """The file as JSON, decimals kept."""
    file = captures.file(capture, "trace.json")
    return _content(str(file), file.stat().st_mtime_ns)


@lru_cache(maxsize=128)
def _events(file: str, _changed: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for raw in content(file)["traceEvents"]:
        if raw.get("ph") != "X" or raw.get("cat") not in WORDS:
            continue
        args = raw.get("args", {})
        start = ns(raw["ts"])
        kind = WORDS[raw["cat"]]
        found.append(
            {
                "kind": kind,
                "name": raw["name"],
                "start_ns": start,
                "end_ns": start + ns(raw["dur"]),
                "process": raw["pid"],
                "thread": raw["tid"],
                "device": args["device"] if kind in DEVICE else None,
                "stream": args["stream"] if kind in DEVICE else None,
                "correlation": args.get("correlation"),
                "external_id": args.get("External id", args.get("external id")),
                "shapes": args.get("Input Dims", args.get("Input dims")),
                "called_from": args.get("CallFrom"),
            }
        )
    first = min(event["start_ns"] for event in found)
    for event in found:
        event["start_ns"] -= first
        event["end_ns"] -= first
    return sorted(found, key=lambda e: (e["start_ns"], -e["end_ns"]))


@kept_of_recordings
def events_of(capture: str) -> list[dict[str, Any]]:
    """The events of a trace, in the words of read_trace's contract."""
    file = captures.file(capture, "trace.json")
    return _events(str(file), file.stat().st_mtime_ns)


@lru_cache(maxsize=128)
def _steps(file: str, _changed: int) -> list[tuple[int, int, int]]:
    return sorted(
        (int(e["name"].partition("#")[2]), e["start_ns"], e["end_ns"])
        for e in _events(file, _changed)
        if e["kind"] in ("range", "operator") and re.fullmatch(r"ProfilerStep#\d+", e["name"])
    )


@kept_of_recordings
def steps_of(capture: str) -> list[tuple[int, int, int]]:
    """(number, start, end) of each step."""
    file = captures.file(capture, "trace.json")
    return _steps(str(file), file.stat().st_mtime_ns)


def length(intervals: Iterable[tuple[int, int]], start: int, end: int) -> int:
    """Time in [start, end) covered by at least one interval, counted from edge to edge."""
    edges = [(max(a, start), 1) for a, b in intervals if a < end and b > start and b > a]
    edges += [(min(b, end), -1) for a, b in intervals if a < end and b > start and b > a]
    total = depth = since = 0
    for time, change in sorted(edges):
        if depth > 0:
            total += time - since
        depth += change
        since = time
    return total


# == operator_table ===============================================================================

ROW = ("calls", "host_total_ns", "host_self_ns", "device_total_ns", "device_self_ns")


def table_from_torch(capture: str) -> dict[str, dict[str, int]] | None:
    """torch's own table beside a recording; None if there is none."""
    try:
        told = json.loads(captures.text(capture, "key_averages.json"))
    except CaptureError:
        return None
    return {
        row["name"]: {
            "calls": row["calls"],
            "host_total_ns": round(row["cpu_time_total"] * 1000),
            "host_self_ns": round(row["self_cpu_time_total"] * 1000),
            "device_total_ns": round(row["device_time_total"] * 1000),
            "device_self_ns": round(row["self_device_time_total"] * 1000),
            "range": bool(row["is_user_annotation"]),
        }
        for row in told["by_name"]
        if row["device_type"].endswith("CPU")
    }


def table_by_hand(capture: str) -> dict[str, dict[str, int]]:
    """The table by name, each event's parent found by looking at all others (small traces only)."""
    host = [e for e in events_of(capture) if e["kind"] in ("operator", "range", "call")]
    device: dict[Any, int] = defaultdict(int)
    for event in events_of(capture):
        if event["kind"] in DEVICE and event["external_id"] is not None:
            device[event["external_id"]] += event["end_ns"] - event["start_ns"]

    def thread(event: dict[str, Any]) -> tuple[Any, Any]:
        return event["process"], event["thread"]

    # What outlasts an event closes it: one that comes later, or one that crosses it.
    closed_by = [
        next(
            (
                at
                for at, other in enumerate(host[place + 1 :], place + 1)
                if thread(other) == thread(event) and other["end_ns"] > event["end_ns"]
            ),
            len(host),
        )
        for place, event in enumerate(host)
    ]
    parents: list[int | None] = []
    for place, event in enumerate(host):
        around = [
            (other["end_ns"] - other["start_ns"], -at)
            for at, other in enumerate(host)
            if at != place <= closed_by[at]
            and thread(other) == thread(event)
            and other["start_ns"] <= event["start_ns"] < other["end_ns"]
            and event["end_ns"] <= other["end_ns"]
            and not (
                (other["start_ns"], other["end_ns"]) == (event["start_ns"], event["end_ns"])
                and at > place
            )
        ]
        parents.append(-min(around)[1] if around else None)
    children: dict[int | None, list[int]] = defaultdict(list)
    for place, parent in enumerate(parents):
        children[parent].append(place)
    out: dict[str, dict[str, int]] = {}

    def visit(place: int) -> int:
        event, below, own = host[place], children[place], [place]
        while len(below) == 1 and host[below[0]]["name"] == event["name"]:
            own.append(below[0])
            below = children[below[0]]
        under = sum(visit(child) for child in below)
        if event["kind"] == "call":
            return under
        name = "ProfilerStep*" if event["name"].startswith("ProfilerStep#") else event["name"]
        row = out.setdefault(name, dict.fromkeys(ROW, 0))
        self_ns = sum(device[host[p]["external_id"]] for p in own)
        total = event["end_ns"] - event["start_ns"]
        row["calls"] += 1
        row["host_total_ns"] += total
        row["host_self_ns"] += total - sum(host[c]["end_ns"] - host[c]["start_ns"] for c in below)
        row["device_self_ns"] += self_ns
        row["device_total_ns"] += self_ns + under
        return self_ns + under

    for root in children[None]:
        visit(root)
    return out


WHY_OF_COLUMN = {
    "calls": "An event and its only child count once if they have the same name; all others count.",
    "host_total_ns": "The total is the events' durations, added up.",
    "host_self_ns": "Self is the duration without the direct children, CUDA calls among them.",
    "device_self_ns": "Device time belongs to the operator whose external id the kernel bears.",
    "device_total_ns": "The device's total of an operator includes what the operators below it issued.",
}


def judge_rows(call: str, rows: Any, want: dict[str, dict[str, int]]) -> None:
    if type(rows) is not list or not all(type(r) is dict for r in rows):
        pytest.fail(f"{call} returned {show(rows)}; expected a list of dicts", pytrace=False)
    keys = ["calls", "device_self_ns", "device_total_ns", "host_self_ns", "host_total_ns", "name"]
    for row in rows:
        judge(call + ", keys of a row", sorted(row), keys, "")
    got = {}
    for row in rows:
        if row["name"] in got:
            pytest.fail(f"{call} has two rows for {row['name']}", pytrace=False)
        got[row["name"]] = row
    if missing := [key for key in want if key not in got]:
        pytest.fail(f"{call} lacks a row for {missing[0]}", pytrace=False)
    if extra := [key for key in got if key not in want]:
        pytest.fail(
            f"{call} has a row for {extra[0]}, which is no operator and no range (or not under this name)",
            pytrace=False,
        )
    for name, row in want.items():
        for column in ROW:
            if column not in row:
                continue
            if type(got[name][column]) is not int or got[name][column] != row[column]:
                unit = "" if column == "calls" else " ns"
                pytest.fail(
                    f"{call}: {name}: {column} is {show(got[name][column])}; expected {row[column]}{unit}. "
                    f"{WHY_OF_COLUMN[column]}",
                    pytrace=False,
                )
    order = [(-r["device_total_ns"], -r["host_total_ns"], r["name"]) for r in rows]
    if order != sorted(order):
        pytest.fail(
            f"{call}: the rows are not ordered by device_total_ns, then host_total_ns (largest first), then name",
            pytrace=False,
        )


@task("ex_32.operator_table")
@recordings("torch_infer_launch_bound", "torch_train_clean")
def test_table_equals_that_of_torch(stub, recording):
    want = table_from_torch(recording)
    if want is None:  # a capture of the learner's own
        want = table_by_hand(recording)
    else:
        operators = {
            (e["name"] if not e["name"].startswith("ProfilerStep#") else "ProfilerStep*")
            for e in events_of(recording)
            if e["kind"] in ("operator", "range")
        }
        want = {name: row for name, row in want.items() if name in operators}
        for row in want.values():
            if row.pop("range"):
                # torch counts Python functions below a range as children, and the range's own
                # shadow on the device as work.
                for column in ("host_self_ns", "device_self_ns", "device_total_ns"):
                    row.pop(column)
    judge_rows(call_words("operator_table", recording), stub.operator_table(recording), want)


def nested(draw: Callable[[], made.Trace], seed: int) -> made.Trace:
    """Operators in operators on two threads, with kernels; what torch merges; a partial overlap."""
    rng = random.Random(seed)
    trace = draw()

    def grow(start: int, end: int, depth: int, thread: int, name: str) -> None:
        operator = trace.operator(name, start, end, thread=thread, shapes=[[rng.randint(1, 3)]])
        if rng.random() < 0.5 or depth > 3 or end - start < 4_000:
            if end - start > 1_000:
                at = end + rng.randrange(90_000)
                call = (start + 100, start + 500)
                trace.kernel(
                    at,
                    at + rng.randrange(1_000, 9_000),
                    call=call,
                    operator=operator,
                    thread=thread,
                )
            return
        parts = rng.randint(1, 3)
        size = (end - start) // (parts + 1)
        for part in range(parts):
            at = start + 20 + rng.randrange(size // 4) + part * size
            inside = name if parts == 1 and rng.random() < 0.5 else f"aten::op_{rng.randint(0, 5)}"
            grow(at, at + rng.randrange(size // 2, size * 5 // 7), depth + 1, thread, inside)

    for number in range(3):
        base = number * 400_000
        trace.step(number + 5, base, base + 390_000)
        for part in range(5):
            grow(base + part * 60_000 + 20, base + part * 60_000 + 50_000, 0, 1, f"aten::op_{part}")
            grow(base + part * 60_000 + 20, base + part * 60_000 + 50_000, 0, 2, "autograd::engine")
    return trace


@task("ex_32.operator_table")
def test_table_of_nested_operators(stub, draw, seed):
    capture = nested(draw, seed).save()
    call = call_words("operator_table", capture)
    judge_rows(call, stub.operator_table(capture), table_by_hand(capture))


@task("ex_32.operator_table")
def test_self_and_total(stub, draw):
    """linear holds addmm, which launches; a second linear on another thread, at the same time."""
    trace = draw()
    step = trace.step(8, 0, 100_000)
    linear = trace.operator("aten::linear", 1_000, 50_000, shapes=[[2, 4]])
    trace.operator("aten::t", 2_000, 9_000)
    addmm = trace.operator("aten::addmm", 10_000, 40_000, shapes=[[4], [2, 4]])
    trace.kernel(60_000, 67_000, call=(12_000, 17_000), operator=addmm)
    trace.copy(67_000, 70_000, call=(18_000, 20_000), operator=addmm)
    trace.memset(70_000, 70_500, call=(41_000, 42_000), operator=linear)
    trace.operator("aten::linear", 1_000, 50_000, shapes=[[8, 4]], thread=2)
    trace.kernel(80_000, 90_000)  # of nobody: no external id
    trace.kernel(90_000, 91_000, operator=999_999)
    trace.kernel(91_000, 92_000, call=(60_000, 61_000), operator=step)
    trace.python("train.py(3): forward", 500, 60_000)
    capture = trace.save()
    rows = {
        "ProfilerStep*": (1, 100_000, 100_000 - 49_000 - 1_000, 11_500, 1_000),
        "aten::linear": (2, 98_000, 49_000 - 7_000 - 30_000 - 1_000 + 49_000, 10_500, 500),
        "aten::addmm": (1, 30_000, 30_000 - 5_000 - 2_000, 10_000, 10_000),
        "aten::t": (1, 7_000, 7_000, 0, 0),
    }
    want = {name: dict(zip(ROW, row, strict=True)) for name, row in rows.items()}
    judge_rows(call_words("operator_table", capture), stub.operator_table(capture), want)


@task("ex_32.operator_table")
def test_an_only_child_of_the_same_name_is_one_with_its_parent(stub, draw):
    trace = draw()
    trace.step(1, 0, 90_000)
    for start, inner in ((1_000, 1), (30_000, 2)):
        outer = trace.operator("aten::sum", start, start + 20_000)
        for number in range(inner):
            at = start + 1_000 + number * 8_000
            own = trace.operator("aten::sum", at, at + 6_000)
            trace.kernel(at + 50_000, at + 54_000, call=(at + 10, at + 1_010), operator=own)
        trace.operator("aten::odd", start + 20_000, start + 20_000)  # starts at its end: not inside
    assert outer
    for deep in range(3):
        own = trace.operator("aten::to", 70_000 + deep * 1_000, 80_000 - deep * 1_000)
    trace.kernel(81_000, 83_000, call=(74_000, 75_000), operator=own)
    capture = trace.save()
    rows = {
        "ProfilerStep*": (1, 90_000, 50_000 - 10_000, 12_000 + 2_000, 0),
        "aten::to": (1, 10_000, 10_000 - 1_000, 2_000, 2_000),
        "aten::sum": (1 + 3, 20_000 + 20_000 + 12_000, 19_000 + 8_000 + 10_000, 4_000 + 8_000 + 8_000, 12_000),
        "aten::odd": (2, 0, 0, 0, 0),
    }  # fmt: skip
    want = {name: dict(zip(ROW, row, strict=True)) for name, row in rows.items()}
    judge_rows(call_words("operator_table", capture), stub.operator_table(capture), want)


@task("ex_32.operator_table")
def test_operators_that_cross_or_begin_together(stub, draw):
    """Of two that cross the earlier is closed, as in torch's own table; edges may be equal."""
    trace = draw()
    trace.step(1, 0, 90_000)
    trace.operator("aten::around", 1_000, 80_000)
    trace.operator("aten::early", 2_000, 30_000)
    trace.operator("aten::before", 3_000, 9_000)
    trace.range("late", 10_000, 60_000)
    inside = trace.operator("aten::inside_both", 12_000, 20_000)
    trace.kernel(40_000, 45_000, call=(13_000, 14_000), operator=inside)
    trace.operator("aten::outer", 62_000, 78_000)
    trace.operator("aten::starts_with_it", 62_000, 69_000)
    trace.operator("aten::ends_with_it", 71_000, 78_000)
    capture = trace.save()
    rows = {
        "ProfilerStep*": (1, 90_000, 90_000 - 79_000, 5_000, 0),
        "aten::around": (1, 79_000, 79_000 - 28_000 - 50_000 - 16_000, 5_000, 0),
        "aten::outer": (1, 16_000, 16_000 - 14_000, 0, 0),
        "aten::starts_with_it": (1, 7_000, 7_000, 0, 0),
        "aten::ends_with_it": (1, 7_000, 7_000, 0, 0),
        "aten::early": (1, 28_000, 28_000 - 6_000, 0, 0),
        "aten::before": (1, 6_000, 6_000, 0, 0),
        "late": (1, 50_000, 50_000 - 8_000, 5_000, 0),
        "aten::inside_both": (1, 8_000, 7_000, 5_000, 5_000),
    }
    want = {name: dict(zip(ROW, row, strict=True)) for name, row in rows.items()}
    assert want == table_by_hand(capture), "two oracles disagree"
    judge_rows(call_words("operator_table", capture), stub.operator_table(capture), want)


# == step_breakdown ===============================================================================


@kept_of_recordings
def breakdown_by_hand(capture: str) -> list[dict[str, Any]]:
    work = [e for e in events_of(capture) if e["kind"] in DEVICE]
    out = []
    for number, start, end in steps_of(capture):
        for device in sorted({e["device"] for e in work}):
            here = [(e["start_ns"], e["end_ns"], e["kind"]) for e in work if e["device"] == device]
            busy = length([(a, b) for a, b, _ in here], start, end)
            out.append(
                {
                    "step": number,
                    "device": device,
                    "step_ns": end - start,
                    "busy_ns": busy,
                    "kernel_ns": length([(a, b) for a, b, k in here if k == "kernel"], start, end),
                    "idle_ratio": 1 - busy / (end - start),
                }
            )
    return out


def breakdown_mistakes(capture: str) -> Variants:
    want = breakdown_by_hand(capture)
    work = [e for e in events_of(capture) if e["kind"] in DEVICE]
    calls = {e["correlation"]: e for e in events_of(capture) if e["kind"] == "call"}

    def with_busy(busy: Callable[[dict[str, Any], int, int], int]) -> list[dict[str, Any]]:
        out = []
        for row, (_, start, end) in zip(
            want, [s for s in steps_of(capture) for _ in range(len(want) // len(steps_of(capture)))],
            strict=True,
        ):  # fmt: skip
            value = busy(row, start, end)
            out.append(row | {"busy_ns": value, "idle_ratio": 1 - value / row["step_ns"]})
        return out

    def of(row: dict[str, Any]) -> list[dict[str, Any]]:
        return [e for e in work if e["device"] == row["device"]]

    def added(row: dict[str, Any], a: int, b: int, kinds: tuple[str, ...] = DEVICE) -> int:
        return sum(
            max(0, min(e["end_ns"], b) - max(e["start_ns"], a))
            for e in of(row)
            if e["kind"] in kinds
        )

    sums = with_busy(added)
    for row, (_, start, end) in zip(
        sums,
        [s for s in steps_of(capture) for _ in range(len(want) // len(steps_of(capture)))],
        strict=True,
    ):
        row["kernel_ns"] = added(row, start, end, ("kernel",))
    yield (
        sums,
        "Durations were added up; what runs at the same time counts once.",
    )
    yield (
        with_busy(lambda row, a, b: row["kernel_ns"]),
        "Copies and memsets keep a device busy as well.",
    )
    yield (
        with_busy(
            lambda row, a, b: length(
                [(e["start_ns"], e["end_ns"]) for e in of(row) if a <= e["start_ns"] < b], 0, 10**18
            )
        ),
        "An operation counts with the part of it that lies inside the step.",
    )
    yield (
        with_busy(
            lambda row, a, b: length(
                [
                    (e["start_ns"], e["end_ns"])
                    for e in of(row)
                    if e["correlation"] in calls and a <= calls[e["correlation"]]["start_ns"] < b
                ],
                0,
                10**18,
            )
        ),
        "That is the work that the step issued. Count the work that ran during the step, whichever step issued it.",
    )


def judge_breakdown(stub: Any, capture: str) -> None:
    want = breakdown_by_hand(capture)
    judge(
        call_words("step_breakdown", capture),
        stub.step_breakdown(capture),
        want,
        "(times in ns)",
        lambda: breakdown_mistakes(capture),
    )


@task("ex_32.step_breakdown")
@recordings("torch_infer_launch_bound", "torch_train_sync")
def test_breakdown_of_a_recording(stub, recording):
    judge_breakdown(stub, recording)


@task("ex_32.step_breakdown")
@pytest.mark.parametrize("kind", ["sync", "healthy"])
def test_breakdown_of_a_program(stub, program, kind):
    judge_breakdown(stub, program(kind).capture)


@task("ex_32.step_breakdown")
def test_breakdown_of_streams_and_devices(stub, draw):
    trace = draw()
    trace.step(10, 100_000, 200_000)
    trace.step(9, 0, 100_000)
    trace.step(11, 210_000, 260_000)
    trace.kernel(10_000, 40_000)
    trace.kernel(30_000, 50_000, stream=13)
    trace.kernel(12_000, 20_000, stream=14)  # inside the first one
    trace.copy(49_000, 60_000, stream=15)
    trace.memset(90_000, 130_000)
    trace.kernel(195_000, 300_000, stream=13)
    trace.kernel(5_000, 6_000, device=2)
    trace.noise(20_000)
    judge_breakdown(stub, trace.save())


@task("ex_32.step_breakdown")
def test_breakdown_of_an_older_trace(stub, draw):
    trace = draw()
    trace.clock_ns = 4_414_600_033_706_000
    trace.step(3, 0, 100_000)
    trace.kernel(10_000, 40_000)
    judge_breakdown(stub, trace.save("old"))


def without_steps(draw: Callable[[], made.Trace]) -> str:
    trace = draw()
    operator = trace.operator("aten::mm", 0, 50_000)
    trace.range("ProfilerStep", 0, 60_000)
    trace.kernel(60_000, 70_000, call=(10_000, 12_000), operator=operator)
    trace.python("ProfilerStep#1", 0, 5_000)
    trace.noise(30_000)  # the steps' shadows on the device are no steps
    return trace.save()


def without_device(draw: Callable[[], made.Trace]) -> str:
    trace = draw()
    trace.step(1, 0, 100_000)
    trace.operator("aten::mm", 10, 50_000)
    trace.call("cudaLaunchKernel", 20_000, 30_000)
    return trace.save()


@task("ex_32.step_breakdown")
def test_breakdown_needs_steps_and_a_device(stub, draw):
    with stub.raises(CaptureError, r"step\(\)", "no step is marked; the reader must learn how"):
        stub.step_breakdown(without_steps(draw))
    with stub.raises(
        CaptureError, r"ProfilerActivity\.CUDA", "nothing ran on a device: that is not idle"
    ):
        stub.step_breakdown(without_device(draw))


# == synchronizing_calls ==========================================================================

SYNCHRONIZING = re.compile(r"cuda(Device|Stream|Event)Synchronize|cu(Ctx|Stream|Event)Synchronize")


def is_library(file: str) -> bool:
    import sys

    parts = file.split("/")
    return (
        file.startswith("<")
        or bool({"torch", "site-packages"} & set(parts))
        or re.sub(r"\.py$", "", next(filter(None, parts))) in sys.stdlib_module_names
    )


@kept_of_recordings
def sync_by_hand(capture: str, pick: str = "right") -> list[dict[str, Any]]:
    """The table; `pick` computes typical mistakes."""
    steps = steps_of(capture)
    python = [e for e in events_of(capture) if e["kind"] == "python"]
    joined = "external_id" if pick == "external id" else "correlation"
    pageable = {
        e[joined]
        for e in events_of(capture)
        if (e["kind"] == "copy" or pick == "any kind")
        and ("Pageable" in e["name"] or pick == "all copies")
        and pick != "named only"
        and (pick != "inside" or any(a <= e["start_ns"] < b for _, a, b in steps))
    }
    found: dict[tuple[str, str | None], list[int]] = defaultdict(list)
    for call in events_of(capture):
        named = SYNCHRONIZING.fullmatch(call["name"])
        if pick == "one name":
            named = named and call["name"] == "cudaStreamSynchronize"
        if pick == "ends alike":
            named = call["name"].endswith("Synchronize")
        copies = pick != "one copy call" or call["name"] == "cudaMemcpyAsync"
        waits = (named and (pick != "runtime" or named[1])) or (call[joined] in pageable and copies)
        if call["kind"] != "call" or not waits:
            continue
        late = pick == "at the end"
        if pick != "outside" and not any(a <= call["start_ns"] < b + late for _, a, b in steps):
            continue
        around = sorted(
            (
                e
                for e in python
                if (e["thread"] == call["thread"] or pick == "any thread")
                and e["start_ns"] <= call["start_ns"]
                and call["end_ns"] <= e["end_ns"]
            ),
            key=lambda e: e["end_ns"] - e["start_ns"],
        )  # innermost first
        where: str | None = None
        inner: dict[str, Any] | None = None
        for event in around if pick != "outermost" else around[::-1]:
            match = re.fullmatch(r"(.+)\((\d+)\): (.+)", event["name"])
            if match and (pick == "library" or not is_library(match[1])):
                line = f"{match[1]}:{match[2]}"
                if inner is not None and inner["called_from"] and pick not in ("def", "outermost"):
                    line = inner["called_from"]
                where = f"{line} {match[3]}"
                break
            inner = event
        found[call["name"], where].append(call["end_ns"] - call["start_ns"])
    rows = [
        {"call": call, "where": where, "count": len(t), "blocked_ns": sum(t)}
        for (call, where), t in found.items()
        if where is not None or pick != "with a line"
    ]
    return sorted(
        rows, key=lambda r: (-r["blocked_ns"], r["call"], r["where"] is None, str(r["where"]))
    )


def judge_sync(stub: Any, capture: str) -> None:
    def mistakes() -> Variants:
        for pick, sentence in (
            (
                "def",
                "Give the line that called the innermost function (called_from), not the line of its def.",
            ),
            ("library", "That is a line of a library; give the program's own line that led there."),
            (
                "outermost",
                "That is the outermost function of the program; the innermost made the call.",
            ),
            ("any thread", "A function of another thread did not make this call."),
            ("at the end", "A call that starts at the end of a step is not in it."),
            ("outside", "Calls outside the steps are not part of them."),
            ("all copies", "A copy between pinned memory and the device does not block its call."),
            ("with a line", "Calls without a line wait as well: `where` is None then."),
            ("external id", "The call that issued a copy has the copy's `correlation`."),
            (
                "named only",
                "A call that copies from or to pageable memory waits as well, whatever its name.",
            ),
            ("one copy call", "Other calls issue copies as well, not cudaMemcpyAsync alone."),
            (
                "inside",
                "A copy may run after the step in which it was issued; its call waits in it.",
            ),
            ("ends alike", "Only the calls in SYNCHRONIZING_CALLS, not all whose names end alike."),
            ("runtime", "Calls of the driver wait as well: all of SYNCHRONIZING_CALLS."),
            ("one name", "Other calls wait as well: all of SYNCHRONIZING_CALLS."),
            (
                "any kind",
                "A kernel may have Pageable in its name too; the launch of one does not wait.",
            ),
        ):
            yield sync_by_hand(capture, pick), sentence

    want = sync_by_hand(capture)
    judge(
        call_words("synchronizing_calls", capture),
        stub.synchronizing_calls(capture),
        want,
        "(ns)",
        mistakes,
    )


@task("ex_32.synchronizing_calls")
@recordings("torch_train_sync", "torch_train_clean")
def test_waits_of_a_recording(stub, recording):
    judge_sync(stub, recording)


@task("ex_32.synchronizing_calls")
@pytest.mark.parametrize("kind", ["sync", "launch"])
def test_waits_of_a_program(stub, program, kind):
    judge_sync(stub, program(kind).capture)


@task("ex_32.synchronizing_calls")
def test_edges_of_steps_and_functions(stub, draw):
    """A call at the start of a step is in it, at its end not; as long as a function, it is inside."""
    trace = draw()
    trace.step(1, 1_000, 10_000)
    trace.call("cudaStreamSynchronize", 1_000, 1_700)
    trace.python("src/edge.py(5): exactly", 3_000, 4_000)
    trace.call("cudaDeviceSynchronize", 3_000, 4_000)
    trace.call("cudaEventSynchronize", 10_000, 10_900)
    judge_sync(stub, trace.save())


def waiting(draw: Callable[[], made.Trace]) -> made.Trace:
    """Waits from several lines, threads and depths."""
    trace = draw()
    trace.step(4, 1_000, 90_000)
    trace.python("train.py(80): main", 0, 200_000)
    trace.python("src/step.py(40): train_step", 2_000, 80_000, called_from="train.py:91")
    item = "<built-in method item of Tensor object at 0x7f>"
    for at, line in ((10_000, 47), (20_000, 47), (30_000, 49)):
        trace.python(item, at, at + 5_000, called_from=f"src/step.py:{line}")
        trace.call("cudaStreamSynchronize", at + 1_000, at + 4_000 + line)
    # print(tensor): through torch's own Python, and the standard library's
    trace.python("<built-in function print>", 40_000, 52_000, called_from="src/step.py:50")
    trace.python("torch/_tensor.py(560): __repr__", 40_500, 51_500, called_from="torch/_x.py:9")
    trace.python("contextlib.py(78): inner", 41_000, 51_000, called_from="torch/_tensor.py:568")
    trace.python("lib/site-packages/pkg/deep.py(3): helper", 41_500, 50_500)
    trace.python("<string>(2): generated", 41_600, 50_400)
    trace.python("asyncio/events.py(84): _run", 41_650, 50_350)
    trace.python("nn.Module: Linear_0", 41_700, 50_300)
    trace.call("cudaDeviceSynchronize", 42_000, 50_000)
    # the program's own (named like a module of Python), without knowledge of the line: the def's
    trace.python("src/queue.py(7): log", 55_000, 65_000)
    trace.call("cudaEventSynchronize", 56_000, 58_000)
    trace.python("torch/cuda/streams.py(4): sync", 59_000, 64_000)
    trace.call("cudaEventSynchronize", 60_000, 63_000)
    trace.call("cuCtxSynchronize", 64_100, 64_900)
    # backward: a thread without Python; a function of the main thread runs at the same time
    trace.call("cudaStreamSynchronize", 66_000, 67_000, thread=2)
    trace.copy(76_000, 77_000, "pageable", call=(75_500, 77_500))
    in_two_dimensions = trace.call("cudaMemcpy2DAsync", 80_000, 82_000)
    trace.copy(80_500, 81_500, "pageable", correlation=in_two_dimensions)
    trace.copy(91_000, 92_000, "pageable", call=(83_000, 84_000))  # after the step
    # what is no wait, and what is outside
    trace.copy(78_000, 79_000, "D2H", call=(77_600, 77_900))
    trace.kernel(79_500, 79_900, name="void packPageable(float*)", call=(79_100, 79_300))
    trace.call("cudaStreamWaitEvent", 68_000, 69_000)
    trace.call("cudaSeldomSynchronize", 74_000, 74_500)
    trace.call("cudaMemcpyAsync", 70_000, 71_000)
    trace.operator("cudaDeviceSynchronize", 71_000, 75_000)
    trace.call("cudaDeviceSynchronize", 90_000, 95_000)
    trace.call("cudaDeviceSynchronize", 500, 5_000)
    return trace


@task("ex_32.synchronizing_calls")
def test_lines_of_waits(stub, draw):
    judge_sync(stub, waiting(draw).save())


@task("ex_32.synchronizing_calls")
def test_equal_waits_are_ordered_by_name(stub, draw):
    trace = draw()
    trace.step(1, 0, 100_000)
    for at, file in ((10_000, "b.py"), (30_000, "a_file.py")):
        trace.python(f"{file}(3): f", at, at + 9_000)
        trace.call("cudaStreamSynchronize", at + 1_000, at + 2_000)
        trace.call("cudaEventSynchronize", at + 3_000, at + 4_000)
    trace.call("cudaStreamSynchronize", 50_000, 51_000)
    judge_sync(stub, trace.save())


# == graph_breaks =================================================================================


def regions_of(capture: str) -> list[dict[str, Any]]:
    out = []
    for event in events_of(capture):
        match = re.fullmatch(r"Torch-Compiled Region: (\d+)/(\d+)", event["name"])
        if match and event["kind"] == "operator":
            out.append(event | {"frame": int(match[1]), "version": int(match[2])})
    return out


@kept_of_recordings
def breaks_by_hand(capture: str, pick: str = "right") -> list[dict[str, Any]]:
    steps = steps_of(capture)
    found: dict[tuple[int, int], list[str | None]] = defaultdict(list)
    for inner in regions_of(capture):
        around = [
            (o["end_ns"] - o["start_ns"], o["frame"])
            for o in regions_of(capture)
            if o != inner
            and (o["thread"] == inner["thread"] or pick == "any thread")
            and o["start_ns"] <= inner["start_ns"]
            and inner["end_ns"] <= o["end_ns"]
        ]
        if not around or not any(a <= inner["start_ns"] < b for _, a, b in steps):
            continue
        source = (min if pick != "outermost" else max)(around)[1]
        where = None
        for event in events_of(capture):
            if (
                event["kind"] == "python"
                and event["thread"] == inner["thread"]
                and inner["start_ns"] <= event["start_ns"] < inner["end_ns"]
            ):
                match = re.fullmatch(
                    r"(.+)\(\d+\): torch_dynamo_resume_in_(.+)_at_(\d+)", event["name"]
                )
                if match:
                    where = f"{match[1]}:{match[3]} {match[2]}"
                    break
        found[source, inner["frame"]].append(where)
    return [
        {"from_frame": a, "to_frame": b, "count": len(w), "where": next(filter(None, w), None)}
        for (a, b), w in sorted(found.items())
    ]


def judge_breaks(stub: Any, capture: str) -> None:
    def mistakes() -> Variants:
        yield (
            breaks_by_hand(capture, "any thread"),
            "A region of another thread is not inside this one.",
        )
        yield (
            breaks_by_hand(capture, "outermost"),
            "A break belongs to the innermost region around it.",
        )
        yield [], "A compiled region inside another one is where the graph was broken."

    want = breaks_by_hand(capture)
    judge(call_words("graph_breaks", capture), stub.graph_breaks(capture), want, "", mistakes)


@task("ex_32.graph_breaks")
@recordings("torch_compile_breaks", "torch_compile_fixed")
def test_breaks_of_a_recording(stub, recording, own_recording):
    if own_recording and not regions_of(recording):
        with stub.raises(CaptureError, why="nothing ran compiled here"):
            stub.graph_breaks(recording)
        return
    judge_breaks(stub, recording)


def broken_up(draw: Callable[[], made.Trace], seed: int) -> made.Trace:
    """Compiled functions that go back to Python, in three steps, on two threads."""
    rng = random.Random(seed)
    trace = draw()
    line = rng.randrange(10, 90)
    for number in range(3):
        base = number * 100_000
        trace.step(number + 2, base, base + 100_000)
        trace.operator(f"Torch-Compiled Region: 0/{number}", base + 1_000, base + 80_000)
        trace.operator("TorchDynamo Cache Lookup", base + 1_900, base + 1_950)
        trace.operator("Torch-Compiled Region: 3/0", base + 2_000, base + 70_000)
        trace.python("torch/_dynamo/eval_frame.py(700): _fn", base + 2_050, base + 69_000)
        trace.python(
            f"net/model.py({line}): torch_dynamo_resume_in_forward_pass_at_{line}",
            base + 2_100,
            base + 68_000,
        )
        for _ in range(rng.randint(1, 2)):
            trace.operator("Torch-Compiled Region: 12/1", base + 30_000, base + 40_000)
            trace.python(
                f"net/model.py({line + 5}): torch_dynamo_resume_in_inner_at_{line + 4}",
                base + 30_100,
                base + 39_000,
            )
            base += 12_000
        trace.operator("Torch-Compiled Region: 7/0", base + 3_000, base + 5_000, thread=2)
    # once, and later than pairs of higher numbers
    trace.operator("Torch-Compiled Region: 1/0", 272_000, 276_000)
    trace.operator("Torch-Compiled Region: 0/0", 310_000, 390_000)  # after the steps
    trace.operator("Torch-Compiled Region: 3/0", 320_000, 380_000)
    trace.range("Torch-Compiled Region: 5/0", 4_000, 5_000)
    return trace


@task("ex_32.graph_breaks")
def test_breaks_of_a_drawn_trace(stub, draw, seed):
    judge_breaks(stub, broken_up(draw, seed).save())


@task("ex_32.graph_breaks")
def test_a_break_whose_line_is_unknown(stub, draw):
    trace = draw()
    trace.step(1, 0, 100_000)
    trace.operator("Torch-Compiled Region: 0/0", 0, 50_000)
    trace.operator("Torch-Compiled Region: 1/0", 10_000, 50_000)
    trace.python("model.py(9): torch_dynamo_resume_in_f_at_9", 60_000, 61_000)
    trace.python("model.py(9): torch_dynamo_resume_in_f_at_9", 20_000, 21_000, thread=2)
    trace.python("model.py(7): forward", 20_000, 21_000)
    judge_breaks(stub, trace.save())


@task("ex_32.graph_breaks")
def test_edges_of_regions(stub, draw):
    """What starts with a region is inside it, what starts at its end is not."""
    trace = draw()
    trace.step(1, 0, 100_000)
    trace.operator("Torch-Compiled Region: 0/0", 10_000, 50_000)
    trace.operator("Torch-Compiled Region: 1/0", 10_000, 40_000)
    trace.python("model.py(9): torch_dynamo_resume_in_f_at_9", 10_000, 20_000)
    trace.operator("Torch-Compiled Region: 0/0", 60_000, 90_000)
    trace.operator("Torch-Compiled Region: 2/0", 70_000, 80_000)
    trace.python("model.py(9): torch_dynamo_resume_in_f_at_9", 80_000, 85_000)
    judge_breaks(stub, trace.save())


@task("ex_32.graph_breaks")
def test_breaks_need_compiled_code(stub, draw, program):
    with stub.raises(CaptureError, why="nothing ran compiled here: that is not 'no break'"):
        stub.graph_breaks(program("sync").capture)
    with stub.raises(CaptureError, why="no step is marked"):
        stub.graph_breaks(without_steps(draw))


# == recompilations ===============================================================================


@kept_of_recordings
def compilations_by_hand(capture: str) -> list[dict[str, Any]]:
    events = events_of(capture)
    found = [e for e in events if e["kind"] == "operator" and e["name"] == COMPILATION]
    out = []
    for event in found:
        inside = any(
            o is not event
            and o["thread"] == event["thread"]
            and o["start_ns"] <= event["start_ns"] < o["end_ns"]
            for o in found
        )
        step = [s for s in steps_of(capture) if s[1] <= event["start_ns"] < s[2]]
        if inside or not step:
            continue
        after = [
            r
            for r in regions_of(capture)
            if r["thread"] == event["thread"] and r["start_ns"] >= event["end_ns"]
        ]
        region = min(after, key=lambda r: r["start_ns"], default=None)
        where = None
        if region is not None:
            for inner in events:
                match = re.fullmatch(r"(.+)\((\d+)\): (.+)", inner["name"])
                if (
                    match
                    and inner["kind"] == "python"
                    and inner["thread"] == region["thread"]
                    and region["start_ns"] <= inner["start_ns"] < region["end_ns"]
                ):
                    where = f"{match[1]}:{match[2]} {match[3]}"
                    break
        duration = event["end_ns"] - event["start_ns"]
        out.append(
            {
                "step": step[0][0],
                "frame": region["frame"] if region else None,
                "version": region["version"] if region else None,
                "where": where,
                "duration_ns": duration,
                "step_ratio": duration / (step[0][2] - step[0][1]),
            }
        )
    return out


def judge_compilations(stub: Any, capture: str) -> None:
    want = compilations_by_hand(capture)

    def mistakes() -> Variants:
        yield [], "Code was compiled in these steps: operators called COMPILATION say so."
        yield (
            [row for row in want if row["version"]],
            "A first compilation (version 0) in the steps costs as well.",
        )

    judge(
        call_words("recompilations", capture),
        stub.recompilations(capture),
        want,
        "The region that follows a compilation on its thread is what was compiled.",
        mistakes,
    )


@task("ex_32.recompilations")
@recordings("torch_compile_recompiles", "torch_compile_fixed")
def test_compilations_of_a_recording(stub, recording):
    judge_compilations(stub, recording)


@task("ex_32.recompilations")
def test_compilations_of_a_program(stub, program):
    judge_compilations(stub, program("compile").capture)
    judge_compilations(stub, program("healthy").capture)


@task("ex_32.recompilations")
def test_compilations_of_a_drawn_trace(stub, draw):
    trace = draw()
    trace.operator(COMPILATION, 0, 5_000)  # before the steps
    trace.step(6, 10_000, 100_000)
    trace.step(7, 100_000, 250_000)
    trace.operator(COMPILATION, 12_000, 40_000)
    trace.operator(COMPILATION, 20_000, 30_000)  # inside: what the function calls
    trace.operator(COMPILATION, 15_000, 18_000, thread=2)
    trace.operator("Torch-Compiled Region: 9/0", 35_000, 36_000)  # while it is compiled
    trace.operator("Torch-Compiled Region: 4/0", 41_000, 50_000, thread=2)
    trace.operator("Torch-Compiled Region: 2/1", 42_000, 60_000)
    trace.python("<built-in function f>", 42_010, 42_100)
    trace.python("model.py(30): forward", 42_500, 59_000)
    trace.python("model.py(50): later", 43_000, 58_000)
    trace.operator(COMPILATION, 90_000, 130_000)  # belongs to the step that it starts in
    trace.operator("Torch-Compiled Region: 2/13", 130_000, 140_000)
    trace.operator(COMPILATION, 200_000, 240_000)  # nothing follows
    trace.range(COMPILATION, 70_000, 80_000)
    judge_compilations(stub, trace.save())


@task("ex_32.recompilations")
def test_compilations_need_steps(stub, draw):
    with stub.raises(CaptureError, why="no step is marked"):
        stub.recompilations(without_steps(draw))


# == recoverable_time =============================================================================


def replayed(
    operations: list[Any],
    length_of: Callable[[Any], int],
    without_waits_in: tuple[str, ...] = (),
    free_copies: bool = False,
) -> int:
    """The last device end if each operation takes length_of(it), and some calls wait for nothing."""
    known: dict[int, tuple[int, int]] = {}
    for operation in operations:
        earliest = []
        for d in operation.after:
            lag = d.lag_ns
            if d.why == "wait":
                if operation.waits_in in without_waits_in:
                    continue
                if free_copies and operation.waits_in == "copy_call":
                    lag = min(0, lag)
            earliest.append(known[d.on][0 if d.at == "start" else 1] + lag)
        delay = 0 if free_copies and is_transfer(operation) else operation.delay_ns
        start = max(earliest) + delay if earliest else operation.start_ns
        known[operation.index] = start, start + length_of(operation)
    return max(known[o.index][1] for o in operations if o.device >= 0)


def is_transfer(operation: Any) -> bool:
    """A copy between host and device, which the device does; not the call that asked for it."""
    return (operation.kind, operation.name) in {("copy", way) for way in ("H2D", "D2H")}


def end_of_copies(operations: list[Any]) -> int:
    """When the copies of the busiest direction, and the shortest of the other one, could be through."""
    first = min(o.start_ns for o in operations if o.device >= 0)
    ends = [first]
    for device in {o.device for o in operations if o.device >= 0}:
        lengths = [
            [
                o.duration_ns
                for o in operations
                if is_transfer(o) and (o.device, o.name) == (device, way)
            ]
            for way in ("H2D", "D2H")
        ]
        most = max(sum(way_ns) for way_ns in lengths)
        ends += [
            first + most + min(lengths[1 - way], default=0)
            for way in (0, 1)
            if lengths[way] and sum(lengths[way]) == most
        ]
    return max(ends)


def recoverable_by_hand(capture: str, limit: int = 1_000_000) -> dict[str, int]:
    file = captures.file(capture, "trace.json")
    return dict(_recoverable(str(file), file.stat().st_mtime_ns, limit))


@lru_cache(maxsize=32)
def _recoverable(file: str, _changed: int, limit: int) -> dict[str, int]:
    steps = steps_of(file)
    events = events_of(file)
    window = min(s[1] for s in steps), max(s[2] for s in steps)
    operations = kineto.operations(events, window)
    compiling = defaultdict(list)
    for event in events:
        if event["kind"] == "operator" and event["name"] == COMPILATION:
            compiling[f"thread:{event['thread']}"].append((event["start_ns"], event["end_ns"]))

    def own(o: Any) -> bool:
        return o.kind == "host_function" or (o.kind == "host_code" and o.duration_ns > limit)

    def compiled(o: Any) -> int:
        return length(compiling[o.where], o.start_ns, o.end_ns)

    def free_launch(o: Any) -> int:
        dispatch = o.kind == "host_code" and not own(o)
        return 0 if (o.kind == "launch" or dispatch) and not o.resumes else o.duration_ns

    def free_copy(o: Any) -> int:
        return 0 if o.kind == "copy_call" or is_transfer(o) else o.duration_ns

    def free_allocation(o: Any) -> int:
        return 0 if o.kind == "allocation" else o.duration_ns

    end = replayed(operations, lambda o: o.duration_ns)
    saved = {
        "waits": max(
            0, end - replayed(operations, lambda o: o.duration_ns, ("synchronize", "copy_call"))
        ),
        "launch_cost": max(0, end - replayed(operations, free_launch)),
        "copies": max(
            0,
            end
            - max(
                replayed(operations, free_copy, free_copies=True),
                end_of_copies(operations),
            ),
        ),
        "allocation": max(0, end - replayed(operations, free_allocation, ("allocation",))),
        "host_code": max(
            0, end - replayed(operations, lambda o: compiled(o) if own(o) else o.duration_ns)
        ),
        "compilation": max(
            0,
            end - replayed(operations, lambda o: o.duration_ns - (compiled(o) if own(o) else 0)),
        ),
    }
    busy = [
        length(
            [
                (e["start_ns"], e["end_ns"])
                for e in events
                if e["kind"] in DEVICE and e["device"] == device
            ],
            *window,
        )
        for device in {o.device for o in operations if o.device >= 0}
    ]
    idle = window[1] - window[0] - max(busy)
    return {cause: ns if cause == "copies" else min(ns, idle) for cause, ns in saved.items()}


# == launch_bound =================================================================================


def launch_by_hand(capture: str, floor: float = 0.10) -> dict[str, Any]:
    steps, events = steps_of(capture), events_of(capture)
    start, end = min(s[1] for s in steps), max(s[2] for s in steps)
    calls = {
        e["correlation"]: e["start_ns"]
        for e in events
        if e["kind"] == "call" and start <= e["start_ns"] < end
    }
    work = [e for e in events if e["kind"] in DEVICE]
    issued = [e for e in work if e["kind"] == "kernel" and e["correlation"] in calls]
    starved = 0
    for kernel in issued:
        place = work.index(kernel)
        before = [e["end_ns"] for e in work[:place] if e["device"] == kernel["device"]]
        starved += calls[kernel["correlation"]] >= max(before, default=0)
    saved = recoverable_by_hand(capture)["launch_cost"]
    return {
        "launch_bound": saved / (end - start) >= floor,
        "recoverable_ns": saved,
        "window_ns": end - start,
        "recoverable_ratio": saved / (end - start),
        "kernel_count": len(issued),
        "starved_ratio": starved / len(issued),
        "launches_per_step": len({e["correlation"] for e in issued}) / len(steps),
    }


def judge_launch(stub: Any, capture: str) -> None:
    want = launch_by_hand(capture)

    def mistakes() -> Variants:
        yield (
            want | {"launch_bound": not want["launch_bound"]},
            (
                f"Free launches would save {want['recoverable_ratio']:.1%} of the steps; the floor is 10 %."
            ),
        )
        kernels = want["kernel_count"] / len(steps_of(capture))
        yield (
            want | {"launches_per_step": kernels},
            (
                "A replayed CUDA graph is one call that issues many kernels: calls are counted, not kernels."
            ),
        )

    judge(call_words("launch_bound", capture), stub.launch_bound(capture), want, "", mistakes)


@task("ex_32.launch_bound")
@recordings("torch_infer_launch_bound", "torch_infer_graph")
def test_launches_of_a_recording(stub, recording):
    judge_launch(stub, recording)


@task("ex_32.launch_bound")
@pytest.mark.parametrize("kind", ["launch", "sync", "healthy"])
def test_launches_of_a_program(stub, program, kind):
    judge_launch(stub, program(kind).capture)


@task("ex_32.launch_bound")
def test_launches_of_graphs_and_devices(stub, draw):
    trace = draw()
    trace.step(1, 0, 400_000)
    trace.step(2, 400_000, 500_000)
    trace.kernel(-9_000, 11_000, call=(-10_000, -9_500))  # of before, and still running
    graph = trace.call("cudaGraphLaunch", 10_000, 20_000)
    for place in range(5):
        at = 22_000 + place * 3_000
        trace.kernel(at, at + 2_500, correlation=graph)
    trace.kernel(36_500, 39_000, call=(36_000, 36_400))  # the device still works: not starved
    trace.kernel(42_000, 43_000, call=(39_000, 40_000))  # empty to the ns
    trace.kernel(60_000, 90_000, call=(44_000, 45_000), stream=11)  # beside the copy
    trace.copy(50_000, 120_000, call=(41_000, 42_000), stream=9)
    trace.kernel(121_000, 122_000, call=(100_000, 101_000))  # a copy is running
    trace.kernel(70_000, 71_000, call=(65_000, 66_000), device=1)  # the other device is empty
    trace.memset(130_000, 131_000, call=(125_000, 126_000))
    trace.kernel(200_000, 201_000)  # its call was not recorded
    trace.kernel(600_000, 610_000, call=(500_000, 510_000))  # issued after the steps
    judge_launch(stub, trace.save())


@task("ex_32.launch_bound")
def test_starved_is_not_launch_bound(stub, draw):
    """Every kernel finds the device empty, for a moment; free launches would save next to nothing."""
    trace = draw()
    trace.step(1, 0, 10_000_000)
    now = 0
    for _ in range(9):
        trace.kernel(now + 7_000, now + 1_000_000, call=(now, now + 5_000))
        trace.call("cudaStreamSynchronize", now + 6_000, now + 1_003_000)
        now += 1_004_000
    judge_launch(stub, trace.save())


@task("ex_32.launch_bound")
def test_launches_need_kernels(stub, draw):
    trace = draw()
    trace.step(1, 0, 100_000)
    trace.copy(10_000, 20_000, call=(1_000, 2_000))
    capture = trace.save()
    with stub.raises(CaptureError, why="no kernel was issued: nothing can be said of launches"):
        stub.launch_bound(capture)
    with stub.raises(CaptureError, why="no step is marked"):
        stub.launch_bound(without_steps(draw))


@task("ex_32.launch_bound")
def test_a_share_at_the_floor(stub, draw):
    """The step is drawn so long that free launches save exactly a tenth of it."""

    def drawn(end: int) -> str:
        trace = draw()
        trace.step(1, 0, end)
        for at in range(10_000, 90_000, 20_000):
            trace.kernel(at + 9_000, at + 14_000, call=(at, at + 5_000))
        return trace.save()

    saved = recoverable_by_hand(drawn(100_000))["launch_cost"]
    capture = drawn(10 * saved)
    assert recoverable_by_hand(capture)["launch_cost"] == saved, "the drawing contradicts itself"
    judge_launch(stub, capture)


@lru_cache(maxsize=8)
def snapshot_of(capture: str) -> dict[str, Any]:
    """A recorded snapshot: the course's own files, read by pickle itself."""
    capture = re.sub(r"/trace\.json(\.gz)?$", "", capture)
    data = captures.file(capture, "snapshot.pickle").read_bytes()
    return pickle.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)  # noqa: S301


# == held_at_peak =================================================================================


def moments(capture: str, device: int) -> tuple[list[int], list[int], list[dict[str, Any]]]:
    """Bytes in use and reserved after each entry (the beginning first), going back from the end."""
    snapshot = snapshot_of(capture)
    segments = [s for s in snapshot["segments"] if s.get("device", 0) == device]
    in_use = sum(
        b["requested_size"] for s in segments for b in s["blocks"] if b["state"] != "inactive"
    )
    reserved = sum(s["total_size"] for s in segments)
    held, kept = [in_use], [reserved]
    entries = snapshot["device_traces"][device]
    for entry in reversed(entries):
        action, size = entry["action"], entry.get("size", 0)
        in_use += {"alloc": -size, "free_completed": size}.get(action, 0)
        reserved += {
            "segment_alloc": -size,
            "segment_map": -size,
            "segment_free": size,
            "segment_unmap": size,
        }.get(action, 0)
        held.append(in_use)
        kept.append(reserved)
    return held[::-1], kept[::-1], entries


def peak_by_hand(capture: str, device: int = 0) -> dict[str, Any]:
    held, kept, entries = moments(capture, device)
    place = held.index(max(held)) - 1
    return {
        "allocated_bytes": max(held),
        "reserved_bytes": max(kept),
        "place": place,
        "time_us": entries[place].get("time_us") if place >= 0 else None,
    }


MODEL = [
    ("torch/nn/modules/linear.py", 134, "forward"),
    ("net.py", 31, "forward"),
    ("train.py", 90, "main"),
]
LOSS = [("train.py", 55, "train_step"), ("train.py", 90, "main")]


def history(allocator: Callable[..., made.Memory], seed: int) -> made.Memory:
    """Blocks that come and go at random, some older than the history."""
    rng = random.Random(seed)
    memory = allocator()
    pools = [memory.segment(40_000_000), memory.segment(60_000_000)]
    live = [memory.alloc(pools[0], rng.randrange(1, 900_000), MODEL) for _ in range(6)]
    memory.begin_history()
    lines = [MODEL, LOSS, [("net.py", rng.randrange(40, 99), "attention"), *MODEL[1:]], []]
    awaiting: list[int] = []
    extra = -1
    for step in range(120):
        time = 1_795_000_000_000_000 + step * 500
        choice = rng.random()
        if choice < 0.45 or not live:
            live.append(
                memory.alloc(rng.choice(pools), rng.randrange(1, 400_000), rng.choice(lines), time)
            )
        elif choice < 0.8:
            memory.free(live.pop(rng.randrange(len(live))), time)
        elif choice < 0.9:
            block = live.pop(rng.randrange(len(live)))
            memory.free(block, time, complete=False)
            awaiting.append(block)
        elif awaiting:
            memory.complete(awaiting.pop(0), time)
        if step == 60:
            extra = memory.segment(5_000_000, time)
        if step == 90:
            memory.release_segment(extra, time)
    return memory


def held_by_hand(
    capture: str, device: int = 0, pick: str = "right", peak_of: int | None = None, later: int = 0
) -> list[dict[str, Any]]:
    """The table; `pick` and `later`, so many places after the peak, give typical mistakes."""
    snapshot = snapshot_of(capture)
    entries = snapshot["device_traces"][device]
    place = peak_by_hand(capture, device if peak_of is None else peak_of)["place"] + later
    if place >= len(entries):  # the peak of another device; no block lasts until then
        return []
    if pick == "end":
        place = len(entries) - 1
    live: dict[int, tuple[int, list[Any]]] = {}
    born = {}
    for entry in entries[: place + 1]:
        if entry["action"] == "alloc":
            live[entry["addr"]] = entry["size"], entry["frames"]
            born[entry["addr"]] = True
        elif entry["action"] == "free_completed":
            live.pop(entry["addr"], None)
    rows: dict[str | None, list[int]] = defaultdict(list)
    for size, frames in live.values():
        where = None
        for frame in frames if pick != "outermost" else frames[::-1]:
            file = frame["filename"]
            if file.endswith(".py") and (pick == "library" or not is_library(file)):
                where = f"{file}:{frame['line']} {frame['name']}"
                break
        rows[where].append(size)
    held, _, _ = moments(capture, device)
    old = held[place + 1] - sum(size for size, _ in live.values())
    if old and pick != "no old":
        # Blocks from before: those in use now that were never allocated in the history, and those
        # released after the peak that were never allocated before it.
        count, seen = 0, dict(born)
        for entry in entries[place + 1 :]:
            if entry["action"] == "alloc":
                seen[entry["addr"]] = False
            elif entry["action"] == "free_completed" and entry["addr"] not in live:
                count += seen.get(entry["addr"]) is not False
                seen[entry["addr"]] = False
        allocated = {e["addr"] for e in entries if e["action"] == "alloc"}
        for segment in snapshot["segments"]:
            if segment.get("device", 0) == device:
                for block in segment["blocks"]:
                    in_use = block["state"] != "inactive"
                    count += in_use and block["address"] not in allocated
        rows[None] += [old] + [0] * (count - 1)
    table = [{"where": w, "bytes": sum(s), "count": len(s)} for w, s in rows.items()]
    return sorted(table, key=lambda r: (-r["bytes"], r["where"] is None, r["where"] or ""))


def judge_held(stub: Any, capture: str, device: int = 0) -> None:
    def mistakes() -> Variants:
        for pick, sentence in (
            ("end", "That is what is in use in the end, and not at the peak."),
            ("library", "That is a line of a library; give the program's own line that led there."),
            ("outermost", "That is the outermost line of the program; the innermost allocated."),
            ("no old", "Blocks from before the history hold memory too: the sum must be the peak."),
        ):
            yield held_by_hand(capture, device, pick), sentence
        peak, last = peak_by_hand(capture, device)["place"], len(moments(capture, device)[2]) - 1
        if peak == -1:
            held = moments(capture, device)[0][1:]
            yield (
                held_by_hand(capture, device, later=held.index(max(held)) + 1),
                "That is the peak after an entry. More was in use before the first one, at place -1.",
            )
        held = moments(capture, device)[0]
        again = len(held) - 2 - held[::-1].index(max(held))
        yield (
            held_by_hand(capture, device, later=again - peak),
            f"At place {again} as much is in use, but the peak is the first such place, {peak}.",
        )
        for place in (peak - 1, peak + 1):
            if -1 <= place <= last:
                yield (
                    held_by_hand(capture, device, later=place - peak),
                    f"That is what is held at place {place}; the peak is at place {peak}. The "
                    "first number of bytes_in_use belongs to place -1.",
                )
        if device:
            yield held_by_hand(capture), "That is device 0, and another one was asked for."
            mixed = held_by_hand(capture, peak_of=device)
            yield mixed, f"The peak is that of device {device}, the blocks are not."

    more = [device] if device else []
    judge(
        call_words("held_at_peak", capture, *more),
        stub.held_at_peak(capture, *more),
        held_by_hand(capture, device),
        "(bytes)",
        mistakes,
    )


@task("ex_32.held_at_peak")
@recordings("torch_memory_peak", "torch_memory_growth", holding="snapshot.pickle")
def test_holders_of_a_recording(stub, recording):
    judge_held(stub, recording)


@task("ex_32.held_at_peak")
def test_holders_of_a_history(stub, allocator, seed):
    for number in range(2):
        capture = history(allocator, seed * 10 + number).save()
        judge_held(stub, capture)
        total = sum(row["bytes"] for row in stub.held_at_peak(capture))
        assert total == peak_by_hand(capture)["allocated_bytes"], (
            f"{call_words('held_at_peak', capture)} adds up to {total} bytes, and the peak is "
            f"{peak_by_hand(capture)['allocated_bytes']}"
        )


@task("ex_32.held_at_peak")
def test_holders_right_at_the_peak(stub, allocator):
    """One place before the peak a block is not there yet, and one place after it another one is gone."""
    memory = allocator()
    pool = memory.segment(1_000_000)
    memory.begin_history()
    first = memory.alloc(pool, 4_000, MODEL)
    memory.alloc(pool, 5_000, LOSS)
    memory.free(first, complete=False)
    memory.alloc(pool, 6_000, [("a.py", 3, "h")])  # place 3: the peak
    memory.complete(first)
    memory.alloc(pool, 1_000, [("a.py", 9, "h")])
    memory.free(memory.alloc(pool, 3_000, LOSS))  # as much again
    judge_held(stub, memory.save())


@task("ex_32.held_at_peak")
def test_holders_before_the_first_entry(stub, allocator):
    """Most is in use when the history begins: the first entry is a release."""
    memory = allocator()
    pool = memory.segment(1_000_000)
    gone = memory.alloc(pool, 4_000, MODEL)
    memory.alloc(pool, 5_000, MODEL)
    memory.free(gone, complete=False)
    memory.begin_history()
    memory.complete(gone)
    memory.free(memory.alloc(pool, 3_000, LOSS))
    judge_held(stub, memory.save())


@task("ex_32.held_at_peak")
def test_holders_on_the_second_device(stub, allocator, seed):
    """The first device has a history too, with another peak, or shorter than up to this peak."""
    short = allocator()
    pool = short.segment(1_000_000)
    short.begin_history()
    short.alloc(pool, 4_000, MODEL)
    memory = history(lambda: allocator(device=1), seed * 10 + 4)
    judge_held(stub, memory.save(2, beside=short.snapshot(2)), 1)
    first = history(allocator, seed * 10 + 5).snapshot(2)
    memory = history(lambda: allocator(device=1), seed * 10 + 6)
    capture = memory.save(2, beside=first)
    for device in (1, 0):
        judge_held(stub, capture, device)


@task("ex_32.held_at_peak")
def test_lines_of_holders(stub, allocator):
    memory = allocator()
    pool = memory.segment(200_000_000)
    memory.alloc(pool, 1_000, MODEL)  # before the history: nobody knows the line
    memory.begin_history()
    lines: list[tuple[int, Any]] = [
        (5_000, MODEL),
        (7_000, [("/usr/lib/libtorch.so", 0, "at::empty"), ("train.py", 8, "make")]),
        (5_000, [("contextlib.py", 80, "inner"), ("<string>", 1, "f"), ("lib/site-packages/a.py", 2, "g"), ("b.py", 3, "h")]),
        (4_000, [("torch/optim/adam.py", 100, "step")]),
        (4_000, []),
        (9_000, MODEL),
        (8_000, [("a.py", 30, "h")]),
        (8_000, [("a.py", 3, "h")]),
        (9_000, [("z.py", 1, "h")]),  # as much as nobody's blocks
    ]  # fmt: skip
    for size, frames in lines:
        memory.alloc(pool, size, frames)
    late = memory.alloc(pool, 60_000, LOSS)
    memory.free(late)
    memory.alloc(pool, 100, LOSS)
    judge_held(stub, memory.save())


# == name_trace_bottleneck ========================================================================


def ends_by_hand(capture: str, device: int) -> list[int]:
    """What was allocated on a device at the end of each step; empty where it is not told."""
    raw = content(capture)
    first = min(
        ns(e["ts"]) for e in raw["traceEvents"] if e.get("ph") == "X" and e.get("cat") in WORDS
    )
    memory = sorted(
        (
            (ns(e["ts"]) - first, e["args"].get("Total Allocated"))
            for e in raw["traceEvents"]
            if e.get("name") == "[memory]"
            and e["args"]["Device Type"]
            and e["args"]["Device Id"] == device
        ),
        key=lambda e: e[0],
    )
    ends: list[Any] = []
    for _, _, end in steps_of(capture):
        ends += [total for time, total in memory if time <= end][-1:]
    return [] if None in ends else ends


def judge_trace(stub: Any, capture: str) -> Finding:
    """The finding follows from the savings, or from growth."""
    got = stub.name_trace_bottleneck(capture)
    call = call_words("name_trace_bottleneck", capture)
    if not isinstance(got, Finding):
        pytest.fail(f"{call} returned {show(got)}; expected a Finding", pytrace=False)
    if wrong := problems(got):
        pytest.fail(f"{call}: {wrong[0]}", pytrace=False)
    busy: dict[int, int] = defaultdict(int)
    for row in breakdown_by_hand(capture):
        busy[row["device"]] += row["busy_ns"]
    device = min(busy, key=lambda d: (busy[d], d))
    judge(
        f"{call}.subject",
        got.subject,
        f"device:{device}",
        f"Busy in the steps, in ns: {dict(busy)}.",
    )
    ends = ends_by_hand(capture, device)
    growth = min((b - a for a, b in itertools.pairwise(ends)), default=0)
    if ends and growth > 0.001 * ends[0]:
        told = f"Memory at the ends of the steps, in bytes: {ends}."
        judge(f"{call}.category", got.category, "memory_growth", told)
        want = {"growth_bytes": growth, "step_end_bytes": ends[-1]}
        judge(f"{call}.evidence", got.evidence, want, told)
        return got
    saved = recoverable_by_hand(capture)
    steps = steps_of(capture)
    window = max(s[2] for s in steps) - min(s[1] for s in steps)
    by_rank = sorted(saved, key=lambda c: CATEGORIES[CATEGORY_OF_CAUSE[c]].precedence)
    most = max(saved.values())
    close = [c for c in by_rank if saved[c] >= max(most - 0.02 * window, 0.10 * window)]
    cause = close[0] if close else max(by_rank, key=lambda c: saved[c])
    ratio = saved[cause] / window
    category = CATEGORY_OF_CAUSE[cause] if close else "healthy"
    told = f"Saved by taking a cause away, in ns: {saved}; window {window}."
    if got.category in [CATEGORY_OF_CAUSE[one] for one in close]:
        told += (
            f" {' and '.join(close)} save at least a tenth of the window, and within 2 % of it the most: "
            "the first in CATEGORY_OF_CAUSE decides between them, not the saving."
        )
    named = next((one for one in by_rank if CATEGORY_OF_CAUSE[one] == got.category), None)
    if named is not None and saved[named] < 0.10 * window:
        told += (
            f" {named} saves {100 * saved[named] / window:.3g} % of the window: below the floor."
        )
    elif named is not None and named not in close:
        told += (
            f" {named} saves {most - saved[named]} ns less than the largest saving; 2 % of the window is "
            f"{0.02 * window:.0f} ns."
        )
    if max(saved.values()) == 0.10 * window:
        told += " Exactly the floor is enough."
    why = told if close else told + " A healthy finding has the largest saving."
    if got.evidence.get("window_ns") != window:
        why = "The window is that of window(capture), from its start to its end."
    judge(f"{call}.category", got.category, category, told)
    judge(
        f"{call}.evidence",
        got.evidence,
        {
            "recoverable_ns": saved[cause],
            "window_ns": window,
            "recoverable_ratio": ratio,
            "margin_ratio": ratio - 0.10,
        },
        why,
    )
    return got


@task("ex_32.name_trace_bottleneck")
@recordings(
    "torch_train_sync",
    "torch_train_clean",
    "torch_infer_launch_bound",
    "torch_compile_recompiles",
    "torch_memory_growth",
)
def test_finding_of_a_recording(stub, recording):
    judge_trace(stub, recording)


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize(
    ("kind", "category"),
    [
        ("sync", "sync_bound"),
        ("launch", "launch_bound"),
        ("host", "host_bound"),
        ("compile", "recompilation"),
        ("healthy", "healthy"),
    ],
)
def test_finding_of_a_program(stub, program, kind, category):
    """The simulated program has one planted cause."""
    got = judge_trace(stub, program(kind).capture)
    assert got.category == category, (
        f"{call_words('name_trace_bottleneck', program(kind).capture)} says {got.category}; the program was "
        f"made {category}: {program(kind).cost}"
    )


def paused(draw: Callable[[], made.Trace], pause: int, window: int = 1_000_000) -> made.Trace:
    """Two kernels with a pause of the host between their launches; that is what can be saved."""
    trace = draw()
    trace.step(1, 0, window)
    trace.kernel(10_000, 20_000, call=(0, 5_000))
    trace.kernel(15_000 + pause, 100_000 + pause, call=(5_000 + pause, 10_000 + pause))
    trace.kernel(0, 400_000, device=1)
    return trace


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize(
    "pause", [300_000, 130_000, 121_001, 120_999, 112_000, 101_000, 100_999, 81_001, 80_999, 20_000]
)
def test_finding_near_the_floor(stub, draw, pause):
    judge_trace(stub, paused(draw, pause).save())


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize(
    ("host_ns", "window_ns"),
    [
        (200_000, 15_100_000),
        (530_000, 15_100_000),
        (530_000, 47_500_000),  # only the launches reach the floor
        (548_000, 16_200_000),  # the savings differ by exactly 2 %, also as quotients of floats
        (548_001, 16_200_000),
        (900_000, 15_100_000),
    ],
)
def test_causes_that_cure_the_same_gap(stub, draw, host_ns, window_ns):
    """A wait, a memset, and launches after it: taking either away closes nearly the same gap."""
    trace = draw()
    trace.operator("aten::long_before", -15_000_000, -14_000_000)
    trace.step(1, 0, window_ns)
    now = 0
    for _ in range(10):
        trace.kernel(now + 20_000, now + 520_000, call=(now, now + 5_000))
        trace.call("cudaStreamSynchronize", now + 6_000, now + 523_000)
        trace.memset(now + 526_000, now + 527_000, call=(now + 523_000, now + 525_000))
        now += 525_000 + host_ns
    judge_trace(stub, trace.save())


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize("other_ns", [770_000, 800_000, 830_000, 900_000])
def test_copies_come_before_launches(stub, draw, other_ns):
    """First a slow launch, then a copy that took 800 µs; they save nearly the same, in different places."""
    trace = draw()
    trace.step(1, 0, 3_000_000)
    trace.kernel(10_000, 20_000, call=(0, 5_000))
    now = 5_000 + other_ns
    trace.kernel(now + 10_000, now + 110_000, call=(now, now + 5_000))
    trace.copy(now + 110_000, now + 910_000, call=(now + 6_000, now + 8_000))
    trace.kernel(now + 910_000, now + 2_000_000, call=(now + 9_000, now + 10_000))
    category = judge_trace(stub, trace.save()).category
    assert category == ("transfer_bound" if other_ns < 900_000 else "launch_bound")


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize("other_ns", [270_000, 300_000, 330_000, 400_000])
def test_allocation_comes_before_waits(stub, draw, other_ns):
    """First a wait, then a cudaFree that took 300 µs longer than its kernel; they save nearly the same."""
    trace = draw()
    trace.step(1, 0, 3_000_000)
    now = 0
    for call, more_ns in (("cudaStreamSynchronize", other_ns), ("cudaFree", 300_000)):
        trace.kernel(now + 20_000, now + 420_000, call=(now, now + 5_000))
        trace.call(call, now + 6_000, now + 420_000 + more_ns)
        now += 420_000 + more_ns
    trace.kernel(now + 20_000, now + 420_000, call=(now, now + 5_000))
    category = judge_trace(stub, trace.save()).category
    assert category == ("allocation_bound" if other_ns < 400_000 else "sync_bound")


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize("leak", [0, 2_500])
def test_no_growth_worth_naming(stub, draw, leak):
    judge_trace(stub, leaking(draw, leak))


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize("leak", [3_000, 3_002])
def test_growth_near_its_floor(stub, draw, leak):
    """0.1 % of the first step's end is left alone, more is not."""
    judge_trace(stub, leaking(draw, leak))


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize("last", [3_000_000, 9_000_000])
def test_growth_is_what_every_step_adds(stub, draw, last):
    """A step that allocates once and for all, and one that gives back, are no growth."""
    trace = paused(draw, 300_000, 500_000)
    trace.step(2, 500_000, 1_000_000)
    trace.step(3, 1_000_000, 1_500_000)
    for number, total in enumerate((3_000_000, 8_000_000, last)):
        trace.memory(number * 500_000 + 400_000, 64, total)
    category = judge_trace(stub, trace.save()).category
    assert category == ("memory_growth" if last > 8_000_000 else "launch_bound")


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize("grows", [0, 2])
def test_growth_is_that_of_the_idlest_device(stub, draw, grows):
    """Memory of one device grows, that of the other stays; the finding is about the one that idles."""
    trace = paused(draw, 300_000)  # device 1 works more than device 0
    trace.kernel(0, 5_000, device=2)
    for number in range(1, 4):
        trace.step(number + 1, number * 1_000_000, number * 1_000_000 + 900_000)
        for device in (0, 2):
            total = 3_000_000 + 900_000 * number * (device == grows)
            trace.memory(number * 1_000_000 + 400_000, 64, total, device=device)
    found = judge_trace(stub, trace.save())
    assert (found.category == "memory_growth") == (grows == 2), f"the drawing is {found.category}"


WORLDS = {
    "sync": ("sync_bound", "waits", "the host waits after nearly every kernel"),
    "host": ("host_bound", "host_code", "the host computes something of its own in each step"),
    "compile": ("recompilation", "compilation", "each step holds a compilation"),
    "launch": (
        "launch_bound",
        "launch_cost",
        "the kernels are shorter than it takes to issue them",
    ),
}


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize("kind", [*WORLDS, "growth"])
def test_verdict_changes_with_its_cause_alone(stub, program, draw, kind):
    """Worlds that differ in one thing: the cause is taken away, or only names and numbers change."""
    grows = kind == "growth"
    cost = program("healthy" if grows else kind).cost
    category, cause, told = WORLDS.get(kind, ("memory_growth", "waits", "every step keeps memory"))

    def world(changed: made.Cost, totals: list[int], name: str = "kernel", shift: int = 0) -> str:
        trace = draw()
        happened = made.simulate(changed, 4, lambda: trace)
        for event in trace.events:
            if event["cat"] == "kernel":
                event["name"] = name
        trace.clock_ns += shift
        for (_, start, _), total in zip(happened["steps"], totals, strict=True):
            trace.memory(start + 2_000, 64, total)
            trace.memory(start + 2_500, 64, 9 * total, device=None)  # of the host
        return trace.save()

    flat, climbing = [5_000_000] * 4, [5_000_000 + 900_000 * step for step in range(4)]
    once = [5_000_000, 9_000_000, 9_000_000, 9_000_000]
    totals = climbing if grows else flat
    without = world(cost, once) if grows else world(cost.without(cause), flat)
    other = "no step but the first adds memory" if grows else "the same program without it"
    alike = world(cost, totals, "renamed_kernel", 10**12)
    family = Family(
        World(world(cost, totals), category, told),
        without=(World(without, "healthy", other),),
        alike=(World(alike, told="kernels have other names, and the clock another start"),),
    )

    def verdict(capture: str) -> Any:
        found = stub.name_trace_bottleneck(capture)
        return found.category if type(found) is Finding else found

    judge_families(verdict, [family], "name_trace_bottleneck")


@task("ex_32.name_trace_bottleneck")
def test_memory_of_one_step_is_no_growth(stub, draw):
    """Nothing was recorded before the end of the first step, and little after it: the time decides."""
    trace = paused(draw, 300_000, 500_000)
    trace.step(2, 500_000, 1_000_000)
    trace.memory(900_000, 64, 512)
    assert judge_trace(stub, trace.save()).category == "launch_bound"


@task("ex_32.name_trace_bottleneck")
def test_two_steps_can_grow(stub, draw):
    trace = paused(draw, 300_000, 500_000)
    trace.step(2, 500_000, 1_000_000)
    for number in range(2):
        trace.memory(number * 500_000 + 400_000, 64, 3_000_000 + 90_000 * number)
    assert judge_trace(stub, trace.save()).category == "memory_growth"


def leaking(draw: Callable[[], made.Trace], leak: int) -> str:
    trace = paused(draw, 300_000, 500_000)
    trace.step(2, 500_000, 1_000_000)
    trace.step(3, 1_000_000, 1_500_000)
    for number in range(3):
        trace.memory(number * 500_000 + 400_000, leak, 3_000_000 + leak * number)
        trace.memory(number * 500_000 + 400_000, leak, 1_000 * (number + 1), device=None)
    return trace.save()


@task("ex_32.name_trace_bottleneck")
def test_finding_is_about_the_idlest_device(stub, draw):
    """The lowest of two that are equally idle over all steps, not in the first one."""
    trace = paused(draw, 300_000)
    trace.step(2, 1_000_000, 1_100_000)
    trace.kernel(0, 50_000, device=3)
    trace.kernel(100_000, 140_000, device=2)
    trace.kernel(1_010_000, 1_020_000, device=2)
    trace.kernel(200_000, 230_000, device=4)
    trace.kernel(1_020_000, 1_080_000, device=4)
    judge_trace(stub, trace.save())


@task("ex_32.name_trace_bottleneck")
@pytest.mark.parametrize("category", ["transfer_bound", "allocation_bound"])
def test_finding_of_copies_and_of_allocation(stub, draw, category):
    """Copies that hold kernels up; or calls that release memory, and wait for the device."""
    trace = draw()
    trace.step(1, 0, 4_000_000)
    for place, at in enumerate(range(20_000, 3_620_000, 600_000)):
        if category == "transfer_bound":
            call = 3_000 * place
            trace.copy(at + 20_000, at + 220_000, call=(call, call + 1_000))
            trace.kernel(at + 222_000, at + 590_000, call=(call + 1_500, call + 2_500))
        else:
            trace.kernel(at + 20_000, at + 220_000, call=(at, at + 5_000))
            trace.call("cudaFree", at + 6_000, at + 570_000)
    got = judge_trace(stub, trace.save())
    assert got.category == category, f"the drawing is {got.category}"


# == profile_steps ================================================================================


def profiled(stub: Any, wait: int, warmup: int, active: int, repeat: int, fail_at=None) -> dict:
    plan = {"wait": wait, "warmup": warmup, "active": active, "repeat": repeat}
    return stub.probe(PROBE, "check_of_profile_steps", plan, fail_at)


def judge_steps(
    stub: Any, wait: int, warmup: int, active: int, repeat: int, by_default: bool = False
) -> None:
    if by_default:
        told, call = stub.probe(PROBE, "check_of_profile_steps", {}), "profile_steps(step, folder)"
    else:
        told = profiled(stub, wait, warmup, active, repeat)
        call = f"profile_steps(step, folder, {wait=}, {warmup=}, {active=}, {repeat=})"
    cycle = wait + warmup + active
    if told["raised"]:
        pytest.fail(f"{call} raised {told['raised']}", pytrace=False)
    if told["calls"] != cycle * repeat:
        pytest.fail(
            f"{call} called the step {told['calls']} times; expected ({wait} + {warmup} + {active}) * "
            f"{repeat} = {cycle * repeat}: a training step that runs once more changes the model.",
            pytrace=False,
        )
    names = [file["name"] for file in told["files"]]
    want = [f"trace_{number}.json" for number in range(repeat)]
    if told["kind"] != "list" or names != want or not all(f["inside"] for f in told["files"]):
        pytest.fail(
            f"{call} returned a {told['kind']} with the files {names}, and the folder holds "
            f"{told['in_folder']}; expected a list of the paths of {want} in the folder: one file a "
            "cycle, in order.",
            pytrace=False,
        )
    for number, file in enumerate(told["files"]):
        if "error" in file:
            pytest.fail(f"{call}: {file['name']} cannot be read ({file['error']})", pytrace=False)
        first = number * cycle + wait + warmup
        expected = list(range(first, first + active))
        if file["sines"] and not file["shapes"]:
            pytest.fail(f"{call}: {file['name']} holds no shapes of inputs.", pytrace=False)
        if file["calls"] != expected:
            pytest.fail(
                f"{call}: {file['name']} holds the work of calls {file['calls']} of the step; expected "
                f"{expected}: {wait} are waited for and {warmup} warm up in each cycle, because the first "
                "steps are not like the others.",
                pytrace=False,
            )
        if told["on_from"][number : number + 1] != [number * cycle + wait]:
            pytest.fail(
                f"{call} switched the profiler on before calls {told['on_from']} of the step; expected "
                f"{[n * cycle + wait for n in range(repeat)]}: off for {wait} in each cycle (wait), then "
                f"on and discarding for {warmup} (warmup).",
                pytrace=False,
            )
        if len(file["steps"]) != active:
            pytest.fail(
                f"{call}: {file['name']} marks the steps {file['steps']}; expected {active} "
                "ProfilerStep ranges: the profiler's own step() ends each.",
                pytrace=False,
            )
        for what, why in (
            ("stacks", "no Python stacks: nobody can tell the line"),
            ("memory", "no allocations of memory: nobody can tell what grows"),
        ):
            if not file[what]:
                pytest.fail(f"{call}: {file['name']} holds {why}.", pytrace=False)


@task("ex_32.profile_steps")
def test_the_steady_steps_are_recorded(stub, seed):
    rng = random.Random(seed)
    judge_steps(stub, 1, 1, 3, 1)
    judge_steps(stub, rng.randint(1, 2), 3, rng.randint(1, 2), 2)


@task("ex_32.profile_steps")
def test_one_cycle_of_three_is_the_default(stub):
    judge_steps(stub, 1, 1, 3, 1, by_default=True)


@task("ex_32.profile_steps")
@pytest.mark.parametrize("gpu", [True, False])
def test_the_gpu_is_recorded_where_there_is_one(stub, gpu):
    asked = stub.probe(PROBE, "activities_of_profile_steps", gpu)
    where = "a machine with a GPU" if gpu else "a machine without a GPU"
    for names in asked:
        if names is not None and ("CPU" not in names or ("CUDA" in names) != gpu):
            pytest.fail(
                f"profile_steps on {where} asks torch.profiler for the activities {names}; expected "
                f"the host{' and the GPU: else the trace holds no kernel' if gpu else ' alone'}.",
                pytrace=False,
            )


@task("ex_32.profile_steps")
def test_a_failing_step_stops_the_profiler(stub):
    told = profiled(stub, 1, 1, 3, 1, fail_at=3)
    call = "profile_steps of a step whose fourth call raises ArithmeticError"
    if told["raised"] != "ArithmeticError" or told["calls"] != 4:
        pytest.fail(
            f"{call}: the exception did not come back after 4 calls (came back: {told['raised']}, "
            f"{told['calls']} calls); the caller must learn of it.",
            pytrace=False,
        )
    if told["left_on"]:
        pytest.fail(
            f"{call}: the profiler is still on afterwards; everything that follows pays for it.",
            pytrace=False,
        )


@task("ex_32.profile_steps")
def test_the_smallest_schedule_is_possible(stub):
    told = profiled(stub, 0, 0, 1, 1)
    call = "profile_steps(step, folder, wait=0, warmup=0, active=1, repeat=1)"
    if told["raised"] is not None or told["calls"] != 1:
        pytest.fail(
            f"{call}: {told['calls']} calls of step, expected 1; {told['raised'] or 'nothing'} was raised.",
            pytrace=False,
        )
    if len(told["files"]) != 1:
        pytest.fail(
            f"{call} left the files {told['in_folder']}, expected one: a schedule without `repeat` begins another "
            "cycle after the last step.",
            pytrace=False,
        )


# == refuses_bad_input ============================================================================


@task("ex_32.refuses_bad_input")
def test_possible_schedules_are_counted(stub, seed):
    rng = random.Random(seed)
    drawn = [
        (rng.randrange(9), rng.randrange(9), rng.randint(1, 9), rng.randint(1, 9)) for _ in "abc"
    ]
    for wait, warmup, active, repeat in [(0, 0, 1, 1), (1, 1, 3, 2), *drawn]:
        judge(
            call_words("refuses_bad_input", wait, warmup, active, repeat),
            stub.refuses_bad_input(wait, warmup, active, repeat),
            (wait + warmup + active) * repeat,
            "A cycle has `wait`, then `warmup`, then `active` steps, and there are `repeat` cycles.",
        )


@task("ex_32.refuses_bad_input")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("wait", value) for value in (-1, 1.0, True)),
        *(("warmup", value) for value in (-1, 0.5)),
        *(("active", value) for value in (0, -2, "3", True)),
        *(("repeat", value) for value in (0, -1, None)),
    ],
)
def test_an_impossible_schedule_is_refused(stub, name, value):
    right = {"wait": 11, "warmup": 12, "active": 13, "repeat": 14}
    del right[name]
    why = f"{name}={value!r}: the message names the argument and shows the value as repr does"
    with stub.raises(ValueError, (name, repr(value)), why) as refused:
        stub.refuses_bad_input(**right, **{name: value})
    others = [word for pair in right.items() for word in map(str, pair) if word in refused.message]
    if others:
        pytest.fail(
            f"refuses_bad_input with {name}={value!r}: the message {refused.message!r} also holds "
            f"{', '.join(others)}, which is right; it must say which argument is wrong",
            pytrace=False,
        )
