"""Checks of `ncu_ex02`: counters recorded and made up, and warps that are stepped lane by lane."""

from __future__ import annotations

import random
from fractions import Fraction
from typing import Any

import pytest

from grading.checks import ncu, task
from grading.checks.assertions import agree, judge, judge_kernel_finding, near, require, show
from grading.checks.fixtures import recordings
from profiling_lab.errors import MissingTable

KERNELS = recordings("ncu_waiting", "ncu_parallelism", "ncu_compute", holding="kernels.csv")

RESIDENT = "smsp__warps_active.avg.per_cycle_active"
ELIGIBLE = "smsp__warps_eligible.avg.per_cycle_active"
ISSUE = "smsp__issue_active.avg.pct_of_peak_sustained_active"
LANES = "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio"
VIEW = (RESIDENT, ELIGIBLE, ISSUE, LANES)

THEORETICAL = "sm__maximum_warps_per_active_cycle_pct"
ACHIEVED = "sm__warps_active.avg.pct_of_peak_sustained_active"
ACTIVE, ELAPSED = "sm__cycles_active.avg", "sm__cycles_elapsed.avg"
LIMITS = {
    name: f"launch__occupancy_limit_{name}"
    for name in ("warps", "blocks", "registers", "shared_mem")
}
SLOTS = (THEORETICAL, ACHIEVED, ACTIVE, ELAPSED, *LIMITS.values())

COMPUTE = "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
DRAM = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"
WAVES = "launch__waves_per_multiprocessor"
DURATION = "gpu__time_duration.sum"
RULE = (ACHIEVED, COMPUTE, MEMORY)
VERDICT = (*VIEW, *SLOTS, COMPUTE, MEMORY, DRAM, WAVES, DURATION)


def made(metrics: dict[str, Any], name: str = "made(float *, int)") -> dict[str, Any]:
    """A kernel with these metrics, in base units."""
    shape: dict[str, Any] = {"grid": (1024, 1, 1), "block": (256, 1, 1), "cc": "9.0"}
    return {"name": name, **shape, "metrics": metrics}


def recorded(capture: str, names: tuple[str, ...]) -> list[dict[str, Any]]:
    """The kernels of a recording, each with the metrics that a function needs."""
    return [
        kernel | {"metrics": {name: kernel["metrics"][name] for name in names}}
        for kernel in ncu.kernels(capture)
    ]


def drawn(chance: random.Random) -> dict[str, Any]:
    """Counters of a kernel, with everything drawn that the functions look at."""
    theoretical = 6.25 * chance.randint(1, 16)
    elapsed = chance.randrange(10_000, 1_000_000)
    resident = chance.uniform(0.5, 16)
    metrics: dict[str, Any] = {
        RESIDENT: resident,
        ELIGIBLE: resident * chance.uniform(0, 1),
        ISSUE: chance.uniform(0.5, 99),
        LANES: chance.choice((32.0, chance.uniform(1, 32))),
        THEORETICAL: theoretical,
        # Measured: it may be above what was computed.
        ACHIEVED: theoretical * chance.choice((chance.uniform(0.1, 1), chance.uniform(1, 1.05))),
        ACTIVE: elapsed * chance.choice((1.0, chance.uniform(0.2, 1))),
        ELAPSED: elapsed,
        COMPUTE: chance.uniform(1, 99),
        MEMORY: chance.uniform(1, 99),
        DRAM: chance.uniform(1, 99),
        WAVES: chance.choice((1.0, chance.uniform(0.01, 1), chance.uniform(1, 40))),
        DURATION: chance.uniform(1e4, 1e6),
    }
    return metrics | {name: float(chance.randint(1, 6)) for name in LIMITS.values()}


def each_missing(stub: Any, function: str, names: tuple[str, ...], seed: int) -> None:
    """Every metric in turn is None or not there at all."""
    chance = random.Random(seed)
    for name in names:
        metrics = {key: value for key, value in drawn(chance).items() if key in names}
        # A function may ask only for what it needs: each is missing where the answer rests on it.
        if name in LIMITS.values():
            metrics |= {THEORETICAL: 50.0}
        if function == "compute_verdict":
            if name in (RESIDENT, ELIGIBLE, ISSUE, *LIMITS.values()):
                continue  # none of them is part of the verdict
            metrics |= {COMPUTE: 10.0, MEMORY: 20.0}
            if name in VIEW or name == DRAM:
                metrics |= {COMPUTE: 90.0} if name == LANES else {MEMORY: 90.0}
            if name == WAVES:
                metrics |= {COMPUTE: 50.0, ACTIVE: 500, ELAPSED: 1000}
        if chance.random() < 0.5:
            metrics[name] = None
        else:
            del metrics[name]
        why = f"{name} was not measured, and a missing counter is not 0"
        with stub.raises(MissingTable, name.replace(".", r"\."), why):
            getattr(stub, function)(made(metrics))


# -- divergence_cost ----------------------------------------------------------------------------------


def stepped(segments: list[tuple[int, int]]) -> dict[str, Any]:
    """A warp stepped through its segments: lanes that work, and instructions."""
    issued = worked = 0
    for lanes, instructions in segments:
        issued += instructions
        worked += lanes * instructions
    return {
        "instructions_count": issued,
        "lanes_count": float(Fraction(worked, issued)),
        "slowdown_ratio": float(Fraction(32 * issued, worked)),
    }


@task("ncu_ex02.divergence_cost")
def test_warps_that_go_different_ways(stub, seed):
    chance = random.Random(seed)
    split = chance.randrange(1, 32)
    cases = {
        "no branch": [(32, 100)],
        "one lane alone": [(1, 50)],
        "two sides": [(32, 12), (split, 200), (32 - split, 300)],
        "a loop that lanes leave one by one": [(lanes, 64) for lanes in range(32, 0, -1)],
        "a side without instructions": [(32, 10), (7, 0)],
        "drawn": [(chance.randint(1, 32), chance.randrange(1, 500)) for _ in range(6)],
    }
    for name, segments in cases.items():
        judge(
            f"divergence_cost({show(segments)}), {name}",
            stub.divergence_cost(segments),
            stepped(segments),
            "instructions, lanes, ratio",
            {
                "instructions_count": "The warp issues each segment once, with however many lanes.",
                "lanes_count": "A long segment with few lanes counts more than a short one.",
                "slowdown_ratio": "The same work with all 32 lanes needs fewer instructions.",
            },
        )


@task("ncu_ex02.divergence_cost")
def test_warps_that_do_not_exist(stub):
    for segments, word in (
        ([(32, 5), (0, 3)], "0"),
        ([(33, 5)], "33"),
        ([(4, -1), (32, 9)], "-1"),
        ([], ""),
        ([(32, 0)], ""),
    ):
        with stub.raises(ValueError, word, "no warp executes this"):
            stub.divergence_cost(segments)


# -- scheduler_view -----------------------------------------------------------------------------------


def view_of(metrics: dict[str, Any]) -> dict[str, float]:
    issue = metrics[ISSUE] / 100
    return {
        "resident_count": float(metrics[RESIDENT]),
        "eligible_count": float(metrics[ELIGIBLE]),
        "issue_ratio": issue,
        "interval_count": metrics[RESIDENT] / issue if issue else 0.0,
        "lanes_count": float(metrics[LANES]),
        "work_ratio": issue * metrics[LANES] / 32,
    }


def judge_view(call: str, got: Any, want: dict[str, float]) -> None:
    got = (
        {k: float(v) if type(v) is int else v for k, v in got.items()} if type(got) is dict else got
    )
    judge(
        call,
        got,
        want,
        "warps, cycles, lanes; shares from 0 to 1",
        {
            "interval_count": "Warps in the queue = instructions a cycle × cycles of a warp between "
            "two of its own.",
            "work_ratio": "An instruction fills as many lanes as are active.",
        },
    )


@task("ncu_ex02.scheduler_view")
@KERNELS
def test_schedulers_of_recorded_kernels(stub, recording):
    for kernel in recorded(recording, VIEW):
        call = f"scheduler_view({ncu.short(kernel['name'])} of {recording})"
        judge_view(call, stub.scheduler_view(kernel), view_of(kernel["metrics"]))


@task("ncu_ex02.scheduler_view")
def test_schedulers_of_made_up_kernels(stub, seed):
    chance = random.Random(seed)
    for changed in ({}, {LANES: 5.5}, {ISSUE: 0.0}, {RESIDENT: 16.0, ISSUE: 100.0}):
        metrics = {name: drawn(chance)[name] for name in VIEW} | changed
        judge_view(
            f"scheduler_view({show(metrics)})", stub.scheduler_view(made(metrics)), view_of(metrics)
        )
    each_missing(stub, "scheduler_view", VIEW, seed)


# -- predict_issue ------------------------------------------------------------------------------------


def simulated(warps: int, chains: int, latency: int, pipe: int) -> float:
    """Instructions a cycle of a scheduler that is stepped until it repeats itself."""
    ready = [0] * (warps * chains)
    free = issued = 0
    begin, end = 40 * latency, 40 * latency + 60 * latency * pipe
    for cycle in range(end):
        if cycle < free:
            continue
        # The one that has been ready for longest goes first.
        first = min(range(len(ready)), key=ready.__getitem__)
        if ready[first] <= cycle:
            ready[first] = cycle + latency
            free = cycle + pipe
            issued += cycle >= begin
    return issued / (end - begin)


def fewest_warps(chains: int, latency: float, pipe: float) -> int:
    warps = 1
    while warps * chains * pipe < latency:
        warps += 1
    return warps


@task("ncu_ex02.predict_issue")
@pytest.mark.parametrize(("warps", "chains"), [(1, 1), (1, 3), (2, 1), (3, 2), (5, 1), (16, 2)])
def test_prediction_holds_on_a_stepped_scheduler(stub, seed, warps, chains):
    chance = random.Random(f"{seed} {warps} {chains}")
    latency, pipe = chance.randrange(4, 12), chance.choice((1, 2, 4))
    call = f"predict_issue({warps}, {chains}, {latency}, {pipe})"
    got, stepped = (
        stub.predict_issue(warps, chains, latency, pipe),
        simulated(warps, chains, latency, pipe),
    )
    require(
        isinstance(got, dict) and got.keys() == {"issue_ratio", "warps_needed_count"},
        f"{call} returned {show(got)}, expected a dict of: issue_ratio, warps_needed_count",
    )
    require(
        near(float(got["issue_ratio"]), stepped, rel=0.02),
        f"{call}: issue_ratio is {show(got['issue_ratio'])}; a scheduler that was stepped cycle by cycle "
        f"with {warps} warps of {chains} chains issued {stepped:.4f} instructions a cycle. What is under "
        "way is the rate times the latency, and no pipe takes more than it can.",
    )
    needed = fewest_warps(chains, latency, pipe)
    require(
        agree(got["warps_needed_count"], needed),
        f"{call}: warps_needed_count is {show(got['warps_needed_count'])}, expected {needed} (whole "
        f"warps): one fewer leaves the pipe idle at times",
    )


@task("ncu_ex02.predict_issue")
def test_prediction_of_broken_latencies(stub, seed):
    chance = random.Random(seed)
    for _ in range(5):
        warps, chains = chance.randint(1, 16), chance.randint(1, 8)
        latency = chance.uniform(20, 900)
        got = stub.predict_issue(warps, chains, latency)
        want = {
            "issue_ratio": float(min(Fraction(1), Fraction(warps * chains) / Fraction(latency))),
            "warps_needed_count": fewest_warps(chains, latency, 1),
        }
        why = dict.fromkeys(want, "Without a pipe's cycles, an instruction takes the pipe for one.")
        judge(
            f"predict_issue({warps}, {chains}, {latency:.4f})",
            got,
            want,
            "instructions a cycle; warps",
            why,
        )


@task("ncu_ex02.predict_issue")
def test_schedulers_that_cannot_be(stub):
    for arguments, word in (
        ((0, 1, 4.0), "0"),
        ((1, 0, 4.0), "0"),
        ((1, 1, 3.0, 4.0), "3.0"),
        ((1, 1, 4.0, 0.5), "0.5"),
    ):
        with stub.raises(ValueError, word):
            stub.predict_issue(*arguments)
    got = stub.predict_issue(1, 1, 4.0, 4.0)
    require(
        agree(got, {"issue_ratio": 0.25, "warps_needed_count": 1}),
        f"predict_issue(1, 1, 4.0, 4.0) returned {show(got)}, expected issue_ratio 0.25 and one warp: "
        "where the pipe takes as long as the latency, one chain fills it",
    )


# -- warp_slots ---------------------------------------------------------------------------------------


def slots_of(metrics: dict[str, Any]) -> dict[str, Any]:
    places = Fraction(metrics[THEORETICAL]) / 100
    taken = Fraction(metrics[ACHIEVED]) / 100
    busy = Fraction(metrics[ACTIVE]) / Fraction(metrics[ELAPSED])
    fewest = min(metrics[name] for name in LIMITS.values())
    limited = [short for short, name in LIMITS.items() if metrics[name] == fewest]
    return {
        "limit_ratio": float(1 - places),
        "idle_ratio": float(places * (1 - busy)),
        "gap_ratio": float((places - taken) * busy),
        "filled_ratio": float(taken * busy),
        "limited_by": limited if places < 1 else [],
    }


def judge_slots(call: str, got: Any, want: dict[str, Any]) -> None:
    judge(
        call,
        got,
        want,
        "share of all warp slots over the whole duration",
        {
            "limit_ratio": "These places cannot be taken while the kernel runs.",
            "idle_ratio": "An SM without a block has places, too.",
            "gap_ratio": "Free places of an SM with work; the four shares make up 1.",
            "filled_ratio": "Achieved occupancy is an average over the time with work only.",
            "limited_by": "Name all that end at the same number of blocks, and nothing at 100 %.",
        },
    )


@task("ncu_ex02.warp_slots")
@KERNELS
def test_slots_of_recorded_kernels(stub, recording):
    for kernel in recorded(recording, SLOTS):
        call = f"warp_slots({ncu.short(kernel['name'])} of {recording})"
        judge_slots(call, stub.warp_slots(kernel), slots_of(kernel["metrics"]))


@task("ncu_ex02.warp_slots")
def test_slots_of_made_up_kernels(stub, seed):
    chance = random.Random(seed)
    equal = dict.fromkeys(LIMITS.values(), 2.0)
    for changed in ({}, {}, equal, {THEORETICAL: 100.0}, {THEORETICAL: 100.0} | equal):
        metrics = {name: drawn(chance)[name] for name in SLOTS} | changed
        judge_slots(
            f"warp_slots({show(metrics)})", stub.warp_slots(made(metrics)), slots_of(metrics)
        )
    each_missing(stub, "warp_slots", SLOTS, seed)


# -- occupancy_rule -----------------------------------------------------------------------------------


def sorted_out(kernels: list[dict[str, Any]], good: float) -> dict[str, list[str]]:
    out: dict[str, list[str]] = {"kept": [], "low_but_busy": [], "high_but_idle": []}
    for kernel in kernels:
        m = kernel["metrics"]
        busy = m[COMPUTE] >= 60 or m[MEMORY] >= 60
        if m[ACHIEVED] / 100 >= good:
            out["kept" if busy else "high_but_idle"].append(kernel["name"])
        else:
            out["low_but_busy" if busy else "kept"].append(kernel["name"])
    return out


def judge_rule(call: str, got: Any, want: dict[str, list[str]]) -> None:
    judge(
        call,
        got,
        want,
        "names of kernels",
        {
            "kept": "Low occupancy on an idle device fits the rule, and so does high occupancy on a busy one.",
            "low_but_busy": "Few warps, and yet the device is busy.",
            "high_but_idle": "Many warps, and neither instructions nor memory near a ceiling.",
        },
    )


@task("ncu_ex02.occupancy_rule")
@KERNELS
def test_rule_on_recorded_kernels(stub, recording):
    kernels = recorded(recording, RULE)
    judge_rule(
        f"occupancy_rule(kernels of {recording})",
        stub.occupancy_rule(kernels),
        sorted_out(kernels, 0.5),
    )


@task("ncu_ex02.occupancy_rule")
def test_rule_on_made_up_kernels(stub, seed):
    chance = random.Random(seed)
    for good in (chance.uniform(0.2, 0.9), 0.75, 0.0, 1.0):
        kernels = []
        for number in range(12):
            metrics = {name: drawn(chance)[name] for name in RULE}
            metrics[ACHIEVED] = chance.choice((75.0, 100.0, metrics[ACHIEVED]))
            metrics[chance.choice((COMPUTE, MEMORY))] = chance.choice((60.0, 59.5, 20.0))
            kernels.append(made(metrics, f"made_{number}(int)"))
        want = sorted_out(kernels, good)
        judge_rule(
            f"occupancy_rule(12 kernels, {good:.3f})", stub.occupancy_rule(kernels, good), want
        )
    for achieved in (49.7, 50.2):
        close = [made({ACHIEVED: achieved, COMPUTE: 90.0, MEMORY: 1.0})]
        call = f"occupancy_rule(a busy kernel at {achieved} %)"
        judge_rule(call, stub.occupancy_rule(close), sorted_out(close, 0.5))
    for good in (-0.1, 1.5):
        with stub.raises(ValueError, str(good), "occupancy is a share"):
            stub.occupancy_rule([], good)
    with stub.raises(MissingTable, "sm__warps_active"):
        stub.occupancy_rule([made({COMPUTE: 1.0, MEMORY: 1.0})])


# -- compute_verdict ----------------------------------------------------------------------------------


def verdict_of(kernel: dict[str, Any]) -> tuple[str, dict[str, float]]:
    """Category and evidence, by the three steps of the contract."""
    m = kernel["metrics"]
    compute, memory = m[COMPUTE] / 100, m[MEMORY] / 100
    slots = slots_of(m)
    most = compute if compute >= memory else memory
    margins, lost = [abs(most - 0.6)], 0.0
    if most >= 0.6 and compute >= memory:
        lost = compute - compute * m[LANES] / 32
        margins.append(abs(lost - 0.1))
        category = "compute_bound" if lost < 0.1 else "divergence"
    elif most >= 0.6:
        category = "cache_bound" if m[DRAM] < 60 else "memory_bound"
    else:
        busy = m[ACTIVE] / m[ELAPSED]
        category = "tail_effect" if m[WAVES] >= 1 else "small_grid"
        lost = 1 - busy
        margins.append(abs(compute / busy - 0.6))
        if compute / busy < 0.6:
            shares = [slots["limit_ratio"], slots["idle_ratio"], slots["gap_ratio"]]
            lost = max(shares)
            margins.append(abs(lost - slots["filled_ratio"]))
            if lost <= slots["filled_ratio"]:
                category = "latency_bound"
            elif shares.index(lost) == 0:
                category = "low_occupancy"
    return category, {
        "duration_ns": m[DURATION],
        "compute_ratio": compute,
        "memory_ratio": memory,
        "lost_ratio": lost,
        "filled_ratio": slots["filled_ratio"],
        "margin_ratio": min(margins),
    }


def judge_verdict(call: str, got: Any, kernel: dict[str, Any]) -> None:
    category, evidence = verdict_of(kernel)
    m = kernel["metrics"]
    facts = (
        f"compute is busy {evidence['compute_ratio']:.1%} of the duration, memory "
        f"{evidence['memory_ratio']:.1%}; an SM has work {m[ACTIVE] / m[ELAPSED]:.1%} of it, "
        f"{evidence['filled_ratio']:.1%} of the warp slots are filled, {m[LANES]:.1f} lanes work "
        f"in an instruction, the grid is {m[WAVES]:.2f} waves"
    )
    judge_kernel_finding(
        call,
        got,
        kernel["name"],
        category,
        evidence,
        facts,
        nothing_to_do=category in ("compute_bound", "memory_bound", "cache_bound"),
    )


@task("ncu_ex02.compute_verdict")
@KERNELS
def test_verdicts_on_recorded_kernels(stub, recording):
    for kernel in recorded(recording, VERDICT):
        call = f"compute_verdict({ncu.short(kernel['name'])} of {recording})"
        judge_verdict(call, stub.compute_verdict(kernel), kernel)


@task("ncu_ex02.compute_verdict")
def test_verdicts_on_drawn_kernels(stub, seed):
    chance = random.Random(seed)
    for number in range(60):
        metrics = drawn(chance)
        if number % 2:
            metrics |= {COMPUTE: chance.uniform(1, 59), MEMORY: chance.uniform(1, 59)}
        kernel = made(metrics, f"drawn_{number}(float *)")
        judge_verdict(f"compute_verdict(drawn {number})", stub.compute_verdict(kernel), kernel)


@task("ncu_ex02.compute_verdict")
def test_verdicts_at_their_lines(stub, seed):
    idle: dict[str, Any] = drawn(random.Random(seed)) | {
        **{COMPUTE: 10.0, MEMORY: 20.0, THEORETICAL: 100.0, ACHIEVED: 100.0},
        **{ACTIVE: 1000, ELAPSED: 1000, WAVES: 4.0, LANES: 32.0},
    }
    cases: dict[str, dict[str, Any]] = {
        "compute at the line": {COMPUTE: 60.0},
        "memory and DRAM at the line": {MEMORY: 60.0, DRAM: 60.0},
        "memory busy, DRAM not": {MEMORY: 60.0, DRAM: 59.0},
        "both equally busy": {COMPUTE: 80.0, MEMORY: 80.0, LANES: 20.0},
        "a little more than an eighth of the lanes idle": {COMPUTE: 80.0, LANES: 27.99},
        "a little less than an eighth of the lanes idle": {COMPUTE: 80.0, LANES: 28.01},
        "half of the SMs without work, the others busy": {COMPUTE: 30.0, ACTIVE: 500},
        "the same in less than a wave": {COMPUTE: 30.0, ACTIVE: 500, WAVES: 0.5},
        "exactly a wave": {COMPUTE: 30.0, ACTIVE: 500, WAVES: 1.0},
        "half of the places cannot be taken": {THEORETICAL: 50.0, ACHIEVED: 50.0},
        "more than half of the places cannot be taken": {THEORETICAL: 43.75, ACHIEVED: 43.75},
        "free places while there is work": {ACHIEVED: 25.0},
        "free places, and a grid below a wave": {ACHIEVED: 25.0, WAVES: 0.25},
        "as many lost to limits as to idle SMs": {THEORETICAL: 62.5, ACHIEVED: 62.5, ACTIVE: 400},
        "all places filled": {},
    }
    for name, changed in cases.items():
        kernel = made(idle | changed)
        judge_verdict(f"compute_verdict({name})", stub.compute_verdict(kernel), kernel)


@task("ncu_ex02.compute_verdict")
def test_verdict_without_its_evidence(stub, seed):
    each_missing(stub, "compute_verdict", VERDICT, seed)
