"""Checks of the comparison of two frameworks: same numbers, fair turns, a verdict above the noise.

Turns are judged on a clock of the check's own, numbers against float64, verdicts against the file.
"""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import fail, near
from grading.checks.fixtures import SEED_VARIABLE, recordings
from profiling_lab import captures
from profiling_lab.errors import CaptureError

PROBE = Path(__file__).resolve().with_name("probes") / "jax_twin.py"


# -- jax_twin -------------------------------------------------------------------------------------


def torch_in_float64(
    x: np.ndarray, weight: np.ndarray, bias: np.ndarray, up: np.ndarray, down: np.ndarray
) -> np.ndarray:
    """What torch_side computes, from the definitions in PyTorch's documentation, in float64."""
    x, weight, bias, up, down = (a.astype(np.float64) for a in (x, weight, bias, up, down))
    mean = x.mean(axis=-1, keepdims=True)
    variance = ((x - mean) ** 2).mean(axis=-1, keepdims=True)
    raised = ((x - mean) / np.sqrt(variance + 1e-5) * weight + bias) @ up
    gelu = raised * 0.5 * (1 + np.vectorize(math.erf)(raised / math.sqrt(2)))
    return gelu @ down


def inputs(seed: int, lead: tuple[int, ...], scale: float) -> list[np.ndarray]:
    """Random x (times scale), weight, bias, up and down, float32."""
    chance = np.random.default_rng(seed)
    x = ((chance.standard_normal((*lead, 24)) + 0.5) * scale).astype(np.float32)
    weight, bias = chance.standard_normal((2, 24)).astype(np.float32)
    up = (chance.standard_normal((24, 40)) / 4).astype(np.float32)
    down = (chance.standard_normal((40, 24)) / 6).astype(np.float32)
    return [x, weight, bias, up, down]


@task("lab05_bonus.jax_twin")
@pytest.mark.parametrize("lead", [(2, 5)])
def test_the_same_numbers(stub: Any, seed: int, lead: tuple[int, ...]) -> None:
    for scale, why in (
        (1.0, "Look up the defaults of layer_norm and gelu in both frameworks."),
        (0.003, "These rows hardly vary: what is added to their variance decides."),
        (300.0, "These rows vary a lot."),
    ):
        arrays = inputs(seed, lead, scale)
        told = stub.probe(PROBE, "twin", arrays, "float32")
        want = torch_in_float64(*arrays)
        for called, got in (
            ("torch_side", stub.probe(PROBE, "torch_side", arrays)),
            ("jax_twin", told["result"]),
        ):
            call = f"{called} of x {arrays[0].shape} with a spread of {scale:g}"
            if got.shape != want.shape or told["dtype"] != "float32":
                fail(f"{call} is {told['dtype']} {got.shape}, expected float32 {want.shape}")
            error = np.abs(got - want).max() / np.abs(want).max()
            if not error <= 2e-5:
                fail(
                    f"{call} is off by {error:.1e} of the largest result; rounding in float32 gives "
                    f"less than 2e-5, so it is another function than torch_side is. {why}"
                )


@task("lab05_bonus.jax_twin")
def test_half_precision(stub: Any, seed: int) -> None:
    arrays = inputs(seed, (6,), 2.0)
    arrays[0] += np.float32(300)  # in bfloat16, their mean would be off by as much as they vary
    arrays = [(a.view(np.uint32) & 0xFFFF0000).view(np.float32) for a in arrays]
    told = stub.probe(PROBE, "twin", arrays, "bfloat16")
    want = torch_in_float64(*arrays)
    if told["dtype"] != "bfloat16":
        fail(f"jax_twin of bfloat16 is {told['dtype']}, expected bfloat16, as PyTorch returns")
    error = np.abs(told["result"] - want).max() / np.abs(want).max()
    if not error <= 3e-2:
        fail(
            f"jax_twin of bfloat16 is off by {error:.1e} of the largest result, expected under 3e-2: "
            "rows of values near 300 need a mean and a variance in float32"
        )


@task("lab05_bonus.jax_twin")
def test_products_in_full_float32(stub: Any, seed: int) -> None:
    asked = stub.probe(PROBE, "precisions", inputs(seed, (3,), 1.0))
    if len(asked) < 2 or any(one != "HIGHEST" for one in asked):
        fail(
            f"jax_twin asks for its {len(asked)} products in {', '.join(asked) or 'nothing'}; on a "
            "GPU, what is not asked for in HIGHEST is rounded to TF32 on the way, and PyTorch does not do that"
        )


# -- time_in_turns --------------------------------------------------------------------------------


class Device:
    """A clock, and work that is issued now and there later. Everything is written down."""

    def __init__(self) -> None:
        self.now = self.free = 0
        self.log: list[tuple[str, str]] = []
        self.waited: set[int] = set()
        self.issued = 0
        self.scale: Callable[[str, int], float] = lambda name, call: 1.0

    def clock(self) -> int:
        self.log.append(("clock", ""))
        return self.now

    def candidate(
        self, name: str, host_ns: int, device_ns: int, first_ns: int = 0
    ) -> tuple[Callable[[], Any], Callable[[Any], Any]]:
        """(issue, wait) of work that takes the host and the device so long; the first call longer."""
        ready: dict[int, int] = {}
        calls = 0

        def issue() -> int:
            nonlocal calls
            self.log.append(("issue", name))
            factor = self.scale(name, calls)
            self.now += round(host_ns * factor) + (0 if calls else first_ns)
            self.free = max(self.free, self.now) + round(device_ns * factor)
            calls += 1
            self.issued += 1
            ready[self.issued] = self.free
            return self.issued

        def wait(result: int) -> None:
            self.log.append(("wait", name))
            if result not in ready:
                fail(
                    f"time_in_turns waited for {result!r} with the wait of {name}, which never gave it"
                )
            self.waited.add(result)
            self.now = max(self.now, ready[result]) + 50

        return issue, wait


def run_turns(
    stub: Any, durations: dict[str, tuple[int, int, int]], scale: Any = None, **options: int
) -> tuple[Device, Any]:
    """Run it on a device of its own."""
    device = Device()
    if scale:
        device.scale = scale
    candidates = {name: device.candidate(name, *times) for name, times in durations.items()}
    return device, stub.time_in_turns(candidates, device.clock, **options)


def by_the_contract(
    durations: dict[str, tuple[int, int, int]],
    rounds: int,
    count: int,
    warmup: int,
    scale: Any = None,
) -> tuple[Device, dict[str, list[float]]]:
    """What the contract says, step by step."""
    device = Device()
    if scale:
        device.scale = scale
    candidates = {name: device.candidate(name, *times) for name, times in durations.items()}
    for issue, wait in candidates.values():
        for _ in range(warmup):
            wait(issue())
    samples: dict[str, list[float]] = {name: [] for name in candidates}
    names = list(candidates)
    for number in range(rounds):
        for name in names if number in range(0, rounds, 2) else names[::-1]:
            issue, wait = candidates[name]
            start = device.clock()
            for result in [issue() for _ in range(count)]:
                wait(result)
            samples[name].append((device.clock() - start) / count)
    return device, samples


def judge_turns(
    stub: Any, durations: dict[str, tuple[int, int, int]], scale: Any = None, **options: int
) -> None:
    """Compare order and samples with the contract."""
    full = {"count": 1, "warmup": 2} | options
    device, got = run_turns(stub, durations, scale, **options)
    ideal, want = by_the_contract(durations, scale=scale, **full)
    call = (
        f"time_in_turns({list(durations)}, …, {', '.join(f'{k}={v}' for k, v in options.items())})"
    )
    if lost := device.issued - len(device.waited):
        fail(
            f"{call} never waited for {lost} of {device.issued} results: what was asked for may not "
            "have been done when the clock was read"
        )

    def order(log: list[tuple[str, str]]) -> list[str]:
        return [name for what, name in log if what == "issue"]

    if order(device.log) != order(ideal.log):
        fail(
            f"{call} issued {' '.join(order(device.log))}; expected {' '.join(order(ideal.log))}: "
            f"{full['warmup']} calls of each to warm up, then rounds in which each takes its turn, every "
            "second one backwards"
        )
    if not isinstance(got, dict) or list(got) != list(want):
        fail(f"{call} returned {got!r}, expected samples by name: {list(want)}")
    for name, right in want.items():
        if not isinstance(got[name], list) or len(got[name]) != len(right):
            fail(f"{call}: samples of {name} are {got[name]!r}, expected {len(right)}, one a round")
        for number, (sample, exact) in enumerate(zip(got[name], right, strict=True)):
            if not near(sample, exact):
                host, on_device, _ = durations[name]
                fail(
                    f"{call}: sample {number} of {name} is {sample!r}, expected {exact} ns for one call. "
                    f"A call keeps the host for {host} ns and the device for {on_device}; a sample lasts from "
                    "before the first is issued until the last result is there, over their number"
                )


def drawn_durations(pick: random.Random, count: int) -> dict[str, tuple[int, int, int]]:
    names = ["torch", "jax", "numpy", "again"][:count]
    numbers = iter(pick.choices(range(500, 90_000), k=3 * count))
    return {name: (next(numbers), next(numbers), next(numbers)) for name in names}


@task("lab05_bonus.time_in_turns")
def test_two_take_turns(stub: Any, seed: int) -> None:
    judge_turns(stub, drawn_durations(random.Random(seed), 2), rounds=4)


@task("lab05_bonus.time_in_turns")
def test_several_calls_a_sample(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    judge_turns(stub, drawn_durations(pick, 3), rounds=3, count=5, warmup=1)
    judge_turns(stub, drawn_durations(pick, 2), rounds=1, count=2, warmup=3)


@task("lab05_bonus.time_in_turns")
def test_a_device_that_slows_down(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    first, second, third = (pick.randrange(5_000, 9_000) for _ in range(3))
    times = (first, second, third)
    same = {"one": times, "other": times}
    judge_turns(stub, same, lambda name, call: 1 + call / 50, rounds=6, count=2)


@task("lab05_bonus.time_in_turns")
def test_nothing_to_compare(stub: Any) -> None:
    device = Device()
    one = {"torch": device.candidate("torch", 1, 1)}
    two = one | {"jax": device.candidate("jax", 1, 1)}
    with stub.raises(ValueError, why="one candidate has nobody to take turns with"):
        stub.time_in_turns(one, device.clock, rounds=3)
    for bad in ({"rounds": 0}, {"rounds": 2, "count": 0}, {"rounds": 2, "warmup": 0}):
        with stub.raises(ValueError, why=f"{bad} leaves nothing to measure, or the compiler in it"):
            stub.time_in_turns(two, device.clock, **bad)


# -- framework_verdict ----------------------------------------------------------------------------


def coin_interval(values: list[float]) -> tuple[float, float]:
    """The interval of a median, by counting how often a coin shows few heads."""
    ordered, count = sorted(values), len(values)
    best = None
    for k in range(1, count // 2 + 1):
        if sum(math.comb(count, heads) for heads in range(k)) * 1_000 <= 25 * 2**count:
            best = (ordered[k - 1], ordered[-k])
    return best or (0.0, math.inf)


def expected_verdict(rows: list[dict[str, Any]], first: str, second: str) -> dict[str, Any]:
    """From the file, by the contract."""
    named = {row["name"]: row for row in rows}

    def quotients(one: str, other: str) -> list[float]:
        return [a / b for a, b in zip(named[one]["done"], named[other]["done"], strict=True)]

    noise = max(
        abs(1 - statistics.median(quotients(name.removesuffix(" again"), name)))
        for name in named
        if name.endswith(" again")
    )
    ratios = quotients(first, second)
    middle, (low, high) = statistics.median(ratios), coin_interval(ratios)
    one, other = named[first]["relative_error"], named[second]["relative_error"]
    verdict = "second" if middle > 1 else "first"
    if low <= 1 <= high or abs(1 - middle) <= noise:
        verdict = "no difference"
    if max(one, other) > 2 * min(one, other):
        verdict = "not comparable"
    return {
        "speedup_ratio": middle,
        "low_ratio": low,
        "high_ratio": high,
        "noise_ratio": noise,
        "error_ratio": max(one, other) / min(one, other),
        "verdict": verdict,
    }


WHY = {
    "speedup_ratio": "the median over rounds of first over second, from the `done` samples",
    "low_ratio": "the lower end of median_interval of the rounds' ratios",
    "high_ratio": "the upper end of median_interval of the rounds' ratios",
    "noise_ratio": "the largest distance from 1 between a variant and the same one again",
    "error_ratio": "the larger of the two relative errors over the smaller",
}


def judge_verdict(
    stub: Any,
    capture: str,
    size: str,
    rows: list[dict[str, Any]],
    first: str,
    second: str,
    more: str,
) -> None:
    got = stub.framework_verdict(capture, size, first, second)
    want = expected_verdict(rows, first, second)
    call = f"framework_verdict({Path(capture).name!r}, {size!r}, {first!r}, {second!r}){more}"
    if not isinstance(got, dict) or got.keys() != want.keys():
        fail(f"{call} returned {got!r}, expected a dict of {', '.join(want)}")
    for key, why in WHY.items():
        if not near(got[key], want[key]):
            fail(f"{call}: {key} is {got[key]!r}, expected {want[key]:.6g}: {why}")
    if got["verdict"] != want["verdict"]:
        fail(
            f"{call}: the verdict is {got['verdict']!r}, which the numbers contradict: first over second "
            f"is {want['speedup_ratio']:.4f}, between {want['low_ratio']:.4f} and "
            f"{want['high_ratio']:.4f}; the same thing twice is {want['noise_ratio']:.4f} apart; one error "
            f"is {want['error_ratio']:.1f} times the other"
        )


@task("lab05_bonus.framework_verdict")
@recordings("frameworks_bf16", "frameworks_fp32", holding="frameworks.json")
def test_recorded_frameworks(stub: Any, recording: str) -> None:
    for case in json.loads(captures.text(recording, "frameworks.json"))["cases"]:
        names = [row["name"] for row in case["variants"]]
        for first, second in ((names[0], name) for name in names[1:]):
            judge_verdict(stub, recording, case["name"], case["variants"], first, second, "")
        judge_verdict(stub, recording, case["name"], case["variants"], names[-1], names[0], "")


def made_up(pick: random.Random, rounds: int) -> dict[str, Any]:
    """A case whose variants differ in known ways; rounds drift together, as they do on a device."""
    drift = [1 + 0.3 * math.sin(number) for number in range(rounds)]

    def row(name: str, factor: float, spread: float, error: float) -> dict[str, Any]:
        done = [1e6 * factor * d * (1 + pick.uniform(-spread, spread)) for d in drift]
        issued = [1e3 * pick.uniform(1, 9) for _ in drift]
        common = {"framework": name.partition(" ")[0], "first_call": 5e9}
        return {"name": name, **common, "relative_error": error, "issued": issued, "done": done}

    rows = [
        row("torch eager", 1.0, 0.002, 3e-7),
        row("torch eager again", 1.012, 0.002, 3e-7),
        row("torch compiled", 0.8, 0.01, 4e-7),
        row("jax jit", 0.2, 0.01, 3e-4),
        row("jax jit again", 0.205, 0.001, 3e-4),
        row("jax jit, highest", 1.006, 0.001, 2.9e-7),
        row("jax jit, noisy", 1.3, 0.9, 3.1e-7),
        row("jax jit, slower", 1.1, 0.01, 6.1e-7),
        row("jax jit, half", 1.1, 0.01, 6e-7),
    ]
    pick.shuffle(rows)
    return {"name": "made up", "variants": rows}


@task("lab05_bonus.framework_verdict")
@pytest.mark.parametrize("rounds", [21, 12, 6, 5])
def test_differences_that_are_known(stub: Any, seed: int, tmp_path: Path, rounds: int) -> None:
    case = made_up(random.Random(seed + rounds), rounds)
    other = {"name": "large", "variants": made_up(random.Random(seed), 8)["variants"]}
    table = {"format": 1, "unit": "ns", "cases": [other, case]}
    (tmp_path / "frameworks.json").write_text(json.dumps(table))
    more = f" (generated; {SEED_VARIABLE}={seed} repeats it)"
    for second in (row["name"] for row in case["variants"] if row["name"] != "torch eager"):
        rows = case["variants"]
        judge_verdict(stub, str(tmp_path), "made up", rows, "torch eager", second, more)
        judge_verdict(stub, str(tmp_path), "made up", rows, second, "torch eager", more)


@task("lab05_bonus.framework_verdict")
def test_on_the_borders(stub: Any, tmp_path: Path) -> None:
    def row(name: str, done: list[int], error: float) -> dict[str, Any]:
        return {"name": name, "done": done, "relative_error": error}

    rows = [
        row("a", [100] * 8, 1.0),
        row("a again", [80] * 8, 1.0),  # noise 0.25
        row("as noisy", [80] * 8, 2.0),  # as far away as the noise; an error twice as large
        row("more", [79] * 8, 1.0),
        row("touches", [100, 100, 50, 50, 50, 50, 50, 50], 1.0),
        row("below", [200, 200, 200, 200, 200, 200, 200, 100], 1.0),
        row("off", [50] * 8, 2.001),
    ]
    (tmp_path / "frameworks.json").write_text(
        json.dumps({"cases": [{"name": "small", "variants": rows}]})
    )
    for second in ("as noisy", "more", "touches", "below", "off"):
        judge_verdict(stub, str(tmp_path), "small", rows, "a", second, "")


@task("lab05_bonus.framework_verdict")
def test_rounds_that_are_missing(stub: Any, tmp_path: Path) -> None:
    rows = made_up(random.Random(1), 8)["variants"]
    for row in rows:
        row["done"] = row["done"][: 7 if row["name"] == "torch compiled" else 8]
    (tmp_path / "frameworks.json").write_text(
        json.dumps({"cases": [{"name": "small", "variants": rows}]})
    )
    with stub.raises(ValueError, why="of 8 rounds one has 7: which sample belongs to which?"):
        stub.framework_verdict(str(tmp_path), "small", "torch eager", "torch compiled")


@task("lab05_bonus.framework_verdict")
def test_no_verdict_without_noise(stub: Any, tmp_path: Path) -> None:
    rows = made_up(random.Random(1), 8)["variants"]
    once = [row for row in rows if "again" not in row["name"]]
    cases = [{"name": "small", "variants": rows}, {"name": "once", "variants": once}]
    (tmp_path / "frameworks.json").write_text(json.dumps({"cases": cases}))
    for size, first, second, why in (
        ("once", "torch eager", "jax jit", "nothing was measured twice, so nobody knows the noise"),
        ("small", "torch eager", "mxnet", "there is no variant mxnet"),
        ("small", "mxnet", "torch eager", "there is no variant mxnet"),
        ("huge", "torch eager", "jax jit", "there is no such size"),
    ):
        with stub.raises(CaptureError, why=why):
            stub.framework_verdict(str(tmp_path), size, first, second)
