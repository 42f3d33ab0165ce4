"""Checks of Lab 05, `profiling.py`: timing, the components of attention, its five ways, memory.

Timing is judged on a clock that moves only by the work that a probe does, so expected times are exact;
attention by numbers in float64 and by what was dispatched; memory by tensors of known size. Where a
real GPU is needed, the task is live.
"""

from __future__ import annotations

import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checking import task
from grading.checking.fixtures import recordings
from profiling_lab import captures, devices
from profiling_lab.errors import LabError

PROBES = Path(__file__).resolve().parents[3] / "probes"
TIMING = PROBES / "lab05_timing.py"
ATTENTION = PROBES / "lab05_attention.py"
MEMORY = PROBES / "lab05_memory.py"
LIVE = PROBES / "lab05_live.py"


def show(value: Any) -> str:
    """A value in a line, shortened."""
    text = f"{value:.6g}" if isinstance(value, float) else repr(value)
    return text if len(text) <= 400 else text[:397] + "…"


def require(right: bool, otherwise: str) -> None:
    """Fail with a message, without a traceback, unless something is right."""
    if not right:
        pytest.fail(otherwise, False)


def near(got: Any, want: float, rel: float = 1e-6) -> bool:
    """A number close to another."""
    return type(got) in (int, float) and math.isclose(got, want, rel_tol=rel, abs_tol=1e-12)


def dict_of(call: str, got: Any, keys: set[str]) -> dict[str, Any]:
    """The result, if it is a dict of exactly these keys."""
    have = sorted(got) if isinstance(got, dict) else show(got)
    require(
        isinstance(got, dict) and got.keys() == keys,
        f"{call} returned {have}, expected a dict of: {', '.join(sorted(keys))}",
    )
    return got


# -- timing ---------------------------------------------------------------------------------------

KINDS = {
    "plain": "a function of plain Python",
    "cuda result": "a function that returns CUDA tensors in a dict",
    "cuda argument": "a function that works in place on CUDA tensors in a list, and returns None",
    "cuda behind": "a function that works on CUDA tensors behind its back, and returns None",
    "jax": "a function that returns a pytree of JAX arrays, the last of which is ready last",
}


def plan_of(seed: int, equal: bool = False) -> dict[str, Any]:
    """Times of a call: the device is sometimes faster than the host, sometimes slower."""
    chance = random.Random(seed)
    times = [chance.uniform(0.2, 3.0) for _ in range(7)]
    return {
        "host_s": chance.uniform(0.4, 0.9),
        "device_s": times[:1] if equal else times,
        "first_s": chance.uniform(50, 90),
    }


def seconds(plan: dict[str, Any], kind: str, first: int, calls: int, wait_each: bool) -> float:
    """Seconds per call from a standing start, calls `first` … of the plan."""
    now = ready = 0.0
    for call in range(first, first + calls):
        work = plan["device_s"][call % len(plan["device_s"])]
        now += plan["host_s"] + (work if kind == "plain" else 0)
        if kind == "jax":
            ready = max(ready, now) + work * 0.75
            shown = ready
            ready += work * 0.25
        elif kind != "plain":
            ready = shown = max(ready, now) + work
        if kind != "plain" and wait_each:
            now = max(now, ready)
    return (now if kind == "plain" else max(now, ready, shown)) / calls


@task("lab05.benchmark_function")
@pytest.mark.parametrize("kind", KINDS)
def test_time_per_call(stub: Any, seed: int, kind: str) -> None:
    plan = plan_of(seed)
    warmup, iterations = 2, 5
    claim = stub.probe(TIMING, "timed", "benchmark_function", kind, plan, warmup, iterations)
    call = f"benchmark_function of {KINDS[kind]}, warmup {warmup}, iterations {iterations},"
    require(
        claim["calls"] == warmup + iterations,
        f"{call} called it {claim['calls']} times, expected {warmup + iterations}: each warm-up call and "
        "each timed call once, and nothing else",
    )
    got, want = claim["result"], seconds(plan, kind, warmup, iterations, False)
    if near(got, want):
        return
    host = plan["host_s"]
    why = "The clock moved only by the work of the calls."
    if near(got, want * iterations):
        why = "That is the time of all calls together; per call is asked for."
    elif near(got, want * 1e3) or near(got, want * 1e9):
        why = "That is another unit; seconds are asked for."
    elif kind != "plain" and near(got, seconds(plan, kind, warmup, iterations, True)):
        why = (
            "That is what it takes with a wait after every call: the latency of a call. Here calls "
            "are to follow one another, so that launching hides behind the work before."
        )
    elif kind != "plain" and near(got, host):
        why = (
            "That is what it takes to issue the work. Nothing was waited for before the clock was "
            "read at the end, so the device's work is missing."
        )
    elif isinstance(got, float) and got > want + plan["first_s"] / iterations / 2:
        why = "The first call, with all that happens once, is in it: that belongs to the warm-up."
    elif kind == "jax" and isinstance(got, float) and got < want:
        why = "An array of the result was not ready when the clock was read; all arrays count."
    elif isinstance(got, float) and got > want:
        why = "Work that was issued before the clock started is in it, or waits between the calls."
    log = ", ".join(f"{count} {what}" for what, count in claim["log"])
    pytest.fail(f"{call} returned {show(got)}, expected {want:.6g} s. {why} It did: {log}", False)


BAD_CALLS = {
    "a result instead of a function": "TypeError",
    "a tensor instead of a tuple": "TypeError",
    "too few arguments": "TypeError",
    "too many arguments": "TypeError",
}
LAZY = ("a generator", "a map", "a coroutine")
BAD_COUNTS = (0, -3, 2.0, True)


def refuse(stub: Any, function: str, what: str, counts: list[Any], kind: str, words: str) -> None:
    """Fail unless a timing function refuses something with an error of this kind, before any call."""
    claim = stub.probe(TIMING, "refused", function, what, counts)
    call = f"{function} given {what}, counts {counts},"
    require(
        claim["raised"] == kind,
        f"{call} {'raised ' + claim['raised'] if claim['raised'] else 'returned ' + show(claim['returned'])}"
        f" ({claim['message']}), expected a {kind} that says what is wrong with it",
    )
    require(
        claim["calls"] == 0, f"{call} called something {claim['calls']} times before it refused"
    )
    require(
        words in claim["message"],
        f"{call} raised {kind} with {claim['message']!r}, which does not name {words!r}: who reads it "
        "wants to know which argument is wrong",
    )


@task("lab05.benchmark_function")
@pytest.mark.parametrize("what", BAD_CALLS)
def test_bad_calls_are_refused(stub: Any, what: str) -> None:
    refuse(stub, "benchmark_function", what, [1, 2], BAD_CALLS[what], "")


@task("lab05.benchmark_function")
@pytest.mark.parametrize("count", BAD_COUNTS)
def test_bad_counts_are_refused(stub: Any, count: Any) -> None:
    refuse(stub, "benchmark_function", "fine", [1, count], "ValueError", "iterations")
    refuse(stub, "benchmark_function", "fine", [count, 1], "ValueError", "warmup")


@task("lab05.benchmark_function")
@pytest.mark.parametrize("what", LAZY)
def test_lazy_results_are_refused(stub: Any, what: str) -> None:
    claim = stub.probe(TIMING, "refused", "benchmark_function", what, [1, 3])
    require(
        claim["raised"] == "TypeError",
        f"benchmark_function of a function that returns {what[2:]} "
        f"{'raised ' + claim['raised'] if claim['raised'] else 'returned ' + claim['returned']}, expected a "
        "TypeError: nothing has been computed when it returns, so the time would be that of making a promise",
    )


@task("lab05.benchmark_distribution")
@pytest.mark.parametrize("calls_per_sample", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "cuda result", "jax"])
def test_samples(stub: Any, seed: int, kind: str, calls_per_sample: int) -> None:
    plan = plan_of(seed + 1)
    warmup, samples = 2, 6
    claim = stub.probe(
        TIMING, "timed", "benchmark_distribution", kind, plan, warmup, samples, calls_per_sample
    )
    call = (
        f"benchmark_distribution of {KINDS[kind]}, warmup {warmup}, samples {samples}, calls_per_sample "
        f"{calls_per_sample},"
    )
    got = dict_of(call, claim["result"], {"samples_s", "median_s", "q25_s", "q75_s", "iqr_s"})
    calls = warmup + samples * calls_per_sample
    require(claim["calls"] == calls, f"{call} made {claim['calls']} calls, expected {calls}")
    want = [
        seconds(plan, kind, warmup + place * calls_per_sample, calls_per_sample, False)
        for place in range(samples)
    ]
    found = got["samples_s"]
    require(
        isinstance(found, list) and len(found) == samples,
        f"{call} returned samples_s {show(found)}, expected a list of {samples} samples",
    )
    for place, (sample, right) in enumerate(zip(found, want, strict=True)):
        require(
            near(sample, right),
            f"{call}: sample {place} is {show(sample)}, expected {right:.6g} s per call: a sample begins "
            "with nothing left to do, and ends when its own work is done",
        )
    for key, share in (("median_s", 50), ("q25_s", 25), ("q75_s", 75)):
        right = float(np.percentile(want, share))
        require(
            near(got[key], right),
            f"{call}: {key} is {show(got[key])}, expected {right:.6g} s (NumPy's default quartiles) of "
            f"the samples {show(found)}",
        )
    right = float(np.percentile(want, 75) - np.percentile(want, 25))
    require(
        near(got["iqr_s"], right), f"{call}: iqr_s is {show(got['iqr_s'])}, expected {right:.6g} s"
    )


@task("lab05.benchmark_distribution")
@pytest.mark.parametrize("count", BAD_COUNTS)
def test_bad_samples_are_refused(stub: Any, count: Any) -> None:
    for place, name in enumerate(("warmup", "samples", "calls_per_sample")):
        counts = [1, 1, 1]
        counts[place] = count
        refuse(stub, "benchmark_distribution", "fine", counts, "ValueError", name)
    refuse(stub, "benchmark_distribution", "too few arguments", [1, 1], "TypeError", "")


@task("lab05.cold_and_warm")
def test_three_times_of_a_call(stub: Any, seed: int) -> None:
    chance = random.Random(seed + 2)
    warm = chance.uniform(1, 2)
    plan = {
        "first_s": chance.uniform(80, 120),
        "host_s": chance.uniform(0.1, 0.3),
        "cold_s": warm * chance.uniform(2, 3),
        "warm_s": warm,
        "flush_s": chance.uniform(20, 30),
    }
    samples = 5
    claim = stub.probe(TIMING, "cold_warm", plan, samples)
    call = f"cold_and_warm of a call on the device, samples {samples},"
    got = dict_of(call, claim["result"], {"first_s", "cold_s", "warm_s", "one_time_s"})
    host, log = plan["host_s"], claim["log"]
    flushes = log.count("flush")
    require(
        flushes == samples,
        f"{call} flushed {flushes} times, expected {samples}: a flush for each cold sample",
    )
    want = {
        "first_s": plan["first_s"] + host + plan["cold_s"],
        "cold_s": host + plan["cold_s"],
        "warm_s": host + plan["warm_s"],
    }
    want["one_time_s"] = want["first_s"] - want["warm_s"]
    said = {
        "first_s": "the very first call, compilation included, and nothing before it",
        "cold_s": "the median of calls each after a flush, with the flush over when the clock starts",
        "warm_s": "the median of calls each right after another",
        "one_time_s": "what the first call takes beyond a warm one",
    }
    for key, right in want.items():
        require(
            near(got[key], right),
            f"{call} returned {key} {show(got[key])}, expected {right:.6g} s: {said[key]}. In order: "
            f"{', '.join(log[:14])} …",
        )


@task("lab05.cold_and_warm")
def test_bad_cold_and_warm_is_refused(stub: Any) -> None:
    for what in ("no flush", *BAD_CALLS):
        refuse(stub, "cold_and_warm", what, [2], "TypeError", "")
    for count in BAD_COUNTS:
        refuse(stub, "cold_and_warm", "fine", [count], "ValueError", "samples")
