"""Checks of Lab 05, `profiling.py`: timing, the components of attention, its five ways, memory.

Timing is judged on a clock that moves only by the work that a probe does, so expected times are exact;
attention by numbers in float64 and by what was dispatched; memory by tensors of known size. Where a
real GPU is needed, the task is live.
"""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import assertions, task
from grading.checks.assertions import require, show
from grading.checks.fixtures import recordings
from profiling_lab import captures, devices
from profiling_lab.errors import LabError

PROBES = Path(__file__).resolve().with_name("probes")
TIMING = PROBES / "lab05_timing.py"
ATTENTION = PROBES / "lab05_attention.py"
MEMORY = PROBES / "lab05_memory.py"
LIVE = PROBES / "lab05_live.py"


def near_reading(got: Any, want: float, rel: float = 1e-6) -> bool:
    """As assertions.near, but differences of clock readings lose digits."""
    return assertions.near(got, want, rel)


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
    "cuda other": "a function that returns tensors on a CUDA device that is not the current one",
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
    now = ready = shown = 0.0
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
    if near_reading(got, want):
        return
    host = plan["host_s"]
    why = "The clock moved only by the work of the calls."
    if near_reading(got, want * iterations):
        why = "That is the time of all calls together; per call is asked for."
    elif near_reading(got, want * 1e3) or near_reading(got, want * 1e9):
        why = "That is another unit; seconds are asked for."
    elif kind != "plain" and near_reading(got, seconds(plan, kind, warmup, iterations, True)):
        why = (
            "That is what it takes with a wait after every call: the latency of a call. Here calls "
            "are to follow one another, so that launching hides behind the work before."
        )
    elif kind != "plain" and near_reading(got, host):
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


def refuse_lazy(stub: Any, function: str, what: str, counts: list[int]) -> None:
    """Fail unless a timing function refuses a result that has not been computed."""
    claim = stub.probe(TIMING, "refused", function, what, counts)
    require(
        claim["raised"] == "TypeError",
        f"{function} of a function that returns {what} "
        f"{'raised ' + claim['raised'] if claim['raised'] else 'returned ' + claim['returned']}, expected a "
        "TypeError: nothing has been computed when it returns, so the time would be that of making a promise",
    )


@task("lab05.benchmark_function")
@pytest.mark.parametrize("what", LAZY)
def test_lazy_results_are_refused(stub: Any, what: str) -> None:
    refuse_lazy(stub, "benchmark_function", what, [1, 3])


@task("lab05.benchmark_distribution")
@pytest.mark.parametrize("calls_per_sample", [None, 1, 3])
@pytest.mark.parametrize("kind", ["plain", "cuda result", "jax"])
def test_samples(stub: Any, seed: int, kind: str, calls_per_sample: int | None) -> None:
    plan = plan_of(seed + 1)
    warmup, samples = 2, 6
    counts = [warmup, samples, *([] if calls_per_sample is None else [calls_per_sample])]
    claim = stub.probe(TIMING, "timed", "benchmark_distribution", kind, plan, *counts)
    call = (
        f"benchmark_distribution of {KINDS[kind]}, warmup {warmup}, samples {samples}, calls_per_sample "
        f"{calls_per_sample},"
    )
    got = dict_of(call, claim["result"], {"samples_s", "median_s", "q25_s", "q75_s", "iqr_s"})
    calls_per_sample = calls_per_sample or 1
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
            near_reading(sample, right),
            f"{call}: sample {place} is {show(sample)}, expected {right:.6g} s per call: a sample begins "
            "with nothing left to do, and ends when its own work is done",
        )
    for key, share in (("median_s", 50), ("q25_s", 25), ("q75_s", 75)):
        right = float(np.percentile(want, share))
        require(
            near_reading(got[key], right),
            f"{call}: {key} is {show(got[key])}, expected {right:.6g} s (NumPy's default quartiles) of "
            f"the samples {show(found)}",
        )
    right = float(np.percentile(want, 75) - np.percentile(want, 25))
    require(
        near_reading(got["iqr_s"], right),
        f"{call}: iqr_s is {show(got['iqr_s'])}, expected {right:.6g} s",
    )


@task("lab05.benchmark_distribution")
@pytest.mark.parametrize("count", BAD_COUNTS)
def test_bad_samples_are_refused(stub: Any, count: Any) -> None:
    for place, name in enumerate(("warmup", "samples", "calls_per_sample")):
        counts = [1, 1, 1]
        counts[place] = count
        refuse(stub, "benchmark_distribution", "fine", counts, "ValueError", name)
    refuse(stub, "benchmark_distribution", "too few arguments", [1, 1], "TypeError", "")
    refuse_lazy(stub, "benchmark_distribution", "a generator", [1, 1])


@task("lab05.cold_and_warm")
@pytest.mark.parametrize("lazy", [False, True])
def test_three_times_of_a_call(stub: Any, seed: int, lazy: bool) -> None:
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
    claim = stub.probe(TIMING, "cold_warm", plan, samples, lazy)
    kind = "fn and flush return JAX arrays" if lazy else "on CUDA"
    call = f"cold_and_warm of a call on the device ({kind}), samples {samples},"
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
            near_reading(got[key], right),
            f"{call} returned {key} {show(got[key])}, expected {right:.6g} s: {said[key]}. In order: "
            f"{', '.join(log[:14])} …",
        )


@task("lab05.cold_and_warm")
def test_bad_cold_and_warm_is_refused(stub: Any) -> None:
    for what in ("no flush", *BAD_CALLS):
        refuse(stub, "cold_and_warm", what, [2], "TypeError", "")
    refuse_lazy(stub, "cold_and_warm", "a generator", [2])
    for count in BAD_COUNTS:
        refuse(stub, "cold_and_warm", "fine", [count], "ValueError", "samples")


# -- the components of attention ------------------------------------------------------------------

NAMES = ["qkv_projection", "score_computation", "softmax", "weighted_sum", "output_projection"]
SIZES = {"batch", "seq_len", "d_model", "num_heads"}
PRODUCT_S, ELEMENT_S, CALL_S = 1e-9, 2e-8, 1e-9  # of the probe's machine


def counts_of(batch: int, tokens: int, width: int, heads: int) -> dict[str, tuple[int, int]]:
    """Operations and elements of each component, tensor by tensor."""
    head_dim = width // heads
    x, weights = batch * tokens * width, width * width
    scores = batch * heads * tokens * tokens
    per_head = batch * heads * tokens * head_dim
    row = (tokens - 1) + tokens + tokens + (tokens - 1) + tokens
    return {
        "qkv_projection": (2 * batch * tokens * width * 3 * width, x + 3 * weights + 3 * x),
        "score_computation": (
            2 * batch * heads * tokens * head_dim * tokens,
            2 * per_head + scores,
        ),
        "softmax": (batch * heads * tokens * row, 2 * scores),
        "weighted_sum": (2 * batch * heads * tokens * tokens * head_dim, scores + 2 * per_head),
        "output_projection": (2 * batch * tokens * width * width, x + weights + x),
    }


@task("lab05.profile_attention_components")
@pytest.mark.parametrize(
    ("batch", "tokens", "heads", "head_dim", "dtype"),
    [(2, 33, 4, 8, "float32"), (1, 80, 2, 12, "bfloat16"), (3, 7, 1, 24, "fp32")],
)
def test_components(
    stub: Any, seed: int, batch: int, tokens: int, heads: int, head_dim: int, dtype: str
) -> None:
    tokens += seed % 5
    width = heads * head_dim
    rounds = {"warmup": 2, "iterations": 3}
    options = {"batch": batch, "dtype": dtype, **rounds}
    claim = stub.probe(ATTENTION, "profiled", [tokens, width, heads], options)
    call = (
        f"profile_attention_components({tokens}, {width}, {heads}, batch={batch}, dtype={dtype!r})"
    )
    if claim["raised"]:
        pytest.fail(f"{call} raised {claim['raised']}: {claim['message']}", False)
    keys = {"device", "dtype", "components", "sum_s", "whole_s", "call_floor_s", *SIZES}
    got = dict_of(call, claim["result"], keys)
    name = devices.dtype(dtype).name
    want = {"device": "cpu", "dtype": name, "batch": batch, "seq_len": tokens}
    want |= {"d_model": width, "num_heads": heads}
    for key, value in want.items():
        require(got[key] == value, f"{call}: {key} is {show(got[key])}, expected {value!r}")
    parts: list[dict[str, Any]] = got["components"]
    found = [part.get("name") if isinstance(part, dict) else part for part in parts]
    require(
        found == NAMES, f"{call}: the components are {show(found)}, expected {NAMES}, in this order"
    )
    counted = counts_of(batch, tokens, width, heads)
    all_flops = sum(flops for part, (flops, _) in counted.items() if part != "softmax")
    calls = rounds["warmup"] + rounds["iterations"]
    # Each product is done in the component and in the whole, in each call, and once to make inputs.
    least, most = 2 * calls * all_flops, (2 * calls + 2) * all_flops
    require(
        least <= claim["flops"] <= most,
        f"{call}: all products together did {claim['flops']} operations; with {calls} calls of each "
        f"component and of the whole layer it is {least}, and at most {most} with making the inputs",
    )
    require(
        claim["softmaxes"] >= 2 * calls,
        f"{call}: {claim['softmaxes']} softmaxes were done, expected {2 * calls} at least",
    )
    times = {}
    for part in parts:
        flops, elements = counted[part["name"]]
        label = f"{call}: {part['name']}"
        dict_of(label, part, {"name", "time_s", "share", "flops", "bytes"})
        require(
            part["flops"] == flops,
            f"{label} has {show(part['flops'])} operations, expected {flops}: count the shapes that go in",
        )
        size = devices.dtype(dtype).bytes
        require(
            part["bytes"] == elements * size,
            f"{label} has {show(part['bytes'])} bytes, expected {elements * size}: {elements} elements of "
            f"{name}, each input read once and the result written once",
        )
        if part["name"] == "softmax":
            time_s = 5 * ELEMENT_S * batch * heads * tokens * tokens
        else:
            time_s = PRODUCT_S * flops
        times[part["name"]] = time_s
        # Written out in separate operators a softmax takes a little less on this machine.
        require(
            near_reading(part["time_s"], time_s, 0.45 if part["name"] == "softmax" else 0.08),
            f"{label} took {show(part['time_s'])} s, and its own work alone moves the clock by "
            f"{time_s:.6g} s a call: time this component only, on inputs made before",
        )
    total = sum(part["time_s"] for part in parts)
    require(
        near_reading(got["sum_s"], total),
        f"{call}: sum_s is {show(got['sum_s'])}, and the components' times add up to {total:.6g} s",
    )
    for part in parts:
        right = part["time_s"] / total
        require(
            near_reading(part["share"], right),
            f"{call}: the share of {part['name']} is {show(part['share'])}, expected {right:.6g}: its time "
            "over the sum of the components' times",
        )
    right = sum(times.values())
    require(
        abs(got["whole_s"] - right) <= 0.08 * right + 0.45 * times["softmax"],
        f"{call}: whole_s is {show(got['whole_s'])}; all five in one call move the clock by {right:.6g} s. "
        "It must be measured, not added up: only then does it say whether the parts explain the whole",
    )
    require(
        0.99 * (CALL_S + ELEMENT_S) <= got["call_floor_s"] <= 5 * (CALL_S + ELEMENT_S),
        f"{call}: call_floor_s is {show(got['call_floor_s'])}; a call on one element moves the clock by "
        f"{CALL_S + ELEMENT_S:.3g} s",
    )


WHAT_IS_OFF = {
    "parts": "Q, K and V of a token are not the numbers of its row of x @ W. Each head has its own columns: which "
    "order do batch, tokens, heads and head_dim have in memory before heads and tokens change places?",
    "weights": "the weights that meet V are not softmax(Q @ K.T / sqrt(head_dim)) of each row. Is the scale there?",
    "heads": "what goes into the output projection are not the results of the heads side by side, for each token",
}


@task("lab05.profile_attention_components")
@pytest.mark.parametrize(("batch", "tokens", "heads", "head_dim"), [(2, 33, 4, 8), (3, 7, 1, 24)])
def test_the_layer_is_attention(
    stub: Any, batch: int, tokens: int, heads: int, head_dim: int
) -> None:
    sizes, options = [tokens, heads * head_dim, heads], {"batch": batch, "iterations": 2}
    claim = stub.probe(ATTENTION, "layer_values", sizes, options)
    call = f"profile_attention_components({', '.join(map(str, sizes))}, batch={batch})"
    require(
        claim["found"],
        f"{call}: no call did all five parts one after another; the whole is all five in one function",
    )
    for key, words in WHAT_IS_OFF.items():
        require(
            claim[key] <= 1e-4, f"{call}: {words} (off by {claim[key]:.2g} of the largest number)"
        )
    require(
        claim["timed"] >= len(NAMES) + 1,
        f"{call} gave benchmark_function {claim['timed']} functions, expected one for each part, one for the whole layer "
        "and one for the floor of a call",
    )
    require(
        not claim["made_up"],
        f"{call}: benchmark_function never returned the times of {', '.join(claim['made_up'])}. A time that is computed from "
        "others cannot say whether the parts explain the whole",
    )
    for name, gap in claim["alone"].items():
        near = f"the nearest is off by {gap:.2g} of the largest number" if gap < math.inf else (
            "none returns as many numbers"
        )  # fmt: skip
        require(
            gap <= 1e-4,
            f"{call}: of the functions that were timed, none gives what {name} gives in the whole layer ({near}). Alone a "
            "part computes the same numbers: on what the part before it gave, from the same x",
        )


@task("lab05.profile_attention_components")
def test_the_whole_is_measured(stub: Any) -> None:
    # Softmax is 100 times as slow as the products here, so a wrong whole cannot hide in a tolerance.
    claim = stub.probe(ATTENTION, "profiled", [64, 8, 2], {})
    require(
        claim["raised"] is None, f"profile_attention_components(64, 8, 2) raised {claim['raised']}"
    )
    got = claim["result"]
    counted = counts_of(1, 64, 8, 2)
    all_flops = sum(flops for part, (flops, _) in counted.items() if part != "softmax")
    require(
        claim["not_over_rows"] == 0,
        f"profile_attention_components(64, 8, 2): {claim['not_over_rows']} times softmax went over another "
        "axis than the last; a row of the scores, the keys of one query, must add up to 1",
    )
    require(
        26 * all_flops <= claim["flops"] <= 28 * all_flops,
        f"profile_attention_components(64, 8, 2): all products together did {claim['flops']} operations; "
        f"with a batch of 1, 3 warm-up calls and 10 timed ones of everything it is {26 * all_flops}, and at "
        f"most {28 * all_flops} with making the inputs",
    )
    names = [part["name"] for part in got["components"] if part["share"] > 0.5]
    require(
        names == ["softmax"],
        f"profile_attention_components(64, 8, 2): {names} takes more than half of the time, expected "
        "softmax: on this machine an element of it takes far longer than an operation of a product",
    )


@task("lab05.profile_attention_components")
def test_no_room(stub: Any) -> None:
    sizes, options = [83, 39, 13], {"batch": 59}
    claim = stub.probe(ATTENTION, "profiled", sizes, options, 59 * 13 * 83 * 83 * 4 - 1)
    call = (
        "profile_attention_components(83, 39, 13, batch=59) on a device without room for the scores"
    )
    require(
        claim["raised"] == "MemoryError",
        f"{call} raised {claim['raised']}, expected a MemoryError that says what was asked for",
    )
    message = claim["message"]
    for words in ("83", "39", "13", "59", "64.25 MiB", "12.75 MiB"):
        require(
            words in message,
            f"{call} raised MemoryError with {message!r}, in which {words} is missing: the sizes, what "
            "was asked for and what was free tell what to change",
        )
    require(
        claim["alive"] == 0,
        f"{call}: {claim['alive']} tensors are still alive while the MemoryError is. Whoever catches it "
        "has no more room than before: an exception keeps the frames it went through, and its context's",
    )


@task("lab05.profile_attention_components")
@pytest.mark.parametrize(
    ("sizes", "options"),
    [
        ([16, 30, 4], {}),
        ([0, 32, 4], {}),
        ([16, -32, 4], {}),
        ([16, 32, 0], {}),
        ([16, 32, 4.0], {}),
        ([16, 32, 4], {"batch": 0}),
        ([16, 32, 4], {"warmup": 0}),
        ([16, 32, 4], {"iterations": 0}),
        ([16, 32, 4], {"dtype": "tf32"}),
    ],
)
def test_bad_sizes_are_refused(stub: Any, sizes: list, options: dict[str, Any]) -> None:
    claim = stub.probe(ATTENTION, "profiled", sizes, options)
    call = f"profile_attention_components({', '.join(map(str, sizes))}, {options})"
    require(
        claim["raised"] == "ValueError",
        f"{call} {'raised ' + str(claim['raised']) if claim['raised'] else 'returned a profile'}, expected a "
        "ValueError: sizes and counts are whole numbers of at least 1, heads share d_model evenly, and "
        "torch has tensors of the data type",
    )
    require(
        claim["flops"] == 0,
        f"{call} did {claim['flops']} operations before it refused",
    )


# -- the bottleneck, and the report ---------------------------------------------------------------

BOTTLENECK_KEYS = {
    "component", "time_s", "share", "bound", "least_s", "margin_ratio", "intensity", "ridge",
    "roof_ratio", "sum_to_whole_ratio", "recommendation",
}  # fmt: skip
FUSIBLE, CEILING_RATIO = NAMES[1:4], 0.65
# The moves of ADVICE, and what each of them suits.
SUITS = {
    "use a data type with a higher peak": "compute",
    "tune the product: its tiles, its layout, the shapes that it gets": "compute",
    "move fewer bytes: use a smaller data type": "memory",
    "fuse it with its neighbours": "memory",
    "use fused attention: the scores then never go through memory": "scores",
    "issue fewer and larger calls: fuse or batch more": "launch",
    "replay the calls as a CUDA graph": "launch",
    "none": "ceiling",
}
GENERATED = ("V100 SXM2", "A100 80GB SXM", "H100 SXM", "H200", "T4")


def slowest_of(profile: dict[str, Any]) -> dict[str, Any]:
    """The first of the components with the largest time."""
    best = profile["components"][0]
    for part in profile["components"]:
        if part["time_s"] > best["time_s"]:
            best = part
    return best


def known_device(profile: dict[str, Any], device: str | devices.Device | None) -> devices.Device:
    """The device that a profile is held against."""
    if isinstance(device, devices.Device):
        return device
    return devices.get(device or profile["device"])


def against(device: str | devices.Device | None) -> str:
    """The argument, in words."""
    if isinstance(device, devices.Device):
        return f", a Device measured at {show(device.peak_flops_per_s)} and {device.memory_bandwidth_bytes_per_s:.3g} bytes/s"
    return "" if device is None else f", device={device!r}"


def expected_bottleneck(
    profile: dict[str, Any], device: str | devices.Device | None
) -> dict[str, Any]:
    """What the evidence says of a profile; "recommendation" is the key of the moves that suit it."""
    known = known_device(profile, device)
    peak = known.peak(profile["dtype"])
    bandwidth = known.memory_bandwidth_bytes_per_s
    part = slowest_of(profile)
    total = math.fsum(other["time_s"] for other in profile["components"])
    least = {
        "compute": part["flops"] / peak,
        "memory": part["bytes"] / bandwidth,
        "launch": profile["call_floor_s"],
    }
    order = sorted(least, key=least.__getitem__, reverse=True)
    roof = max(least["compute"], least["memory"]) / part["time_s"]
    found = order[0]
    if found == "memory" and part["name"] in FUSIBLE:
        found = "scores"
    elif found in ("compute", "memory") and roof >= CEILING_RATIO:
        found = "ceiling"
    return {
        "component": part["name"],
        "time_s": part["time_s"],
        "share": part["time_s"] / total,
        "bound": order[0],
        "least_s": least,
        "margin_ratio": 1 - least[order[1]] / least[order[0]],
        "intensity": part["flops"] / part["bytes"],
        "ridge": peak / bandwidth,
        "roof_ratio": roof,
        "sum_to_whole_ratio": total / profile["whole_s"],
        "recommendation": found,
    }


REASONS = {
    "component": "the component with the largest time",
    "time_s": "that component's time",
    "share": "its time over the sum of all components' times",
    "bound": "the largest of the three least times, see least_s",
    "least_s": "operations over the peak for this data type, bytes over the bandwidth, and the call floor",
    "margin_ratio": "1 - second largest over largest least time",
    "intensity": "the component's operations per byte",
    "ridge": "the peak for the profile's data type over the memory bandwidth of this device",
    "roof_ratio": "the larger of the compute and memory least times over the measured time",
    "sum_to_whole_ratio": "the components' sum over whole_s",
}


def shape_of(profile: dict[str, Any]) -> str:
    """Device, data type and shape in words."""
    sizes = ", ".join(
        f"{key} {profile[key]}" for key in ("batch", "seq_len", "d_model", "num_heads")
    )
    return f"{profile['device']}, {profile['dtype']}, {sizes}"


def judge_bottleneck(
    stub: Any, profile: dict[str, Any], device: str | devices.Device | None, where: str
) -> None:
    """Fail unless the finding is what the profile says."""
    got = stub.identify_bottleneck(profile, *([] if device is None else [device]))
    call = f"identify_bottleneck(profile of {shape_of(profile)}{against(device)}){where}"
    dict_of(call, got, BOTTLENECK_KEYS)
    want = expected_bottleneck(profile, device)
    part = slowest_of(profile)
    evidence = (
        f"{part['name']}: {part['time_s']:.4g} s, {part['flops']} operations, {part['bytes']} bytes; "
        f"call_floor_s {profile['call_floor_s']:.4g}"
    )
    for key, reason in REASONS.items():
        right, value = want[key], got[key]
        if isinstance(right, dict):
            same = isinstance(value, dict) and value.keys() == right.keys()
            same = same and all(near_reading(value[name], right[name]) for name in right)
        else:
            same = value == right if isinstance(right, str) else near_reading(value, right)
        require(
            same,
            f"{call}: {key} is {show(value)}, expected {show(right)}: {reason}. {evidence}",
        )
    advice = got["recommendation"]
    require(
        isinstance(advice, str) and advice in SUITS,
        f"{call}: recommendation is {show(advice)}, expected one of the moves in ADVICE, word for word",
    )
    suits = SUITS[advice]
    little = want["recommendation"] == "ceiling"
    require(
        suits == want["recommendation"],
        f"{call}: recommendation is {advice!r}, which is for {suits!r}. {part['name']} is {want['bound']}-bound at "
        f"{want['roof_ratio']:.1%} of its roof (the ceiling begins at {CEILING_RATIO:.0%}), and "
        f"{'is' if part['name'] in FUSIBLE else 'is not'} one of those that fusing spares memory traffic: "
        + ("there is little to win here" if little else "another move would save more"),
    )


def profiles_of(recording: str) -> list[dict[str, Any]]:
    """The profiles of a capture."""
    return json.loads(captures.text(recording, "profiles.json"))["profiles"]


@task("lab05.identify_bottleneck")
@recordings("attention_components_bf16", "attention_components_fp32", holding="profiles.json")
def test_recorded_bottlenecks(stub: Any, recording: str) -> None:
    for profile in profiles_of(recording):
        judge_bottleneck(stub, profile, None, f" of {Path(recording).name}")
        judge_bottleneck(stub, profile, "A100 80GB SXM", f" of {Path(recording).name}")


def drawn_profile(chance: random.Random, bound: str, roof: float, slowest: str) -> dict[str, Any]:
    """A profile whose slowest component has a known limit, and reaches a share of its roof."""
    device = devices.get(chance.choice(GENERATED))
    dtype = chance.choice(["float32", "float16"])
    peak, bandwidth = device.peak(dtype), device.memory_bandwidth_bytes_per_s
    scale, factor = chance.uniform(1e-4, 1e-2), chance.uniform(0.1, 0.9)
    flops = round(scale * peak * (1 if bound == "compute" else factor))
    size = round(scale * bandwidth * (1 if bound == "memory" else factor))
    largest = max(flops / peak, size / bandwidth)
    floor = largest * (chance.uniform(1.1, 1.5) if bound == "launch" else chance.uniform(0.1, 0.8))
    parts: list[dict[str, Any]] = []
    for name in NAMES:
        if name == slowest:
            parts.append({"name": name, "time_s": largest / roof, "flops": flops, "bytes": size})
        else:  # the wrong one has more operations, but less time
            time_s = largest / roof * chance.uniform(0.3, 0.95)
            parts.append({"name": name, "time_s": time_s, "flops": 3 * flops, "bytes": size // 3})
    total = sum(part["time_s"] for part in parts)
    return {
        "device": device.name,
        "dtype": dtype,
        "batch": chance.randint(1, 9),
        "seq_len": chance.randint(10, 999),
        "d_model": chance.randint(10, 999),
        "num_heads": chance.randint(1, 9),
        "components": parts,
        "whole_s": total * chance.uniform(0.8, 1.3),
        "call_floor_s": floor,
    }


@task("lab05.identify_bottleneck")
@pytest.mark.parametrize("bound", ["compute", "memory", "launch"])
def test_generated_bottlenecks(stub: Any, seed: int, bound: str) -> None:
    chance = random.Random(f"{seed}{bound}")
    for slowest in NAMES:
        for roof in (0.2, 0.64, 0.66, 0.9):
            profile = drawn_profile(chance, bound, roof, slowest)
            judge_bottleneck(stub, profile, None, f" (drawn with seed {seed})")


@task("lab05.identify_bottleneck")
def test_equal_ones_and_the_ceiling(stub: Any) -> None:
    profile = drawn_profile(random.Random(4), "memory", 0.5, "softmax")
    for part in profile["components"]:
        part["time_s"] = 0.5
    judge_bottleneck(stub, profile, None, " (all components equally long)")
    flops, size = 10**12, 10**9
    device = devices.get("H200")
    for part in profile["components"]:
        part |= {"flops": flops, "bytes": size}
    profile |= {"device": "H200", "dtype": "float16"}
    profile["call_floor_s"] = flops / device.peak("float16")
    judge_bottleneck(stub, profile, None, " (operations and a call's floor take equally long)")
    for part in profile["components"]:
        part |= {"flops": round(0.65 * device.peak("float16")), "time_s": 1.0}
    judge_bottleneck(stub, profile, None, " (exactly at the ceiling)")


SPOILED = {
    "no components key": ("components", None),
    "no components": ("components", []),
    "no call_floor_s": ("call_floor_s", None),
    "no whole_s": ("whole_s", None),
    "no dtype": ("dtype", None),
    "no num_heads": ("num_heads", None),
    "a whole of no time": ("whole_s", 0.0),
    "a call floor below 0": ("call_floor_s", -1e-6),
}


def spoiled(what: str) -> dict[str, Any]:
    """A profile with something wrong."""
    profile = drawn_profile(random.Random(5), "memory", 0.5, "softmax")
    if what in SPOILED:
        key, value = SPOILED[what]
        profile[key] = value
        if value is None:
            del profile[key]
    else:
        part, key = profile["components"][2], what.split()[-1]
        if what.startswith("no"):
            del part[key]
        else:
            part[key] = float("nan") if what.startswith("nan") else 0
    return profile


@task("lab05.identify_bottleneck")
@pytest.mark.parametrize(
    "what",
    [
        *(what for what in SPOILED if what != "no num_heads"),  # that only the report needs
        "no time_s",
        "no flops",
        "no bytes",
        "zero time_s",
        "zero flops",
        "zero bytes",
        "nan time_s",
    ],
)
def test_unsound_profiles_are_refused(stub: Any, what: str) -> None:
    with stub.raises(ValueError, why=f"a profile with {what} says nothing"):
        stub.identify_bottleneck(spoiled(what))


@task("lab05.identify_bottleneck")
def test_unknown_devices_are_refused(stub: Any) -> None:
    profile = drawn_profile(random.Random(6), "memory", 0.5, "softmax") | {"device": "cpu"}
    with stub.raises(LabError, why="a device without known peaks has no roof"):
        stub.identify_bottleneck(profile)
    judge_bottleneck(stub, profile, "H200", " (a profile of a CPU, held against a GPU)")


@task("lab05.identify_bottleneck")
def test_a_device_that_was_measured(stub: Any, seed: int) -> None:
    """What `measuring.measured_device` gives: a device of no table."""
    chance = random.Random(seed)
    device = measured(chance)
    for slowest in NAMES:
        profile = drawn_profile(chance, "memory", 0.4, slowest) | {"device": "cpu"}
        judge_bottleneck(stub, profile, device, " (against a device that was measured)")


# -- what fusing can save -------------------------------------------------------------------------


def measured(chance: random.Random) -> devices.Device:
    """A device as somebody may have measured it: slower than any in the table."""
    return devices.Device(
        name="this machine (cpu), measured",
        compute_capability="",
        memory_bandwidth_bytes_per_s=chance.uniform(5e9, 90e9),
        peak_flops_per_s={"float32": chance.uniform(3e10, 3e12), "float16": 1e11},
        memory_bytes=0,
    )


def sized_profile(chance: random.Random, slowness: float, short: bool = False) -> dict[str, Any]:
    """A profile whose counts are those of its shape. slowness: its times over their least ones on an H200.

    short: few tokens in many sequences, so that even one fused kernel is bound by memory.
    """
    dtype = chance.choice(["float32", "bfloat16"])
    heads, tokens, batch = chance.randint(1, 16), chance.randint(50, 3000), chance.randint(1, 8)
    if short:
        dtype, heads, tokens, batch = "bfloat16", 16, chance.randint(40, 90), 512
    width = heads * chance.choice([16, 64, 128])
    device, size = devices.get("H200"), devices.dtype(dtype).bytes
    parts: list[dict[str, Any]] = []
    for name, (flops, elements) in counts_of(batch, tokens, width, heads).items():
        moved = elements * size
        least = max(flops / device.peak(dtype), moved / device.memory_bandwidth_bytes_per_s, 3e-6)
        time_s = least * slowness * chance.uniform(1, 2)
        parts.append({"name": name, "time_s": time_s, "flops": flops, "bytes": moved})
    profile: dict[str, Any] = {"device": "H200", "dtype": dtype, "batch": batch}
    profile |= {"seq_len": tokens}
    profile |= {"d_model": width, "num_heads": heads, "components": parts, "call_floor_s": 3e-6}
    return profile | {"whole_s": chance.uniform(0.9, 1.2) * sum(part["time_s"] for part in parts)}


def judge_fused(
    stub: Any, profile: dict[str, Any], device: str | devices.Device | None, where: str
) -> None:
    """Fail unless the prediction is what the counts and the roofs allow."""
    call = f"predict_fused(profile of {shape_of(profile)}{against(device)}){where}"
    got = stub.predict_fused(profile, *([] if device is None else [device]))
    keys = {"saved_bytes", "fused_least_s", "layer_least_s", "speedup_at_most"}
    dict_of(call, got, keys)
    known = known_device(profile, device)
    size = devices.dtype(profile["dtype"]).bytes
    per_token = profile["batch"] * profile["seq_len"] * size
    # Written by the first part, read and written by the second, read by the third.
    saved = 4 * profile["num_heads"] * profile["seq_len"] * per_token
    require(
        got["saved_bytes"] == saved,
        f"{call}: saved_bytes is {show(got['saved_bytes'])}, expected {saved}: which tensors does a part write that "
        "the next one reads? Each has an element for every pair of tokens of every head",
    )
    three = [part for part in profile["components"] if part["name"] in FUSIBLE]
    flops = sum(part["flops"] for part in three)
    moved = 4 * profile["d_model"] * per_token
    least = {
        "compute": flops / known.peak(profile["dtype"]),
        "memory": moved / known.memory_bandwidth_bytes_per_s,
        "launch": profile["call_floor_s"],
    }
    fused = max(least.values())
    require(
        near_reading(got["fused_least_s"], fused),
        f"{call}: fused_least_s is {show(got['fused_least_s'])}, expected {fused:.6g}, the largest of {show(least)}: one "
        f"kernel, {flops} operations, and {moved} bytes, because Q, K and V are read and the result is written",
    )
    total = math.fsum(part["time_s"] for part in profile["components"])
    others = profile["whole_s"] * (1 - math.fsum(part["time_s"] for part in three) / total)
    right = min(others + fused, profile["whole_s"])
    require(
        near_reading(got["layer_least_s"], right),
        f"{call}: layer_least_s is {show(got['layer_least_s'])}, expected {right:.6g}: of whole_s = "
        f"{profile['whole_s']:.6g} the two projections keep their share, {others:.6g}, the fused kernel takes "
        f"{fused:.6g}, and nobody fuses to get slower",
    )
    right = profile["whole_s"] / right
    require(
        near_reading(got["speedup_at_most"], right),
        f"{call}: speedup_at_most is {show(got['speedup_at_most'])}, expected {right:.6g}: whole_s over layer_least_s",
    )


@task("lab05.predict_fused")
@recordings("attention_components_bf16", "attention_components_fp32", holding="profiles.json")
def test_recorded_layers_fused(stub: Any, recording: str) -> None:
    for profile in profiles_of(recording):
        for device in (None, "A100 80GB SXM"):
            judge_fused(stub, profile, device, f" of {Path(recording).name}")


@task("lab05.predict_fused")
def test_drawn_layers_fused(stub: Any, seed: int) -> None:
    chance = random.Random(f"{seed} fused")
    for slowness, short in ((1.0, False), (1.5, False), (4.0, False), (30.0, False), (2.0, True)):
        profile = sized_profile(chance, slowness, short)
        # On a slower device than the one it was timed on, fusing has nothing to win.
        for device in (None, "T4", measured(chance)):
            if profile["dtype"] == "float32" or device is None:
                judge_fused(stub, profile, device, f" (drawn with seed {seed})")


@task("lab05.predict_fused")
def test_no_prediction_from_an_unsound_profile(stub: Any) -> None:
    for what in ("no whole_s", "no flops", "zero time_s"):
        with stub.raises(ValueError, why=f"a profile with {what} says nothing"):
            stub.predict_fused(spoiled(what))


def judge_report(stub: Any, profile: dict[str, Any], device: str | None, where: str) -> None:
    """Fail unless the report says what the profile does."""
    text = stub.component_report(profile, *([] if device is None else [device]))
    call = f"component_report(profile of {shape_of(profile)}){where}"
    require(isinstance(text, str), f"{call} returned {show(text)}, expected a text")
    lines = [line.strip() for line in text.splitlines() if line.strip(" -=")]
    require(
        len(lines) >= 2 and lines[0] == "Attention Component Profiling",
        f"{call} begins with {show(lines[:1])}, expected the title",
    )
    require(
        lines[1] == shape_of(profile),
        f"{call}: line 2 is {lines[1]!r}, expected {shape_of(profile)!r}: a table without GPU, data type "
        "and shape is no evidence",
    )
    found = expected_bottleneck(profile, device)
    total = math.fsum(part["time_s"] for part in profile["components"])
    rows = [(part["name"], part["time_s"]) for part in profile["components"]]
    rows += [("Total", total), ("Whole layer", profile["whole_s"])]
    want = [
        ["Component", "Time", "(ms)", "%", "Total"],
        *(
            [*name.split(), f"{1e3 * time_s:.4f}", f"{100 * time_s / total:.1f}%"]
            for name, time_s in rows
        ),
    ]
    for place, words in enumerate(want, 2):
        line = lines[place] if place < len(lines) else "nothing"
        require(
            line.split() == words,
            f"{call}: line {place + 1} is {line!r}, expected {' '.join(words)!r} (ms with four decimals, share "
            "of the components' sum with one); times of microseconds must not become 0.00",
        )
    rest = lines[2 + len(want) :]
    verdict = (
        f"Bottleneck: {found['component']} ({found['share']:.1%} of the sum, {found['bound']}-bound, "
        f"{found['roof_ratio']:.1%} of the roof)"
    )
    require(
        rest[:1] == [verdict],
        f"{call}: after the table stands {show(rest[:1])}, expected {verdict!r}",
    )
    advice = " ".join(" ".join(rest[1:]).split())
    words = stub.identify_bottleneck(profile, device)["recommendation"]
    require(
        advice == f"Recommendation: {' '.join(words.split())}",
        f"{call}: at the end stands {advice!r}, expected the recommendation of identify_bottleneck, {words!r}",
    )


@task("lab05.component_report")
@recordings("attention_components_bf16", "attention_components_fp32", holding="profiles.json")
def test_recorded_reports(stub: Any, recording: str) -> None:
    for profile in profiles_of(recording):
        judge_report(stub, profile, None, f" of {Path(recording).name}")


@task("lab05.component_report")
def test_generated_reports(stub: Any, seed: int) -> None:
    chance = random.Random(seed)
    for bound, roof in (("compute", 0.9), ("memory", 0.3), ("launch", 0.1)):
        profile = drawn_profile(chance, bound, roof, chance.choice(NAMES))
        judge_report(stub, profile, None, f" (drawn with seed {seed})")
        judge_report(stub, profile | {"device": "cpu"}, "A100 40GB", " (against an A100)")


@task("lab05.component_report")
def test_no_report_of_an_unsound_profile(stub: Any) -> None:
    for what in ("no whole_s", "no num_heads", "no flops", "zero time_s"):
        with stub.raises(ValueError, why=f"a profile with {what} says nothing"):
            stub.component_report(spoiled(what))


# -- five ways to compute attention ---------------------------------------------------------------

# Largest error over the largest value that is right. A data type's own steps are 2^-24, 2^-8, 2^-11
# of a value; materialised ways round the scores and the probabilities as well.
TOLERANCE = {"float32": 2e-5, "bfloat16": 4e-2, "float16": 6e-3}
ALL_BACKENDS = {"FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH"}


def exact_attention(
    inputs: list[np.ndarray], factors: np.ndarray
) -> tuple[np.ndarray, list[np.ndarray]]:
    """The result in float64, and the gradients of sum(result * factors)."""
    q, k, v = inputs
    scale = 1 / math.sqrt(q.shape[-1])
    scores = np.einsum("bhqd,bhkd->bhqk", q, k) * scale
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    result = np.einsum("bhqk,bhkd->bhqd", weights, v)
    of_weights = np.einsum("bhqd,bhkd->bhqk", factors, v)
    of_scores = weights * (of_weights - (of_weights * weights).sum(-1, keepdims=True)) * scale
    return result, [
        np.einsum("bhqk,bhkd->bhqd", of_scores, k),
        np.einsum("bhqk,bhqd->bhkd", of_scores, q),
        np.einsum("bhqk,bhqd->bhkd", weights, factors),
    ]


def judge_close(call: str, what: str, got: Any, want: np.ndarray, tolerance: float) -> None:
    """Fail unless an array is close to the exact one, relative to its largest value."""
    require(
        isinstance(got, np.ndarray) and got.shape == want.shape,
        f"{call}: {what} has shape {getattr(got, 'shape', None)}, expected {want.shape}",
    )
    bad = int((~np.isfinite(got)).sum())
    require(
        bad == 0,
        f"{call}: {what} has {bad} values that are not finite. The scaled scores are in the range of "
        "the data type; is everything on the way to them?",
    )
    worst = float(np.abs(got - want).max() / np.abs(want).max())
    require(
        worst <= tolerance,
        f"{call}: {what} is wrong by up to {worst:.2g} of its largest value, against float64; expected at "
        f"most {tolerance:.2g}",
    )


@task("lab05.optimize_attention")
@pytest.mark.parametrize(
    ("shape", "keys", "dtype", "scale"),
    [
        ((2, 3, 37, 16), 37, "float32", 1.0),
        ((1, 2, 13, 24), 41, "bfloat16", 1.0),
        ((1, 2, 31, 8), 31, "float16", 1.0),
        ((1, 2, 17, 64), 17, "float32", 30.0),
        ((1, 1, 9, 128), 9, "float16", 75.0),
    ],
)
@pytest.mark.parametrize("level", [0, 1, 2, 3, 4])
def test_numbers(
    stub: Any, seed: int, level: int, shape: tuple, keys: int, dtype: str, scale: float
) -> None:
    claim = stub.probe(ATTENTION, "attended", level, list(shape), keys, dtype, seed, scale)
    large = "" if scale == 1 else f", Q and K {scale:.0f} times as large"
    call = f"optimize_attention at level {level}, Q {shape}, {keys} keys, {dtype}{large}"
    result, gradients = exact_attention(claim["inputs"], claim["factors"])
    require(
        claim["dtype"] == f"torch.{dtype}",
        f"{call} returned {claim['dtype']}, expected torch.{dtype}, like Q",
    )
    # Large logits round by themselves: a step of the data type at the largest score is an error of
    # that size in an exponent. Then only finite values in the right range can be asked for.
    tolerance = TOLERANCE[dtype] if scale == 1 else 2e-3 if dtype == "float32" else math.inf
    judge_close(call, "the result", claim["result"], result, tolerance)
    limit = float(np.abs(claim["inputs"][2]).max())
    require(
        float(np.abs(claim["result"]).max()) <= limit * 1.01,
        f"{call}: the result holds values above {limit:.3g}, the largest of V; means of rows of V cannot",
    )
    for name, got, want in zip("QKV", claim["gradients"], gradients, strict=True):
        require(got is not None, f"{call}: no gradient came back to {name}")
        if scale == 1:
            judge_close(call, f"the gradient to {name}", got, want, 4 * tolerance)
    require(claim["again"], f"{call}: a second call with the same tensors gave another result")


@task("lab05.optimize_attention")
def test_what_is_dispatched(stub: Any, seed: int) -> None:
    for level in range(4):
        claim = stub.probe(ATTENTION, "attended", level, [1, 2, 9, 8], 9, "float32", seed, 1.0)
        call = f"optimize_attention at level {level}, twice,"
        seen, names = claim["seen"], claim["names"]
        if level in (0, 1):
            require(
                not seen,
                f"{call} called scaled_dot_product_attention {len(seen)} times; this level is made of "
                "products and a softmax",
            )
            require(
                sum(name in ("bmm", "baddbmm", "mm") for name in names) >= 2
                and any("softmax" in name for name in names),
                f"{call} dispatched {names}; expected two products and a softmax, whose results are "
                "tensors in memory",
            )
        else:
            require(
                len(seen) == 2,
                f"{call} called scaled_dot_product_attention {len(seen)} times, expected once a call",
            )
        runs = 2 if level == 1 else 0
        require(
            claim["compiled_calls"] == runs,
            f"{call} called what torch.compile gave {claim['compiled_calls']} times, expected {runs}",
        )
        require(
            level != 1 or claim["compilations"] == 1,
            f"{call}: torch.compile was called {claim['compilations']} times so far, expected once, when "
            "the level was first asked for: compiling costs seconds, so the result is kept",
        )
        if level == 2:
            require(
                all(set(backends) == ALL_BACKENDS for backends in seen),
                f"{call} allowed {seen}, expected all backends: at this level PyTorch chooses",
            )
        if level == 3:
            require(
                all(backends == ["FLASH_ATTENTION"] for backends in seen),
                f"{call} allowed {seen}, expected FLASH_ATTENTION alone: else nobody knows which one ran",
            )
        require(
            set(claim["enabled"]) == ALL_BACKENDS,
            f"{call} left only {claim['enabled']} enabled for the rest of the program",
        )


@task("lab05.optimize_attention")
def test_no_flash_is_an_error(stub: Any) -> None:
    claim = stub.probe(ATTENTION, "without_flash")
    call = "optimize_attention at level 3 where no flash backend exists for bfloat16"
    require(
        claim["raised"] == "RuntimeError",
        f"{call} {'raised ' + str(claim['raised']) if claim['raised'] else 'returned a result'}, expected a "
        f"RuntimeError; allowed were {claim['seen']}. A silent fallback is a benchmark of something else",
    )
    for words in ("flash", "bfloat16", "cpu", "7"):
        require(
            words in claim["message"].lower(),
            f"{call} raised RuntimeError with {claim['message']!r}, which does not name {words!r}",
        )
    require(
        set(claim["enabled"]) == ALL_BACKENDS,
        f"{call} left only {claim['enabled']} enabled for the rest of the program",
    )


@task("lab05.optimize_attention")
def test_the_fastest_backend_is_measured_once(stub: Any, seed: int) -> None:
    chance = random.Random(seed)
    names = sorted(ALL_BACKENDS)
    calls = []
    shapes = [([1, 2, 5, 8], 5), ([1, 2, 5, 8], 9), ([1, 2, 6, 8], 9), ([2, 2, 5, 8], 5)]
    for (shape, keys), dtype in [*((it, "float32") for it in shapes), (shapes[0], "bfloat16")]:
        present = names if len(calls) < 2 else chance.sample(names, chance.randint(2, 4))
        times = [chance.uniform(1, 2) * 1.5**place for place in range(len(present))]
        chance.shuffle(times)
        calls.append(
            {
                "shape": shape,
                "keys": keys,
                "dtype": dtype,
                "times": dict(zip(present, times, strict=True)),
            }
        )
    rounds = stub.probe(ATTENTION, "chosen", calls, 2)
    for number, (call, first, second) in enumerate(zip(calls, *rounds, strict=True)):
        best = min(call["times"], key=call["times"].__getitem__)
        said = (
            f"optimize_attention at level 4, combination {number} (Q {call['shape']}, {call['keys']} keys, "
            f"{call['dtype']}), where the backends take "
            + ", ".join(f"{name} {time_s:.3g} s" for name, time_s in call["times"].items())
        )
        for row, which in ((first, "first"), (second, "second")):
            require(
                row["raised"] is None,
                f"{said}: the {which} call raised {row['raised']}: {row['words']}",
            )
        tried = {names[0] for names in first["seen"][:-1] if len(names) == 1}
        require(
            tried >= set(call["times"]),
            f"{said}: the first call tried {sorted(tried)}; every backend that exists here is a candidate",
        )
        require(
            not any(first["gradients"][:-1]),
            f"{said}: the candidates were timed with gradients recorded; what is kept for a backward pass "
            "costs time that the call alone does not take",
        )
        least = min(sum(names == [name] for names in first["seen"][:-1]) for name in call["times"])
        require(
            least >= 3,
            f"{said}: a candidate was called {least} times; expected a warm-up and several timed calls, since "
            "the first call of a backend takes ten times as long here",
        )
        for row, which in ((first, "first"), (second, "second")):
            last = row["seen"][-1] if row["seen"] else None
            require(
                last == [best],
                f"{said}: the {which} call's own result came from {last}, expected {best}",
            )
        require(
            len(second["seen"]) == 1,
            f"{said}: the second call used {len(second['seen'])} backends; the winner of a combination is "
            "remembered, so one is enough",
        )
    # Nothing exists: an error that says so.
    nothing = [{"shape": [1, 1, 3, 4], "keys": 3, "dtype": "float32", "times": {}}]
    row = stub.probe(ATTENTION, "chosen", nothing, 1)[0][0]
    require(
        row["raised"] == "RuntimeError",
        f"optimize_attention at level 4 where no backend exists: {row['raised']} {row['words']!r}, expected "
        "a RuntimeError",
    )


@task("lab05.optimize_attention")
@pytest.mark.parametrize(
    ("what", "kind", "words"),
    [
        ("level 5", "ValueError", "level"),
        ("level -1", "ValueError", "level"),
        ("level '2'", "TypeError", "level"),
        ("level True", "TypeError", "level"),
        ("Q with three dimensions", "ValueError", "Q"),
        ("V with three dimensions", "ValueError", "V"),
        ("K of another head_dim", "ValueError", "K"),
        ("K with one head", "ValueError", "K"),
        ("K of another batch", "ValueError", "K"),
        ("V with fewer tokens than K", "ValueError", "V"),
        ("V of another head_dim", "ValueError", "V"),
        ("V in float64", "ValueError", "float64"),
        ("K on another device", "ValueError", "meta"),
        ("K in float64", "ValueError", "float64"),
        ("V on another device", "ValueError", "meta"),
        ("whole numbers", "ValueError", "int"),
    ],
)
def test_bad_attention_is_refused(stub: Any, what: str, kind: str, words: str) -> None:
    claim = stub.probe(ATTENTION, "attention_refused", what)
    require(
        claim["raised"] == kind,
        f"optimize_attention with {what}: {claim['raised']} {claim['message']!r}, expected a {kind}: "
        "broadcasting makes a result out of tensors that do not belong together",
    )
    require(
        words in claim["message"],
        f"optimize_attention with {what} raised {kind} with {claim['message']!r}, which does not name "
        f"{words!r}",
    )


# -- memory ---------------------------------------------------------------------------------------

FLOAT_BYTES = 4


def judge_memory(call: str, got: Any, device: str, peak: int, net: int, why: str) -> None:
    """Fail unless a measurement is right to the byte."""
    dict_of(call, got, {"device", "peak_bytes", "net_bytes"})
    for key, want in (("device", device), ("peak_bytes", peak), ("net_bytes", net)):
        require(
            got[key] == want,
            f"{call}: {key} is {show(got[key])}, expected {want!r}{' bytes' if key != 'device' else ''}: {why}",
        )


# What is allocated at most, and what stays, in tensors of n floats (and single floats).
ON_CPU = {
    "chain": (2, 0, 1, 0, "x * 2 and that + 1 are alive together, then only the last"),
    "freed_on_the_way": (6, 0, 2, 0, "3 n and 3 n together, then 3 n, n, and in the end 2 n"),
    "views_and_in_place": (1, 0, 1, 0, "only flatten of a transposed view copies; its slice keeps all of it"),
    "nothing": (0, 0, 0, 0, "views have no memory of their own"),
    "no_operators": (0, 0, 0, 0, "nothing was allocated"),
    "part_of_a_whole": (4, 0, 4, 0, "a slice keeps the whole storage alive"),
    "keeps": (1, 0, 1, 0, "the function returned nothing, and kept a tensor"),
    "works_on_what_was_there": (0, 0, 0, 0, "what was allocated before does not count, in place or as a view"),
    "result_in_a_dict": (2, 0, 2, 0, "the result is held while what stays is counted"),
}  # fmt: skip


@task("lab05.measure_memory_usage")
@pytest.mark.parametrize("what", ON_CPU)
def test_memory_on_the_cpu(stub: Any, seed: int, what: str) -> None:
    n = 1000 + 2 * (seed % 500)
    peak, more_peak, net, more_net, why = ON_CPU[what]
    for place, got in enumerate(stub.probe(MEMORY, "on_cpu", what, n, 2)):
        judge_memory(
            f"measure_memory_usage of {what!r} with n = {n} floats, call {place + 1} of 2",
            got,
            "cpu",
            (peak * n + more_peak) * FLOAT_BYTES,
            (net * n + more_net) * FLOAT_BYTES,
            why,
        )


@task("lab05.measure_memory_usage")
def test_memory_of_a_backward_pass(stub: Any, seed: int) -> None:
    n = 1000 + 2 * (seed % 500)
    (got,) = stub.probe(MEMORY, "on_cpu", "saves_for_backward", n)
    dict_of("measure_memory_usage", got, {"device", "peak_bytes", "net_bytes"})
    call = (
        f"measure_memory_usage of (w.exp() + x).sin().sum() with n = {n} floats, w with gradients"
    )
    # exp's result and the argument of sin are kept for the backward pass, and the sum.
    want = (2 * n + 1) * FLOAT_BYTES
    require(
        got["net_bytes"] == want,
        f"{call}: net_bytes is {got['net_bytes']}, expected {want}: what autograd keeps is held by the "
        "result, though no variable of Python refers to it",
    )
    require(
        got["peak_bytes"] == (3 * n + 1) * FLOAT_BYTES,
        f"{call}: peak_bytes is {got['peak_bytes']}, expected {(3 * n + 1) * FLOAT_BYTES}",
    )


@task("lab05.measure_memory_usage")
def test_nested_memory_on_the_cpu(stub: Any, seed: int) -> None:
    n = 1000 + 2 * (seed % 500)
    outer, inner = stub.probe(MEMORY, "on_cpu", "nested", n)
    why = "the inner call alone; what was allocated before it does not count"
    judge_memory("measure_memory_usage, nested", inner, "cpu", 6 * n * 4, 2 * n * 4, why)
    why = "2 n are alive while the inner call needs 6 n; in the end n / 2 are"
    judge_memory("measure_memory_usage around it", outer, "cpu", 8 * n * 4, n // 2 * 4, why)


@task("lab05.measure_memory_usage")
def test_memory_on_cuda(stub: Any, seed: int) -> None:
    chance = random.Random(seed)
    before, a, b, c = (512 * chance.randint(10, 90) for _ in range(4))
    call = f"measure_memory_usage on a CUDA device with {before} bytes allocated before"
    claim = stub.probe(MEMORY, "on_cuda", before, [[a], [b], [-a], [c], [-c]])
    why = f"{a} and {b} were allocated, {a} freed, {c} allocated and freed"
    judge_memory(call, claim["results"][0], "cuda:0", max(a + b, b + c), b, why)
    claim = stub.probe(MEMORY, "on_cuda", before, [[-512], [100], [-200]])
    why = "512 bytes that were there before were freed, 100 allocated, 200 freed"
    judge_memory(call, claim["results"][0], "cuda:0", 0, -612, why)
    require(
        "synchronize" in claim["calls"],
        f"{call}: nothing waited for the device",
    )


@task("lab05.measure_memory_usage")
@pytest.mark.parametrize(
    ("device", "want"), [(None, "cuda:1"), ("cuda:1", "cuda:1"), ("cuda", "cuda")]
)
def test_memory_of_one_of_two_devices(stub: Any, seed: int, device: str | None, want: str) -> None:
    chance = random.Random(seed)
    a, b, c = (512 * chance.randint(10, 90) for _ in range(3))
    got = stub.probe(MEMORY, "on_two_devices", device, a, b, c)
    call = (
        "measure_memory_usage of a call on two CUDA devices, of whose tensors the first is on device 1 and the "
        f"second on device 0 (the current one), device={device!r},"
    )
    peak, net = (b, b) if want == "cuda" else (a + c, a)
    why = f"device 1 gets {a} and for a while {c}, device 0 {b}"
    judge_memory(call, got, want, peak, net, why)


@task("lab05.measure_memory_usage")
def test_nested_memory_on_two_devices(stub: Any, seed: int) -> None:
    chance = random.Random(seed)
    b, c = (512 * chance.randint(10, 90) for _ in range(2))
    for a in (512, 20_000_000):
        outer, inner = stub.probe(MEMORY, "nested_on_two_devices", a, b, c)
        call = "measure_memory_usage of a call on device 0 inside one on device 1,"
        judge_memory(f"{call} the inner one", inner, "cuda:0", a, a, f"device 0 gets {a}")
        why = f"device 1 gets {b} and frees it, then gets {c}; what device 0 gets does not count"
        judge_memory(f"{call} the outer one", outer, "cuda:1", max(b, c), c, why)


@task("lab05.measure_memory_usage")
def test_the_cpu_beside_cuda(stub: Any, seed: int) -> None:
    n = 1000 + 2 * (seed % 500)
    got = stub.probe(MEMORY, "on_cpu_beside_cuda", n)
    call = (
        f"measure_memory_usage of x + 1 with n = {n} floats, a CUDA tensor in args, device='cpu',"
    )
    judge_memory(call, got, "cpu", 4 * n, 4 * n, "the device that was asked for counts")


@task("lab05.measure_memory_usage")
def test_nested_memory_on_cuda(stub: Any, seed: int) -> None:
    chance = random.Random(seed)
    a, b, c, d = (512 * chance.randint(10, 90) for _ in range(4))
    for early, late in ((20_000_000, 512), (512, 20_000_000), (512, 512)):
        steps = [[early], [-early], [a], [[b], [[c], [-c]], [-b]], [d], [late], [-late]]
        inner, middle, outer = stub.probe(MEMORY, "on_cuda", 4096, steps)["results"]
        call = "measure_memory_usage on CUDA, three calls in each other,"
        judge_memory(f"{call} the innermost", inner, "cuda:0", c, 0, f"it allocates {c}")
        judge_memory(f"{call} the middle one", middle, "cuda:0", b + c, 0, f"{b}, and {c} inside")
        peak = max(early, a + b + c, a + d + late)
        why = (
            f"{early} before the inner calls, {a} and inside them {b} and {c} on top, then {d} and {late}. The "
            "device keeps one peak, and an inner call starts it anew"
        )
        judge_memory(f"{call} the outermost", outer, "cuda:0", peak, a + d, why)


@task("lab05.measure_memory_usage")
def test_a_call_that_raises(stub: Any) -> None:
    call = "measure_memory_usage of a call that raises"
    for kind, name in (("value", "ValueError"), ("runtime", "RuntimeError")):
        claim = stub.probe(MEMORY, "raising", kind, 1000)
        require(
            claim["raised"] == name,
            f"{call} {name} raised {claim['raised']}: {claim['message']!r}; it is the caller's to see",
        )
        judge_memory("measure_memory_usage after it", claim["later"], "cpu", 4000, 4000, "x + 1")
    outer, later = stub.probe(MEMORY, "raising_on_cuda")
    why = "50, inside 900 that were freed before the error, then 10"
    judge_memory(f"{call} inside another, on CUDA", outer, "cuda:0", 950, 60, why)
    judge_memory("measure_memory_usage after that", later, "cuda:0", 70, 70, "70 were allocated")


@task("lab05.measure_memory_usage")
@pytest.mark.parametrize(
    ("kind", "words"),
    [("cuda", ("96.25 MiB", "7.50 MiB")), ("cpu", ("1152921504606846976",))],
)
def test_a_call_without_room(stub: Any, kind: str, words: tuple[str, ...]) -> None:
    claim = stub.probe(MEMORY, "raising", kind, 1000)
    call = f"measure_memory_usage of a call for which the device ({kind}) has no room"
    require(
        claim["raised"] == "MemoryError",
        f"{call} raised {claim['raised']}: {claim['message']!r}, expected a MemoryError",
    )
    for word in words:
        require(
            word in claim["message"],
            f"{call} raised MemoryError with {claim['message']!r}, which does not say {word}: what was "
            "asked for, and what was free if PyTorch knows it",
        )
    require(
        claim["alive"] == 0,
        f"{call}: {claim['alive']} of its tensors are alive while the MemoryError is. Whoever catches it "
        "has no more room than before: an exception keeps the frames it went through, and its context's",
    )
    judge_memory("measure_memory_usage after it", claim["later"], "cpu", 4000, 4000, "x + 1")


@task("lab05.measure_memory_usage")
@pytest.mark.parametrize(
    ("what", "kind"),
    [
        ("a result instead of a function", "TypeError"),
        ("a tensor instead of a tuple", "TypeError"),
        ("too many arguments", "TypeError"),
        ("device 'gpu'", "ValueError"),
        ("device 'mps'", "ValueError"),
    ],
)
def test_bad_memory_calls_are_refused(stub: Any, what: str, kind: str) -> None:
    claim = stub.probe(MEMORY, "refused", what)
    require(
        claim["raised"] == kind,
        f"measure_memory_usage with {what}: {claim['raised']} {claim['message']!r}, expected a {kind}",
    )


# -- live -----------------------------------------------------------------------------------------


@task("lab05.benchmark_on_gpu")
@pytest.mark.parametrize("size", [2048, 4096])
def test_live_benchmark(stub: Any, size: int) -> None:
    claim = stub.probe(LIVE, "benchmark", size)
    call = f"benchmark_on_gpu of a product of two {size} x {size} matrices in bfloat16"
    got = dict_of(call, claim["result"], {"benchmark_s", "events_s", "ratio"})
    own = claim["own_s"]
    for key in ("benchmark_s", "events_s"):
        require(
            0.9 * min(own) <= got[key] <= 1.15 * max(own),
            f"{call}: {key} is {show(got[key])} s; CUDA events around the same calls here, before and "
            f"after, gave {min(own):.3g} to {max(own):.3g} s",
        )
    right = got["benchmark_s"] / got["events_s"]
    require(
        near_reading(got["ratio"], right),
        f"{call}: ratio is {show(got['ratio'])}, expected {right:.4g}",
    )
    require(
        0.9 <= right <= 1.1,
        f"{call}: benchmark_function says {right:.3f} times what CUDA events say; for calls of more "
        "than 20 microseconds, issued one after another, the two agree",
    )


@task("lab05.attention_levels_on_gpu")
def test_live_levels(stub: Any) -> None:
    claim = stub.probe(LIVE, "levels", [4, 16, 2048, 128])
    call = "attention_levels_on_gpu, 4 x 16 x 2048 x 128 in bfloat16"
    got = dict_of(call, claim["result"], {"times_s", "fastest"})
    times = got["times_s"]
    require(
        isinstance(times, dict) and set(times) == {"0", "2", "3", "4"},
        f"{call}: times_s is {show(times)}, expected the levels 0, 2, 3 and 4",
    )
    require(
        got["fastest"] == min(times, key=times.get),
        f"{call}: the fastest is {got['fastest']!r}, and the times are {show(times)}",
    )
    for level, name in claim["kernels"].items():
        require(
            claim["wanted"][level] is None or claim["wanted"][level] in name,
            f"{call}: level {level} dispatched {name}, expected an operator of {claim['wanted'][level]}",
        )
    best = min(claim["own_s"].values())
    require(
        times["4"] <= 1.1 * best,
        f"{call}: level 4 takes {times['4']:.3g} s; pinned one by one here, the backends take "
        f"{show(claim['own_s'])} s, and level 4 is the fastest of them",
    )
    require(
        times["4"] <= 1.1 * min(times["2"], times["3"]) and times["4"] < times["0"],
        f"{call}: level 4 is not the fastest: {show(times)}",
    )


@task("lab05.attention_memory_on_gpu")
def test_live_memory(stub: Any) -> None:
    tokens = [1024, 2048, 4096]
    for level in (0, 2):
        claim = stub.probe(LIVE, "memory", tokens, level)
        call = f"attention_memory_on_gpu({tokens}, {level})"
        got, own = claim["result"], claim["own_bytes"]
        require(
            isinstance(got, list) and len(got) == len(tokens),
            f"{call} returned {show(got)}, expected a number for each of them",
        )
        for count, found, right in zip(tokens, got, own, strict=True):
            require(
                abs(found - right) <= 0.02 * right + 65_536,
                f"{call}: {found} bytes with {count} tokens; torch.cuda.max_memory_allocated here says "
                f"{right} beyond what was there before",
            )
        growth = got[2] / got[1]
        require(
            (3.5 <= growth <= 4.5) if level == 0 else growth <= 2.5,
            f"{call}: with twice the tokens the peak grows {growth:.2f} times; "
            + (
                "scores and probabilities grow with the square"
                if level == 0
                else "it is linear here"
            ),
        )
