"""Checks of `scaling_ex02`: recorded series, made-up ones, and speed-ups drawn from the seed."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import (
    agree,
    judge,
    judge_finding,
    judge_recommendation,
    near,
    require,
    show,
)
from grading.checks.fixtures import recordings
from profiling_lab import captures
from profiling_lab.errors import CaptureError

SCALED = recordings(
    "scaling_fp32", "scaling_cpu_narrow", "scaling_four_bf16", holding="scaling.json"
)


def runs_of(capture: str) -> list[dict[str, Any]]:
    """All runs of a recording."""
    return json.loads(captures.text(capture, "scaling.json"))["runs"]


def series_in(capture: str) -> dict[str, list[dict[str, Any]]]:
    """The runs of each series, by world size."""
    found: dict[str, list[dict[str, Any]]] = {}
    for run in sorted(runs_of(capture), key=lambda run: run["world_size"]):
        found.setdefault(run["series"], []).append(run)
    return found


def saved(folder: Path, runs: list[dict[str, Any]], **more: Any) -> str:
    """A scaling.json with these runs."""
    folder.mkdir(parents=True, exist_ok=True)
    head = {"format": 1, "unit": "ns", "what": "scaling"}
    sizes = sorted({run["world_size"] for run in runs})
    content = {**head, "world_sizes": sizes, "runs": runs, **more}
    (folder / "scaling.json").write_text(json.dumps(content), "utf-8")
    return str(folder)


def made_run(
    series: str, samples: list[int], late: list[float], exposed: float, chance: random.Random
) -> dict[str, Any]:
    """A run whose ranks take `late` times a level alone, and together the slowest one and `exposed`."""
    level = chance.randrange(2_000_000, 9_000_000)
    alone = [[round(level * f * chance.uniform(1, 1.004)) for _ in range(12)] for f in late]
    slowest = [max(place) for place in zip(*alone, strict=True)]
    step = [[round(t + level * exposed * chance.uniform(1, 1.01)) for t in slowest] for _ in late]
    return {
        "series": series,
        "world_size": len(samples),
        "samples_per_rank": samples,
        "step_ns": step,
        "alone_ns": alone,
    }


def made(folder: Path, seed: int) -> str:
    """Series of every kind in one file, in no order; neither names nor numbers are known beforehand."""
    chance = random.Random(f"scaling {seed}")
    names = [f"run{number}" for number in chance.sample(range(10, 100), 6)]
    whole, each = 60 * chance.randrange(1, 30), chance.randrange(9, 500)
    runs = []
    for size in (1, 2, 3, 6):
        cases = [
            ([whole // size] * size, [1.0] * size, 0.002),
            ([each] * size, [1.0] * size, 0.4),
            ([whole - 5 * (size - 1), *[5] * (size - 1)], [*[1.0] * (size - 1), 1.6], 0.02),
            ([14 if size == 3 else whole // size] * size, [1.0] * size, 0.1),  # once another one
            ([8 + 5 * rank for rank in range(size)], [1.0] * size, 0.06),
        ]
        for name, (samples, late, exposed) in zip(names, cases, strict=False):
            runs.append(made_run(name, samples, late, exposed, chance))
    runs.append(made_run(names[-1], [8, 8], [1.0, 1.0], 0.1, chance))  # at one world size only
    chance.shuffle(runs)
    return saved(folder, runs)


# -- scaling_kind ---------------------------------------------------------------------------------------


def judge_kind(stub: Any, capture: str, series: str) -> None:
    """Look at what stayed the same, and expect a refusal where nothing did."""
    runs = series_in(capture)[series]
    sizes = [run["world_size"] for run in runs]
    together = {sum(run["samples_per_rank"]) for run in runs}
    each = set(itertools.chain(*(run["samples_per_rank"] for run in runs)))
    call = f"scaling_kind({Path(capture).name!r}, {series!r})"
    if len(sizes) < 2 or (len(together) > 1 and len(each) > 1):
        with stub.raises(
            ValueError, why=f"{call}: sizes {sizes}, together {together}, each {each}"
        ):
            stub.scaling_kind(capture, series)
        return
    strong = len(together) == 1
    judge(
        call,
        stub.scaling_kind(capture, series),
        {
            "kind": "strong" if strong else "weak",
            "samples_count": next(iter(together if strong else each)),
            "world_sizes": sizes,
        },
        "samples a step",
        {
            "kind": f"All processes together did {sorted(together)} samples a step, single ones "
            f"{sorted(each)}, over the world sizes {sizes}."
        },
    )


@task("scaling_ex02.scaling_kind")
@SCALED
def test_kind_of_recorded_series(stub: Any, recording: str) -> None:
    for series in series_in(recording):
        judge_kind(stub, recording, series)


@task("scaling_ex02.scaling_kind")
def test_kind_of_made_up_series(stub: Any, seed: int, tmp_path: Path) -> None:
    capture = made(tmp_path, seed)
    for series in series_in(capture):
        judge_kind(stub, capture, series)


@task("scaling_ex02.scaling_kind")
def test_no_kind_of_an_unknown_series(stub: Any, seed: int, tmp_path: Path) -> None:
    capture = made(tmp_path, seed)
    for series in series_in(capture):
        with stub.raises(
            ValueError, match=series, why="the message names the series that are there"
        ):
            stub.scaling_kind(capture, "shrinks")


@task("scaling_ex02.scaling_kind")
@pytest.mark.parametrize(
    "lost",
    [
        ["samples_per_rank"],
        ["step_ns"],
        ["alone_ns"],
        ["samples_per_rank", "step_ns", "alone_ns"],
    ],
)
def test_a_rank_that_died(stub: Any, lost: list[str], seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"died {seed}")
    runs = [made_run("a", [8] * size, [1.0] * size, 0.1, chance) for size in (1, 2, 4)]
    for name in lost:
        del runs[2][name][-1]
    with stub.raises(CaptureError, why=f"one of four ranks left no {', '.join(lost)}"):
        stub.scaling_kind(saved(tmp_path, runs), "a")


@task("scaling_ex02.scaling_kind")
@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"format": 1, "unit": "ns"}',
        '{"format": 2, "unit": "ns", "runs": []}',
        '{"format": 1, "unit": "s", "runs": []}',
        '{"format": 1, "unit": "ns", "runs": [{"series": "a", "world_size": 1}]}',
    ],
)
def test_what_is_no_recording(stub: Any, text: str, tmp_path: Path) -> None:
    (tmp_path / "scaling.json").write_text(text, "utf-8")
    with stub.raises(CaptureError, why=f"{text!r} is no scaling.json of format 1 in ns"):
        stub.scaling_kind(str(tmp_path), "a")


# -- scaling_efficiency ---------------------------------------------------------------------------------


def judge_efficiency(stub: Any, base: list, scaled: list, size: int, kind: str, what: str) -> None:
    """Hold speed-up and interval against the formula, in numpy."""
    one, many = np.array(base, dtype=float), np.array(scaled, dtype=float)
    speedup = one.mean() / many.mean() * (1 if kind == "strong" else size)
    errors = [x.std(ddof=1) / np.sqrt(len(x)) / x.mean() for x in (one, many)]
    reach = np.exp(1.96 * np.hypot(*errors))
    want = {
        "speedup_ratio": speedup,
        "efficiency_ratio": speedup / size,
        "low_ratio": speedup / size / reach,
        "high_ratio": speedup / size * reach,
    }
    errors_pct = " and ".join(f"{error:.3%}" for error in errors)
    interval = (
        f"The relative standard errors of the two means are {errors_pct}; they add as squares."
    )
    judge(
        f"scaling_efficiency({what}, {size}, {kind!r})",
        stub.scaling_efficiency(base, scaled, size, kind),
        {key: float(value) for key, value in want.items()},
        "ratios",
        {
            "speedup_ratio": "How many times as many samples a second: the mean step went from "
            f"{one.mean():,.0f} to {many.mean():,.0f} ns, and a step of weak scaling has {size} times "
            "the samples.",
            "efficiency_ratio": f"Of {size} processes.",
            "low_ratio": interval,
            "high_ratio": interval,
        },
    )


@task("scaling_ex02.scaling_efficiency")
@SCALED
def test_efficiency_of_recorded_series(stub: Any, recording: str) -> None:
    for series, kind in (("a", "strong"), ("b", "weak"), ("c", "strong")):
        one, *rest = series_in(recording)[series]
        for run in rest:
            steps = run["step_ns"][0]
            what = f"series {series} of {Path(recording).name}"
            judge_efficiency(stub, one["step_ns"][0], steps, run["world_size"], kind, what)


@task("scaling_ex02.scaling_efficiency")
def test_efficiency_of_drawn_steps(stub: Any, seed: int) -> None:
    chance = random.Random(f"efficiency {seed}")
    for size, kind in ((2, "strong"), (7, "weak"), (64, "strong")):
        base = [chance.uniform(9e6, 11e6) for _ in range(chance.randrange(2, 9))]
        scaled = [chance.uniform(0.5, 4) * 1e6 for _ in range(chance.randrange(20, 40))]
        judge_efficiency(stub, base, scaled, size, kind, "drawn")
    judge_efficiency(stub, [0.5, 0.6], [0.2, 0.3], 2, "weak", "less than a ns")


@task("scaling_ex02.scaling_efficiency")
@pytest.mark.parametrize(
    ("base", "scaled", "size", "kind"),
    [
        ([5.0], [5.0, 6.0], 2, "strong"),
        ([5.0, 6.0], [5.0], 2, "strong"),
        ([5.0, 6.0], [5.0, 0.0], 2, "weak"),
        ([-5.0, 6.0], [5.0, 6.0], 2, "weak"),
        ([5.0, 6.0], [5.0, 6.0], 1, "strong"),
        ([5.0, 6.0], [5.0, 6.0], 2, "medium"),
    ],
)
def test_no_efficiency_of_nothing(
    stub: Any, base: list, scaled: list, size: int, kind: str
) -> None:
    with stub.raises(
        ValueError, why="an interval needs two steps on each side, scaling two processes"
    ):
        stub.scaling_efficiency(base, scaled, size, kind)


# -- serial_share, predict_speedup ----------------------------------------------------------------------


def fitted(kind: str, sizes: np.ndarray, speedups: np.ndarray) -> float:
    """The serial share by numpy's least squares, for the law as it is written."""
    if kind == "strong":  # 1/S = 1/n + s (1 - 1/n)
        left, right = 1 - 1 / sizes, 1 / speedups - 1 / sizes
    else:  # S = n + s (1 - n)
        left, right = 1 - sizes, speedups - sizes
    return float(np.linalg.lstsq(left[:, None], right, rcond=None)[0][0])


def law(kind: str, serial: float, size: Any) -> Any:
    """What a law says."""
    return 1 / (serial + (1 - serial) / size) if kind == "strong" else serial + (1 - serial) * size


def judge_share(stub: Any, kind: str, sizes: list[int], speedups: list[float], what: str) -> None:
    """Hold a fit against numpy's."""
    n, s = np.array(sizes, dtype=float), np.array(speedups)
    serial = fitted(kind, n, s)
    more = n > 1
    want = {
        "serial_ratio": serial,
        "worst_ratio": float(np.abs(law(kind, serial, n[more]) / s[more] - 1).max()),
        "free_count": int(more.sum()) - 1,
    }
    got = stub.serial_share(kind, sizes, speedups)
    call = f"serial_share({kind!r}, {show(sizes)}, {show(speedups)}), {what},"
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(got)}, expected a dict of: {', '.join(want)}",
    )
    why = {
        "serial_ratio": "least squares of the times 1/S"
        if kind == "strong"
        else "least squares of the speed-ups",
        "worst_ratio": "how far the law is from the worst point, over that point",
        "free_count": "one process says nothing about s, and one point is used up by s",
    }
    for key, value in want.items():
        good = near(got[key], value, 1e-7, 1e-9) if isinstance(value, float) else got[key] == value
        require(good, f"{call}: {key} is {show(got[key])}, expected {show(value)}: {why[key]}")


def drawn_curve(chance: random.Random, kind: str, noise: float) -> tuple[list[int], list[float]]:
    """World sizes in no order, and speed-ups near a law."""
    sizes = [1, *chance.sample(range(2, 40), 5)]
    chance.shuffle(sizes)
    serial = chance.uniform(0.01, 0.3)
    return sizes, [
        float(law(kind, serial, n)) * (1 if n == 1 else chance.uniform(1 - noise, 1 + noise))
        for n in sizes
    ]


@task("scaling_ex02.serial_share")
@SCALED
def test_share_of_recorded_series(stub: Any, recording: str) -> None:
    for series, kind in (("a", "strong"), ("b", "weak")):
        runs = series_in(recording)[series]
        sizes = [run["world_size"] for run in runs]
        if sizes == [1]:
            continue  # a recording of the learner's own, with one process
        means = [float(np.mean(run["step_ns"][0])) for run in runs]
        work = [1 if kind == "strong" else size for size in sizes]
        speedups = [w * means[0] / mean for w, mean in zip(work, means, strict=True)]
        judge_share(stub, kind, sizes, speedups, f"series {series} of {Path(recording).name}")


@task("scaling_ex02.serial_share")
@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_share_of_drawn_speedups(stub: Any, kind: str, seed: int) -> None:
    chance = random.Random(f"share {kind} {seed}")
    for noise in (0.0, 0.1, 0.4):
        judge_share(stub, kind, *drawn_curve(chance, kind, noise), "drawn")
    judge_share(stub, kind, [2], [1.7], "one point, without the trivial one")
    judge_share(stub, kind, [1, 4], [1.0, 3.0], "one point that says something")
    judge_share(stub, kind, [2, 4], [2.1, 4.4], "faster than it should be")
    judge_share(stub, kind, [1, 2, 4], [1.0, 0.8, 0.6], "slower than one process")


@task("scaling_ex02.serial_share")
@pytest.mark.parametrize(
    ("kind", "sizes", "speedups"),
    [
        ("strong", [1], [1.0]),
        ("weak", [], []),
        ("weak", [0, 2], [1.0, 1.5]),
        ("strong", [2, 4], [1.5, 0.0]),
        ("strong", [2, 4], [1.5]),
        ("Amdahl", [2, 4], [1.5, 2.0]),
    ],
)
def test_no_share_of_nothing(stub: Any, kind: str, sizes: list, speedups: list) -> None:
    with stub.raises(
        ValueError, why="one law, and a speed-up for each world size, one of them above 1"
    ):
        stub.serial_share(kind, sizes, speedups)


def judge_prediction(stub: Any, kind: str, sizes: list, speedups: list, size: int) -> None:
    """Hold a prediction against fits without one point each."""
    n, s = np.array(sizes, dtype=float), np.array(speedups)
    n, s = n[n > 1], s[n > 1]
    want: dict[str, Any] = {"speedup_ratio": float(law(kind, fitted(kind, n, s), size))}
    keep = ~np.eye(len(n), dtype=bool)
    without = [float(law(kind, fitted(kind, n[k], s[k]), size)) for k in keep if k.any()]
    want |= {"low_ratio": min(without, default=None), "high_ratio": max(without, default=None)}
    got = stub.predict_speedup(kind, sizes, speedups, size)
    call = f"predict_speedup({kind!r}, {show(sizes)}, {show(speedups)}, {size})"
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"{call} returned {show(got)}, expected a dict of: {', '.join(want)}",
    )
    for key, value in want.items():
        why = (
            "the law of the whole fit" if key == "speedup_ratio" else "fits without one point each"
        )
        if value is None:
            why = (
                "a single point of more than one process: leave it out, and nothing is left to fit"
            )
        good = got[key] is None if value is None else near(got[key], value, 1e-7)
        require(
            good,
            f"{call}: {key} is {show(got[key])}, expected {show(value)} (times one process): {why}",
        )


@task("scaling_ex02.predict_speedup")
@pytest.mark.parametrize("kind", ["strong", "weak"])
def test_predictions(stub: Any, kind: str, seed: int) -> None:
    chance = random.Random(f"predict {kind} {seed}")
    for noise in (0.0, 0.1, 0.3):
        sizes, speedups = drawn_curve(chance, kind, noise)
        judge_prediction(stub, kind, sizes, speedups, chance.randrange(41, 200))
    judge_prediction(stub, kind, [1, 2], [1.0, 1.8], 8)
    judge_prediction(stub, kind, [4, 1, 2], [3.0, 1.0, 1.8], 16)
    judge_prediction(stub, kind, [2, 4], [1.8, 3.0], 1)


@task("scaling_ex02.predict_speedup")
@pytest.mark.parametrize(
    ("kind", "sizes", "size"), [("weak", [1, 2], 0), ("strong", [1, 1], 4), ("linear", [1, 2], 4)]
)
def test_no_prediction_from_nothing(stub: Any, kind: str, sizes: list, size: int) -> None:
    with stub.raises(
        ValueError, why="a law, a size above 1 to fit it to, and processes to predict for"
    ):
        stub.predict_speedup(kind, sizes, [1.0, 1.5], size)


# -- efficient_up_to ------------------------------------------------------------------------------------


def judge_bound(stub: Any, rows: list[dict[str, Any]], bound: float, what: str) -> None:
    """Sort every world size into one of three groups."""
    groups: dict[str, list[int]] = {"proven": [], "refuted": [], "undecided": []}
    for row in sorted(rows, key=lambda row: row["world_size"]):
        name = "undecided"
        if row["low_ratio"] >= bound:
            name = "proven"
        elif row["high_ratio"] < bound:
            name = "refuted"
        groups[name].append(row["world_size"])
    others = groups["refuted"] + groups["undecided"]
    proven = [size for size in groups["proven"] if all(size < other for other in others)]
    want = {
        "proven": max(proven, default=None),
        "refuted": min(groups["refuted"], default=None),
        "undecided": groups["undecided"],
    }
    told = ", ".join(
        f"{row['world_size']}: {row['low_ratio']:.3f} to {row['high_ratio']:.3f}" for row in rows
    )
    got = stub.efficient_up_to(rows, bound)
    require(
        isinstance(got, dict) and got.keys() == want.keys(),
        f"efficient_up_to({what}, {bound}) returned {show(got)}, expected: {', '.join(want)}",
    )
    for key, value in want.items():
        require(
            agree(got[key], value),
            f"efficient_up_to({what}, {bound}): {key} is {got[key]!r}, expected {value!r} (processes); "
            f"the intervals are {told}",
        )


@task("scaling_ex02.efficient_up_to")
def test_where_a_bound_holds(stub: Any, seed: int) -> None:
    chance = random.Random(f"bound {seed}")

    def rows(*intervals: tuple[float, float]) -> list[dict[str, Any]]:
        found = [
            {
                "world_size": 2 ** (at + 1),
                "low_ratio": low,
                "high_ratio": high,
                "efficiency_ratio": 1,
            }
            for at, (low, high) in enumerate(intervals)
        ]
        chance.shuffle(found)
        return found

    for _ in range(6):
        drawn = [(e - 0.05, e + 0.05) for e in (chance.uniform(0.6, 1) for _ in range(5))]
        judge_bound(stub, rows(*drawn), 0.8, "drawn")
    judge_bound(stub, rows((0.9, 1.0), (0.7, 0.85), (0.85, 0.9), (0.5, 0.6)), 0.8, "a hole in it")
    judge_bound(stub, rows((0.9, 1.0), (0.4, 0.5), (0.85, 0.9)), 0.8, "refuted, then good again")
    judge_bound(stub, rows((0.9, 1.0), (0.85, 0.9)), 0.85, "exactly at the bound, all proven")
    judge_bound(stub, rows((0.7, 0.8), (0.5, 0.6)), 0.8, "an upper end exactly at the bound")
    judge_bound(stub, rows((0.2, 0.3)), 0.8, "all refuted")


@task("scaling_ex02.efficient_up_to")
@pytest.mark.parametrize(("sizes", "bound"), [([], 0.8), ([2, 4, 2], 0.8), ([2, 4], 0.0)])
def test_no_bound_without_rows(stub: Any, sizes: list[int], bound: float) -> None:
    rows = [{"world_size": size, "low_ratio": 0.8, "high_ratio": 0.9} for size in sizes]
    with stub.raises(ValueError, why="each world size once, and a bound above 0"):
        stub.efficient_up_to(rows, bound)


# -- scaling_verdict ------------------------------------------------------------------------------------


def judge_verdict(stub: Any, capture: str, run: dict[str, Any]) -> None:
    """Recompute what the processes of a run wait for."""
    series, size = run["series"], run["world_size"]
    alone = np.array(run["alone_ns"], dtype=float)
    window = float(np.mean(run["step_ns"]))
    slowest = float(alone.max(axis=0).mean())
    waiting, exposed = slowest - float(alone.mean()), max(0.0, window - slowest)
    saving = max(waiting, exposed)
    share = saving / window
    call = f"scaling_verdict({Path(capture).name!r}, {series!r}, {size})"
    got = stub.scaling_verdict(capture, series, size)
    want = {
        "recoverable_ns": saving,
        "window_ns": window,
        "recoverable_ratio": share,
        "margin_ratio": share - 0.05,
        "waiting_ns": waiting,
        "exposed_ns": exposed,
    }
    category = "healthy" if share < 0.05 else "communication_bound"
    if share >= 0.05 and waiting > exposed:
        category = "rank_imbalance"
    subject = f"range:{series}"
    if category == "rank_imbalance":
        subject = f"rank:{int(alone.mean(axis=1).argmax())}"
    judge_finding(
        *(call, got, category, subject, want),
        f"the evidence contradicts that: waiting for the slowest rank costs {waiting / window:.2%} of a step, "
        f"the exchange after it {exposed / window:.2%}, the floor is 5 %",
        why=f"Steps with the exchange take {window:,.0f} ns on average; alone, the slowest rank of a step "
        f"{slowest:,.0f} ns and the mean rank {alone.mean():,.0f} ns",
        about=f"the ranks' own means are {', '.join(f'{mean:,.0f}' for mean in alone.mean(axis=1))} ns",
        rel=1e-7,
        absolute={key: 1e-6 * (window if key.endswith("_ns") else 1e-3) for key in want},
    )
    margin = f"the margin is {share - 0.05:+.2%}, and within 2 points of the floor it is borderline"
    judge_recommendation(call, got, margin, borderline=abs(share - 0.05) <= 0.02)


@task("scaling_ex02.scaling_verdict")
@SCALED
def test_verdicts_on_a_recording(stub: Any, recording: str) -> None:
    for run in runs_of(recording):
        if run["world_size"] > 1:
            judge_verdict(stub, recording, run)


@task("scaling_ex02.scaling_verdict")
def test_verdicts_on_made_up_runs(stub: Any, seed: int, tmp_path: Path) -> None:
    capture = made(tmp_path, seed)
    for run in runs_of(capture):
        if run["world_size"] > 1:
            judge_verdict(stub, capture, run)


@task("scaling_ex02.scaling_verdict")
def test_verdicts_at_the_limits(stub: Any, tmp_path: Path) -> None:
    cases = [
        ([[950, 950], [950, 950]], 1000),  # the floor, by the exchange
        ([[951, 951], [951, 951]], 1000),
        ([[1000, 1000], [900, 900]], 1000),  # the floor, by waiting
        ([[1000, 1000], [902, 902]], 1000),
        ([[900, 900], [800, 800]], 950),  # both the same
        ([[1000, 1000], [1000, 1000]], 990),  # faster together than alone
        ([[931, 931], [931, 931]], 1000),
        ([[929, 929], [929, 929]], 1000),
        ([[969, 969], [969, 969]], 1000),
        ([[971, 971], [971, 971]], 1000),
        ([[500, 900], [900, 500]], 900),  # in turns: nobody is the slowest, all wait
        ([[900, 900, 1500, 900], [1000] * 4], 1125),  # slowest by the mean, though mostly faster
    ]
    runs = [
        {
            "series": f"case{number}",
            "world_size": 2,
            "samples_per_rank": [4, 4],
            "step_ns": [[step] * len(alone[0])] * 2,
            "alone_ns": alone,
        }
        for number, (alone, step) in enumerate(cases)
    ]
    capture = saved(tmp_path, runs)
    for run in runs:
        judge_verdict(stub, capture, run)


@task("scaling_ex02.scaling_verdict")
@pytest.mark.parametrize("size", [1, 4, 3])
def test_no_verdict_on_what_was_not_measured(
    stub: Any, size: int, seed: int, tmp_path: Path
) -> None:
    chance = random.Random(f"not measured {seed}")
    runs = [made_run("a", [8] * n, [1.0] * n, 0.1, chance) for n in (1, 2, 3)]
    runs[2]["alone_ns"][1].pop()
    match = () if size == 3 else r"2\D+3"  # what was measured, for who asks for something else
    with stub.raises(
        ValueError,
        match=match,
        why="one process waits for nobody, 4 did not run, and 3 lost a step",
    ):
        stub.scaling_verdict(saved(tmp_path, runs), "a", size)


@task("scaling_ex02.scaling_verdict")
@pytest.mark.parametrize("name", ["step_ns", "alone_ns"])
def test_no_verdict_if_a_rank_lost_a_step(stub: Any, name: str, seed: int, tmp_path: Path) -> None:
    run = made_run("a", [8, 8], [1.0, 1.0], 0.1, random.Random(f"lost {seed}"))
    run[name][1].pop()
    with stub.raises(ValueError, why=f"rank 1 has a step less than rank 0 in {name}"):
        stub.scaling_verdict(saved(tmp_path, [run]), "a", 2)


@task("scaling_ex02.scaling_verdict")
@pytest.mark.parametrize("name", ["step_ns", "alone_ns"])
def test_no_verdict_without_steps(stub: Any, name: str, seed: int, tmp_path: Path) -> None:
    run = made_run("a", [8, 8], [1.0, 1.0], 0.1, random.Random(f"empty {seed}"))
    run[name] = [[], []]
    with stub.raises(ValueError, why=f"{name} is empty"):
        stub.scaling_verdict(saved(tmp_path, [run]), "a", 2)
