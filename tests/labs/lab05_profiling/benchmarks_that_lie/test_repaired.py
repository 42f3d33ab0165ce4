"""Checks of `repaired.py`: benchmarks run on virtual machines whose true times are known.

The machine stays on this side, so that a benchmark can only measure it. Numbers are drawn anew in each
session.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from grading.checks import task
from profiling_lab.virtual_gpu import Gpu, VirtualGpu

TIME = ("unfinished", "foreign_work", "extra_work", "not_run")
WORK = ("idle", "warm_cache", "zeros", "not_steady")


@pytest.fixture
def draw_number(seed: int, request: pytest.FixtureRequest) -> random.Random:
    """Random numbers of this check and session."""
    return random.Random(f"{seed} {request.node.name.partition('[')[0]}")


# --- what is wrong, worked out here --------------------------------------------------------------


def in_common(region: dict[str, int], operation: dict[str, Any]) -> int:
    """ns of a region in which an operation ran."""
    if operation["start_ns"] is None:
        return 0
    return len(
        range(
            max(region["start_ns"], operation["start_ns"]),
            min(region["end_ns"], operation["end_ns"]),
        )
    )


def time_evidence(log: dict[str, Any]) -> dict[str, str]:
    """Name of a fault → a sentence of the log that shows it; `time_faults` in another way."""
    shown: dict[str, str] = {}
    for number, region in enumerate(log["regions"]):
        length = region["end_ns"] - region["start_ns"]
        for operation in log["operations"]:
            start, end = operation["start_ns"], operation["end_ns"]
            if operation["region"] != number:
                if both := in_common(region, operation):
                    shown["foreign_work"] = (
                        f"for {both:,} of the {length:,} ns of region {number} an operation of the kind "
                        f"{operation['kind']!r} ran that was not issued in it"
                    )
            elif operation["kind"] != "call":
                shown["extra_work"] = (
                    f"in region {number} an operation of the kind {operation['kind']!r} was issued"
                )
            elif start is None:
                shown["not_run"] = f"a call of region {number} never ran"
            elif in_common(region, operation) != end - start:
                shown["unfinished"] = (
                    f"region {number} lasts from {region['start_ns']:,} to {region['end_ns']:,} ns, and "
                    f"a call of it ran from {start:,} to {end:,} ns"
                )
    return {name: shown[name] for name in TIME if name in shown}


def work_evidence(log: dict[str, Any], latency: bool = False, cold: bool = False) -> dict[str, str]:
    """The same for `work_faults`."""
    shown: dict[str, str] = {}
    for number, region in enumerate(log["regions"]):
        length = region["end_ns"] - region["start_ns"]
        busy = sum(in_common(region, operation) for operation in log["operations"])
        if not latency and 10 * busy < 9 * length:
            shown["idle"] = f"in region {number} something ran for {busy:,} of its {length:,} ns"
    calls = [
        (place, operation)
        for place, operation in enumerate(log["operations"])
        if operation["kind"] == "call"
    ]
    timed = [(place, call) for place, call in calls if call["region"] is not None]
    if cold:
        for place, call in timed:
            before = [p for p, other in calls if p < place and other["input"] == call["input"]]
            between = log["operations"][max(before, default=place) : place]
            if before and all(operation["kind"] != "flush" for operation in between):
                shown["warm_cache"] = (
                    f"operation {place} is a call on input {call['input']}, as operation "
                    f"{max(before)} was, and no flush lies between them"
                )
    if any(call["data"] == "zeros" for _, call in timed):
        shown["zeros"] = "a call of a region had zeros for data"
    ran = [c["end_ns"] - c["start_ns"] for _, c in timed if c["start_ns"] is not None]
    if len(ran) >= 8:
        some = len(ran) // 4
        first, last = statistics.median(ran[:some]), statistics.median(ran[len(ran) - some :])
        if first / last > 1.05:
            shown["not_steady"] = (
                f"of {len(ran)} calls the first {some} took {first:,} ns in the median, the last {some} "
                f"{last:,} ns"
            )
    return {name: shown[name] for name in WORK if name in shown}


def compare(name: str, got: Any, wanted: dict[str, str], what: str) -> None:
    """Hold names against those that the log shows."""
    assert type(got) is list, f"{name} on {what} returned {got!r}, expected a list of names"
    missing = [fault for fault in wanted if fault not in got]
    assert not missing, (
        f"{name} on {what} returned {got}; it misses something: {wanted[missing[0]]}. A number from such "
        "a benchmark would be believed"
    )
    extra = [fault for fault in got if fault not in wanted]
    assert not extra, (
        f"{name} on {what} returned {got}, but nothing in the log fits the definition of {extra[0]!r}: an "
        "honest measurement would be thrown away"
    )
    assert got == list(wanted), (
        f"{name} on {what} returned {got}, expected {list(wanted)}: the order of the contract, each once"
    )


# --- logs ----------------------------------------------------------------------------------------


def logs(chance: random.Random) -> dict[str, dict[str, Any]]:
    """Logs of benchmarks with one mistake, two, or none; the answer is worked out from the log."""

    def record(
        calls: int = 24,
        before: bool = True,
        after: bool = True,
        warm: int = 1,
        data: str = "random",
        copy: bool = False,
        events: bool = False,
        stream: int = 0,
        each: bool = False,
        flush: bool = False,
        evaluate: bool = True,
        **machine: Any,
    ) -> dict[str, Any]:
        made = VirtualGpu(
            chance.randrange(10**6),
            machine.pop("call_ns", chance.randrange(200_000, 500_000)),
            copy_ns=chance.randrange(300_000, 600_000),
            **machine,
        )
        gpu = made.gpu
        x = gpu.zeros() if data == "zeros" else gpu.random()
        for _ in range(warm):
            gpu.evaluate(gpu.call(x))
        if before:
            gpu.sync()
        if not each:
            gpu.record() if events else gpu.clock_ns()
        for _ in range(calls):
            if flush:
                gpu.flush()
            if each:
                gpu.record() if events else gpu.clock_ns()
            output = gpu.call(gpu.to_device(x) if copy else x, stream=stream)
            if evaluate:
                gpu.evaluate(output)
            if each:
                if not events:
                    gpu.sync()
                gpu.record() if events else gpu.clock_ns()
        if after and not each:
            gpu.sync()
        if not each:
            gpu.record() if events else gpu.clock_ns()
        gpu.sync()
        return made.log()

    long = {"queued_ns": chance.randrange(4, 9) * 10**6}
    return {
        "a row of calls, waited for before and after": record(),
        "a row of calls between two events": record(events=True, before=False, after=False, **long),
        "a cold call between two events, many times": record(
            events=True, each=True, flush=True, cold_ratio=1.6
        ),
        "a row without the wait at its end": record(after=False),
        "a row without the wait before it": record(before=False, **long),
        "a row with the compilation in it": record(warm=0, compile_ns=60_000_000),
        "a row with a copy before each call": record(copy=True),
        "a row in another stream than its events": record(events=True, after=False, stream=2),
        "a lazy row that nobody evaluates": record(lazy=True, evaluate=False),
        "a row on one input, which the machine remembers": record(remembers=True),
        "a row of which calls were refused": record(failing=0.5),
        "a row on zeros": record(data="zeros", zeros_ratio=0.8),
        "a row from a slow start": record(slow_calls=40),
        "single short calls with a wait after each": record(call_ns=15_000, each=True),
        "a warm call between two events, many times": record(events=True, each=True),
        "a row on zeros without a wait at its end": record(data="zeros", after=False),
        "a row from a slow start, compilation in it": record(
            warm=0, compile_ns=60_000_000, slow_calls=50
        ),
    }


def operation(
    kind: str, region: int | None, start: int | None, end: int | None, **more: Any
) -> dict[str, Any]:
    made = {"kind": kind, "region": region, "stream": 0, "start_ns": start, "end_ns": end}
    return made | {"input": None, "data": None} | more


def call(region: int | None, start: int | None, end: int | None, **more: Any) -> dict[str, Any]:
    return operation("call", region, start, end, **({"input": 0, "data": "random"} | more))


def drawn_log(chance: random.Random) -> dict[str, Any]:
    """Regions and operations at random places; several on the same nanosecond."""
    edges = sorted(chance.sample(range(0, 400, 10), 4))
    regions = [{"start_ns": edges[i], "end_ns": edges[i + 1]} for i in (0, 2)]
    operations = []
    for _ in range(chance.choice((1, 2, 3, 12, 24))):
        kind = chance.choice(("call", "call", "call", "call", "call", "flush", "copy"))
        region = chance.choice((None, 0, 1))
        if kind == "call" and chance.random() < 0.05:
            start = end = None
        elif region is not None and chance.random() < 0.9:
            inside = range(regions[region]["start_ns"], regions[region]["end_ns"] + 1, 5)
            start, end = sorted(chance.sample(inside, 2))
        else:
            start = chance.randrange(0, 390, 5)
            end = start + chance.randrange(5, 60, 5)
        more = {"input": chance.randrange(5), "data": "random"} if kind == "call" else {}
        if kind == "call" and chance.random() < 0.03:
            more["data"] = "zeros"
        operations.append(operation(kind, region, start, end, **more))
    return {"regions": regions, "operations": operations}


@task("lab05_lies.time_faults")
def test_the_clock_of_recorded_benchmarks(stub, draw_number) -> None:
    for what, log in logs(draw_number).items():
        compare("time_faults", stub.time_faults(log), time_evidence(log), f"the log of {what}")


@task("lab05_lies.time_faults")
def test_the_clock_to_the_nanosecond(stub) -> None:
    for what, operations in {
        "a call that fills the region from 100 to 200": [call(0, 100, 200)],
        "a call that began 1 ns before the region": [call(0, 99, 200)],
        "a call that ended 1 ns after the region": [call(0, 100, 201)],
        "a fill that ended as the region began": [operation("fill", None, 50, 100)],
        "a flush that began as the region ended": [operation("flush", None, 200, 300)],
        "a fill that ran 1 ns into the region": [operation("fill", None, 50, 101)],
        "a call of before that ran through the region": [call(None, 0, 300)],
        "a call that never ran, and one that did": [call(0, None, None), call(0, 100, 150)],
        "a call outside that never ran": [call(None, None, None)],
        "a call of the other region": [call(1, 400, 450)],
        "a call of the other region that ran here": [call(1, 150, 160)],
        "a copy between two calls": [call(0, 100, 150), operation("copy", 0, 150, 160)],
        "an input made between two calls": [call(0, 100, 150), operation("fill", 0, 150, 160)],
        "a call of before in another stream": [call(None, 0, 150, stream=3)],
        "a compilation of before": [operation("compile", None, 50, 150, stream=None)],
    }.items():
        regions = [{"start_ns": 100, "end_ns": 200}, {"start_ns": 400, "end_ns": 500}]
        log = {"regions": regions, "operations": operations}
        compare("time_faults", stub.time_faults(log), time_evidence(log), f"a log with {what}")


@task("lab05_lies.time_faults")
def test_the_clock_of_drawn_logs(stub, draw_number) -> None:
    for _ in range(60):
        log = drawn_log(draw_number)
        compare("time_faults", stub.time_faults(log), time_evidence(log), f"the drawn log {log}")


@task("lab05_lies.work_faults")
def test_the_work_of_recorded_benchmarks(stub, draw_number) -> None:
    for what, log in logs(draw_number).items():
        for asked in ({}, {"latency": True}, {"cold": True}):
            got = stub.work_faults(log, **asked)
            compare("work_faults", got, work_evidence(log, **asked), f"the log of {what} ({asked})")


@task("lab05_lies.work_faults")
def test_the_work_at_its_borders(stub) -> None:
    def in_row(durations: list[int], **more: Any) -> list[dict[str, Any]]:
        ends = [sum(durations[: place + 1]) for place in range(len(durations))]
        return [
            call(0, end - took, end, input=place, **more)
            for place, (took, end) in enumerate(zip(durations, ends, strict=True))
        ]

    for what, length, operations in (
        ("work for exactly nine tenths", 1000, in_row([400, 500])),
        ("work for 1 ns less than nine tenths", 1000, in_row([400, 499])),
        ("work that lies half outside", 1000, [call(0, 900, 1900)]),
        ("a compilation and a call", 1000, [operation("compile", 0, 0, 600), call(0, 600, 950)]),
        ("a first call 1.05 times as long", 820, in_row([105, 105, *[100] * 4, 100, 100])),
        ("a first call a bit longer", 822, in_row([106, 106, *[100] * 4, 100, 100])),
        ("seven calls, the first two longer", 1110, in_row([300, 300, *[100] * 5])),
        ("calls that get slower", 1200, in_row([100, 100, *[150] * 4, 200, 200])),
        ("one long first call of eleven", 2005, in_row([1000, *[100] * 10])),
        ("first three of twelve longer", 1530, in_row([200, 200, 200, *[100] * 9])),
        ("one long call among the first three", 1500, in_row([400, *[100] * 11])),
        ("zeros in a call outside", 300, [call(None, 0, 1, data="zeros"), *in_row([300])]),
        ("zeros in the last call", 300, [*in_row([299]), call(0, 299, 300, data="zeros", input=9)]),
        ("a long first call outside", 800, [call(None, 0, 0, input=77), *in_row([100] * 8)]),
    ):
        log = {"regions": [{"start_ns": 0, "end_ns": length}], "operations": operations}
        compare("work_faults", stub.work_faults(log), work_evidence(log), f"a log with {what}")
    flush = operation("flush", None, 0, 0)
    for what, operations in {
        "a call and another on the same input": [call(None, 0, 1), call(0, 1, 2)],
        "a flush between them": [call(None, 0, 1), flush, call(0, 1, 2)],
        "a flush and a call on another input between them": [
            call(None, 0, 1),
            flush,
            call(None, 1, 1, input=4),
            call(0, 1, 2),
        ],
        "a flush after both": [call(None, 0, 1), call(0, 1, 2), flush],
        "two inputs": [call(None, 0, 1, input=4), call(0, 1, 2)],
        "a fill between them": [call(None, 0, 1), operation("fill", None, 1, 1), call(0, 1, 2)],
    }.items():
        log = {"regions": [{"start_ns": 0, "end_ns": 2}], "operations": operations}
        for cold in (True, False):
            got = stub.work_faults(log, latency=True, cold=cold)
            wanted = work_evidence(log, latency=True, cold=cold)
            compare("work_faults", got, wanted, f"a log with {what}, cold={cold}")


@task("lab05_lies.work_faults")
def test_the_work_of_drawn_logs(stub, draw_number) -> None:
    for _ in range(60):
        log = drawn_log(draw_number)
        cold = draw_number.random() < 0.5
        got = stub.work_faults(log, cold=cold)
        compare("work_faults", got, work_evidence(log, cold=cold), f"the drawn log {log} ({cold=})")


# --- which is which ------------------------------------------------------------------------------

# What the machine of a case shows when the case runs on it; the reason is not the name of the fault.
CLUES = {
    "compile_inside": ("case_01", "its first call takes long on the host, and the others do not"),
    "warm_cache": ("case_03", "no flush lies between its calls on one input"),
    "copy_inside": ("case_04", "what it repeats is more than the call"),
    "zeros": ("case_05", "its claim says random data"),
    "best_of_many": ("case_06", "nineteen of twenty waits are longer than what it reports"),
    "no_sync": ("case_07", "the device is still at work when it reads the clock for the last time"),
    "one_after_the_other": ("case_08", "the device gets slower from call to call"),
    "sync_every_call": ("case_10", "the device is idle for most of what it measures"),
    "same_input": ("case_11", "all but its first call are answered without any work"),
    "side_stream": ("case_12", "its calls run outside of what its events enclose"),
    "no_warm_up": ("case_13", "its first calls take far longer than its last"),
    "wrong_unit": ("case_14", "its time is right, and its claim is not the number that it returns"),
    "lazy_result": ("case_15", "all but one of its calls never run"),
    "unchecked_result": ("case_16", "some of its calls never run, and it counts them all"),
}


ROOT = Path(__file__).resolve().parents[4]
RUNS = ROOT / "labs/lab05_profiling/benchmarks_that_lie/runs.json"
# The measures that show a fault itself. Others may be off as well, for many reasons.
SHOWN_BY = {
    "compile_inside": {"other_work_share"},
    "warm_cache": {"cold_share"},
    "copy_inside": {"other_work_share"},
    "zeros": {"zeros_share"},
    "best_of_many": {"reported_ratio"},
    "no_sync": {"outside_share", "other_work_share"},
    "one_after_the_other": {"drift_ratio"},
    "sync_every_call": {"busy_share"},
    "same_input": {"ran_share"},
    "side_stream": {"outside_share"},
    "no_warm_up": {"drift_ratio"},
    "wrong_unit": {"reported_ratio"},
    "lazy_result": {"ran_share"},
    "unchecked_result": {"ran_share"},
}
HONEST = {
    "case_02": (
        {"outside_share", "other_work_share"},
        "events are taken by the device in its turn: what was queued before is over by then",
    ),
    "case_09": (
        {"reported_ratio", "outside_share", "other_work_share"},
        "a wait after each call belongs to what it claims to measure",
    ),
}
# What each measure is in a series of calls that nothing is wrong with.
IN_ORDER = {
    "outside_share": (0, 0.01),
    "other_work_share": (0, 0.05),
    "busy_share": (0.9, 1),
    "ran_share": (1, 1),
    "drift_ratio": (0.95, 1.05),
    "cold_share": (0, 1),  # either, by the claim
    "zeros_share": (0, 0),
    "reported_ratio": (0.98, 1.02),
}


def run_of(case: str) -> dict[str, Any]:
    """The recorded run of a case."""
    document = json.loads(RUNS.read_text(encoding="utf-8"))
    run = document["runs"][case]
    operations = [dict(zip(document["columns"], row, strict=True)) for row in run["operations"]]
    regions = [{"start_ns": start, "end_ns": end} for start, end in run["regions"]]
    return {**run, "calls": document["calls"], "regions": regions, "operations": operations}


def measured(case: str) -> dict[str, float]:
    """The measures of a recorded run, worked out here."""
    run = run_of(case)
    regions, operations, count = run["regions"], run["operations"], run["calls"]
    lengths = [region["end_ns"] - region["start_ns"] for region in regions]
    spent = own = other = cold = zeros = 0
    times: list[int] = []
    calls = 0
    used: set[int] = set()
    for it in operations:
        timed = it["kind"] == "call" and it["region"] is not None
        inside = [in_common(region, it) for region in regions]
        if timed:
            calls += 1
            zeros += it["data"] == "zeros"
            cold += it["input"] not in used
            if it["start_ns"] is not None:
                times.append(it["end_ns"] - it["start_ns"])
                spent += times[-1]
                own += inside[it["region"]]
                other += sum(inside) - inside[it["region"]]
        else:
            other += sum(inside)
        if it["kind"] == "call":
            used.add(it["input"])
        elif it["kind"] == "flush":
            used = set()
    early = times[: len(times) // 2] or [1]
    some = len(early) // 4 or 1
    one_ns = statistics.median(lengths) if len(lengths) > 1 else lengths[0] / count
    claimed = one_ns
    if case == "case_14":
        claimed = 2**27 / one_ns
    elif case == "case_08":
        claimed = statistics.median(lengths[count:]) / statistics.median(lengths[:count])
    return {
        "outside_share": (spent - own) / spent if spent else 0.0,
        "other_work_share": other / sum(lengths),
        "busy_share": (own + other) / sum(lengths),
        "ran_share": len(times) / calls,
        "drift_ratio": statistics.median(early[:some]) / statistics.median(early[-some:]),
        "cold_share": cold / calls,
        "zeros_share": zeros / calls,
        "reported_ratio": run["reported"] / claimed,
    }


def judge_evidence(case: str, got: dict[str, Any], accepted: set[str]) -> None:
    """Fail unless a measure shows what a verdict says, with its number in the recorded run."""
    verdict, measure, value = got["verdict"], got["measure"], got["value"]
    call = f"verdicts() calls {case} {verdict!r}, by {measure!r} = {value!r}"
    found = measured(case)
    assert measure in found, f"{call}: there is no such measure. There are {', '.join(found)}"
    right = found[measure]
    assert type(value) in (int, float) and abs(value - right) <= 0.01 * max(abs(right), 1e-3), (
        f"{call}: in the recorded run of {case} {measure} is {right:.4f}"
    )
    low, high = IN_ORDER[measure]
    if measure not in accepted and low <= right <= high:
        pytest.fail(
            f"{call}: an honest row of calls also has {measure} from {low} to {high} as well, so this number "
            f"does not show {verdict!r}",
            False,
        )
    assert measure in accepted, (
        f"{call}: {measure} is off in that run, and no sign of {verdict!r}. Which measure does the verdict itself change, or clear?"
    )


@task("lab05_lies.verdicts")
def test_verdicts(stub) -> None:
    got = stub.verdicts()
    names = [f"case_{number:02d}" for number in range(1, 17)]
    assert type(got) is dict, f"verdicts() returned {got!r}, expected a dictionary by case"
    assert sorted(got) == names, f"verdicts() has the keys {sorted(got)}, expected {names}"
    keys = ["measure", "value", "verdict"]
    for case, said in got.items():
        assert type(said) is dict and sorted(said) == keys, (
            f"verdicts() says {said!r} of {case}, expected a dictionary of {', '.join(keys)}"
        )
    known = {*CLUES, "honest"}
    unknown = {case: it["verdict"] for case, it in got.items() if it["verdict"] not in known}
    assert not unknown, f"verdicts() holds {unknown}: each verdict is 'honest' or a task's name"
    for fault, (case, clue) in CLUES.items():
        verdict = got[case]["verdict"]
        shown = measured(case).get(got[case]["measure"], math.nan)
        assert verdict == fault, (
            f"verdicts() calls {case} {verdict!r}, by {got[case]['measure']} (in its recorded run: {shown:.4f}). Read that "
            f"run and the claim again: {clue}"
        )
        judge_evidence(case, got[case], SHOWN_BY[fault])
    for case, (accepted, reason) in HONEST.items():
        verdict = got[case]["verdict"]
        assert verdict == "honest", (
            f"verdicts() calls {case} {verdict!r}, but it measures what it claims to: {reason}"
        )
        judge_evidence(case, got[case], accepted)


# --- the repaired benchmarks ---------------------------------------------------------------------


def judge(
    stub: Any,
    name: str,
    machine: VirtualGpu,
    calls: int,
    truth: float,
    why: str,
    *,
    gpu: Gpu | None = None,
    unit: str = "ns",
    most_ratio: float = 0.02,
    least_calls: int | None = None,
    asked: dict[str, bool] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """Run a benchmark and hold its result against the truth; the machine's log.

    gpu: what the benchmark gets in place of the machine's own.
    """
    got = getattr(stub, name)(gpu or machine.gpu, calls, **arguments)
    log, looks = machine.log(), machine._stamps
    text = f"{name} with {calls} calls returned {got!r} {unit}"
    assert type(got) in (int, float) and math.isfinite(got), f"{text}, expected a number"
    shown = [*time_evidence(log).values(), *work_evidence(log, **(asked or {})).values()]
    seen = f" The machine's log: {'; '.join(shown)}." if shown else ""
    assert abs(got - truth) <= most_ratio * truth, (
        f"{text}, {got / truth:.3f} times the true {truth:,.4g} {unit}. {why}{seen}"
    )
    # Not by regions: whoever reads the clock once more measures no less.
    timed = [
        entry
        for entry in log["operations"]
        if entry["kind"] == "call"
        and entry["start_ns"] is not None
        and min(looks, default=0) <= entry["start_ns"] <= max(looks, default=0)
    ]
    least = calls if least_calls is None else least_calls
    assert len(timed) >= least, (
        f"{text}; {len(timed)} calls ran between its first and its last look at a clock (or event), "
        f"expected at least {least}: a single call says nothing about the others"
    )
    on_zeros = sum(entry["data"] == "zeros" for entry in timed)
    assert not on_zeros, (
        f"{text}; {on_zeros} of the {len(timed)} calls that it measured were on zeros, and random data is "
        "asked for: on many devices zeros are faster"
    )
    return log


def at_the_border(stub: Any, name: str, least_calls: int = 1, **arguments: Any) -> None:
    """The fewest calls can be measured, none cannot."""
    machine = VirtualGpu(1, (200_000, 300_000), copy_ns=1000)
    got = getattr(stub, name)(machine.gpu, least_calls, **arguments)
    assert type(got) in (int, float) and got > 0, (
        f"{name} with {least_calls} call(s) returned {got!r}, expected a positive number: so few can be "
        "measured"
    )
    for calls in (0, -3):
        machine = VirtualGpu(1, (200_000, 300_000), copy_ns=1000)
        with stub.raises(ValueError, match="calls", why=f"{calls} calls cannot be measured"):
            getattr(stub, name)(machine.gpu, calls, **arguments)


def machine_of(chance: random.Random, low: int = 200_000, **options: Any) -> VirtualGpu:
    """A machine of drawn costs. low: the least time of a call; `call_ns` sets it."""
    costs: dict[str, Any] = {
        "call_ns": chance.randrange(low, 3 * low),
        "launch_ns": chance.randrange(2_000, 5_000),
        "sync_ns": chance.randrange(5_000, 12_000),
    }
    return VirtualGpu(chance.randrange(10**6), **(costs | options))


def row(machine: VirtualGpu, calls: int, call_ns: float) -> float:
    """The true time of a call in a row: one launch and one wait are left in it."""
    return call_ns + (machine._launch_ns + machine._sync_ns) / calls


@task("lab05_lies.no_sync")
def test_no_sync(stub, draw_number) -> None:
    why = (
        "A call comes back before the device is done, and the device may be busy before the first."
    )
    # In a row as short as the first one, making the input (0.06 ms) and each wait would be seen.
    for queued, most_ns, most_calls in (
        (0, 85_000, 25),
        (draw_number.randrange(4, 9) * 10**6, 600_000, 60),
    ):
        call_ns, calls = (
            draw_number.randrange(60_000, most_ns),
            draw_number.randrange(20, most_calls),
        )
        machine = machine_of(draw_number, call_ns=call_ns, queued_ns=queued)
        judge(stub, "no_sync", machine, calls, row(machine, calls, call_ns), why)
    at_the_border(stub, "no_sync")


@task("lab05_lies.compile_inside")
def test_compile_inside(stub, draw_number) -> None:
    why = "What is asked is the time of a call once the work is compiled."
    for _ in range(2):
        call_ns, calls = draw_number.randrange(200_000, 600_000), draw_number.randrange(20, 60)
        compile_ns = draw_number.randrange(40, 200) * 10**9  # no number of calls averages it out
        machine = machine_of(draw_number, call_ns=call_ns, compile_ns=compile_ns)
        judge(stub, "compile_inside", machine, calls, row(machine, calls, call_ns), why)
    at_the_border(stub, "compile_inside")


@task("lab05_lies.copy_inside")
def test_copy_inside(stub, draw_number) -> None:
    why = "What is asked is the time of a call on data that is in the device's memory already."
    for _ in range(2):
        call_ns, calls = draw_number.randrange(200_000, 600_000), draw_number.randrange(20, 60)
        copy_ns = draw_number.randrange(300_000, 900_000)
        machine = machine_of(draw_number, call_ns=call_ns, copy_ns=copy_ns)
        copies, used = [], []

        def to_device(input: int, machine=machine, copies=copies) -> int:
            copies.append(machine.gpu.to_device(input))
            return copies[-1]

        def call_on(
            input: int, stream: int = 0, kernel: int = 0, machine=machine, used=used
        ) -> int:
            used.append(input)
            return machine.gpu.call(input, stream, kernel)

        gpu = dataclasses.replace(machine.gpu, to_device=to_device, call=call_on)
        truth = row(machine, calls, call_ns)
        judge(stub, "copy_inside", machine, calls, truth, why, gpu=gpu)
        others = sum(input not in copies for input in used)
        assert not others, (
            f"copy_inside made {others} of its {len(used)} calls on data that was never on the host: the "
            "contract asks for a copy of what on_host() gives"
        )
    at_the_border(stub, "copy_inside")


@task("lab05_lies.zeros")
def test_zeros(stub, draw_number) -> None:
    why = "Zeros run faster on this machine than the random data that is asked for."
    for _ in range(2):
        call_ns, calls = draw_number.randrange(200_000, 600_000), draw_number.randrange(20, 60)
        machine = machine_of(
            draw_number, call_ns=call_ns, zeros_ratio=draw_number.uniform(0.7, 0.9)
        )
        judge(stub, "zeros", machine, calls, row(machine, calls, call_ns), why)
    at_the_border(stub, "zeros")


@task("lab05_lies.same_input")
def test_same_input(stub, draw_number) -> None:
    why = (
        "A call on an input that the machine knows already does not run; inputs take time to make."
    )
    for _ in range(2):
        call_ns, calls = draw_number.randrange(200_000, 600_000), draw_number.randrange(20, 60)
        machine = machine_of(draw_number, call_ns=call_ns, remembers=True)
        judge(stub, "same_input", machine, calls, row(machine, calls, call_ns), why)
    at_the_border(stub, "same_input")


@task("lab05_lies.lazy_result")
def test_lazy_result(stub, draw_number) -> None:
    why = "On a lazy machine a call runs only when its own output is evaluated."
    for _ in range(2):
        call_ns, calls = draw_number.randrange(500_000, 900_000), draw_number.randrange(20, 60)
        machine = machine_of(draw_number, call_ns=call_ns, lazy=True)
        judge(stub, "lazy_result", machine, calls, row(machine, calls, call_ns), why)
    at_the_border(stub, "lazy_result")


@task("lab05_lies.unchecked_result")
def test_unchecked_result(stub, draw_number) -> None:
    why = "A call that was refused took next to no time and did nothing: it must not be counted."
    for _ in range(2):
        call_ns, calls = draw_number.randrange(500_000, 900_000), draw_number.randrange(40, 80)
        machine = machine_of(draw_number, call_ns=call_ns, failing=draw_number.uniform(0.3, 0.5))
        judge(stub, "unchecked_result", machine, calls, call_ns, why, least_calls=5)
    machine = machine_of(draw_number, failing=1.0)
    with stub.raises(RuntimeError, why="of calls that were all refused there is no time"):
        stub.unchecked_result(machine.gpu, 20)
    at_the_border(stub, "unchecked_result")


@task("lab05_lies.wrong_unit")
def test_wrong_unit(stub, draw_number) -> None:
    why = "A GB is 10^9 bytes, and a call reads as many bytes as it writes."
    for _ in range(2):
        call_ns, calls = draw_number.randrange(200_000, 600_000), draw_number.randrange(20, 60)
        input_bytes = draw_number.randrange(10**8, 10**9)
        machine = machine_of(draw_number, call_ns=call_ns)
        truth = (input_bytes + input_bytes) / call_ns
        judge(stub, "wrong_unit", machine, calls, truth, why, unit="GB/s", input_bytes=input_bytes)
    at_the_border(stub, "wrong_unit", input_bytes=10**8)


@task("lab05_lies.side_stream")
def test_side_stream(stub, draw_number) -> None:
    why = "An event is taken in the stream in which it is recorded, when that one gets there."
    for stream in draw_number.sample(range(1, 9), 2):
        call_ns, calls = draw_number.randrange(200_000, 600_000), draw_number.randrange(20, 60)
        machine = machine_of(draw_number, call_ns=call_ns)
        recorded = set()

        def record(stream: int = 0, machine=machine, recorded=recorded) -> int:
            recorded.add(stream)
            return machine.gpu.record(stream)

        gpu = dataclasses.replace(machine.gpu, record=record)
        log = judge(stub, "side_stream", machine, calls, call_ns, why, gpu=gpu, stream=stream)
        used = {entry["stream"] for entry in log["operations"] if entry["kind"] == "call"}
        assert used == {stream}, (
            f"side_stream with stream={stream} issued calls in the streams {sorted(used)}: what is asked "
            f"is the time of a call in stream {stream}"
        )
        assert recorded == {stream}, (
            f"side_stream with stream={stream} recorded events in the streams {sorted(recorded)}, expected "
            f"events in stream {stream} alone: in another one they see nothing of the calls"
        )
        ready = max(entry["end_ns"] for entry in log["operations"] if entry["kind"] == "fill")
        first = min(entry["start_ns"] for entry in log["operations"] if entry["kind"] == "call")
        assert first >= ready, (
            f"side_stream with stream={stream}: its first call ran {ready - first:,} ns before its input "
            "was ready. Streams do not wait for each other: it worked on whatever was in that memory"
        )
    at_the_border(stub, "side_stream", stream=1)


@task("lab05_lies.sync_every_call")
def test_sync_every_call(stub, draw_number) -> None:
    why = "The device waits for the host between the calls, and that is no time of the call."
    for _ in range(2):
        call_ns, calls = draw_number.randrange(1_500, 3_500), draw_number.randrange(30, 60)
        launch_ns = draw_number.randrange(4_000, 6_000)
        machine = machine_of(draw_number, call_ns=call_ns, launch_ns=launch_ns)
        judge(stub, "sync_every_call", machine, calls, call_ns, why)
    at_the_border(stub, "sync_every_call")


@task("lab05_lies.warm_cache")
def test_warm_cache(stub, draw_number) -> None:
    why = "What is asked is a call whose input is not in the cache, and nothing but the call."
    # The second one has calls so short that a launch between the events would be seen.
    for least_ns, uneven in ((100_000, True), (10_000, False)):
        call_ns = draw_number.randrange(least_ns, 3 * least_ns)
        calls, ratio = draw_number.randrange(15, 40), draw_number.uniform(1.3, 2.5)
        machine = machine_of(draw_number, call_ns=call_ns, cold_ratio=ratio, uneven=uneven)
        judge(stub, "warm_cache", machine, calls, call_ns * ratio, why, asked={"cold": True})
    at_the_border(stub, "warm_cache")


def waits(gpu: Gpu, calls: int) -> list[int]:
    """What somebody waits for each of some single calls, in ns."""
    x = gpu.random()
    gpu.sync()
    times = [gpu.clock_ns()]
    for _ in range(calls):
        gpu.call(x)
        gpu.sync()
        times.append(gpu.clock_ns())
    return [after - before for before, after in itertools.pairwise(times)]


@task("lab05_lies.best_of_many")
def test_best_of_many(stub, draw_number) -> None:
    why = (
        "Some calls take far longer than usual and some less; typical is what half of them exceed."
    )
    for _ in range(2):
        call_ns, calls = draw_number.randrange(100_000, 300_000), draw_number.randrange(101, 141)
        # The first wait is a long one, and so is that in the middle, until they are sorted.
        while True:
            seed = draw_number.randrange(10**6)
            machine = VirtualGpu(seed, call_ns, uneven=True, compile_ns=30_000_000)
            if abs(waits(machine.gpu, calls)[calls // 2] - call_ns) > 0.3 * call_ns:
                break
        machine = VirtualGpu(seed, call_ns, uneven=True, compile_ns=30_000_000)
        truth = row(machine, 1, call_ns)
        judge(stub, "best_of_many", machine, calls, truth, why, asked={"latency": True})
    at_the_border(stub, "best_of_many")


@task("lab05_lies.no_warm_up")
def test_no_warm_up(stub, draw_number) -> None:
    why = "The clocks were not up yet when it was measured."
    # The longest takes more than twenty rows, of which each is by little more than 1 % faster.
    for slow in (0, draw_number.randrange(25, 60), draw_number.randrange(650, 750)):
        call_ns, calls = draw_number.randrange(200_000, 600_000), draw_number.randrange(20, 30)
        machine = machine_of(draw_number, call_ns=call_ns, slow_calls=slow)
        log = judge(stub, "no_warm_up", machine, calls, row(machine, calls, call_ns), why)
        made = sum(entry["kind"] == "call" for entry in log["operations"])
        assert made <= 50 * calls, (
            f"no_warm_up with {calls} calls in a row made {made} calls on a machine that needs {slow} "
            "to warm up, expected at most 50 rows: a machine's time is not free"
        )
    at_the_border(stub, "no_warm_up", least_calls=20)


@task("lab05_lies.one_after_the_other")
def test_one_after_the_other(stub, draw_number) -> None:
    why = "The device gets slower from call to call: who comes later looks worse than it is."
    for ratio in (draw_number.uniform(0.8, 0.97), draw_number.uniform(1.03, 1.2)):
        first = draw_number.randrange(800_000, 1_200_000)
        machine = machine_of(
            draw_number,
            call_ns=(first, round(first * ratio)),
            drift_ratio=draw_number.uniform(0.003, 0.005),
        )
        judge(
            stub,
            "one_after_the_other",
            machine,
            draw_number.randrange(30, 50),
            ratio,
            why,
            unit="as a ratio",
        )
    at_the_border(stub, "one_after_the_other")


# --- with a GPU ----------------------------------------------------------------------------------


@task("lab05_lies.on_a_real_gpu")
def test_on_a_real_gpu(stub) -> None:
    import torch

    from profiling_lab.real_gpu import RealGpu

    def own(work: Any, x: Any, cold: bool) -> float:
        """The median of some calls between two events, measured here."""
        large, total = torch.ones(2**27, device="cuda"), torch.zeros((), device="cuda")
        pairs = []
        for _ in range(21):
            if cold:
                for _ in range(4):
                    torch.sum(large, dim=0, out=total)
            else:
                work(x)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work(x)
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return statistics.median(start.elapsed_time(end) * 1e6 for start, end in pairs)

    torch.manual_seed(0)
    cases = {
        "a product of 8192 x 8192 matrices in bf16": (
            lambda x: torch.mm(x, x),
            (8192, 8192),
            "bfloat16",
            ("row_ns", "cold_ns", "wait_ns"),
            1.25,
        ),
        "an addition of 4,194,304 elements in fp32": (
            lambda x: x + 1,
            (4 * 2**20,),
            "float32",
            ("cold_ns",),
            1.3,
        ),
    }
    for what, (work, shape, dtype, keys, most) in cases.items():
        got = stub.on_a_real_gpu(RealGpu(work, shape, dtype).gpu, 25)
        assert type(got) is dict and sorted(got) == ["cold_ns", "row_ns", "wait_ns"], (
            f"on_a_real_gpu returned {got!r}, expected the keys row_ns, cold_ns and wait_ns"
        )
        x = torch.randn(*shape, device="cuda", dtype=getattr(torch, dtype))
        for key in keys:
            truth = own(work, x, cold=key == "cold_ns")
            assert truth / most <= got[key] <= truth * most, (
                f"on_a_real_gpu says {key} = {got[key]:,.0f} for {what}; events around single calls, in the "
                f"same run, said {truth:,.0f} ns, {got[key] / truth:.2f} times as much is too far off"
            )
