"""Checks of `ncu_ex04`: what a loop concludes from counters and times, recorded and made up."""

from __future__ import annotations

import json
import math
import random
import statistics
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from grading.checks import ncu, task
from grading.checks.assertions import judge, require, show
from grading.checks.fixtures import recordings
from grading.checks.generate.ncu import Raw
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding, problems

LOOPS = recordings("sgemm_steps", "sgemm_steps_small", holding="kernels.csv")
UNITS = ("fma", "issue", "l1", "dram")
COUNTERS = {
    "fma": "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum",
    "issue": "smsp__inst_executed.sum",
    "l1": "l1tex__data_pipe_lsu_wavefronts.sum",
    "dram": "dram__bytes.sum",
}
SMS, CLOCK = "launch__sm_count", "sm__cycles_elapsed.avg.per_second"
DURATION = "gpu__time_duration.sum"
PER_CYCLE = {"fma": 128, "issue": 4, "l1": 1}
DRAM_BYTES_PER_NS = 4_800
CATEGORY = {"fma": "compute_bound", "issue": "compute_bound", "l1": "cache_bound"}
CATEGORY |= {"dram": "memory_bound"}
FLOOR, BUSY, CEILING, PATIENCE = 0.01, 0.6, 0.8, 2


def needs_of(metrics: dict[str, Any]) -> dict[str, float]:
    """The needs in exact arithmetic, from each unit's rate for the whole device."""
    rate = Fraction(metrics[SMS]) * Fraction(metrics[CLOCK]) / 10**9
    out = {u: float(Fraction(metrics[COUNTERS[u]]) / (rate * PER_CYCLE[u])) for u in PER_CYCLE}
    return out | {"dram": float(Fraction(metrics[COUNTERS["dram"]]) / DRAM_BYTES_PER_NS)}


def launches(capture: str) -> list[dict[str, Any]]:
    """The launches of a recording that hold what the tasks need; a learner's own may lack some."""
    needed = {*COUNTERS.values(), SMS, CLOCK, DURATION}
    found = list(ncu.kernels(capture))
    if not all(needed <= kernel["metrics"].keys() for kernel in found):
        raise NotGraded(
            "not run", f"{Path(capture).name} lacks some of: {', '.join(sorted(needed))}"
        )
    return found


def times_of(capture: str) -> dict[str, list[int]]:
    """The times of each step, which a recording of the learner's own need not have."""
    try:
        steps = captures.provenance(capture)["reported_by_program"]["steps"]
        return {name: step["own_ns"] for name, step in steps.items()}
    except (CaptureError, LookupError, TypeError):
        raise NotGraded("not run", f"{Path(capture).name} says no times of steps") from None


def drawn_metrics(chance: random.Random, limiter: str = "", share: float = 0.0) -> dict[str, Any]:
    """Counters of a launch. limiter: the unit that fills this share of its duration."""
    sms, clock = chance.randint(20, 160), float(chance.randrange(900, 2100) * 10**6)
    duration = float(chance.randrange(200_000, 9_000_000))
    limiter = limiter or chance.choice(UNITS)
    share = share or chance.uniform(0.2, 0.95)
    metrics: dict[str, Any] = {SMS: sms, CLOCK: clock, DURATION: duration}
    for unit in UNITS:
        own = share if unit == limiter else share * chance.uniform(0.1, 0.9)
        rate = DRAM_BYTES_PER_NS if unit == "dram" else PER_CYCLE[unit] * sms * clock / 1e9
        metrics[COUNTERS[unit]] = round(own * duration * rate)
    return metrics


# -- unit_needs ---------------------------------------------------------------------------------------

WHY_NEEDS = {
    "fma": "A multiprocessor has 128 lanes for multiply-adds, and the counter counts threads, not warps.",
    "issue": "A multiprocessor has four schedulers, and each issues an instruction of a warp a cycle.",
    "l1": "A multiprocessor's L1 and shared memory serve one wavefront a cycle.",
    "dram": "DRAM is one for the whole device: neither multiprocessors nor their clock are in its rate.",
}


def judge_needs(stub: Any, metrics: dict[str, Any], where: str) -> None:
    names = (*COUNTERS.values(), SMS, CLOCK)
    given = {name: metrics[name] for name in names}
    judge(f"unit_needs({where})", stub.unit_needs(given), needs_of(metrics), "ns", WHY_NEEDS)


@task("ncu_ex04.unit_needs")
@LOOPS
def test_needs_of_recorded_kernels(stub, recording):
    for kernel in launches(recording):
        judge_needs(stub, kernel["metrics"], f"{ncu.short(kernel['name'])} of {recording}")


@task("ncu_ex04.unit_needs")
def test_needs_of_drawn_kernels(stub, seed):
    for number in range(4):
        metrics = drawn_metrics(random.Random(f"needs {seed} {number}"))
        judge_needs(stub, metrics, f"{show(metrics)}")
    tiny = drawn_metrics(random.Random(f"tiny {seed}")) | {SMS: 1, CLOCK: 1.0}
    judge_needs(stub, tiny, "one multiprocessor, one cycle a second")


@task("ncu_ex04.unit_needs")
def test_missing_counters_are_named(stub, seed):
    metrics = drawn_metrics(random.Random(f"missing {seed}"))
    lost = [COUNTERS["l1"], SMS]
    short = {name: value for name, value in metrics.items() if name not in lost}
    for given in (short, metrics | dict.fromkeys(lost)):
        with stub.raises(CaptureError, lost[0], "what was not recorded is not known to be 0"):
            stub.unit_needs(given)
        with stub.raises(CaptureError, lost[1], "all that are missing help to record once more"):
            stub.unit_needs(given)
    for name in (SMS, CLOCK):
        with stub.raises(
            ValueError, "", "a device without a clock or multiprocessors does nothing"
        ):
            stub.unit_needs(metrics | {name: 0})


# -- expected_gain ------------------------------------------------------------------------------------


def judge_gain(stub: Any, needs: dict[str, float], duration: float, factors: dict[str, float]):
    after = {unit: needs[unit] * factors.get(unit, 1) for unit in UNITS}
    bound = max(after.values())
    limiter = next(unit for unit in UNITS if after[unit] == bound)
    expected = bound / (max(needs.values()) / duration)
    want = {
        "limiter": limiter,
        "bound_ns": bound,
        "expected_ns": expected,
        "gain_ratio": duration / expected,
    }
    judge(
        f"expected_gain({show(needs)}, {show(duration)}, {factors})",
        stub.expected_gain(dict(needs), duration, dict(factors)),
        want,
        "ns, or a ratio",
        {
            "limiter": f"After the change the units need {show(after)} ns.",
            "bound_ns": f"After the change the units need {show(after)} ns; the slowest one counts.",
            "expected_ns": f"Now the longest need fills {max(needs.values()) / duration:.1%} of the "
            "duration; the same share is expected again, of the limiter after the change.",
            "gain_ratio": "How many times as fast: old duration over the expected one.",
        },
    )


@task("ncu_ex04.expected_gain")
@LOOPS
def test_a_change_of_a_recorded_step(stub, recording):
    for kernel in launches(recording):
        metrics = kernel["metrics"]
        needs = needs_of(metrics)
        busiest = max(needs, key=lambda unit: needs[unit])
        for factors in ({busiest: 0.9}, {busiest: 0.05}, {"l1": 0.25, "issue": 0.5}):
            judge_gain(stub, needs, metrics[DURATION], factors)


@task("ncu_ex04.expected_gain")
def test_drawn_changes(stub, seed):
    for number in range(12):
        chance = random.Random(f"gain {seed} {number}")
        metrics = drawn_metrics(chance)
        touched = chance.sample(UNITS, chance.randint(0, 4))
        factors = {unit: chance.choice((0.0, 0.1, 0.5, 1.0, 1.6)) for unit in touched}
        if len(factors) == 4 and not any(factors.values()):
            factors["l1"] = 0.3
        judge_gain(stub, needs_of(metrics), metrics[DURATION], factors)
    judge_gain(stub, {"fma": 4.0, "issue": 8.0, "l1": 8.0, "dram": 1.0}, 16.0, {"fma": 2.0})
    judge_gain(stub, {"fma": 0.1, "issue": 0.4, "l1": 0.2, "dram": 0.1}, 0.5, {"issue": 0.3})


@task("ncu_ex04.expected_gain")
def test_changes_that_mean_nothing_are_refused(stub):
    needs = {"fma": 5.0, "issue": 6.0, "l1": 9.0, "dram": 1.0}
    with stub.raises(ValueError, "l1", "an amount of work cannot be negative"):
        stub.expected_gain(needs, 10.0, {"fma": 0.5, "l1": -0.1})
    with stub.raises(ValueError, "l2", "a misspelled unit would be ignored without a message"):
        stub.expected_gain(needs, 10.0, {"l2": 0.5})
    with stub.raises(ValueError, "", "a launch takes time"):
        stub.expected_gain(needs, 0.0, {"l1": 0.5})
    with stub.raises(ValueError, "", "no unit has anything to do before: nothing can be said"):
        stub.expected_gain(dict.fromkeys(UNITS, 0.0), 10.0, {})
    with stub.raises(ValueError, "", "no unit has anything to do after: nothing can be said"):
        stub.expected_gain(needs, 10.0, dict.fromkeys(UNITS, 0.0))


# -- loop_log -----------------------------------------------------------------------------------------


def spread(samples: list[float]) -> float:
    """Third quartile minus first over median; positions on the sorted samples, interpolated."""
    ordered = sorted(samples)

    def at(share: float) -> float:
        place = share * (len(ordered) - 1)
        low = math.floor(place)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (place - low)

    return (at(0.75) - at(0.25)) / at(0.5)


def log_of(steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What loop_log must say."""
    kept, rows = steps[0], []
    for step in steps[1:]:
        gain = statistics.median(kept["samples_ns"]) / statistics.median(step["samples_ns"])
        noise = max(FLOOR, *(spread(one["samples_ns"]) for one in (kept, step)))
        change = step["values"][step["metric"]] - kept["values"][step["metric"]]
        rows.append(
            {
                "name": step["name"],
                "against": kept["name"],
                "metric": step["metric"],
                "before": kept["values"][step["metric"]],
                "after": step["values"][step["metric"]],
                "moved": change < 0 if step["wanted"] == "lower" else change > 0,
                "gain_ratio": gain,
                "noise_ratio": noise,
                "kept": gain > 1 + noise,
            }
        )
        kept = step if rows[-1]["kept"] else kept
    return rows


def judge_log(stub: Any, steps: list[dict[str, Any]], where: str) -> None:
    got, want = stub.loop_log(steps), log_of(steps)
    call = f"loop_log({where})"
    require(
        isinstance(got, list) and len(got) == len(want),
        f"{call} returned {show(got)}, expected {len(want)} rows: one for each change, and none for "
        "the step that the loop began with",
    )
    for row, expected in zip(got, want, strict=True):
        name = expected["name"]
        judge(
            f"{call}, the row of {name!r}",
            row,
            expected,
            "a ratio, or the counter's own unit",
            {
                "against": "A change that was taken back is no longer in the program: the next one is "
                "compared with what was kept last.",
                "before": f"The counter's value in {expected['against']!r}, which was kept last.",
                "moved": f"It went from {expected['before']} to {expected['after']}.",
                "gain_ratio": "Medians, the one that was kept last over this one.",
                "noise_ratio": "The larger of both spreads (quartiles over median), and a floor.",
                "kept": f"{expected['gain_ratio']:.4f} times as fast, with a noise of "
                f"{expected['noise_ratio']:.4f}. The time decides; a counter that moved as it was "
                "meant to is no gain.",
            },
        )


def recorded_steps(capture: str) -> list[dict[str, Any]]:
    """The recorded loop as loop_log takes it, with a counter for each change."""
    reported = times_of(capture)
    metrics = [kernel["metrics"] for kernel in launches(capture)]
    changes = (
        ("l1tex__data_pipe_lsu_wavefronts.sum", "lower"),
        ("sm__warps_active.avg.pct_of_peak_sustained_active", "higher"),
        ("smsp__inst_executed.sum", "lower"),
    )
    return [
        {
            "name": name,
            "samples_ns": times,
            "metric": changes[i % 3][0],
            "wanted": changes[i % 3][1],
            "values": {change: metrics[i][change] for change, _ in changes},
        }
        for i, (name, times) in enumerate(reported.items())
    ]


@task("ncu_ex04.loop_log")
@LOOPS
def test_the_log_of_a_recorded_loop(stub, recording):
    judge_log(stub, recorded_steps(recording), f"the steps of {recording}")


def drawn_steps(chance: random.Random, count: int = 7) -> list[dict[str, Any]]:
    """A made-up loop: some changes help, some do not, some are within the noise."""
    out: list[dict[str, Any]] = []
    level = 4_000_000.0
    for number in range(count):
        width = chance.choice((0.001, 0.004, 0.08))
        samples = [round(level * chance.uniform(1 - width, 1 + width)) for _ in range(7)]
        samples[chance.randrange(7)] *= chance.choice((1, 3))
        out.append(
            {
                "name": f"step {number}",
                "samples_ns": samples,
                "metric": chance.choice(("bytes", "warps")),
                "wanted": chance.choice(("lower", "higher")),
                "values": {"bytes": chance.randrange(1, 9), "warps": chance.randrange(1, 9)},
            }
        )
        level *= chance.choice((0.4, 0.7, 0.975, 0.997, 1.004, 1.05, 1.5))
    return out


@task("ncu_ex04.loop_log")
def test_the_log_of_a_drawn_loop(stub, seed):
    for number in range(10):
        judge_log(stub, drawn_steps(random.Random(f"log {seed} {number}")), "a made-up loop")


@task("ncu_ex04.loop_log")
def test_a_counter_has_no_vote(stub):
    start = {"name": "start", "samples_ns": [1000, 1001, 1002], "values": {"warps": 8}}
    more = {"name": "more warps", "samples_ns": [1200, 1201, 1202], "values": {"warps": 24}}
    less = {"name": "fewer warps", "samples_ns": [700, 701, 702], "values": {"warps": 4}}
    same = {"name": "as many", "samples_ns": [693, 694, 695], "values": {"warps": 4}}
    steps = [
        start,
        *(step | {"metric": "warps", "wanted": "higher"} for step in (more, less, same)),
    ]
    judge_log(stub, steps, "more warps and slower; then fewer and faster; then as many")
    fast = start | {"samples_ns": [1, 1], "metric": "warps", "wanted": "lower"}
    judge_log(stub, [start | {"samples_ns": [2, 2]}, fast], "from 2 ns to 1 ns")


@task("ncu_ex04.loop_log")
def test_what_cannot_be_compared_is_refused(stub):
    def step(name: str, **more: Any) -> dict[str, Any]:
        base = {"name": name, "samples_ns": [5, 6], "metric": "x", "wanted": "lower"}
        return base | {"values": {"x": 1}} | more

    with stub.raises(ValueError, "", "one step is no loop"):
        stub.loop_log([step("alone")])
    cases: list[tuple[dict[str, Any], str]] = [
        ({"samples_ns": [5]}, "one time has no spread"),
        ({"samples_ns": [5, 0]}, "a time of 0 was not measured"),
        ({"wanted": "less"}, "a misspelled word must not count as the other one"),
        ({"values": {"y": 1}}, "the counter that the change was for was not recorded"),
        ({"values": {"x": None}}, "the counter that the change was for was not recorded"),
    ]
    for more, why in cases:
        with stub.raises(ValueError, "second", why):
            stub.loop_log([step("first"), step("second", **more)])
    with stub.raises(ValueError, "first", "the step it is compared with lacks the counter"):
        stub.loop_log([step("first", values={}), step("second")])


# -- next_move ----------------------------------------------------------------------------------------


def judge_move(stub: Any, capture: str | Path, where: str) -> None:
    samples = times_of(str(capture))
    kernels = launches(str(capture))
    plain = {"metric": "t", "wanted": "lower", "values": {"t": 0}}
    rows = log_of([{"name": n, "samples_ns": s, **plain} for n, s in samples.items()])
    kept = [0, *(i for i, row in enumerate(rows, 1) if row["kept"])][-1]
    metrics = kernels[kept]["metrics"]
    needs = needs_of(metrics)
    shares = {unit: needs[unit] / metrics[DURATION] for unit in UNITS}
    unit = max(UNITS, key=lambda name: shares[name])
    share = shares[unit]
    medians = [statistics.median(times) for times in samples.values()]
    reverted = [not row["kept"] for row in rows]
    stop = share >= CEILING or (len(rows) >= PATIENCE and all(reverted[-PATIENCE:]))
    found = stub.next_move(str(capture))
    call = f"next_move({where})"
    require(
        isinstance(found, Finding),
        f"{call} returned {show(found)}, expected one Finding about a kernel",
    )
    text = f"Each unit's share of the launch's duration: {show(shares)}."
    name = ncu.short(kernels[kept]["name"])
    require(
        found.subject == f"kernel:{name}",
        f"{call} is about {found.subject!r}, expected 'kernel:{name}': the times of the steps say which "
        "one was kept last, and it need not be the last one tried.",
    )
    category = CATEGORY[unit] if share >= BUSY else "latency_bound"
    require(
        found.category == category,
        f"{call} says {found.category}, expected {category}. {text} Below {BUSY:.0%} no unit explains "
        "the duration.",
    )
    judge(
        f"{call}, evidence",
        dict(found.evidence),
        {
            "duration_ns": float(medians[kept]),
            "ceiling_ratio": share,
            "recoverable_ns": max(0.0, medians[kept] * (CEILING - share) / CEILING),
            "gain_ratio": medians[0] / medians[kept],
            "kept_count": reverted.count(False),
            "reverted_count": reverted.count(True),
        },
        "ns, a ratio or a count",
        {
            "duration_ns": "The program's own time: the profiler's passes are for the shares.",
            "ceiling_ratio": text,
            "recoverable_ns": f"The time between {share:.1%} and {CEILING:.0%} of the ceiling.",
            "gain_ratio": "From the first step to the one that was kept last.",
        },
    )
    require(
        (found.recommendation == "none") == stop,
        f"{call} recommends {found.recommendation!r}. The share of the ceiling is {share:.1%}, and of the "
        f"last {PATIENCE} changes {sum(reverted[-PATIENCE:])} were taken back: "
        + ("the loop has come to its end." if stop else "the loop goes on."),
    )
    require(
        stop or unit in found.recommendation.lower(),
        f"{call} recommends {found.recommendation!r}, which does not name the limiting unit: {unit}",
    )
    wrong = problems(found)
    require(not wrong, f"{call}: {'; '.join(wrong)}")


@task("ncu_ex04.next_move")
@LOOPS
def test_the_end_of_a_recorded_loop(stub, recording):
    judge_move(stub, recording, recording)


def save_loop(
    folder: Path,
    chance: random.Random,
    levels: list[int],
    ends: dict[int, tuple[str, float]],
    launches: int = 0,
    units: str = "auto",
) -> Path:
    """A capture of a loop. levels: the steps' times in us. ends: of a step, its limiter and share."""
    table = Raw(chance.randrange(10**6), units=units)
    steps = {}
    for number, level in enumerate(levels):
        samples = [level * 1000 + chance.randrange(level) for _ in range(7)]
        steps[f"step_{number}"] = {"own_ns": samples, "wrong": 0}
    for number in range(launches or len(levels)):
        table.add(
            f"void sgemm_{number}<128, 8>(float *, int)",
            drawn_metrics(chance, *ends.get(number, ("", 0.0))),
        )
    table.save(folder)
    report = {"reported_by_program": {"m": 1, "cublas_ns": [], "steps": steps}}
    (folder / "provenance.json").write_text(json.dumps(report), encoding="utf-8")
    return folder


@task("ncu_ex04.next_move")
@pytest.mark.parametrize(
    ("levels", "kept", "share", "units"),
    [
        ([900, 500, 510, 300], 3, 0.7, "auto"),
        ([900, 500, 300, 400], 2, 0.7, "base"),
        ([900, 500, 300, 400, 310], 2, 0.7, "auto"),
        ([900, 500, 300], 2, 0.9, "auto"),
        ([900, 500, 300], 2, 0.4, "auto"),
        ([900, 950], 0, 0.65, "auto"),
        ([300, 400, 420], 0, 0.7, "auto"),
        ([900, 500, 503], 1, 0.7, "auto"),
        ([900, 500, 497], 1, 0.7, "auto"),
        ([900, 950, 400, 420, 390], 4, 0.5, "base"),
    ],
    ids=[
        "goes on",
        "last one reverted",
        "no win twice",
        "at its ceiling",
        "waits",
        "no win",
        "none of two",
        "a little slower",
        "a little faster",
        "late",
    ],
)
def test_the_end_of_a_made_up_loop(stub, seed, tmp_path, levels, kept, share, units):
    for number, unit in enumerate(UNITS):
        chance = random.Random(f"move {seed} {levels} {unit}")
        folder = tmp_path / f"loop_{number}"
        # All other steps point elsewhere, so that a verdict on the wrong one shows.
        ends = {i: (UNITS[(number + 1) % 4], 0.85) for i in range(len(levels)) if i != kept}
        save_loop(folder, chance, levels, ends | {kept: (unit, share)}, units=units)
        judge_move(stub, folder, f"a made-up loop of {levels} us")


@task("ncu_ex04.next_move")
def test_a_capture_without_a_loop_is_refused(stub, seed, tmp_path):
    chance = random.Random(f"none {seed}")
    short = save_loop(tmp_path / "short", chance, [900, 500, 300], {}, launches=2)
    with stub.raises(
        CaptureError, r"(?s)\b3\b.*\b2\b|\b2\b.*\b3\b", "which launch belongs to which step?"
    ):
        stub.next_move(str(short))
    with stub.raises(
        CaptureError, "steps", "counters alone do not say what was tried, and in which order"
    ):
        stub.next_move("ncu_memory_basic")


@task("ncu_ex04.next_move")
def test_a_loop_whose_counters_are_missing_is_refused(stub, seed, tmp_path):
    folder = save_loop(tmp_path / "loop", random.Random(f"cut {seed}"), [900, 500], {})
    file = folder / "kernels.csv"
    text = file.read_text(encoding="utf-8").replace(COUNTERS["issue"], "smsp__cycles_active.avg")
    file.write_text(text, encoding="utf-8")
    with stub.raises(
        CaptureError, COUNTERS["issue"], "a verdict without it would leave out a unit"
    ):
        stub.next_move(str(folder))
