"""Checks of `triton_ex05`: a device with its own clock, recorded and made-up samples, proton's trees."""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import near, require
from grading.checks.fixtures import recordings
from profiling_lab import captures
from profiling_lab.errors import CaptureError

PROBE = Path(__file__).resolve().with_name("probes") / "triton_timing.py"
SAMPLES = recordings("triton_samples_add", "triton_samples_matmul", holding="samples.json")
PROFILES = recordings("triton_proton_fp32", "triton_proton_bf16", holding="proton.json")


def series_of(capture: str) -> dict[str, list[int]]:
    """The series of samples in a recording."""
    return json.loads(captures.text(capture, "samples.json"))["series"]


# -- time_kernel --------------------------------------------------------------------------------------


def device_times(seed: int, count: int) -> dict[str, Any]:
    """A device whose first calls are slow, and on which each call takes a little differently."""
    chance = random.Random(f"device {seed}")
    base, launch = chance.randrange(20_000, 60_000), chance.randrange(4_000, 9_000)
    warm = [base + chance.randrange(3000) for _ in range(count)]
    cold = [2 * base + chance.randrange(3000) for _ in range(count)]
    warm[0] += 300_000_000  # compiled in the first call
    return {"launch_ns": launch, "flush_ns": 500_000, "warm_ns": warm, "cold_ns": cold}


def judge_times(
    stub: Any, times: dict, flush: bool, warmup: int | None, repeats: int | None
) -> None:
    """Hold a run of time_kernel against the device's own times and the order that was asked for."""
    found = stub.probe(PROBE, "timed", times, flush, warmup, repeats)
    warm, count = warmup or 10, repeats or 30
    call = (
        f"time_kernel(call, device, {warm}, {count}{', flush' if flush else ''}) on a device with a "
        "clock of its own"
    )
    log = found["log"]
    loop = ["flush"] * flush + ["event", "call", "event"]
    want = ["call"] * warm + ["wait"] + loop * count + ["wait"]
    asked = [entry for entry in log if entry != "read"]
    while asked[-2:] == ["wait", "wait"]:
        asked.pop()
    if asked != want:
        calls = asked.count("call")
        why = "after the warm-up the host waits; then flush, event, call, event; and one wait at the end"
        middle = asked[warm + 1 : -1] if asked[-1:] == ["wait"] else asked[warm + 1 :]
        if calls != warm + count:
            why = (
                f"{calls} calls were made, {warm} of the warm-up and {count} samples were asked for"
            )
        elif asked[warm : warm + 1] != ["wait"]:
            why = "the host did not wait after the warm-up, so its calls are still running in the first sample"
        elif "wait" in middle:
            why = (
                "the host waited between samples: the device runs dry, and the events time the launch "
                "of the next call too"
            )
        elif asked[-1:] != ["wait"]:
            why = "the host did not wait for the last sample before it read the times"
        elif asked.count("flush") != count * flush:
            why = f"flush was called {asked.count('flush')} times, expected {count * flush}"
        elif asked.count("event") != 2 * count:
            why = f"{asked.count('event')} events were recorded, expected two a sample"
        require(False, f"{call}: wrong order. {why}")
    want_ns = [(times["cold_ns"] if flush else times["warm_ns"])[warm + i] for i in range(count)]
    if not flush:
        want_ns[0] += times["launch_ns"]  # the device was idle when its first event was reached
    result = found["result"]
    require(
        isinstance(result, dict) and result.keys() == {"median_ns", "iqr_ns", "samples_ns"},
        f"{call} returned {result!r:.200}, expected a dict of median_ns, iqr_ns and samples_ns",
    )
    got = result["samples_ns"]
    if isinstance(got, np.ndarray):
        got = got.tolist()
    require(
        isinstance(got, list | tuple)
        and len(got) == count
        and all(near(one, other, 1e-8) for one, other in zip(got, want_ns, strict=True)),
        f"{call}: samples_ns begins {got[:3]!r}, the device took {want_ns[:3]} (ns): one sample a call, "
        "from its own pair of events; elapsed_time is in ms",
    )
    low, median, high = statistics.quantiles(want_ns, n=4, method="inclusive")
    for key, value in (("median_ns", median), ("iqr_ns", high - low)):
        require(
            near(result[key], value, 1e-6),
            f"{call}: {key} is {result[key]!r}, expected {value:.6g} ns of these samples",
        )


@task("triton_ex05.time_kernel")
def test_samples_of_a_warm_call(stub: Any, seed: int) -> None:
    times = device_times(seed, 60)
    judge_times(stub, times, False, 3, 20)
    judge_times(stub, times, False, None, None)


@task("triton_ex05.time_kernel")
def test_samples_of_a_cold_call(stub: Any, seed: int) -> None:
    times = device_times(seed + 1, 60)
    judge_times(stub, times, True, 1, 7)
    judge_times(stub, times, True, 5, 2)


@task("triton_ex05.time_kernel")
def test_what_cannot_be_timed(stub: Any) -> None:
    for call, flush, name in ((None, None, "call"), (3.0, None, "call"), ("call", 7, "flush")):
        with stub.raises(TypeError, rf"\b{name}\b", why=f"{name} is nothing to call"):
            stub.probe(PROBE, "refused", call, flush, 3, 3)
    for warmup, repeats, name in ((0, 5, "warmup"), (-1, 5, "warmup"), (5, 1, "repeats")):
        with stub.raises(ValueError, name, why=f"{name} is too small for a spread, or a warm-up"):
            stub.probe(PROBE, "refused", "call", "flush", warmup, repeats)


# -- steady_from --------------------------------------------------------------------------------------


def steady(samples: Sequence[float], window: int, tolerance: float) -> int | None:
    """Where the steady state begins, by the definition; None if nowhere up to the middle."""
    level = statistics.median(samples[len(samples) // 2 :])
    run = 0
    for place, sample in enumerate(samples):
        run = run + 1 if abs(sample - level) <= tolerance * level else 0
        if run == window:
            start = place - window + 1
            return start if start <= len(samples) // 2 else None
    return None


def judge_steady(stub: Any, samples: Sequence[float], what: str, *options: Any) -> None:
    """Hold one answer against the definition."""
    window, tolerance = (*options, 5, 0.05)[:2] if len(options) != 1 else (options[0], 0.05)
    want = steady(samples, window, tolerance)
    call = f"steady_from({what}, {len(samples)} samples, window {window}, tolerance {tolerance})"
    if want is None:
        with stub.raises(
            ValueError, why=f"{call}: no {window} samples in a row are near the level"
        ):
            stub.steady_from(samples, *options)
        return
    got = stub.steady_from(samples, *options)
    level = statistics.median(samples[len(samples) // 2 :])
    shown = [round(x) for x in samples[max(0, want - 2) : want + 3]]
    require(
        type(got) is int and got == want,
        f"{call} returned {got!r}, expected {want}: the level of the second half is {level:,.0f} ns, "
        f"and the samples around place {want} are {shown}: from there on {window} in a row lie within "
        f"{tolerance:.0%} of the level",
    )


@task("triton_ex05.steady_from")
@SAMPLES
@pytest.mark.parametrize("name", ["from_start", "after_idle", "cold", "wall"])
def test_recorded_samples_become_steady(stub: Any, recording: str, name: str) -> None:
    samples = series_of(recording)[name]
    judge_steady(stub, samples, f"{recording}, {name}")
    judge_steady(stub, samples, f"{recording}, {name}", 3, 0.02)


@task("triton_ex05.steady_from")
def test_generated_samples_become_steady(stub: Any, seed: int) -> None:
    chance = random.Random(f"steady {seed}")
    for _ in range(4):
        level, ramp = chance.uniform(1e4, 1e6), chance.randrange(3, 40)
        samples = [chance.uniform(50, 900) * level]
        samples += [level * (1.1 + (ramp - i) / ramp) for i in range(ramp)]
        samples += [level * chance.uniform(0.98, 1.02) for _ in range(120)]
        samples[ramp + 30] = 40 * level  # a disturbance, long after
        judge_steady(stub, samples, "generated")
        judge_steady(stub, samples, "generated", chance.randrange(2, 9))
        judge_steady(stub, [level * (0.5 + i / 100) for i in range(100)], "a drift", 5, 0.01)


@task("triton_ex05.steady_from")
def test_steady_to_the_letter(stub: Any) -> None:
    cases = [
        ("steady at once", [100.0] * 10, (5, 0.05)),
        ("less than a ns", [0.9, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5], (5, 0.05)),
        # a level and a tolerance with which every way to write the limits is exact
        ("at the limits, above", [256, 160, 160, 128, 128, 128, 128, 128, 128, 128], (2, 0.25)),
        ("at the limits, below", [64, 96, 96, 128, 128, 128, 128, 128, 128, 128], (2, 0.25)),
        ("faster at first", [60, 60, 60, 60, 100, 100, 100, 100, 100, 100], (3, 0.05)),
        ("a run just in time", [9, 9, 9, 9, 9, 100, 100, 100, 100, 100], (5, 0.05)),
        ("a run too late", [9, 9, 9, 9, 9, 9, 100, 100, 100, 100], (4, 0.05)),
        ("an odd count", [9, 9, 9, 100, 100, 100, 100, 100, 100], (4, 0.05)),
        ("an odd count, too late", [9, 9, 9, 9, 9, 100, 100, 100, 100], (4, 0.05)),
        ("a window of one", [9, 100], (1, 0.05)),
    ]
    for what, samples, options in cases:
        judge_steady(stub, samples, what, *options)


@task("triton_ex05.steady_from")
@pytest.mark.parametrize(
    ("samples", "options"),
    [
        ([1.0] * 9, (5, 0.05)),
        ([1.0] * 12, (0, 0.05)),
        ([1.0] * 12, (5, 0.0)),
        ([1.0] * 11 + [0.0], (5, 0.05)),
        ([], (1, 0.05)),
    ],
)
def test_too_little_to_be_steady(stub: Any, samples: list[float], options: tuple) -> None:
    with stub.raises(ValueError, why="this is too little to tell a level, or no time"):
        stub.steady_from(samples, *options)


# -- how many, and what for -----------------------------------------------------------------------------


def spread(samples: Sequence[float]) -> float:
    """Sample standard deviation, by hand."""
    mean = math.fsum(samples) / len(samples)
    return math.sqrt(math.fsum((x - mean) ** 2 for x in samples) / (len(samples) - 1))


def judge_repeats(stub: Any, samples: Sequence[float], ratio: float, what: str) -> None:
    """Hold a count against the formula."""
    got = stub.repeats_needed(samples, ratio)
    mean = math.fsum(samples) / len(samples)
    exact = (1.96 * spread(samples) / (ratio * mean)) ** 2
    want = {max(2, math.ceil(exact * (1 + sign * 1e-12))) for sign in (-1, 0, 1)}
    slips = {
        math.ceil(math.sqrt(exact)): "the interval narrows with the square root of the count",
        math.ceil(exact / 1.96**2): "one standard error to either side holds 68 %, not 95 %",
        math.ceil(exact / 4): "half_width_ratio is the reach to one side",
        math.floor(exact): "one fewer leaves the interval too wide",
    }
    require(
        type(got) is int and got in want,
        f"repeats_needed({what}, {ratio}) returned {got!r}, expected {min(want)}: mean {mean:,.0f} ns, "
        f"standard deviation {spread(samples):,.0f} ns. {slips.get(got, 'Solve Z_95·s/√n for n')}",
    )


@task("triton_ex05.repeats_needed")
@SAMPLES
@pytest.mark.parametrize("name", ["warm", "cold", "wall"])
def test_repeats_for_a_recording(stub: Any, recording: str, name: str) -> None:
    for ratio in (0.05, 0.01, 0.001):
        judge_repeats(stub, series_of(recording)[name], ratio, f"{recording}, {name}")


@task("triton_ex05.repeats_needed")
def test_repeats_for_generated_samples(stub: Any, seed: int) -> None:
    chance = random.Random(f"repeats {seed}")
    for _ in range(5):
        level = chance.uniform(1e3, 1e6)
        samples = [level * chance.uniform(0.8, 1.3) for _ in range(chance.randrange(5, 40))]
        judge_repeats(stub, samples, chance.uniform(0.001, 0.05), "generated")
    judge_repeats(stub, [100.0, 100.0, 100.0], 0.01, "samples without spread")
    judge_repeats(stub, [90.0, 110.0], 0.2, "two samples")


@task("triton_ex05.repeats_needed")
@pytest.mark.parametrize(
    ("samples", "ratio"), [([5.0], 0.01), ([], 0.01), ([5.0, 0.0], 0.01), ([5.0, 6.0], 0.0)]
)
def test_no_count_without_spread(stub: Any, samples: list[float], ratio: float) -> None:
    with stub.raises(ValueError, why="one sample has no spread, and no interval is of no width"):
        stub.repeats_needed(samples, ratio)


def judge_error(
    stub: Any, samples: Sequence[float], reference: float, repeats: int, what: str
) -> None:
    """Hold bias and spread against the formulas."""
    got = stub.error_after(samples, reference, repeats)
    half = 1.96 * spread(samples) / math.sqrt(repeats)
    bias = math.fsum(samples) / len(samples) - reference
    call = f"error_after({what}, {reference:.6g}, {repeats})"
    require(
        isinstance(got, dict) and got.keys() == {"half_width_ns", "bias_ns", "limit"},
        f"{call} returned {got!r}, expected half_width_ns, bias_ns and limit",
    )
    require(
        near(got["half_width_ns"], half),
        f"{call}: half_width_ns is {got['half_width_ns']!r}, expected {half:.6g} ns: it is that of "
        f"{repeats} samples, not of the {len(samples)} at hand",
    )
    require(
        near(got["bias_ns"], bias, 1e-7),
        f"{call}: bias_ns is {got['bias_ns']!r}, expected {bias:.6g} ns, mean minus reference; repeats "
        "leave it as it is",
    )
    want = "bias" if abs(bias) > half else "spread"
    require(
        got["limit"] == want,
        f"{call}: limit is {got['limit']!r}, but the bias is {bias:,.0f} ns and the interval reaches "
        f"{half:,.0f} ns to either side",
    )


@task("triton_ex05.error_after")
@SAMPLES
@pytest.mark.parametrize("name", ["wall", "warm", "blocks"])
def test_errors_of_a_recording(stub: Any, recording: str, name: str) -> None:
    series = series_of(recording)
    reference = statistics.median(series["cold"])
    for repeats in (2, 100, 10_000):
        judge_error(stub, series[name], reference, repeats, f"{recording}, {name}")


@task("triton_ex05.error_after")
def test_errors_of_generated_samples(stub: Any, seed: int) -> None:
    chance = random.Random(f"error {seed}")
    for bias in (0.9, 1.0001, 1.2):
        samples = [1e5 * bias * chance.uniform(0.9, 1.1) for _ in range(30)]
        for repeats in (1, 30, 100_000):
            judge_error(stub, samples, 1e5, repeats, "generated")
    judge_error(stub, [100.0, 100.0], 100.0, 5, "no error at all")
    judge_error(stub, [0.4, 0.6, 0.7], 0.5, 5, "less than a ns")


@task("triton_ex05.error_after")
@pytest.mark.parametrize(
    ("samples", "reference", "repeats"),
    [([5.0], 5.0, 3), ([5.0, 6.0], 0.0, 3), ([5.0, 6.0], 5.0, 0), ([5.0, -6.0], 5.0, 3)],
)
def test_no_error_of_nothing(stub: Any, samples: list, reference: float, repeats: int) -> None:
    with stub.raises(ValueError, why="a spread needs two samples, a bias a reference"):
        stub.error_after(samples, reference, repeats)


# -- timing_mistakes ------------------------------------------------------------------------------------

EVIDENCE = {
    "not_synchronised": "the median is {median:,.0f} ns, the device needs {device:,.0f} ns",
    "no_warm_up": "the largest of the first three is {first:,.0f} ns, the median of the others "
    "{others:,.0f} ns",
    "too_few": "the interval of the mean of the others reaches {reach:.2%} to either side",
}


def judge_mistakes(stub: Any, samples: Sequence[float], device: float, what: str) -> None:
    """Hold the names of mistakes against the definitions."""
    first, others = samples[:3], samples[3:]
    reach = 1.96 * spread(others) / math.sqrt(len(others)) / (math.fsum(others) / len(others))
    numbers = {
        "median": statistics.median(samples),
        "device": device,
        "first": max(first),
        "others": statistics.median(others),
        "reach": reach,
    }
    want = ["not_synchronised"] * (numbers["median"] < 0.5 * device)
    want += ["no_warm_up"] * (max(first) > 2 * numbers["others"])
    want += ["too_few"] * (reach > 0.01)
    got = stub.timing_mistakes(samples, device)
    if got == want:
        return
    wrong = [n for n in EVIDENCE if isinstance(got, list | tuple) and (n in got) != (n in want)]
    why = (
        "; ".join(EVIDENCE[name].format(**numbers) for name in wrong) or "in this order, as a list"
    )
    require(
        False,
        f"timing_mistakes({what}, {len(samples)} samples, {device:,.0f}) returned {got!r}, expected "
        f"{want}: {why}",
    )


@task("triton_ex05.timing_mistakes")
@SAMPLES
def test_mistakes_in_a_recording(stub: Any, recording: str) -> None:
    series = series_of(recording)
    device = statistics.median(series["warm"])
    for name, count in [
        ("not_synchronised", 100),
        ("from_start", 5),
        ("from_start", 10),
        ("from_start", 200),
        ("wall", 200),
        ("wall", 5),
        ("cold", 400),
        ("warm", 400),
        ("after_idle", 50),
    ]:
        judge_mistakes(stub, series[name][:count], device, f"{recording}, {name}")


@task("triton_ex05.timing_mistakes")
def test_mistakes_in_generated_samples(stub: Any, seed: int) -> None:
    chance = random.Random(f"mistakes {seed}")
    for scale in (0.1, 1.0, 1.7):
        for start in ([], [900.0], [1.0, 1.0, 7.0]):
            for count, width in ((5, 0.1), (60, 0.01), (60, 0.3)):
                samples = [1e5 * scale * chance.uniform(1 - width, 1 + width) for _ in range(count)]
                for place, factor in enumerate(start):
                    samples[place] *= factor
                judge_mistakes(stub, samples, 1e5, "generated")
    for samples, what in [
        ([50.0] * 6, "half of the device's time, and no less"),
        ([200.0] + [100.0] * 5, "twice the others, and no more"),
        ([100.0, 100.0, 201.0] + [100.0] * 5, "a slow third"),
        ([100.0] * 3 + [201.0] + [100.0] * 5, "a slow fourth"),
        ([10.0] * 3 + [100.0] * 2, "three that nobody waited for, and two others"),
        ([250.0] * 3 + [100.0] * 2, "three slow ones, and two others"),
        ([250.0, 100.0, 100.0] + [100.0] * 5 + [2000.0], "a slow first and a slow last"),
    ]:
        judge_mistakes(stub, samples, 100.0, what)
    judge_mistakes(stub, [0.5] * 8, 0.5, "less than a ns")


@task("triton_ex05.timing_mistakes")
@pytest.mark.parametrize(
    ("samples", "device"), [([5.0] * 4, 5.0), ([5.0] * 6, 0.0), ([5.0] * 5 + [-1.0], 5.0)]
)
def test_too_little_to_judge(stub: Any, samples: list[float], device: float) -> None:
    with stub.raises(ValueError, why="two samples besides the first three, and times above 0"):
        stub.timing_mistakes(samples, device)


# -- Triton's own tools -----------------------------------------------------------------------------------


@task("triton_ex05.do_bench_plan")
def test_the_plan_of_do_bench(stub: Any, seed: int) -> None:
    chance = random.Random(f"plan {seed}")
    # estimates that make every way to divide exact
    cases: list[tuple] = [(1.0,), (0.0625,), (40.0,), (300.0,), (0.5, 25, 100), (0.3, 1, 1)]
    cases += [(2.0, 0, 0), (2.0, 2, 4), (7.0, 50, 200)]
    cases += [(chance.uniform(0.01, 9), chance.randrange(60), chance.randrange(300)) for _ in "123"]
    for case in cases:
        got = stub.do_bench_plan(*case)
        estimate, warmup, rep = (*case, 25, 100)[:3] if len(case) != 1 else (case[0], 25, 100)
        counts = [max(1, math.floor(span / estimate)) for span in (warmup, rep)]
        want = {
            "warmup_count": counts[0],
            "timed_count": counts[1],
            "calls_count": 6 + sum(counts),
            "cold_count": 5 + counts[1],
        }
        call = f"do_bench_plan{case}"
        require(
            isinstance(got, dict) and got.keys() == want.keys(),
            f"{call} returned {got!r}, expected a dict of {', '.join(want)}",
        )
        for key, value in want.items():
            why = "warmup and rep are milliseconds: as many calls as fit, and at least one"
            if key in ("calls_count", "cold_count"):
                why = "one call comes first, then five for the estimate, each after clearing the cache; "
                why += "the warm-up clears nothing"
            require(
                type(got[key]) is int and got[key] == value,
                f"{call}: {key} is {got[key]!r}, expected {value} (calls): {why}",
            )


@task("triton_ex05.do_bench_plan")
@pytest.mark.parametrize("bad", [(0.0,), (-1.0,), (1.0, -1, 100), (1.0, 25, -1)])
def test_no_plan_without_time(stub: Any, bad: tuple) -> None:
    with stub.raises(ValueError, why="a call takes time, and no budget is negative"):
        stub.do_bench_plan(*bad)


@task("triton_ex05.size_benchmark")
@pytest.mark.parametrize("once", [False, True])
def test_a_report_asks_for_each_size(stub: Any, once: bool, seed: int) -> None:
    exponents = sorted(random.Random(f"report {seed}").sample(range(10, 28), 4), reverse=True)
    providers = {"triton": "Triton", "torch": "PyTorch", "copy": "a copy"}
    found = stub.probe(PROBE, "benchmark", exponents, providers, once)
    require(
        found["kind"] == "Benchmark",
        f"size_benchmark returned a {found['kind']}, expected a triton.testing.Benchmark",
    )
    want = [{"n": 2**e, "provider": p} for e in exponents for p in providers]
    require(
        found["calls"] == want,
        f"perf_report would call the timed function with {found['calls'][:3]} …, expected {want[:3]} …: "
        "every size in elements, in the order given, with every provider, and nothing else",
    )
    look = {
        "x_log": True,
        "y_log": False,
        "ylabel": "GB/s",
        "plot_name": "vector-add",
        "line_names": list(providers.values()),
    }
    for key, value in look.items():
        require(found[key] == value, f"size_benchmark: {key} is {found[key]!r}, expected {value!r}")


@task("triton_ex05.size_benchmark")
def test_a_report_of_nothing(stub: Any) -> None:
    for exponents, providers in (([], {"a": "A"}), ([10], {})):
        with stub.raises(ValueError, why="there is nothing to compare"):
            stub.probe(PROBE, "benchmark", exponents, providers, False)


# -- proton ------------------------------------------------------------------------------------------------


def below(node: dict[str, Any]) -> list[dict[str, Any]]:
    """A node and all below it, from the top, in the order of the file."""
    out, stack = [], [node]
    while stack:
        current = stack.pop()
        out.append(current)
        stack += reversed(current["children"])
    return out


def judge_rates(stub: Any, capture: str) -> None:
    """Hold the rates of scopes against the tree."""
    root = json.loads(captures.text(capture, "proton.json"))[0]
    want = []
    for node in below(root):
        own = node["metrics"]
        time = sum(part["metrics"].get("time (ns)", 0) for part in below(node))
        if own.get("bytes", 0) > 0 and time:
            flops = sum(value for key, value in own.items() if key.startswith("flops"))
            want.append(
                {
                    "scope": node["frame"]["name"],
                    "count": sum(part["metrics"].get("count", 0) for part in below(node)),
                    "time_ns": time,
                    "gb_s": own["bytes"] / time,
                    "gflop_s": flops / time,
                }
            )
    call = f"proton_rates({Path(capture).name!r})"
    got = stub.proton_rates(capture)
    require(
        isinstance(got, list) and [row.get("scope") for row in got] == [r["scope"] for r in want],
        f"{call} returned {got!r:.300}, expected the scopes {[row['scope'] for row in want]}: those "
        "with bytes of their own and with time below them",
    )
    for mine, right in zip(got, want, strict=True):
        label = f"{call}, scope {right['scope']!r}"
        require(mine.keys() == right.keys(), f"{label}: has {sorted(mine)}, not {sorted(right)}")
        for key in ("count", "time_ns", "gb_s", "gflop_s"):
            why = "the kernels lie below the scope, at any depth; 1 byte a ns is 1 GB/s"
            if key != "count" and near(mine[key], right[key] / max(right["count"], 1)):
                why = "the scope's bytes and operations are those of all its calls, as is the time"
            elif near(mine[key], right[key] / 1e3):
                why = "that is in thousands of the unit"
            elif key == "gflop_s":
                why = "all of the scope's own metrics whose names begin with flops, and no others"
            require(
                near(mine[key], right[key]),
                f"{label}: {key} is {mine[key]!r}, expected {right[key]:.6g} (launches, ns, GB/s, "
                f"GFLOP/s): {why}",
            )


@task("triton_ex05.proton_rates")
@PROFILES
def test_rates_of_a_recorded_profile(stub: Any, recording: str) -> None:
    judge_rates(stub, recording)


@task("triton_ex05.proton_rates")
def test_rates_of_a_generated_profile(stub: Any, seed: int, tmp_path: Path) -> None:
    chance = random.Random(f"proton {seed}")

    def node(name: str, metrics: dict[str, Any], *children: Any) -> dict[str, Any]:
        frame = {"name": name, "type": "function"}
        return {"frame": frame, "metrics": metrics, "children": list(children)}

    def kernel(name: str) -> dict[str, Any]:
        count = chance.randrange(1, 9)
        times = {"time (ns)": chance.randrange(10**4, 10**6), "count": count, "device_id": "0"}
        return node(name, times)

    def told(width: int) -> dict[str, Any]:
        return {"bytes": chance.randrange(10**6, 10**9), f"flops{width}": chance.randrange(10**9)}

    tree = node(
        "ROOT",
        {"bytes": 0, "flops32": 0},
        node(
            "step",
            {**told(32), "flops16": 12345, "peak flops32": 10**9},
            node("forward", told(16), kernel("matmul"), node("inner", {}, kernel("add"))),
            kernel("copy"),
        ),
        node("nothing ran", told(8)),
        node(
            "not told",
            {"flops32": 7},
            kernel("sum"),
            node("only moved", {"bytes": 640}, kernel("c")),
            node("eight bits", told(8), kernel("d")),
            node("a kernel itself", {"bytes": 5120, "time (ns)": 640, "count": 2}),
        ),
    )
    (tmp_path / "proton.json").write_text(json.dumps([tree, {"CUDA": {}}]), "utf-8")
    judge_rates(stub, str(tmp_path))


@task("triton_ex05.proton_rates")
@pytest.mark.parametrize(
    "text", ["no json", "[]", "{}", "[3]", '[{"metrics": {}}]', '[{"frame": {}}]']
)
def test_what_is_no_profile(stub: Any, text: str, tmp_path: Path) -> None:
    (tmp_path / "proton.json").write_text(text, "utf-8")
    with stub.raises(CaptureError, why=f"{text!r} is no tree of proton"):
        stub.proton_rates(str(tmp_path))
