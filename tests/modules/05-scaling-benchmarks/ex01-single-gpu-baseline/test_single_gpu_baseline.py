"""Checks of `scaling_ex01`: recorded baselines, made-up ones, and numbers drawn from the seed."""

from __future__ import annotations

import copy
import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import (
    judge,
    judge_finding,
    judge_recommendation,
    near,
    require,
    show,
)
from grading.checks.fixtures import recordings
from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture

BASELINES = recordings("scaling_baseline_late", "scaling_baseline_cpu", holding="baseline.json")
KEYS = ("device", "dtype", "layers", "optimizer", "torch", "python", "tf32")
KEYS += ("threads_per_process_count", "clock", "variables")
HEAD = {"format": 1, "unit": "ns", "what": "baseline"}
RUN = '{"batch": 4, "round": 0, "phases": [[1, 1, 1, 1], [1, 1, 1, 1]]}'


def content_of(capture: str) -> dict[str, Any]:
    """A baseline as data."""
    return json.loads(captures.text(capture, "baseline.json"))


def made(
    folder: Path,
    seed: int,
    load: float = 0.0,
    copied: float = 0.0,
    spread: float = 0.01,
    names: tuple[str, ...] = ("load", "copy", "compute", "optimizer"),
    rounds: int = 3,
) -> str:
    """A baseline whose phases are known shares of a step; its first steps are slow, batches unsorted."""
    chance = random.Random(f"baseline {seed} {load} {copied} {rounds}")
    batches = [2**power for power in range(4, 11)]
    chance.shuffle(batches)
    fixed, each = chance.randrange(200_000, 400_000), chance.randrange(3000, 5000)
    runs = []
    for turn in range(rounds):
        for batch in batches:
            level = (fixed + each * batch) * (1 + spread * chance.random())
            parts = {"load": load, "copy": copied, "optimizer": 0.1}
            parts["compute"] = 1 - sum(parts.values())
            phases = []
            for step in range(10):
                slow = 30 if step == 0 else 3 if step < 3 else chance.uniform(1, 1.002)
                phases.append([round(level * slow * parts[name]) for name in names])
            phases[7][names.index("compute")] *= (
                2  # a disturbance: a mean sees it, a median does not
            )
            runs.append({"batch": batch, "round": turn, "phases": phases, "host_ns": []})
    content = {**HEAD, "phase_names": list(names), "runs": runs}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "baseline.json").write_text(json.dumps(content), "utf-8")
    return str(folder)


# -- throughput -----------------------------------------------------------------------------------------


def judge_throughput(stub: Any, steps: list[float], batch: int, warmup: int, what: str) -> None:
    """Hold a throughput against samples over time."""
    steady = np.array(steps[warmup:], dtype=float)
    reach = 1.96 * steady.std(ddof=1) / np.sqrt(len(steady))
    want = {
        "samples_per_s": batch * len(steady) / (steady.sum() / 1e9),
        "low_per_s": batch / ((steady.mean() + reach) / 1e9),
        "high_per_s": batch / ((steady.mean() - reach) / 1e9),
    }
    got = stub.throughput(steps, batch, warmup)
    means_of_rates = float((batch * 1e9 / steady).mean())
    why = dict.fromkeys(
        want, "The interval is that of the mean step, turned into samples a second."
    )
    why["samples_per_s"] = (
        f"All samples over all the time that the {len(steady)} steps behind the warm-up took; the mean "
        f"of the steps' own rates would be {means_of_rates:.6g}, which counts short steps for more."
    )
    judge(
        f"throughput({what}, {batch}, {warmup})",
        got,
        {key: float(value) for key, value in want.items()},
        "samples per second",
        why,
    )


@task("scaling_ex01.throughput")
@BASELINES
def test_throughput_of_recorded_steps(stub: Any, recording: str) -> None:
    for run in content_of(recording)["runs"][-8:]:
        steps = [sum(phases) for phases in run["phases"]]
        judge_throughput(stub, steps, run["batch"], 4, f"steps of {Path(recording).name}")


@task("scaling_ex01.throughput")
def test_throughput_of_drawn_steps(stub: Any, seed: int) -> None:
    chance = random.Random(f"throughput {seed}")
    for count, width in ((2, 0.2), (30, 0.5), (12, 0.02)):
        steps = [1e6 * chance.uniform(1 - width, 1 + width) for _ in range(count)]
        judge_throughput(stub, steps, chance.randrange(1, 99), 0, "drawn")
        judge_throughput(stub, [9e8, 5e6, *steps], 64, 2, "two slow steps, then drawn ones")
    judge_throughput(stub, [0.5, 0.6, 0.7], 1, 0, "less than a ns")


@task("scaling_ex01.throughput")
@pytest.mark.parametrize(
    ("steps", "batch", "warmup", "why"),
    [
        ([5.0, 5.0], 8, 1, "an interval needs two steps after the warm-up"),
        ([5.0, 6.0], 0, 0, "a step has at least one sample"),
        ([5.0, 6.0, 7.0], 8, -2, "warmup_count is a number of steps"),
        ([5.0, 6.0, 0.0], 8, 0, "every step takes time"),
        ([0.0, 5.0, 6.0], 8, 1, "every step takes time, also one of the warm-up"),
        ([1.0, 1.0, 1000.0], 8, 0, "the interval of the mean step reaches below 0"),
    ],
)
def test_no_throughput_of_nothing(
    stub: Any, steps: list, batch: int, warmup: int, why: str
) -> None:
    with stub.raises(ValueError, why=why):
        stub.throughput(steps, batch, warmup)


# -- model_flops_utilization ----------------------------------------------------------------------------


def judge_utilization(
    stub: Any, layers: list, rate: float, device: str, dtype: str, peak: float
) -> None:
    """Count the products of a training step, matrix by matrix."""
    forward = sum(2 * a * b for a, b in layers)
    flops = forward + forward + sum(2 * a * b for a, b in layers[1:])
    call = f"model_flops_utilization({show(layers)}, {rate:.6g}, {device!r}, {dtype!r})"
    got = stub.model_flops_utilization(layers, rate, device, dtype)
    require(
        isinstance(got, dict) and got.keys() == {"flops_per_sample_count", "utilization_ratio"},
        f"{call} returned {show(got)}, expected flops_per_sample_count and utilization_ratio",
    )
    count, why = (
        got["flops_per_sample_count"],
        "three products for each matrix, but two for the first",
    )
    if near(count, forward / 2) or near(count, flops / 2):
        why = "a multiplication and an addition are two operations"
    elif near(count, forward):
        why = "that is the forward pass alone; the backward pass multiplies as well"
    elif near(count, 3 * forward):
        why = "nobody asks for the gradient of the data: the first matrix needs one product less"
    require(
        near(count, flops),
        f"{call}: flops_per_sample_count is {show(count)}, expected {flops} (operations): {why}",
    )
    require(
        near(got["utilization_ratio"], flops * rate / peak),
        f"{call}: utilization_ratio is {show(got['utilization_ratio'])}, expected "
        f"{flops * rate / peak:.6g}: operations a second over the peak of {device} for {dtype}, "
        f"{peak:.4g} a second",
    )


@task("scaling_ex01.model_flops_utilization")
def test_utilization_of_drawn_models(stub: Any, seed: int) -> None:
    chance = random.Random(f"utilization {seed}")
    for device, dtype, peak in (
        ("NVIDIA H200", "bf16", 989e12),
        ("A100 80GB SXM", "tf32", 156e12),
        ("V100 SXM2", "float32", 15.7e12),
    ):
        sizes = [chance.randrange(100, 5000) for _ in range(chance.randrange(3, 7))]
        layers = [[a, b] for a, b in itertools.pairwise(sizes)]
        judge_utilization(stub, layers, chance.uniform(1e3, 1e6), device, dtype, peak)
    judge_utilization(stub, [[300, 7]], 0.5, "NVIDIA H200", "bf16", 989e12)
    judge_utilization(stub, [[1, 1]], 10.0, "NVIDIA H200", "bf16", 989e12)


@task("scaling_ex01.model_flops_utilization")
@pytest.mark.parametrize(
    ("layers", "rate"), [([], 1.0), ([[3, 0]], 1.0), ([[3, 4, 5]], 1.0), ([[3, 4]], 0.0)]
)
def test_no_utilization_of_nothing(stub: Any, layers: list, rate: float) -> None:
    with stub.raises(ValueError, why="matrices have two sizes, and a rate is above 0"):
        stub.model_flops_utilization(layers, rate, "NVIDIA H200", "bf16")


# -- batch_sweep ----------------------------------------------------------------------------------------


def sweep_of(content: dict[str, Any], warmup: int) -> list[dict[str, float]]:
    """The rows of a sweep, by numpy."""
    rows = []
    for batch in sorted({run["batch"] for run in content["runs"]}):
        levels = np.array(
            [
                np.median(np.array(run["phases"], dtype=float).sum(axis=1)[warmup:])
                for run in content["runs"]
                if run["batch"] == batch
            ]
        )
        step = float(np.median(levels))
        rows.append(
            {
                "batch": batch,
                "step_ns": step,
                "samples_per_s": batch / step * 1e9,
                "noise_ratio": float(np.ptp(levels)) / step,
            }
        )
    return rows


def judge_sweep(stub: Any, capture: str, warmup: int) -> None:
    """Hold the rows of a sweep against the file."""
    want = sweep_of(content_of(capture), warmup)
    call = f"batch_sweep({Path(capture).name!r}, {warmup})"
    got = stub.batch_sweep(capture, warmup)
    require(
        isinstance(got, list)
        and [isinstance(row, dict) and row.get("batch") for row in got]
        == [row["batch"] for row in want],
        f"{call} returned {show(got)}, expected a row for each of the batches "
        f"{[row['batch'] for row in want]}, from small to large",
    )
    for mine, right in zip(got, want, strict=True):
        require(
            mine.keys() == right.keys(), f"{call}: a row has {sorted(mine)}, not {sorted(right)}"
        )
        for key, unit in (
            ("step_ns", "ns; the sum of a step's phases, median of a run, median of the runs"),
            ("samples_per_s", "samples per second of that step"),
            (
                "noise_ratio",
                "the levels of runs of the same thing, largest minus smallest, over step_ns",
            ),
        ):
            require(
                near(mine[key], float(right[key])),
                f"{call}, batch {right['batch']}: {key} is {show(mine[key])}, expected "
                f"{right[key]:.8g} ({unit}); the first {warmup} steps of each run do not count",
            )


@task("scaling_ex01.batch_sweep")
@BASELINES
def test_sweep_of_a_recording(stub: Any, recording: str) -> None:
    judge_sweep(stub, recording, 4)
    judge_sweep(stub, recording, 0)


@task("scaling_ex01.batch_sweep")
def test_sweep_of_a_made_up_baseline(stub: Any, seed: int, tmp_path: Path) -> None:
    judge_sweep(stub, made(tmp_path / "even", seed, rounds=4), 3)
    judge_sweep(stub, made(tmp_path / "odd", seed, spread=0.3), 9)
    judge_sweep(stub, made(tmp_path / "alone", seed, rounds=1), 3)


@task("scaling_ex01.batch_sweep")
@pytest.mark.parametrize("warmup", [10, -1])
def test_no_sweep_without_steps(stub: Any, warmup: int, seed: int, tmp_path: Path) -> None:
    with stub.raises(ValueError, why="of ten steps at least one must count"):
        stub.batch_sweep(made(tmp_path, seed), warmup)


@task("scaling_ex01.batch_sweep")
@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("no json", CaptureError),
        ("[]", CaptureError),
        ('{"format": 1, "unit": "ns"}', CaptureError),
        (f'{{"format": 2, "unit": "ns", "runs": [{RUN}]}}', CaptureError),
        (f'{{"format": 1, "unit": "ms", "runs": [{RUN}]}}', CaptureError),
        (json.dumps({**HEAD, "runs": [{"batch": 3}]}), CaptureError),
        (json.dumps({**HEAD, "phase_names": [], "runs": []}), EmptyCapture),
    ],
)
def test_what_is_no_baseline(stub: Any, text: str, kind: type, tmp_path: Path) -> None:
    (tmp_path / "baseline.json").write_text(text, "utf-8")
    with stub.raises(kind, why=f"{text!r} is no baseline of format 1 in ns with runs in it"):
        stub.batch_sweep(str(tmp_path), 1)


# -- knee_batch -----------------------------------------------------------------------------------------


def judge_knee(stub: Any, rows: list[dict[str, float]], share: float, what: str) -> None:
    """Hold the knee against every row."""
    best = max(row["samples_per_s"] for row in rows)
    enough = {row["batch"] for row in rows if row["samples_per_s"] >= share * best}
    knee = min(enough)
    want = {
        "knee": knee,
        "best": min(row["batch"] for row in rows if row["samples_per_s"] == best),
        "undecided": sorted(
            row["batch"]
            for row in rows
            if row["batch"] < knee
            and row["samples_per_s"] + row["samples_per_s"] * row["noise_ratio"] >= share * best
        ),
    }
    judge(
        f"knee_batch({what}, {share})",
        stub.knee_batch(rows, share),
        want,
        "samples in a step",
        {
            "knee": f"The best is {best:.6g} samples/s, so {share * best:.6g} is enough.",
            "best": f"It is the batch with {best:.6g} samples/s, not always the largest batch.",
            "undecided": "Below the knee, but within their own noise of what is enough.",
        },
    )


@task("scaling_ex01.knee_batch")
@BASELINES
def test_knee_of_a_recording(stub: Any, recording: str) -> None:
    rows = sweep_of(content_of(recording), 4)
    for share in (0.5, 0.9, 1.0):
        judge_knee(stub, rows, share, f"the sweep of {Path(recording).name}")


@task("scaling_ex01.knee_batch")
def test_knee_of_drawn_rows(stub: Any, seed: int) -> None:
    chance = random.Random(f"knee {seed}")

    def rows(*pairs: tuple[float, float]) -> list[dict[str, float]]:
        found = [
            {"batch": 2**at, "step_ns": 1e9 * 2**at / rate, "samples_per_s": rate, "noise_ratio": n}
            for at, (rate, n) in enumerate(pairs)
        ]
        chance.shuffle(found)
        return found

    for _ in range(4):
        drawn = [(chance.uniform(40, 100), chance.uniform(0, 0.3)) for _ in range(7)]
        judge_knee(stub, rows(*drawn), chance.choice([0.7, 0.9]), "drawn")
    judge_knee(stub, rows((50.0, 1.0), (100.0, 0.0), (100.0, 0.0)), 0.5, "half is exactly enough")
    judge_knee(stub, rows((40.0, 0.25), (50.0, 0.0), (100.0, 0.5)), 0.5, "enough with its noise")
    judge_knee(stub, rows((10.0, 3.9), (40.0, 0.2), (80.0, 0.0), (100.0, 0.0)), 0.5, "far below")
    judge_knee(stub, rows((7.0, 0.1)), 1.0, "one row")
    level = rows((80.0, 0.0), (89.0, 0.0), (91.0, 0.0), (100.0, 0.0))
    got = stub.knee_batch(level)
    require(
        isinstance(got, dict) and got.get("knee") == 4,
        f"knee_batch(rows) returned {show(got)}, expected the knee 4: without a share 0.9 is enough",
    )


@task("scaling_ex01.knee_batch")
@pytest.mark.parametrize("share", [0.0, 1.01, None])
def test_no_knee_of_nothing(stub: Any, share: float | None) -> None:
    row = {"batch": 4, "step_ns": 4e9, "samples_per_s": 1.0, "noise_ratio": 0.0}
    with stub.raises(ValueError, why="there must be rows, and a share above 0 and up to 1"):
        if share is None:
            stub.knee_batch([], 0.9)
        else:
            stub.knee_batch([row], share)


# -- same_conditions ------------------------------------------------------------------------------------


def judge_conditions(stub: Any, one: dict, other: dict, varied: list[str], want: dict) -> None:
    """Hold missing and different keys against what was changed."""
    judge(
        f"same_conditions(one, other, {varied})",
        stub.same_conditions(one, other, varied),
        want,
        "keys of the environment",
        {
            "missing": "A key that one of the two lacks, or that says nothing, cannot be compared.",
            "different": "Present in both, not the same in type and value, and not varied on purpose.",
        },
    )


@task("scaling_ex01.same_conditions")
@BASELINES
def test_conditions_of_a_recording(stub: Any, recording: str) -> None:
    one = content_of(recording)["environment"]
    judge_conditions(stub, one, copy.deepcopy(one), [], {"missing": [], "different": []})
    other = {**copy.deepcopy(one), "torch": "1.0", "cpu_count": -1, "device": "another"}
    judge_conditions(stub, one, other, ["device"], {"missing": [], "different": ["torch"]})
    changed = copy.deepcopy(one)
    changed["layers"][-1][-1] += 1
    changed["variables"] = {**one["variables"], "NCCL_ALGO": "Ring"}
    judge_conditions(stub, one, changed, [], {"missing": [], "different": ["layers", "variables"]})


@task("scaling_ex01.same_conditions")
def test_conditions_that_were_drawn(stub: Any, seed: int) -> None:
    chance = random.Random(f"conditions {seed}")
    one: dict[str, Any] = {key: f"{key} {chance.random()}" for key in KEYS}
    one |= {"tf32": False, "threads_per_process_count": 4, "layers": [[3, 4]], "variables": {}}
    for _ in range(4):
        left, right = dict(one), copy.deepcopy(one)
        gone = chance.sample(KEYS, 4)
        del left[gone[0]]
        right[gone[1]] = None
        left[gone[2]] = ""
        del right[gone[3]]
        rest = [key for key in KEYS if key not in gone]
        odd = chance.sample(rest, 3)
        for key in odd:
            right[key] = ["something else"]
        want = {
            "missing": [key for key in KEYS if key in gone],
            "different": [key for key in KEYS if key in odd[1:]],
        }
        judge_conditions(stub, left, right, [odd[0], gone[0]], want)
    typed = {**one, "tf32": 0, "threads_per_process_count": "4"}
    want = {"missing": [], "different": ["tf32", "threads_per_process_count"]}
    judge_conditions(stub, one, typed, [], want)


@task("scaling_ex01.same_conditions")
def test_only_what_is_compared_can_vary(stub: Any) -> None:
    with stub.raises(ValueError, match="weather", why="nobody checks the key weather"):
        stub.same_conditions({}, {}, ["dtype", "weather"])


# -- baseline_verdict -----------------------------------------------------------------------------------


def judge_verdict(stub: Any, capture: str, warmup: int) -> None:
    """Recompute the savings of the largest batch from the file."""
    content = content_of(capture)
    rows, names = sweep_of(content, warmup), content["phase_names"]
    largest = rows[-1]
    phases = np.concatenate(
        [
            np.array(run["phases"][warmup:], dtype=float)
            for run in content["runs"]
            if run["batch"] == largest["batch"]
        ]
    )
    means = dict(zip(names, phases.mean(axis=0), strict=True))
    window = float(phases.sum(axis=1).mean())
    saving = float(max(means["load"], means["copy"]))
    cause = "host_bound" if means["load"] > means["copy"] else "transfer_bound"
    floor = max(0.05, largest["noise_ratio"])
    share = saving / window
    evidence = {
        "recoverable_ns": saving,
        "window_ns": window,
        "recoverable_ratio": share,
        "floor_ratio": floor,
        "margin_ratio": share - floor,
        "throughput_ratio": largest["samples_per_s"] / max(row["samples_per_s"] for row in rows),
    }
    call = f"baseline_verdict({Path(capture).name!r}, {warmup})"
    got = stub.baseline_verdict(capture, warmup)
    want = cause if share >= floor else "healthy"
    judge_finding(
        *(call, got, want, "device:0", evidence),
        f"the evidence contradicts that: {share:.2%} of a step could be saved, the floor is {floor:.2%}; load "
        f"takes {means['load']:,.0f} ns and copy {means['copy']:,.0f} ns",
        why={
            "recoverable_ns": "The mean of a phase over the counted steps of all runs of the largest "
            f"batch: load {means['load']:,.0f}, copy {means['copy']:,.0f}.",
            "window_ns": "The mean of whole steps, over the same steps; their median would be "
            f"{np.median(phases.sum(axis=1)):,.0f}.",
            "recoverable_ratio": "That is recoverable_ns over window_ns.",
            "floor_ratio": f"Runs of the same batch differ by {largest['noise_ratio']:.2%}.",
            "margin_ratio": "That is recoverable_ratio minus floor_ratio.",
            "throughput_ratio": f"By the rows of batch_sweep: {largest['samples_per_s']:,.0f} samples per second, "
            f"the best {max(row['samples_per_s'] for row in rows):,.0f}.",
        },
    )
    margin = (
        f"the margin is {share - floor:+.2%}, and within 2 points of the floor it is borderline"
    )
    judge_recommendation(call, got, margin, borderline=abs(share - floor) <= 0.02)


@task("scaling_ex01.baseline_verdict")
@BASELINES
def test_verdict_on_a_recording(stub: Any, recording: str) -> None:
    judge_verdict(stub, recording, 4)


@task("scaling_ex01.baseline_verdict")
def test_verdict_on_made_up_baselines(stub: Any, seed: int, tmp_path: Path) -> None:
    reversed_names = ("optimizer", "compute", "copy", "load")
    cases: list[dict[str, Any]] = [
        {"load": 0.3, "copied": 0.02},
        {"load": 0.02, "copied": 0.2},
        {"load": 0.001, "copied": 0.004},
        {"load": 0.06, "copied": 0.0},
        {"load": 0.0, "copied": 0.047},
        {"load": 0.3, "copied": 0.1, "names": reversed_names},
        {"load": 0.2, "copied": 0.2},
        {"load": 0.15, "copied": 0.0, "spread": 0.9},
    ]
    for number, case in enumerate(cases):
        judge_verdict(stub, made(tmp_path / str(number), seed, **case), 3)


@task("scaling_ex01.baseline_verdict")
def test_verdict_at_the_limits(stub: Any, tmp_path: Path) -> None:
    content: dict[str, Any] = {}
    for number, load in enumerate((50, 49, 69, 71, 31, 29)):
        step = [load, 0, 1000 - load, 0]
        content = {
            **HEAD,
            "phase_names": ["load", "copy", "compute", "optimizer"],
            "runs": [{"batch": 8, "round": 0, "phases": [step, step]}],
        }
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "baseline.json").write_text(json.dumps(content), "utf-8")
        judge_verdict(stub, str(folder), 1)
    content["phase_names"] = ["copy", "load"]
    content["runs"][0]["phases"] = [[30, 970], [30, 970]]
    (tmp_path / "baseline.json").write_text(json.dumps(content), "utf-8")
    judge_verdict(stub, str(tmp_path), 1)


@task("scaling_ex01.baseline_verdict")
def test_no_verdict_without_phases(stub: Any, seed: int, tmp_path: Path) -> None:
    names = ("load", "copy", "compute", "optimizer")
    content = json.loads(
        Path(made(tmp_path, seed, names=names), "baseline.json").read_text("utf-8")
    )
    content["phase_names"][0] = "wait"
    (tmp_path / "baseline.json").write_text(json.dumps(content), "utf-8")
    with stub.raises(CaptureError, match="load", why="nobody measured how long the data took"):
        stub.baseline_verdict(str(tmp_path), 3)
