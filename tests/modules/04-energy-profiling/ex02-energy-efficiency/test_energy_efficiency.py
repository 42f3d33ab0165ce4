"""Checks of `energy_ex02`: sweeps and paced work, recorded and made up."""

from __future__ import annotations

import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import (
    agree,
    call_words,
    judge,
    judge_finding,
    judge_recommendation,
    require,
    show,
)
from grading.checks.fixtures import recordings
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import CaptureError

SWEEPS = recordings("energy_sweep_8192", "energy_sweep_4096", holding="energy.json")
PACED = recordings("energy_pacing_bf16", "energy_pacing_fp32", holding="energy.json")
MS = 1_000_000
KEYS = ("samples_per_s", "power_w", "j_per_sample", "low_j", "high_j", "flop_per_j", "call_ns")


def load(capture: str) -> dict[str, Any]:
    """The recording of a capture."""
    return json.loads(captures.text(capture, "energy.json"))


def own_without(capture: str, name: str) -> None:
    """A learner's own recording of another scenario is not judged."""
    if not any(phase["name"].startswith(name) for phase in load(capture)["phases"]):
        raise NotGraded("not run", f"{Path(capture).name} has no phase called {name}")


def save(folder: Path, document: dict[str, Any]) -> str:
    """Write a recording; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "energy.json").write_text(json.dumps(document), encoding="utf-8")
    return str(folder)


# -- made-up recordings -------------------------------------------------------------------------------


class Made:
    """Phases of constant power, and a counter that advances in steps."""

    def __init__(self, seed: object) -> None:
        self.chance = random.Random(f"efficiency {seed}")
        self.now = 0
        self.levels: list[tuple[int, float]] = []
        self.phases: list[dict[str, Any]] = []
        self.errors = {"float32": 1e-6, "tf32": 3e-4, "bfloat16": 4e-3}

    def phase(self, name: str, length_ns: int, power_w: float, **more: Any) -> dict[str, Any]:
        phase = {"name": name, "start_ns": self.now, "end_ns": self.now + length_ns}
        phase |= {
            "calls": 0,
            "flop": 0,
            "bytes": 0,
            "repeat": 0,
            "precision": "",
            "batch": 0,
        } | more
        self.levels.append((self.now, power_w))
        self.phases.append(phase)
        self.now += length_ns
        self.levels.append((self.now, 90.0))
        self.now += self.chance.randrange(1, 9) * MS
        return phase

    def energy_mj(self, at: int) -> int:
        total = 0.0
        for place, (start, power) in enumerate(self.levels):
            end = self.levels[place + 1][0] if place + 1 < len(self.levels) else self.now
            total += power * max(0, min(at, end) - start)
        return 777_000 + int(total / 1e6)

    def document(self) -> dict[str, Any]:
        """The recording; the counter is refreshed about every 20 ms."""
        period = self.chance.randrange(17, 24) * MS
        ticks = list(range(-period, self.now, period))
        values = [self.energy_mj(tick) for tick in ticks]
        times, now = [], 0
        while now < self.now:
            times.append(now)
            now += self.chance.randrange(2500, 5500) * 1000

        def read(at: int) -> int:
            return values[int(np.searchsorted(ticks, at, side="right")) - 1]

        for phase in self.phases:
            phase["energy_start_mj"], phase["energy_end_mj"] = (
                read(phase["start_ns"]),
                read(phase["end_ns"]),
            )
        return {
            "device": {},
            "error_ratio": self.errors,
            "phases": self.phases,
            "samples": {
                "time_ns": times,
                "energy_mj": np.array(values)[
                    np.searchsorted(ticks, times, side="right") - 1
                ].tolist(),
            },
        }


def made_sweep(
    seed: object, costs: dict[tuple[str, int], list[float]] | None = None, width: int = 1024
) -> dict[str, Any]:
    """A sweep; costs: J per sample of each repeat at 10 000 samples a second."""
    made = Made(seed)
    if costs is None:
        costs = {}
        for precision in ("float32", "bfloat16", "tf32"):
            for batch in (8, 512):
                base = made.chance.uniform(0.01, 0.05)
                costs[precision, batch] = [base * made.chance.uniform(0.9, 1.1) for _ in range(3)]
    made.phase("idle", 300 * MS, 90.0)
    for repeat in range(max(map(len, costs.values()))):
        for (precision, batch), values in costs.items():
            if repeat >= len(values):
                continue
            calls = max(1, round(4000 / batch)) + repeat
            speed = 10_000 + 300 * made.chance.random()
            size = {"bfloat16": 2}.get(precision, 4)
            made.phase(
                "work",
                round(calls * batch / speed * 1e9),
                values[repeat] * speed,
                calls=calls,
                flop=calls * 2 * batch * width * width,
                bytes=calls * size * (width * width + 2 * batch * width),
                repeat=repeat,
                precision=precision,
                batch=batch,
            )
    made.phase("idle", 300 * MS, 90.0)
    return made.document()


def made_pacing(seed: object, repeats: int = 3, strategies: tuple[str, ...] = ()) -> dict[str, Any]:
    """Racing and pacing of the same work."""
    made = Made(seed)
    made.phase("idle", 200 * MS, 90.0)
    for repeat in range(repeats):
        power = made.chance.uniform(400, 600)
        made.phase("race_work", 500 * MS + 7 * repeat, power, calls=60, repeat=repeat)
        made.phase("race_idle", 500 * MS, 100.0, repeat=repeat)
        for name in strategies or ("paced_100ms", "paced_10ms"):
            length = 1000 * MS + made.chance.randrange(MS)
            made.phase(name, length, made.chance.uniform(200, 400), calls=60, repeat=repeat)
    made.phase("idle", 200 * MS, 90.0)
    return made.document()


# -- efficiency ---------------------------------------------------------------------------------------


def cost_of_sweep(document: dict[str, Any]) -> list[dict[str, Any]]:
    """What efficiency is to find (numpy)."""
    times = np.array(document["samples"]["time_ns"], dtype=np.int64)
    counter = np.array(document["samples"]["energy_mj"], dtype=np.int64)
    fresh = np.concatenate([[False], np.diff(counter) != 0])
    runs: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for phase in document["phases"]:
        if phase["name"] != "work":
            continue
        at = np.flatnonzero(fresh & (times >= phase["start_ns"]) & (times < phase["end_ns"]))
        rise_j = (counter[at[-1]] - counter[at[0]]) / 1e3
        power = float(rise_j / ((times[at[-1]] - times[at[0]]) / 1e9))
        samples = phase["calls"] * phase["batch"]
        speed = samples / ((phase["end_ns"] - phase["start_ns"]) / 1e9)
        key = phase["precision"], phase["batch"]
        runs.setdefault(key, []).append((speed, power, phase["flop"] / samples))
    rows = []
    for (precision, batch), found in runs.items():
        speed = statistics.median(one[0] for one in found)
        costs = sorted(power / speed for speed, power, _ in found)
        values = (
            speed,
            statistics.median(one[1] for one in found),
            statistics.median(costs),
            costs[0],
            costs[-1],
            found[0][2] / statistics.median(costs),
            batch / speed * 1e9,
        )
        row: dict[str, Any] = {"precision": precision, "batch": batch}
        rows.append(row | dict(zip(KEYS, values, strict=True)))
    return rows


def judge_rows(call: str, got: Any, want: list[dict[str, Any]], why: dict[str, str]) -> None:
    """Hold a list of rows against another."""
    require(
        isinstance(got, list) and len(got) == len(want),
        f"{call} returned {show(got)}, expected a list of {len(want)} dicts",
    )
    for place, row in enumerate(want):
        judge(f"{call}[{place}]", got[place], row, "unit in the name", why)


WHY_EFFICIENCY = {
    "power_w": "Power is the rise of the counter from its first to its last new reading in the phase, "
    "over the time between these two. Do not use the phase's ends: they are between two readings",
    "j_per_sample": "The cost of a repeat is its power over its samples a second; take the median of the repeats",
    "low_j": "The lowest cost of a repeat",
    "high_j": "The highest cost of a repeat",
    "flop_per_j": "Operations of one sample over what a sample costs",
}


@task("energy_ex02.efficiency")
@SWEEPS
def test_efficiency_in_a_recording(stub: Any, recording: str) -> None:
    own_without(recording, "work")
    want = cost_of_sweep(load(recording))
    judge_rows(
        call_words("efficiency", recording), stub.efficiency(recording), want, WHY_EFFICIENCY
    )


@task("energy_ex02.efficiency")
def test_efficiency_of_a_made_up_sweep(stub: Any, seed: int, tmp_path: Path) -> None:
    document = made_sweep(seed)
    folder = save(tmp_path, document)
    want = cost_of_sweep(document)
    judge_rows(call_words("efficiency", folder), stub.efficiency(folder), want, WHY_EFFICIENCY)


@task("energy_ex02.efficiency")
def test_efficiency_needs_new_readings(stub: Any, tmp_path: Path) -> None:
    document = made_sweep(1, {("float32", 8): [0.02]})
    work = document["phases"][1]
    samples = document["samples"]
    inside = [
        place
        for place, time in enumerate(samples["time_ns"])
        if work["start_ns"] <= time < work["end_ns"]
    ]
    level = samples["energy_mj"][inside[0] - 1]
    for place in range(inside[0], len(samples["time_ns"])):
        samples["energy_mj"][place] = level + (place > inside[5])
    with stub.raises(CaptureError, why="the counter has one new reading while the work runs"):
        stub.efficiency(save(tmp_path / "one", document))
    for place in range(inside[20], len(samples["time_ns"])):
        samples["energy_mj"][place] = level + 900
    folder = save(tmp_path / "two", document)
    want = cost_of_sweep(document)
    judge_rows(call_words("efficiency", folder), stub.efficiency(folder), want, WHY_EFFICIENCY)
    first, last = inside[6], inside[20]
    work["start_ns"], work["end_ns"] = samples["time_ns"][first], samples["time_ns"][last] + 1
    folder = save(tmp_path / "edges", document)
    want = cost_of_sweep(document)
    judge_rows(call_words("efficiency", folder), stub.efficiency(folder), want, WHY_EFFICIENCY)
    work["end_ns"] -= 1
    with stub.raises(CaptureError, why="the second new reading is not before the end of the phase"):
        stub.efficiency(save(tmp_path / "end", document))


@task("energy_ex02.efficiency")
def test_a_recording_that_is_no_sweep(stub: Any, tmp_path: Path) -> None:
    with stub.raises(CaptureError, why="no phase is called work"):
        stub.efficiency(save(tmp_path / "paced", made_pacing(1)))
    document = made_sweep(1, {("float32", 8): [0.02]})
    document["samples"]["energy_mj"][3] = None
    with stub.raises(CaptureError, why="the counter was not read everywhere"):
        stub.efficiency(save(tmp_path / "unread", document))
    document = made_sweep(1, {("float32", 8): [0.02]})
    with stub.raises(CaptureError, why="there are no phases"):
        stub.efficiency(save(tmp_path / "no phases", document | {"phases": []}))


# -- energy_delay and pareto_front --------------------------------------------------------------------


def judge_best(stub: Any, runs: dict[str, tuple[float, float]]) -> None:
    def best(weigh: Any) -> str:
        lowest = min(weigh(*run) for run in runs.values())
        return sorted(name for name, run in runs.items() if weigh(*run) == lowest)[0]

    want = {
        "time": best(lambda t, e: t),
        "energy": best(lambda t, e: e),
        "edp": best(lambda t, e: e * t),
        "ed2p": best(lambda t, e: e * t * t),
    }
    judge(
        f"energy_delay({show(runs)})",
        stub.energy_delay(runs),
        want,
        "name of a run; time in s, energy in J",
        {
            "edp": "Energy times time: joules alone, or power alone, would choose another",
            "ed2p": "Energy times the square of the time weighs time twice",
            "energy": "Energy alone, whatever it takes",
        },
    )


@task("energy_ex02.energy_delay")
def test_best_by_each_product(stub: Any, seed: int) -> None:
    judge_best(stub, {"fast": (1, 100), "even": (2, 40), "late": (3, 26), "idle": (16, 20)})
    judge_best(stub, {"b": (1, 8), "a": (2, 4), "d": (4, 2), "c": (8, 1)})
    judge_best(stub, {"b": (2, 8), "a": (4, 2)})
    judge_best(stub, {"long": (10, 50), "short": (1, 40), "between": (3, 45)})
    judge_best(stub, {"same": (2, 3), "also": (2, 3)})
    chance = random.Random(f"delay {seed}")
    for _ in range(4):
        judge_best(
            stub,
            {f"run {i}": (chance.uniform(1, 9), 100 / chance.uniform(1, 9)) for i in range(7)},
        )


@task("energy_ex02.energy_delay")
def test_runs_that_cannot_be_weighed(stub: Any) -> None:
    for runs, why in (
        ({}, "there are no runs"),
        ({"a": (1, 2), "b": (0, 3)}, "a run takes no time"),
        ({"a": (1, 0), "b": (1, 3)}, "a run takes no energy"),
        ({"a": (1, 2), "b": (-1, 3)}, "a run takes less than no time"),
    ):
        with stub.raises(ValueError, why=why):
            stub.energy_delay(runs)


def judge_front(stub: Any, runs: dict[str, tuple[float, float]]) -> None:
    """By going through the runs in the order of their costs."""
    want, lowest = [], math.inf
    for cost in sorted(set(runs.values())):
        if cost[1] < lowest:
            want += sorted(name for name, run in runs.items() if run == cost)
            lowest = cost[1]
    got = stub.pareto_front(runs)
    missing = [name for name in want if name not in got] if isinstance(got, list) else want
    extra = [name for name in got if name not in want] if isinstance(got, list) else []
    ruled = [
        f"{name} is ruled out by "
        + next(n for n in want if runs[n][0] <= runs[name][0] and runs[n][1] <= runs[name][1])
        for name in extra
        if name in runs
    ]
    kept = [f"no run rules out {name}" for name in missing]
    require(
        got == want,
        f"pareto_front({show(runs)}) returned {show(got)}, expected {len(want)} names by their first cost. "
        + "; ".join(ruled + kept),
    )


@task("energy_ex02.pareto_front")
def test_front_of_a_few_runs(stub: Any) -> None:
    judge_front(stub, {"a": (1, 9), "b": (2, 5), "c": (3, 6), "d": (4, 1), "e": (9, 9)})
    judge_front(stub, {"same": (1, 1), "also": (1, 1)})
    judge_front(stub, {"b": (1, 2), "a": (1, 3), "d": (2, 2), "c": (0, 7)})
    judge_front(stub, {})


@task("energy_ex02.pareto_front")
def test_front_of_many_runs(stub: Any, seed: int) -> None:
    chance = random.Random(f"front {seed}")
    for _ in range(3):
        judge_front(
            stub, {f"r{i}": (chance.randrange(1, 9), chance.randrange(1, 9)) for i in range(12)}
        )


@task("energy_ex02.pareto_front")
def test_costs_that_are_no_numbers(stub: Any) -> None:
    for runs in ({"a": (math.nan, 1)}, {"b": (1, 2), "a": (1, math.nan)}):
        with stub.raises(ValueError, why="a cost is NaN and compares with nothing"):
            stub.pareto_front(runs)


# -- pacing_energy ------------------------------------------------------------------------------------


def judge_pacing(stub: Any, capture: str) -> None:
    document = load(capture)
    step = float(np.diff(np.array(document["samples"]["energy_mj"])).max()) / 1e3
    strategies: dict[str, list[tuple[float, float, float]]] = {}
    phases = document["phases"]
    for place, phase in enumerate(phases):
        name, last = phase["name"], phase
        if name == "race_work":
            name, last = "race", phases[place + 1]
        elif not name.startswith("paced"):
            continue
        strategies.setdefault(name, []).append(
            (
                (last["energy_end_mj"] - phase["energy_start_mj"]) / 1e3,
                float(last["end_ns"] - phase["start_ns"]),
                float(phase["end_ns"] - phase["start_ns"]),
            )
        )
    want = []
    for name, runs in strategies.items():
        energies = [run[0] for run in runs]
        want.append(
            {
                "strategy": name,
                "energy_j": statistics.median(energies),
                "low_j": min(energies) - step,
                "high_j": max(energies) + step,
                "wall_ns": float(statistics.median(run[1] for run in runs)),
                "work_ns": float(statistics.median(run[2] for run in runs)),
            }
        )
    want.sort(key=lambda row: (row["energy_j"], row["strategy"]))
    judge_rows(
        call_words("pacing_energy", capture),
        stub.pacing_energy(capture),
        want,
        {
            "strategy": "The lowest energy comes first; racing includes the idling that fills the same "
            "time",
            "energy_j": "Racing includes the idling that fills the same time, from the start of the work "
            "to the end of the idling",
            "low_j": "Below the lowest repeat by the counter's largest step",
            "high_j": "Above the highest repeat by the counter's largest step",
        },
    )


@task("energy_ex02.pacing_energy")
@PACED
def test_pacing_in_a_recording(stub: Any, recording: str) -> None:
    own_without(recording, "race_work")
    judge_pacing(stub, recording)


@task("energy_ex02.pacing_energy")
def test_pacing_of_made_up_work(stub: Any, seed: int, tmp_path: Path) -> None:
    judge_pacing(stub, save(tmp_path / "three", made_pacing(seed)))
    judge_pacing(stub, save(tmp_path / "two", made_pacing(seed + 1, 2, ("paced", "waits"))))
    document = made_pacing(seed + 2, 2, ("paced_b", "paced_a"))
    for phase in document["phases"]:
        if phase["name"].startswith("paced"):
            phase["energy_end_mj"] = phase["energy_start_mj"] + 300_000
    # The largest step of the counter is taken before the first phase of the work.
    document["samples"]["energy_mj"][0] -= 40_000
    judge_pacing(stub, save(tmp_path / "equal", document))


@task("energy_ex02.pacing_energy")
def test_work_that_cannot_be_compared(stub: Any, tmp_path: Path) -> None:
    for whose, found in (
        ("one repeat", lambda phase: (phase["name"], phase["repeat"]) == ("paced_10ms", 1)),
        ("one strategy", lambda phase: phase["name"] == "paced_10ms"),
        ("racing", lambda phase: phase["name"] == "race_work"),
    ):
        document = made_pacing(2)
        for phase in document["phases"]:
            phase["calls"] += found(phase)
        with stub.raises(CaptureError, why=f"{whose} made a call more than the others"):
            stub.pacing_energy(save(tmp_path / whose, document))
    document = made_pacing(2)
    for phase in document["phases"]:
        phase["name"] = phase["name"].replace("race", "run")
    with stub.raises(CaptureError, why="no strategy is called race"):
        stub.pacing_energy(save(tmp_path / "no race", document))
    with stub.raises(CaptureError, why="there is racing alone"):
        stub.pacing_energy(save(tmp_path / "alone", made_pacing(2, 2, ("other",))))
    document = made_pacing(3)
    document["samples"] = {"time_ns": [0, 9], "energy_mj": [700, 900]}
    judge_pacing(stub, save(tmp_path / "two", document))
    document["samples"] = {"time_ns": [0], "energy_mj": [700]}
    with stub.raises(CaptureError, why="one reading of the counter tells no step"):
        stub.pacing_energy(save(tmp_path / "one", document))
    document = made_pacing(3)
    document["phases"].append(dict(document["phases"][-1], name="waits", calls=5))
    judge_pacing(stub, save(tmp_path / "others", document))


# -- cheapest_within ----------------------------------------------------------------------------------


def row(precision: str, batch: int, low: float, cost: float, high: float, call: float) -> dict:
    """A row as efficiency returns it, with what is looked at."""
    return {
        "precision": precision,
        "batch": batch,
        "low_j": low,
        "j_per_sample": cost,
        "high_j": high,
        "call_ns": call,
    }


def judge_cheapest(stub: Any, rows: list[dict], longest: float) -> None:
    allowed = [one for one in rows if one["call_ns"] <= longest]
    want = None
    if allowed:
        best = sorted(allowed, key=lambda one: one["j_per_sample"])[0]
        rivals = [
            (one["precision"], one["batch"])
            for one in allowed
            if one is not best
            and max(one["low_j"], best["low_j"]) <= min(one["high_j"], best["high_j"])
        ]
        want = {"precision": best["precision"], "batch": best["batch"], "rivals": rivals}
    got = stub.cheapest_within(rows, longest)
    if isinstance(got, dict) and isinstance(got.get("rivals"), list):
        got = got | {"rivals": [tuple(one) for one in got["rivals"]]}
    require(
        agree(got, want),
        f"cheapest_within({len(rows)} rows, longest_ns={longest}) returned {show(got)}, expected "
        f"{show(want)}: of the {len(allowed)} rows whose call is short enough the one with the lowest J "
        "a sample, and those whose range overlaps with its",
    )


@task("energy_ex02.cheapest_within")
def test_cheapest_of_a_few(stub: Any) -> None:
    rows = [
        row("float32", 1, 8, 9, 10, 100),
        row("float32", 64, 4, 5, 6, 900),
        row("bfloat16", 1, 6, 7, 8.5, 50),
        row("bfloat16", 64, 1, 2, 3, 500),
        row("tf32", 64, 3, 3.5, 4, 500),
        row("tf32", 8, 2, 2, 9, 300),
    ]
    for longest in (1000, 900, 500, 499, 300, 299, 100, 99, 50, 49.9):
        judge_cheapest(stub, rows, longest)
    judge_cheapest(stub, rows[::-1], 500)
    touching = [row("tf32", 1, 2, 2, 3, 5), row("tf32", 2, 1, 2, 2, 5), row("tf32", 4, 3, 4, 5, 5)]
    judge_cheapest(stub, touching, 5)


@task("energy_ex02.cheapest_within")
def test_cheapest_of_many(stub: Any, seed: int) -> None:
    chance = random.Random(f"cheapest {seed}")
    for _ in range(5):
        rows = []
        for number in range(8):
            low, cost, high = sorted(chance.uniform(1, 5) for _ in range(3))
            rows.append(row("tf32", number, low, cost, high, chance.uniform(10, 90)))
        judge_cheapest(stub, rows, chance.uniform(20, 90))


@task("energy_ex02.cheapest_within")
def test_a_limit_that_is_no_limit(stub: Any) -> None:
    for longest in (0, -5):
        with stub.raises(ValueError, why=f"a call of {longest} ns"):
            stub.cheapest_within([row("tf32", 1, 1, 2, 3, 5)], longest)
    judge_cheapest(stub, [row("tf32", 1, 1, 2, 3, 0.5)], 0.5)


# -- precision_verdict --------------------------------------------------------------------------------


def judge_verdict(stub: Any, capture: str, batch: int, tolerance: float, bandwidth: float) -> str:
    """Hold a verdict against the sweep; returns the category and whether it is borderline."""
    document = load(capture)
    rows = {one["precision"]: one for one in cost_of_sweep(document) if one["batch"] == batch}
    errors = document["error_ratio"]
    now = rows["float32"]
    others = [rows[p] for p in rows if p != "float32" and errors[p] <= tolerance]
    best = min(others, key=lambda one: one["j_per_sample"]) if others else None
    saved = 100 * (1 - best["j_per_sample"] / now["j_per_sample"]) if best else 0.0
    wanted = "work", "float32", batch
    work = next(p for p in document["phases"] if (p["name"], p["precision"], p["batch"]) == wanted)
    moved = work["bytes"] / ((work["end_ns"] - work["start_ns"]) / 1e9) / bandwidth
    category = "healthy"
    if best and saved > 5:
        category = "memory_bound" if moved >= 0.6 else "tensor_cores_unused"
    borderline = bool(best) and (
        max(best["low_j"], now["low_j"]) <= min(best["high_j"], now["high_j"])
    )
    got = stub.precision_verdict(capture, batch, tolerance, bandwidth)
    call = call_words("precision_verdict", capture, batch, tolerance, bandwidth)
    facts = (
        f"of the {len(others)} other precisions that are exact enough the best saves {saved:.1f} % of the "
        f"energy, and the float32 run moves bytes at {moved:.2f} of the bandwidth"
    )
    judge_finding(
        *(call, got, category, "range:work"),
        {
            "saved_pct": saved,
            "bandwidth_ratio": moved,
            "error_ratio": errors[best["precision"] if best else "float32"],
            "window_ns": now["call_ns"],
            "recoverable_ns": max(0.0, now["call_ns"] - best["call_ns"]) if best else 0.0,
        },
        facts,
        why={
            "saved_pct": "Only precisions whose error is allowed are candidates",
            "error_ratio": "The error of the precision that is best, or float32's without one",
        },
    )
    ranges = (
        "a verdict is borderline if the ranges of J a sample, lowest to highest repeat, overlap: float32 "
        f"{now['low_j']:.4g} to {now['high_j']:.4g}"
        + (f", the best {best['low_j']:.4g} to {best['high_j']:.4g}" if best else ", no candidate")
    )
    judge_recommendation(
        call,
        got,
        f"{facts}; {ranges}",
        borderline=borderline,
        anywhere=True,
        names=(best["precision"] if best else "", "the precision to take"),
    )
    return category + (" borderline" if borderline else "")


@task("energy_ex02.precision_verdict")
@SWEEPS
def test_verdict_on_a_recording(stub: Any, recording: str) -> None:
    own_without(recording, "work")
    batches = sorted({one["batch"] for one in cost_of_sweep(load(recording))})
    for batch in {batches[0], batches[-1]}:
        judge_verdict(stub, recording, batch, 1e-3, 4.8e12)
        judge_verdict(stub, recording, batch, 1e-2, 1.4e12)


@task("energy_ex02.precision_verdict")
@pytest.mark.parametrize(
    ("costs", "tolerance", "batch", "expected"),
    [
        ((0.04, 0.02, 0.01), 1e-2, 512, "tensor_cores_unused"),
        ((0.04, 0.02, 0.01), 4e-3, 512, "tensor_cores_unused"),
        ((0.04, 0.02, 0.01), 1e-3, 512, "tensor_cores_unused"),
        ((0.04, 0.02, 0.01), 1e-5, 512, "healthy"),
        ((0.04, 0.02, 0.01), 1e-2, 8, "memory_bound"),
        ((0.04, 0.05, 0.03), 1e-3, 8, "healthy"),
        ((0.04, 0.05, 0.03), 1e-2, 8, "memory_bound"),
        ((0.04, 0.0399, 0.0399), 1e-2, 8, "healthy borderline"),
    ],
)
def test_verdict_on_a_made_up_sweep(
    stub: Any, seed: int, tmp_path: Path, costs: tuple, tolerance: float, batch: int, expected: str
) -> None:
    spread = (0.97, 1.0, 1.03)
    table = {
        (precision, size): [cost * share for share in spread]
        for precision, cost in zip(("float32", "tf32", "bfloat16"), costs, strict=True)
        for size in (8, 512)
    }
    folder = save(tmp_path, made_sweep(seed, table))
    assert judge_verdict(stub, folder, batch, tolerance, 8e9) == expected


@task("energy_ex02.precision_verdict")
def test_verdict_where_ranges_overlap(stub: Any, seed: int, tmp_path: Path) -> None:
    table = {
        ("tf32", 512): [0.02, 0.03, 0.05],
        ("float32", 512): [0.035, 0.04, 0.045],
        ("tf32", 8): [0.02],
        ("float32", 8): [0.02],
    }
    document = made_sweep(seed, table)
    other = {"precision": "float32", "batch": 512, "bytes": 5, "name": "warm-up"}
    document["phases"].insert(1, document["phases"][0] | other)
    folder = save(tmp_path, document)
    found = judge_verdict(stub, folder, 512, 1e-2, 8e9)
    assert found == "tensor_cores_unused borderline"
    judge_verdict(stub, folder, 512, 3e-4, 8e9)


@task("energy_ex02.precision_verdict")
def test_verdict_at_the_bound_of_memory(stub: Any, tmp_path: Path) -> None:
    document = made_sweep(7, {("float32", 8): [0.04], ("tf32", 8): [0.01]})
    work = document["phases"][1]
    work["end_ns"] = work["start_ns"] + 500 * MS
    work["bytes"] = 300_000
    folder = save(tmp_path, document)
    assert judge_verdict(stub, folder, 8, 1e-2, 1_000_000) == "memory_bound"
    assert judge_verdict(stub, folder, 8, 1e-2, 1_000_002) == "tensor_cores_unused"


@task("energy_ex02.precision_verdict")
def test_verdict_that_cannot_be_given(stub: Any, tmp_path: Path) -> None:
    document = made_sweep(4)
    folder = save(tmp_path / "good", document)
    with stub.raises(CaptureError, why="there is no float32 at batch 9"):
        stub.precision_verdict(folder, 9, 1e-2, 8e9)
    for bandwidth in (0, -1.0):
        with stub.raises(ValueError, why=f"a bandwidth of {bandwidth} B/s"):
            stub.precision_verdict(folder, 8, 1e-2, bandwidth)
    judge_verdict(stub, folder, 8, 1e-2, 0.5)
    unknown = document | {"error_ratio": {"tf32": 3e-4, "bfloat16": 4e-3}}
    with stub.raises(CaptureError, why="there is no candidate, and float32's error is not known"):
        stub.precision_verdict(save(tmp_path / "float32", unknown), 8, 1e-5, 8e9)
    del document["error_ratio"]["tf32"]
    with stub.raises(CaptureError, why="the error of tf32 is not known"):
        stub.precision_verdict(save(tmp_path / "unknown", document), 8, 1e-2, 8e9)
