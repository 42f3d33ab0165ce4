"""Checks of `advanced_ex07`: pairs of recordings, drawn pairs with a known difference, made-up samples."""

from __future__ import annotations

import heapq
import importlib.util
import itertools
import json
import math
import random
import re
import shlex
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grading.checks import oracles, task
from grading.checks.assertions import agree, judge, near, require, show
from grading.checks.fixtures import recordings, repeat_hint
from profiling_lab import captures
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding, problems

CI = Path(__file__).resolve().parents[4] / "modules/05-advanced-nsight/ex07-comparison-reports/ci"
TABLES = {
    oracles.KERNEL: "",
    oracles.GRAPH: "CUDA graphs",
    oracles.MEMCPY: "copies",
    oracles.MEMSET: "memsets",
}
CALLS = {
    "allocation_bound": r"^cu(da)?(Malloc|Free|MemAlloc|MemFree|HostAlloc|HostRegister)",
    "sync_bound": r"^cu(da)?\w*Synchronize",
    "launch_bound": r"^cu(da)?\w*Launch",
}
MORE_COUNT = 0.5


def run(file: str | Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query; none if its table is not there."""
    return oracles.query(captures.path(str(file)), sql)


# -- step_times ---------------------------------------------------------------------------------------


@cache
def steps_of(file: str | Path, step: str) -> list[int]:
    """When each step was done, by loops."""
    names = dict(run(file, "SELECT id, value FROM StringIds"))
    ends: dict[tuple[int, int], int] = {}
    for table in TABLES:
        for process, number, end in run(
            file, f'SELECT globalPid, correlationId, "end" FROM {table}'
        ):
            key = process >> 24, number
            ends[key] = max(end, ends.get(key, end))
    calls = [
        (thread, start, end, ends[thread >> 24, number])
        for thread, number, start, end in run(
            file, f'SELECT globalTid, correlationId, start, "end" FROM {oracles.RUNTIME}'
        )
        if (thread >> 24, number) in ends
    ]
    last = run(file, f'SELECT max("end") FROM {oracles.RUNTIME}')[0][0] or 0
    done: list[int] = []
    for start, end, thread, text, number in sorted(
        run(
            file,
            'SELECT start, "end", globalTid, text, textId FROM NVTX_EVENTS '
            "WHERE eventType IN (59, 60)",
        ),
        key=lambda row: row[0],
    ):
        if (text if text is not None else names.get(number)) != step:
            continue
        end = max([last, *ends.values()]) if end is None else end
        inside = [d for t, a, b, d in calls if t == thread and start <= a and b <= end]
        if inside:
            done.append(max([*done[-1:], *inside]))
    return done


def times_of(file: str | Path, step: str) -> list[int]:
    return [b - a for a, b in itertools.pairwise(steps_of(file, step))]


def judge_times(stub: Any, file: str, step: str) -> None:
    got, want = stub.step_times(file, step), times_of(file, step)
    call = f"step_times({Path(file).name!r}, {step!r})"
    require(
        isinstance(got, list | tuple) and len(got) == len(want),
        f"{call} returned {show(got)}, expected {len(want)} times: one less than there are steps",
    )
    for place, (one, other) in enumerate(zip(got, want, strict=True)):
        require(
            agree(one, other),
            f"{call}[{place}] is {show(one)}, expected {other} ns: from one step's last end on the "
            "device to the next step's, and never back; when the host entered or left a range is "
            f"another question{repeat_hint(file)}",
        )


STEPS = {
    "training_item": "step",
    "decode_graph": "token",
    "decode_eager": "token",
    "cuda_pipeline_improved": "batch",
    "alloc_cached": "step",
}


@task("advanced_ex07.step_times")
@recordings("decode_graph", "cuda_pipeline_improved")
def test_steps_of_a_recording(stub: Any, recording: str) -> None:
    judge_times(stub, recording, STEPS.get(recording, "step"))


@task("advanced_ex07.step_times")
def test_steps_of_generated_captures(stub: Any, generated: Callable) -> None:
    judge_times(stub, str(generated("healthy").path), "step")
    judge_times(stub, str(generated("two_processes_same_correlation").path), "worker")


@task("advanced_ex07.step_times")
def test_steps_on_paper(stub: Any, draw: Callable) -> None:
    timeline = draw()
    timeline.nvtx("step", 0, 100)
    timeline.kernel(1_000, 9_000, call=(0, 10))  # done after the next step's only kernel
    timeline.nvtx("step", 100, 200)
    timeline.kernel(5_000, 6_000, call=(150, 200), stream=8)
    timeline.nvtx("step", 200, 300)  # issues nothing
    timeline.nvtx("step", 300, 400)
    timeline.copy(9_500, 10_000, call=(310, 320))
    timeline.kernel(20_000, 21_000, call=(390, 401))  # issued behind the step
    timeline.nvtx("step", 500, 600)
    timeline.graph(22_000, 23_000, call=(510, 520))
    timeline.kernel(30_000, 31_000, call=(530, 540), thread=2)
    judge_times(stub, timeline.save(), "step")
    timeline = draw()
    timeline.nvtx("step", 0, 100)
    timeline.kernel(1_000, 9_000, call=(0, 10))
    timeline.nvtx("step", 100, 200)
    file = timeline.save()
    for name in ("step", "token"):
        with stub.raises(EmptyCapture, name, why="one step has no time from step to step"):
            stub.step_times(file, name)


# -- shift --------------------------------------------------------------------------------------------


def shift_of(before: Sequence[float], after: Sequence[float]) -> dict[str, float]:
    pairs = sorted(float(b - a) for a, b in itertools.product(before, after))
    m, n = len(before), len(after)
    k = math.floor(m * n / 2 - 1.96 * math.sqrt(m * n * (m + n + 1) / 12))
    return {"shift_ns": statistics.median(pairs), "low_ns": pairs[k - 1], "high_ns": pairs[-k]}


WHY_SHIFT = {
    "shift_ns": "It is the median of all differences, after minus before: one slow step moves a mean, "
    "not this.",
    "low_ns": "It is the k-th smallest difference, k from m·n / 2 − Z_95 · sqrt(m·n·(m + n + 1) / 12).",
    "high_ns": "It is the k-th largest difference.",
}


@task("advanced_ex07.shift")
@recordings("training_item", "decode_eager")
def test_shift_within_a_recording(stub: Any, recording: str) -> None:
    times = times_of(recording, STEPS.get(recording, "step"))
    first, second = times[: len(times) // 2], times[len(times) // 2 :]
    call = f"shift of the two halves of {Path(recording).name}"
    judge(call, stub.shift(first, second), shift_of(first, second), "ns", WHY_SHIFT)


@task("advanced_ex07.shift")
def test_shift_of_drawn_samples(stub: Any, seed: int) -> None:
    chance = random.Random(f"shift {seed}")
    for m, n, moved in ((4, 4, 0), (12, 7, 2_000), (20, 31, -900), (16, 16, 0)):
        before = [100_000 + chance.gauss(0, 2_000) for _ in range(m)]
        after = [100_000 + moved + chance.gauss(0, 2_000) for _ in range(n)]
        after[chance.randrange(n)] += 5_000_000  # one step met something else
        call = f"shift({m} samples, {n} samples)"
        judge(call, stub.shift(before, after), shift_of(before, after), "ns", WHY_SHIFT)


@task("advanced_ex07.shift")
def test_too_few_samples(stub: Any) -> None:
    for m, n in ((3, 3), (1, 30), (0, 9), (2, 7)):
        with stub.raises(ValueError, why=f"{m} and {n} samples carry no interval of 95 %"):
            stub.shift([1_000] * m, [2_000] * n)
    got = stub.shift([1_000] * 4, [2_000] * 4)
    judge("shift(4 equal, 4 equal)", got, dict.fromkeys(WHY_SHIFT, 1_000.0), "ns", WHY_SHIFT)


# -- match_kernels ------------------------------------------------------------------------------------


def base_of(name: str) -> str:
    """The base name, read one character after the other."""
    rest, out = name.removeprefix("void "), ""
    while rest:
        known = next((u for u in ("(anonymous namespace)", "<unnamed>") if rest.startswith(u)), "")
        if not known and rest[0] in "<(":
            break
        known = known or rest[0]
        out, rest = out + known, rest[len(known) :]
    return out


def matches_of(before: Mapping[str, float], after: Mapping[str, float]) -> list[dict[str, Any]]:
    def row(how: str, name: str, old: list[str], new: list[str]) -> dict[str, Any]:
        times = sum(before[n] for n in old), sum(after[n] for n in new)
        return {
            "how": how,
            "name": name,
            "before": sorted(old),
            "after": sorted(new),
            "before_ns": times[0],
            "after_ns": times[1],
            "change_ns": times[1] - times[0],
        }

    rows = [row("same", name, [name], [name]) for name in before if name in after]
    gone = [name for name in before if name not in after]
    fresh = [name for name in after if name not in before]
    both = {base_of(name) for name in gone} & {base_of(name) for name in fresh}
    for base in both:
        old, new = ([n for n in names if base_of(n) == base] for names in (gone, fresh))
        rows.append(row("renamed", base, old, new))
    rows += [row("removed", name, [name], []) for name in gone if base_of(name) not in both]
    rows += [row("added", name, [], [name]) for name in fresh if base_of(name) not in both]
    return sorted(rows, key=lambda r: (-abs(r["change_ns"]), r["name"]))


def judge_matches(stub: Any, before: Mapping, after: Mapping, what: str) -> None:
    got, want = stub.match_kernels(dict(before), dict(after)), matches_of(before, after)
    call = f"match_kernels({what})"
    require(isinstance(got, list), f"{call} returned {show(got)}, expected a list of dicts")
    for side in ("before", "after"):
        told = sorted(name for row in got for name in row.get(side, ()))
        known = sorted(before if side == "before" else after)
        require(
            told == known,
            f"{call}: the matches name {len(told)} kernels {side}, there are {len(known)}; every "
            f"kernel is in one match: {show(sorted({*told} ^ {*known})[:3])}",
        )
    for place, (one, other) in enumerate(itertools.zip_longest(got, want)):
        require(
            agree(one, other),
            f"{call}: place {place} is {show(one)}, expected {show(other)} (ns). Names that are the "
            "same come first, then base names; the largest change stands at the top.",
        )


def kernel_times(file: str | Path) -> dict[str, int]:
    """Time by demangled name."""
    return dict(
        run(
            file,
            f"""SELECT s.value, sum(k."end" - k.start) FROM {oracles.KERNEL} AS k
                JOIN StringIds AS s ON s.id = k.demangledName GROUP BY 1""",
        )
    )


PAIRS = {
    "decode_graph_nodes": "decode_eager",
    "training_async": "training_item",
    "alloc_cached": "alloc_every_step",
}


@task("advanced_ex07.match_kernels")
@recordings("training_async", "alloc_cached")
def test_kernels_of_a_recording(stub: Any, recording: str) -> None:
    before = kernel_times(recording)
    judge_matches(stub, before, kernel_times(PAIRS.get(recording, recording)), "recorded kernels")
    # Somebody changed the first template argument of everything.
    renamed = {re.sub(r"<(?!unnamed)", "<77, ", name, count=1): ns for name, ns in before.items()}
    judge_matches(stub, before, renamed, "kernels with other template arguments")


@task("advanced_ex07.match_kernels")
def test_names_that_changed(stub: Any, seed: int) -> None:
    chance = random.Random(f"names {seed}")

    def ns() -> int:
        return chance.randrange(1_000, 900_000)

    before = {
        "void gemm<128, 64>(float *)": ns(),
        "void gemm<64, 64>(float *)": ns(),
        "void at::<unnamed>::copy<4>(int, at::<unnamed>::F)": ns(),
        "void at::(anonymous namespace)::fill<float>(int)": ns(),
        "void at::<unnamed>::softmax<2>(int)": ns(),
        "plain_kernel": ns(),
        "scale(float *, int)": ns(),
        "void gone<1>(int)": ns(),
    }
    after = {
        "void gemm<128, 64>(float *)": ns(),
        "void gemm<256, 64>(float *)": ns(),
        "void gemm<32, 32>(float *)": ns(),
        "void at::<unnamed>::copy<8>(int, at::<unnamed>::F)": ns(),
        "void at::(anonymous namespace)::fill<double>(int)": ns(),
        "plain_kernel_2": ns(),
        "scale(float *, long)": ns(),
        "softmax<2>(int)": ns(),
    }
    judge_matches(stub, before, after, "renamed kernels")
    judge_matches(stub, {}, after, "nothing, kernels")
    judge_matches(stub, {"b": 5, "a": 5}, {"c": 5}, "equal changes")


# -- decompose ----------------------------------------------------------------------------------------


@cache
def pieces_of(file: str | Path, device: int) -> tuple[dict[str, int], dict[str, int]]:
    """Who has each moment: the first in order of the operations that run then."""
    names = dict(run(file, "SELECT id, value FROM StringIds"))
    operations = []
    for table, piece in TABLES.items():
        name = "demangledName" if not piece else "NULL"
        rows = run(file, f'SELECT start, "end", {name} FROM {table} WHERE deviceId = {device}')
        operations += [(start, end, piece or names[n], not piece) for start, end, n in rows]
    operations.sort()
    moments = sorted({moment for start, end, *_ in operations for moment in (start, end)})
    kernels: dict[str, int] = {o[2]: 0 for o in operations if o[3]}
    rest = {"idle": 0} | {o[2]: 0 for o in operations if not o[3]}
    running: list[tuple[int, int]] = []
    place = 0
    for now, then in itertools.pairwise(moments):
        while place < len(operations) and operations[place][0] <= now:
            heapq.heappush(running, (place, operations[place][1]))
            place += 1
        while running and running[0][1] <= now:
            heapq.heappop(running)
        if running:
            _, _, name, is_kernel = operations[running[0][0]]
            (kernels if is_kernel else rest)[name] += then - now
        else:
            rest["idle"] += then - now
    return kernels, rest


def decomposed(before: str, after: str, device: int = 0) -> list[dict[str, Any]]:
    old, new = pieces_of(before, device), pieces_of(after, device)
    rows = [
        {"piece": r["name"], **{k: r[k] for k in ("before_ns", "after_ns", "change_ns")}}
        for r in matches_of(old[0], new[0])
    ]
    for piece in {**old[1], **new[1]}:
        a, b = old[1].get(piece, 0), new[1].get(piece, 0)
        rows.append({"piece": piece, "before_ns": a, "after_ns": b, "change_ns": b - a})
    rows = [row for row in rows if row["before_ns"] or row["after_ns"]]
    return sorted(rows, key=lambda r: (-abs(r["change_ns"]), r["piece"]))


def span_of(file: str, device: int) -> int:
    moments = [
        moment
        for table in TABLES
        for row in run(file, f'SELECT start, "end" FROM {table} WHERE deviceId = {device}')
        for moment in row
    ]
    return max(moments) - min(moments)


def judge_pieces(stub: Any, before: str, after: str, device: int | None = None) -> None:
    given = () if device is None else (device,)
    number = device or 0
    got = stub.decompose(before, after, *given)
    want = decomposed(before, after, number)
    shown = "".join(f", {one}" for one in given)
    call = f"decompose({Path(before).name!r}, {Path(after).name!r}{shown})"
    require(
        isinstance(got, list) and all(isinstance(row, dict) for row in got),
        f"{call} returned {show(got)}, expected a list of dicts",
    )
    whole = span_of(after, number) - span_of(before, number)
    total = sum(row.get("change_ns", 0) for row in got)
    require(
        total == whole,
        f"{call}: the pieces add up to {total} ns, the whole changed by {whole} ns. What runs at the "
        "same time must not count twice, and idle time is a piece as well.",
    )
    for place, (one, other) in enumerate(itertools.zip_longest(got, want)):
        require(
            agree(one, other),
            f"{call}: place {place} is {show(one)}, expected {show(other)} (ns). An operation has what "
            "it reaches beyond the latest end so far.",
        )


@task("advanced_ex07.decompose")
@recordings("cuda_pipeline_improved", "decode_graph")
def test_pieces_of_recordings(stub: Any, recording: str) -> None:
    before = {"decode_graph": "decode_eager"}.get(recording, "cuda_pipeline_baseline")
    judge_pieces(stub, before, recording)


@task("advanced_ex07.decompose")
def test_pieces_of_generated_captures(stub: Any, generated: Callable) -> None:
    one, other = (str(generated("concurrent_kernels", nth=nth).path) for nth in (0, 1))
    judge_pieces(stub, one, other)
    first, second = (str(generated("two_devices", nth=nth).path) for nth in (0, 1))
    judge_pieces(stub, first, one, 0)
    judge_pieces(stub, first, second, 1)


@task("advanced_ex07.decompose")
def test_pieces_on_paper(stub: Any, draw: Callable) -> None:
    files = []
    for kernel_ns, name in ((400, "scale"), (700, "scale")):
        timeline = draw()
        timeline.kernel(0, 1_000, name=name)
        timeline.kernel(100, 100 + kernel_ns, name="hidden", stream=8)
        timeline.copy(900, 2_000, stream=9)
        timeline.memset(900, 1_500, stream=8)
        timeline.kernel(2_000 + kernel_ns, 4_000, name="tail")
        timeline.kernel(5_000, 5_100, name="elsewhere", device=2)
        files.append(timeline.save())
    judge_pieces(stub, *files)
    with stub.raises(EmptyCapture, "7", why="device 7 did nothing"):
        stub.decompose(*files, 7)


# -- gate ---------------------------------------------------------------------------------------------


@cache
def calls_a_step(file: str, step: str, pattern: str) -> float:
    found = run(
        file,
        f"SELECT s.value FROM {oracles.RUNTIME} AS r JOIN StringIds AS s ON s.id = r.nameId",
    )
    return sum(bool(re.search(pattern, name)) for (name,) in found) / len(steps_of(file, step))


def category_of(before: str, after: str, step: str) -> str:
    grew = {"copies": 0, "idle": 0, "kernels": 0}
    for row in decomposed(before, after):
        grew[row["piece"] if row["piece"] in grew else "kernels"] += row["change_ns"]
    most = max(grew, key=lambda piece: grew[piece])
    if most != "idle":
        return {"copies": "transfer_bound", "kernels": "slower_kernels"}[most]
    for category, pattern in CALLS.items():
        old, new = (calls_a_step(file, step, pattern) for file in (before, after))
        if new - old > MORE_COUNT:
            return category
    return "host_bound"


def ratios_of(old: Sequence[float], new: Sequence[float]) -> dict[str, float]:
    level = statistics.median(old)
    return {k.replace("_ns", "_ratio"): v / level for k, v in shift_of(old, new).items()}


def judge_gate(
    stub: Any,
    before: str,
    after: str,
    step: str,
    budget: float,
    equal: Sequence[tuple[str, str]] = (),
    category: str = "",
) -> dict[str, Any]:
    got = stub.gate(before, after, step, budget, list(equal))
    old, new = times_of(before, step), times_of(after, step)
    call = f"gate({Path(before).name!r}, {Path(after).name!r}, {step!r}, {budget})"
    moved = ratios_of(old, new)
    floor = max(
        (abs(ratios_of(times_of(a, step), times_of(b, step))["shift_ratio"]) for a, b in equal),
        default=0.0,
    )
    allowed = max(budget, floor)
    verdict = (
        "regression"
        if moved["low_ratio"] > allowed
        else "unclear"
        if moved["high_ratio"] > allowed
        else "passed"
    )
    keys = {"verdict", "exit_code", "floor_ratio", "allowed_ratio", "pieces", "finding", *moved}
    require(
        isinstance(got, dict) and got.keys() == keys,
        f"{call} returned {show(got)}, expected a dict of: {', '.join(sorted(keys))}",
    )
    numbers = {**moved, "floor_ratio": floor, "allowed_ratio": allowed}
    why = {
        "floor_ratio": "Equal runs differ by that much: the largest shift among the pairs, without sign.",
        "allowed_ratio": "The larger of budget and floor.",
    }
    judge(call, {key: got[key] for key in numbers}, numbers, "ratio", why)
    said = (
        f"the interval is {moved['low_ratio']:+.2%} … {moved['high_ratio']:+.2%}, allowed are "
        f"{allowed:.2%}"
    )
    require(
        got["verdict"] == verdict, f"{call}: verdict is {got['verdict']!r}, and {said}: {verdict!r}"
    )
    code = int(verdict == "regression")
    require(got["exit_code"] == code, f"{call}: exit_code is {got['exit_code']!r}, and {said}")
    pieces = decomposed(before, after)
    require(agree(got["pieces"], pieces), f"{call}: pieces are not those of decompose")
    want = category_of(before, after, step) if code else "healthy"
    assert not category or want == category, (want, category)
    finding = got["finding"]
    require(isinstance(finding, Finding), f"{call}: finding is {show(finding)}")
    require(not problems(finding), f"{call}: {'; '.join(problems(finding))}")
    grown = ", ".join(f"{row['piece'][:40]} {row['change_ns']:+,} ns" for row in pieces[:3])
    counts = ", ".join(
        f"{calls_a_step(before, step, p):.1f} → {calls_a_step(after, step, p):.1f} {c[:-6]}"
        for c, p in CALLS.items()
    )
    require(
        finding.category == want,
        f"{call}: the finding is {finding.category!r}; {said}; changes: {grown}; calls a step: {counts}",
    )
    require(finding.subject == f"range:{step}", f"{call}: subject is {finding.subject!r}")
    require(
        (finding.recommendation == "none") == (want == "healthy"),
        f"{call}: {want} with the recommendation {finding.recommendation!r}",
    )
    saved = max(0, round(moved["shift_ratio"] * statistics.median(old) * len(new)))
    evidence = {"recoverable_ns": saved, "window_ns": sum(new), **moved, "allowed_ratio": allowed}
    judge(f"{call}: evidence", finding.evidence, evidence, "ns, ratio", {})
    return got


@task("advanced_ex07.gate")
@recordings("alloc_every_step", "host_preprocess", "decode_eager")
def test_gate_of_recordings(stub: Any, recording: str) -> None:
    before, step, category = {
        "alloc_every_step": ("alloc_cached", "step", "allocation_bound"),
        "host_preprocess": ("host_prefetch", "step", "host_bound"),
        "decode_eager": ("decode_graph", "token", "launch_bound"),
    }.get(recording, (recording, "step", ""))
    judge_gate(stub, before, recording, step, 0.05, category=category)


AGAIN = [
    ("cuda_pipeline_baseline", "cuda_pipeline_baseline_again"),
    ("cuda_pipeline_improved", "cuda_pipeline_improved_again"),
]


@task("advanced_ex07.gate")
def test_gate_of_equal_runs(stub: Any) -> None:
    for pair in AGAIN:
        judge_gate(stub, *pair, "batch", 0.02, [pair])
        judge_gate(stub, *pair[::-1], "batch", 0.0, AGAIN)


def program(draw: Callable, seed: int, **costs: int) -> str:
    """Twenty steps of a copy, two kernels and a gap, a little different each time."""
    chance = random.Random(f"program {seed} {sorted(costs.items())}")
    times = {
        "copy": 20_000,
        "gemm": 60_000,
        "add": 9_000,
        "gap": 8_000,
        "waits": 1,
        "noise": 400,
        "ramp": 0,
        "late_waits": 0,
    }
    times |= costs
    timeline, now = draw(), 1_000_000
    for place in range(times.get("steps", 20)):
        host = 10_000 * place
        timeline.nvtx("step", host, host + 9_000)
        for place_, what in enumerate(("copy", "gemm", "add")):
            length = times[what] + chance.randrange(times["noise"])
            call = host + 1_000 * place_, host + 1_000 * place_ + 500
            if what == "copy":
                timeline.copy(now, now + length, call=call)
            else:
                timeline.kernel(now, now + length, name=what, call=call)
            now += length
        for _ in range(times["waits"] + (place < times["late_waits"])):
            timeline.api("cudaStreamSynchronize_v3020", host + 5_000, host + 6_000)
        now += times["gap"] + chance.randrange(times["noise"]) + times["ramp"] * (7 * place % 20)
    return timeline.save()


@task("advanced_ex07.gate")
def test_gate_of_drawn_programs(stub: Any, draw: Callable, seed: int) -> None:
    base = program(draw, seed)
    again = program(draw, seed + 1)
    for costs, category in (
        ({"gemm": 75_000}, "slower_kernels"),
        ({"copy": 60_000}, "transfer_bound"),
        ({"gemm": 85_000, "add": 34_000, "copy": 55_000}, "slower_kernels"),  # two grew, by less
        ({"gap": 90_000, "waits": 3}, "sync_bound"),
        ({"gap": 90_000}, "host_bound"),
        ({"gap": 1_000}, "healthy"),
    ):
        after = program(draw, seed + 2, **costs)
        judge_gate(stub, base, after, "step", 0.05, [(base, again)], category=category)
    # The steps differ by more than what changed: a part of the interval lies above the budget.
    rising = program(draw, seed + 3, ramp=1_500)
    slower = program(draw, seed + 4, ramp=1_500, gemm=66_000)
    got = judge_gate(stub, rising, slower, "step", 0.02)
    assert got["verdict"] == "unclear", got["verdict"]
    # Exactly what is allowed is allowed: a twentieth more in every step.
    even = program(draw, seed, noise=1, gap=11_000)
    got = judge_gate(
        stub, even, program(draw, seed, noise=1, gap=11_000, gemm=65_000), "step", 0.05
    )
    assert (got["verdict"], got["low_ratio"]) == ("passed", 0.05), got["verdict"]
    # Half a call more a step is not more calls.
    more = program(draw, seed, gap=90_000, late_waits=10)
    judge_gate(stub, base, more, "step", 0.05, category="host_bound")
    longer = program(draw, seed, steps=21)
    more = program(draw, seed, steps=21, gap=90_000, late_waits=11)
    judge_gate(stub, longer, more, "step", 0.05, category="sync_bound")
    # Three times the floor is not a regression if equal runs differ by more.
    slow = program(draw, seed + 5, gap=20_000)
    judge_gate(stub, base, slow, "step", 0.02, [(base, again), (base, slow)], category="healthy")


@task("advanced_ex07.gate")
def test_what_a_gate_cannot_compare(stub: Any, draw: Callable, seed: int) -> None:
    base, longer = program(draw, seed), program(draw, seed, steps=21)
    with stub.raises(ValueError, r"20\b.*21\b", why="twenty steps and twenty-one are not the same"):
        stub.gate(base, longer, "step", 0.05)
    with stub.raises(ValueError, "budget", why="the budget is negative"):
        stub.gate(base, base, "step", -0.01)
    with stub.raises(EmptyCapture, "batch", why="no range bears this name"):
        stub.gate(base, base, "batch", 0.05)


# -- report -------------------------------------------------------------------------------------------


def report_of(result: Mapping[str, Any], before: str, after: str, most: int) -> list[str]:
    def cells(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
        a, b, c = (sum(row[k] for row in rows) for k in ("before_ns", "after_ns", "change_ns"))
        return f"| {name} | {a / 1e6:,.3f} ms | {b / 1e6:,.3f} ms | {c / 1e6:+,.3f} ms |"

    def pct(key: str, sign: str = "+") -> str:
        return f"{result[key] * 100:{sign}.1f} %"

    step = result["finding"].subject.partition(":")[2]
    word = {"passed": "no regression shown"}.get(result["verdict"], result["verdict"])
    pieces = result["pieces"]
    table = [cells("`" + p["piece"][:60].replace("|", "\\|") + "`", [p]) for p in pieces[:most]]
    table += [cells("others", pieces[most:])] if len(pieces) > most else []
    return [
        f"## `{step}`: {word}",
        "",
        f"A step takes {pct('shift_ratio')} (95 % interval {pct('low_ratio')} … {pct('high_ratio')}); "
        f"allowed {pct('allowed_ratio', '')}, equal runs differ by {pct('floor_ratio', '')}.",
        "",
        f"| piece | `{before}` | `{after}` | change |",
        "|---|---:|---:|---:|",
        *table,
        cells("all", pieces),
    ]


def judge_report(stub: Any, result: dict[str, Any], *more: int) -> None:
    got = stub.report(result, "main", "change", *more)
    want = report_of(result, "main", "change", *(more or (10,)))
    call = f"report(a {result['verdict']} with {len(result['pieces'])} pieces)"
    require(isinstance(got, str), f"{call} returned {show(got)}, expected a text")
    lines = got.split("\n")
    require(lines[-1:] == [""], f"{call}: its last line is not ended by a newline")
    for place, (one, other) in enumerate(itertools.zip_longest(lines[:-1], want)):
        require(
            one == other,
            f"{call}: line {place} is {one!r}, expected {other!r} (ms, %, see the contract)",
        )


def made_up(seed: int, verdict: str, count: int) -> dict[str, Any]:
    chance = random.Random(f"report {seed} {verdict}")
    names = ["idle", "copies", "void f<a | b>(int)", "k" * 70, "`" + "x"] + [
        f"kernel_{i}" for i in range(count)
    ]
    pieces = []
    for name in names[:count]:
        a, b = chance.randrange(10**10), chance.randrange(10**10)
        pieces.append({"piece": name, "before_ns": a, "after_ns": b, "change_ns": b - a})
    return {
        "verdict": verdict,
        "exit_code": int(verdict == "regression"),
        "shift_ratio": chance.uniform(-0.5, 0.5),
        "low_ratio": chance.uniform(-0.9, -0.5),
        "high_ratio": chance.uniform(0.5, 0.9),
        "floor_ratio": chance.uniform(0, 0.1),
        "allowed_ratio": chance.uniform(0.1, 0.2),
        "pieces": pieces,
        "finding": Finding(
            "healthy", "range:step 1:2", {"recoverable_ns": 0, "window_ns": 1}, "none"
        ),
    }


@task("advanced_ex07.report")
def test_report_of_results(stub: Any, seed: int) -> None:
    for verdict, count in (("regression", 4), ("unclear", 10), ("passed", 11)):
        judge_report(stub, made_up(seed, verdict, count))
    judge_report(stub, made_up(seed, "passed", 7), 3)


def script() -> ModuleType:
    """The script that a CI job calls."""
    spec = importlib.util.spec_from_file_location("compare_profiles", CI / "compare_profiles.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@task("advanced_ex07.report")
@pytest.mark.parametrize(
    ("after", "code"),
    [
        ("alloc_every_step", 1),
        ("alloc_cached", 0),
        ("no_such_capture", 2),
        ("unfinished", 2),
        ("crashes", 2),
    ],
)
def test_the_script_of_a_ci_job(
    stub: Any, tmp_path: Path, capsys: Any, after: str, code: int
) -> None:
    comment, finding = tmp_path / "comment.md", tmp_path / "finding.json"
    argv = ["alloc_cached", after, "--step", "step", "--budget", "5"]
    argv += ["--equal", "alloc_cached", "alloc_cached"]
    argv += ["--report", str(comment), "--json", str(finding)]

    def gate(*given: Any) -> Any:
        if "no_such_capture" in given:
            raise EmptyCapture("no_such_capture: holds nothing")
        if "unfinished" in given:
            raise NotImplementedError
        if "crashes" in given:
            return given[99]
        return stub.gate(*given)

    got = script().main(argv, gate, stub.report)
    told = capsys.readouterr()
    require(
        got == code,
        f"compare_profiles.py {shlex.join(argv[:5])} …: exit code {got}, expected {code}. It calls gate "
        f"and report; stderr: {told.err!r}",
    )
    if code < 2:
        word = "regression" if code else "no regression shown"
        require(
            comment.read_text(encoding="utf-8") == told.out and f": {word}" in told.out,
            f"compare_profiles.py: the comment begins {told.out[:60]!r}, expected a title with {word!r}",
        )
        category = json.loads(finding.read_text(encoding="utf-8"))[0]["category"]
        require(
            category == ("allocation_bound" if code else "healthy"),
            f"compare_profiles.py: finding.json says {category!r}",
        )


@task("advanced_ex07.report")
def test_the_jobs_call_the_script_as_it_is(stub: Any) -> None:
    judge_report(stub, made_up(1, "unclear", 2))
    for file in ("github-actions.yml", "gitlab-ci.yml"):
        text = (CI / file).read_text(encoding="utf-8").replace("\\\n", " ")
        found = re.findall(r"compare_profiles\.py (.*)", text)
        assert found, file
        for line in found:
            options = script().parser().parse_args(shlex.split(line))
            assert options.step == "step" and near(options.budget, 5.0), line
