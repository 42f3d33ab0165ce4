"""Checks of `ex_34`: latency, throughput, batching and evidence, on recordings and simulated servers.

Expected values come from plain Python on the same file, from exact fractions, from a simulation by
events (`grading.checks.generate.serving.serve`), from ranges drawn with a known answer, or from a
slip of paper. A wrong answer is compared with what typical mistakes give, so that the message can say
which evidence it contradicts.
"""

from __future__ import annotations

import json
import math
import random
import re
import sqlite3
import statistics
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import oracles, task
from grading.checks.assertions import MOST_SHOWN, agree, call_words, show
from grading.checks.fixtures import SEED_VARIABLE, recordings
from grading.checks.generate import serving
from grading.runner.abbreviated import with_article
from grading.runner.failures import StubError
from grading.runner.scoring import NotGraded
from profiling_lab import captures
from profiling_lab.errors import CaptureError

# (what a typical mistake gives, the sentence to say then); worked out only when something is wrong
Mistakes = Callable[[], Iterable[tuple[Any, str]]]

OPEN_LOOP = ("serving_open_loop_eager", "serving_open_loop_graph")
SWEEP = ("serving_sweep_eager", "serving_sweep_graph")
TOKENS = ("llm_decode_chat", "llm_decode_documents")
PIPELINE = ("pipeline_slow", "pipeline_fast")
EVIDENCE = "serving_evidence"
STAGES = ("tokenize", "copy_in", "forward", "copy_out", "postprocess")
MS = serving.MS

# -- what a capture holds -------------------------------------------------------------------------


@pytest.fixture
def simulated(seed: int, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """`simulated("requests")`: a capture of simulated servers, with numbers that nobody saw before."""

    def simulate(kind: str) -> str:
        folder = tmp_path_factory.mktemp("simulated") / f"{kind}_{seed}"
        return getattr(serving, kind)(seed, folder)

    return simulate


@cache
def _runs(capture: str, file: str) -> dict[str, dict[str, Any]]:
    return {run["run"]: run for run in json.loads(captures.text(capture, file))["runs"]}


def runs_of(capture: str, file: str, own: bool = False) -> dict[str, dict[str, Any]]:
    """The runs of a file; not run where a capture of the learner's own has no such file."""
    if own:
        try:
            place = captures.file(capture, file)
        except CaptureError:
            raise NotGraded("not run", f"the capture has no {file}") from None
        if not place.name.startswith(file):
            raise NotGraded("not run", f"{place.name} is no {file}")
    return _runs(capture, file)


def latencies(run: dict[str, Any], since: str = "intended_ns") -> list[int]:
    """How long each request took, from one of its moments to its end."""
    return [end - start for start, end in zip(run[since], run["end_ns"], strict=True)]


def nearest_rank(samples: Sequence[float], percent: float) -> float:
    """The smallest sample that enough samples do not exceed, counted with exact fractions."""
    ordered = sorted(samples)
    return float(ordered[math.ceil(Fraction(str(percent)) * len(ordered) / 100) - 1])


def rank_below(samples: Sequence[float], percent: float) -> float:
    """The sample at the rank that is rounded down."""
    return float(sorted(samples)[max(1, int(Fraction(str(percent)) * len(samples) / 100)) - 1])


def linear(samples: Sequence[float], percent: float) -> float:
    """The percentile of type 7, with exact fractions."""
    ordered = [Fraction(sample) for sample in sorted(samples)]
    place = Fraction(str(percent)) * (len(ordered) - 1) / 100
    below = math.floor(place)
    above = ordered[min(below + 1, len(ordered) - 1)]
    return float(ordered[below] + (place - below) * (above - ordered[below]))


@cache
def _ranks(n: int, percent: float, confidence: float) -> tuple[int | None, int | None]:
    p, tail = Fraction(str(percent)) / 100, (1 - Fraction(str(confidence))) / 2
    a, b = p.numerator, p.denominator
    whole, at_most, term = b**n, 0, (b - a) ** n
    low = high = None
    for k in range(n):
        at_most += term
        if at_most * tail.denominator <= tail.numerator * whole:
            low = k + 1
        if high is None and (whole - at_most) * tail.denominator <= tail.numerator * whole:
            high = k + 1
        term = term * (n - k) * a // ((k + 1) * (b - a))
    return low, high


def interval(
    samples: Sequence[float], percent: float, confidence: float = 0.95
) -> tuple[float | None, float | None]:
    """The samples between which a percentile lies, by exact binomial probabilities."""
    ordered = sorted(samples)
    low, high = _ranks(len(ordered), percent, confidence)
    return (
        None if low is None else float(ordered[low - 1]),
        None if high is None else float(ordered[high - 1]),
    )


# -- words ----------------------------------------------------------------------------------------


def repeat_hint(capture: Any) -> str:
    """How to repeat a check on a simulated capture, from its folder's name; "" for others."""
    found = re.search(r"_(\d+)(\.sqlite)?$", str(capture))
    if not found or "/" not in str(capture):
        return ""
    return f" (simulated; {SEED_VARIABLE}={found[1]} repeats it)"


def first_difference(got: Any, want: Any, place: str = "") -> str:
    """Where two values differ first: the place, what stands there, what was expected."""
    if isinstance(want, dict) and isinstance(got, dict):
        if missing := [key for key in want if key not in got]:
            return f"{place or 'the dictionary'} has no {show(missing[0])}"
        if extra := [key for key in got if key not in want]:
            return f"{place or 'the dictionary'} has {show(extra[0])}, which should not be there"
        for key in want:
            if not agree(got[key], want[key]):
                return first_difference(got[key], want[key], f"{place}[{key!r}]")
    if isinstance(want, (list, tuple)) and type(got) is type(want):
        if len(got) != len(want):
            return f"{place or 'the list'} has {len(got)} entries; expected {len(want)}"
        for i, (one, other) in enumerate(zip(got, want, strict=True)):
            if not agree(one, other):
                return first_difference(one, other, f"{place}[{i}]")
    kinds = ""
    either = got is None or want is None or (type(got) is int and type(want) is float)
    if type(got) is not type(want) and not either:
        found, expected = (with_article(type(value).__name__) for value in (got, want))
        kinds = f"{found}, which must be {expected}: "
    most = 60 if kinds else MOST_SHOWN
    return (
        f"{f'at {place}: ' if place else ''}{kinds}{show(got, most)}; expected {show(want, most)}"
    )


def judge(
    call: str,
    got: Any,
    want: Any,
    unit: str,
    why: str,
    mistakes: Mistakes = lambda: (),
    capture: Any = None,
) -> None:
    """Fail unless got is want, with the sentence of the mistake that gives the same value."""
    if agree(got, want):
        return
    for value, sentence in mistakes():
        if agree(got, value):
            why = sentence
            break
    unit = f", in {unit}" if unit else ""
    pytest.fail(
        f"{call} says {first_difference(got, want)}{unit}. {why}{repeat_hint(capture)}",
        pytrace=False,
    )


# == percentile ===================================================================================


def judge_percentile(stub: Any, samples: list[float], percent: float, why: str) -> None:
    """Check one percentile against exact fractions."""
    want = nearest_rank(samples, percent)

    def mistakes() -> Iterable[tuple[Any, str]]:
        yield float(sorted(samples)[0]), f"That is the smallest sample. {why}"
        place = math.ceil(Fraction(str(percent)) * len(samples) / 100)
        in_order = sorted(samples)
        for off in (-1, 1):
            if 0 <= place - 1 + off < len(samples):
                yield (
                    float(in_order[place - 1 + off]),
                    f"That is the sample beside it in order: rank {place + off} instead of "
                    f"{place}. {why}",
                )
        yield float(samples[min(place, len(samples)) - 1]), f"Are the samples in order? {why}"
        yield linear(samples, percent), f"That is the linear method, numpy.percentile's. {why}"

    got = stub.percentile(samples, percent)
    judge(call_words("percentile", samples, percent), got, want, "", why, mistakes)


@task("ex_34.refuses_bad_input")
@pytest.mark.parametrize(
    ("samples", "percent", "argument", "why"),
    [
        ([], 50, "samples", "no samples have no percentile"),
        ([1.0, math.nan, 3.0], 50, "samples", "a sample is NaN: it has no place in an order"),
        ([1.0, 2.0, math.nan], 50, "samples", "a sample is NaN: it has no place in an order"),
        *(
            ([1, 2, 3], percent, "percent", f"percent is {percent}")
            for percent in (0, -1, 100.5, math.nan, math.inf)
        ),
    ],
)
def test_what_has_no_percentile_is_refused(stub, samples, percent, argument, why):
    words = (argument, repr(percent)) if argument == "percent" else argument
    with stub.raises(ValueError, words, why=why):
        stub.refuses_bad_input(samples, percent)


@task("ex_34.refuses_bad_input")
@pytest.mark.parametrize("percent", [1e-12, 50, 99.9, 100])
def test_samples_are_taken(stub, seed, percent):
    drawn = [random.Random(seed).uniform(-5, 5) for _ in range(4)]
    for samples, why in (
        (drawn, "These have percentiles."),
        ([*drawn, math.inf, -math.inf], "Infinite samples have a place in the order."),
        (np.array(drawn), "Samples may be a NumPy array, as today's latencies are."),
    ):
        try:
            got = stub.refuses_bad_input(samples, percent)
        except StubError as error:
            raise StubError(f"{error}\n  {why}", error.report, error.cause) from None
        judge(call_words("refuses_bad_input", samples, percent), got, None, "", why)


@task("ex_34.percentile")
def test_percentiles_by_nearest_rank_by_hand(stub):
    for samples, percent, want, why in (
        (
            [40, 10, 30, 20],
            50,
            20.0,
            "Half of four samples are two: 20 is not exceeded by 10 and 20.",
        ),
        ([40, 10, 30, 20], 51, 30.0, "51 % of four are 2.04 samples: two do not suffice."),
        ([40, 10, 30, 20], 100, 40.0, "No sample exceeds the largest."),
        ([40, 10, 30, 20], 1e-12, 10.0, "However few percent: at least the first rank."),
        ([7], 99, 7.0, "Of one sample every percentile is that sample."),
        ([10, 20, 10, 10], 75, 10.0, "Three of four samples are 10: equal samples all count."),
        (
            list(range(100, 0, -1)),
            99,
            99.0,
            "99 % of 100 samples are 99: rank 99, not the maximum.",
        ),
        (
            list(range(1, 101)),
            55,
            55.0,
            "55 / 100 * 100 is 55.00000000000001 in binary: see RANK_TOLERANCE.",
        ),
        (
            list(range(1, 50_001)),
            55,
            27_500.0,
            "55 / 100 * 50000 is 27500.000000000004 in binary: see RANK_TOLERANCE.",
        ),
        (list(range(1, 102)), 99, 100.0, "99 % of 101 samples are 99.99: rank 100."),
        (
            list(range(1, 10_001)),
            0.07,
            7.0,
            "0.07 * 10000 / 100 is 7.000000000000001 in binary: see RANK_TOLERANCE.",
        ),
        (
            list(range(1, 11)),
            50.000001,
            6.0,
            "50.000001 % of ten samples are more than five, by more than RANK_TOLERANCE: rank 6.",
        ),
    ):
        got = stub.percentile(samples, percent)
        judge(call_words("percentile", samples, percent), got, want, "", why)


@task("ex_34.percentile")
def test_percentiles_by_nearest_rank_of_drawn_samples(stub, seed):
    rng = random.Random(f"nearest {seed}")
    why = "The smallest sample that at least this share of the samples does not exceed."
    for n in (1, 2, 10, 999, 1000, 1001):
        samples = [rng.uniform(0, 1e9) for _ in range(n)]
        for percent in (0.1, 7, 28, 50, 55, 90, 99, 99.9, 99.95, 100):
            judge_percentile(stub, samples, percent, why)


@task("ex_34.percentile")
def test_samples_stay_as_they_are(stub):
    samples = (40, 10, 30, 20)
    why = "These samples are a tuple, which nobody can sort in place: the caller's samples stay as they are."
    try:
        got = stub.percentile(samples, 50)
    except StubError as error:
        raise StubError(f"{error}\n  {why}", error.report, error.cause) from None
    judge(call_words("percentile", samples, 50), got, 20.0, "", why)


@task("ex_34.percentile")
def test_a_rank_that_is_nearly_whole_is_whole(stub):
    """Shares whose product with n is whole, and comes out above it in binary."""
    n, samples = 1_000, list(range(1, 1_001))
    awkward = [
        rank
        for rank in range(1, n + 1)
        if math.ceil(n * (rank / 10) / 100) != rank or math.ceil(rank / 10 / 100 * n) != rank
    ]
    for rank in awkward[:: max(1, len(awkward) // 12)]:
        got = stub.percentile(samples, rank / 10)
        why = f"{rank / 10} % of 1,000 samples are {rank}: see RANK_TOLERANCE."
        judge(call_words("percentile", samples, rank / 10), got, float(rank), "", why)


# == latency_from_intended ========================================================================


def judge_latency(stub: Any, capture: str, own: bool = False) -> None:
    """Check the three lists of every run of a capture."""
    for name, run in runs_of(capture, "requests.json", own).items():
        want = {
            "latency_ns": latencies(run),
            "measured_ns": latencies(run, "sent_ns"),
            "late_ns": [s - i for i, s in zip(run["intended_ns"], run["sent_ns"], strict=True)],
        }

        def mistakes(run=run, want=want) -> Iterable[tuple[Any, str]]:
            yield (
                want | {"latency_ns": want["measured_ns"]},
                "A request that could not be sent because its client still waited for an earlier "
                "answer kept its user waiting all the same: latency counts from intended_ns.",
            )
            yield (
                want | {"measured_ns": latencies(run, "start_ns")},
                "start_ns is when the server took the request up; before that it waited in the queue.",
            )
            yield (
                want | {"latency_ns": latencies(run, "start_ns")},
                "start_ns is when the server took the request up; before that it waited in the queue.",
            )

            yield (
                {
                    "latency_ns": want["measured_ns"],
                    "measured_ns": want["latency_ns"],
                    "late_ns": want["late_ns"],
                },
                "latency_ns counts from intended_ns, measured_ns from sent_ns: they are swapped.",
            )
            yield (
                {key: sorted(values) for key, values in want.items()},
                "These are sorted: the entries stand in the file's order.",
            )

        got = stub.latency_from_intended(capture, name)
        call = call_words("latency_from_intended", capture, name)
        why = "The moments of a request are in four columns; see the head of the file."
        judge(call, got, want, "ns", why, mistakes, capture)


@task("ex_34.latency_from_intended")
@recordings(*OPEN_LOOP)
def test_latency_of_recorded_requests(stub, recording, own_recording):
    judge_latency(stub, recording, own_recording)


@task("ex_34.latency_from_intended")
def test_latency_of_simulated_requests(stub, simulated):
    judge_latency(stub, simulated("requests"))


def small_requests(folder: Path, **columns: Any) -> str:
    """requests.json with one run, "small", of two requests but for what is given (None: left out)."""
    run: dict[str, Any] = {
        "run": "small",
        "intended_ns": [0, 10],
        "sent_ns": [0, 20],
        "start_ns": [5, 25],
        "end_ns": [20, 60],
        "batch": [1, 1],
    }
    run = {key: value for key, value in (run | columns).items() if value is not None}
    return serving.write(folder, "requests.json", [run])


# Three requests, of which neither the first in the file came first nor the last in it ended last.
OUT_OF_ORDER = {
    "intended_ns": [10, 0, 30],
    "sent_ns": [10, 0, 30],
    "start_ns": [20, 10, 40],
    "end_ns": [60, 20, 50],
    "batch": [1, 1, 1],
}

BAD_REQUESTS: list[tuple[dict[str, Any], str, str]] = [
    ({"intended_ns": None}, "intended_ns", "a column is missing"),
    ({"sent_ns": None}, "sent_ns", "a column is missing"),
    ({"start_ns": None}, "start_ns", "a column is missing"),
    ({"end_ns": None}, "end_ns", "a column is missing"),
    ({"intended_ns": [0, 21]}, "small", "a request was sent before it was wanted"),
    ({"start_ns": [5, 19]}, "small", "a request began before it was sent"),
    ({"end_ns": [4, 60]}, "small", "a request ended before it began"),
]


@task("ex_34.latency_from_intended")
def test_latency_by_hand(stub, tmp_path):
    good = small_requests(tmp_path / "good")
    got = stub.latency_from_intended(good, "small")
    want = {"latency_ns": [20, 50], "measured_ns": [20, 40], "late_ns": [0, 10]}
    judge("latency_from_intended of two requests", got, want, "ns", "Two requests by hand.")
    same = small_requests(
        tmp_path / "same", intended_ns=[3, 4], sent_ns=[3, 4], start_ns=[3, 4], end_ns=[3, 4]
    )
    got = stub.latency_from_intended(same, "small")
    want = {key: [0, 0] for key in want}
    judge("latency_from_intended", got, want, "ns", "Moments may fall together.")
    turned = small_requests(tmp_path / "turned", **OUT_OF_ORDER)
    got = stub.latency_from_intended(turned, "small")
    want = {"latency_ns": [50, 20, 20], "measured_ns": [50, 20, 20], "late_ns": [0, 0, 0]}
    why = "The entries are in the file's order, which need not be the order of the due times."
    judge("latency_from_intended of a run that is not in order", got, want, "ns", why)


# == littles_law ==================================================================================


def in_balance(run: dict[str, Any], window: tuple[int, int]) -> dict[str, float | None]:
    """Both sides of Little's law, by counting from event to event."""
    events = sorted([(t, 1) for t in run["sent_ns"]] + [(t, -1) for t in run["end_ns"]])
    first, last = window
    area, inside, before = 0, 0, first
    for moment, change in events:
        now = min(max(moment, first), last)
        area += inside * (now - before)
        inside, before = inside + change, now
    area += inside * (last - before)
    arrived = [
        e - s for s, e in zip(run["sent_ns"], run["end_ns"], strict=True) if first <= s < last
    ]
    count, rate = area / (last - first), len(arrived) / (last - first)
    mean = sum(arrived) / len(arrived) if arrived else None
    return {
        "in_system_count": count,
        "rate_per_s": rate * 1e9,
        "latency_ns": mean,
        "mismatch_ratio": (count - rate * mean) / count if mean is not None and count else None,
    }


def close(got: Any, want: dict[str, float | None]) -> Any:
    """The result with a mismatch that is zero but for rounding made zero."""
    right = want["mismatch_ratio"]
    if type(got) is not dict or type(got.get("mismatch_ratio")) is not float or right is None:
        return got
    return got | {"mismatch_ratio": right} if abs(got["mismatch_ratio"] - right) < 1e-9 else got


def judge_littles_law(stub: Any, capture: str, own: bool = False) -> None:
    """Check the whole and a part of every run."""
    for name, run in runs_of(capture, "requests.json", own).items():
        whole = min(run["sent_ns"]), max(run["end_ns"])
        third = (whole[1] - whole[0]) // 3
        middle = whole[0] + third, whole[0] + 2 * third
        for window in (None, middle):
            where = window or whole
            want = in_balance(run, where)

            def mistakes(run=run, want=want, where=where) -> Iterable[tuple[Any, str]]:
                length = where[1] - where[0]
                arrived = [
                    i for i, sent in enumerate(run["sent_ns"]) if where[0] <= sent < where[1]
                ]
                spent = sum(run["end_ns"][i] - run["sent_ns"][i] for i in arrived)
                yield (
                    want | {"in_system_count": spent / length, "mismatch_ratio": 0.0},
                    "L is measured by itself: it includes requests that came before the window, and only "
                    "their time inside it. Otherwise the law holds by construction and tests nothing.",
                )
                yield (
                    in_balance(run | {"sent_ns": run["intended_ns"]}, where),
                    "A request is in the system from sent_ns on.",
                )
                yield (
                    in_balance(run | {"sent_ns": run["start_ns"]}, where),
                    "A request is in the system from sent_ns on: the queue belongs to it.",
                )

            arguments = (capture, name) if window is None else (capture, name, window)
            got = stub.littles_law(*arguments)
            why = (
                "L is the time that requests spend in the system inside the window over its length; "
                "λ and W belong to the requests sent in it."
            )
            call = call_words("littles_law", *arguments)
            judge(call, close(got, want), want, "", why, mistakes, capture)


@task("ex_34.littles_law")
@recordings(*OPEN_LOOP)
def test_balance_of_recorded_requests(stub, recording, own_recording):
    judge_littles_law(stub, recording, own_recording)


@task("ex_34.littles_law")
def test_balance_of_simulated_requests(stub, simulated):
    judge_littles_law(stub, simulated("requests"))


@task("ex_34.littles_law")
def test_balance_by_hand(stub, tmp_path):
    capture = small_requests(tmp_path)  # in the system from 0 to 20 and from 20 to 60
    for window, want, why in (
        (None, (1.0, 2 / 60 * 1e9, 30.0, 0.0), "One request at a time, for 60 ns; 20 and 40 ns."),
        ((10, 50), (1.0, 1 / 40 * 1e9, 40.0, 0.0), "Sent in it: the second alone, for 40 ns."),
        ((20, 40), (1.0, 1 / 20 * 1e9, 40.0, -1.0), "W is whole: 40 ns, 20 of them after the end."),
        ((0, 20), (1.0, 1 / 20 * 1e9, 20.0, 0.0), "Sent at 20 is not before 20."),
        ((30, 40), (1.0, 0.0, None, None), "Nothing was sent in it: there is no W."),
        ((70, 80), (0.0, 0.0, None, None), "Nothing was there."),
    ):
        names = ("in_system_count", "rate_per_s", "latency_ns", "mismatch_ratio")
        arguments = ("small",) if window is None else ("small", window)
        got = stub.littles_law(capture, *arguments)
        call = call_words("littles_law", "two requests", *arguments)
        judge(call, got, dict(zip(names, want, strict=True)), "", why)
    got = stub.littles_law(small_requests(tmp_path / "turned", **OUT_OF_ORDER), "small")
    want = dict(zip(names, (90 / 60, 3 / 60 * 1e9, 30.0, 0.0), strict=True))
    why = "From 0 to 60, which are neither the first nor the last in the file: 50, 20 and 20 ns."
    judge("littles_law of a run that is not in order", got, want, "", why)
    empty = small_requests(
        tmp_path / "instant", intended_ns=[3, 4], sent_ns=[3, 4], start_ns=[3, 4], end_ns=[3, 4]
    )
    got = stub.littles_law(empty, "small", (0, 10))
    want = dict(zip(names, (0.0, 0.2e9, 0.0, None), strict=True))
    judge("littles_law", got, want, "", "Requests that take no time are never in the system.")


@task("ex_34.littles_law")
def test_balance_of_bad_input(stub, tmp_path):
    capture = small_requests(tmp_path / "good")
    for window in ((10, 10), (20, 10)):
        with stub.raises(ValueError, why="the window has no length"):
            stub.littles_law(capture, "small", window)
    with stub.raises(CaptureError, "small", why="there is no such run"):
        stub.littles_law(capture, "large")
    for i, (columns, words, why) in enumerate(BAD_REQUESTS):
        with stub.raises(CaptureError, words, why=why):
            stub.littles_law(small_requests(tmp_path / str(i), **columns), "small")


# == throughput_latency_curve =====================================================================


def point_of(name: str, run: dict[str, Any]) -> dict[str, Any]:
    """One point of the curve."""
    latency = latencies(run)
    took_s = (max(run["end_ns"]) - min(run["sent_ns"])) / 1e9
    return {
        "run": name,
        "throughput_per_s": len(latency) / took_s,
        "p50_ns": nearest_rank(latency, 50),
        "p99_ns": nearest_rank(latency, 99),
        "mean_batch": len(latency) / len(set(run["start_ns"])),
    }


def judge_curve(stub: Any, capture: str, own: bool = False) -> None:
    """Check all points of a capture."""
    runs = runs_of(capture, "requests.json", own)
    want = sorted(
        (point_of(name, run) for name, run in runs.items()),
        key=lambda point: (point["throughput_per_s"], point["run"]),
    )
    got = stub.throughput_latency_curve(capture)
    why = "One point a run, ordered by throughput."
    if type(got) is list and len(got) == len(want):
        of_run = {point.get("run"): point for point in got if type(point) is dict}
        for right in want:
            run, one = runs[right["run"]], of_run.get(right["run"])
            if one is None or agree(one, right):
                continue
            latency, batches = latencies(run), run["batch"]
            sent = latencies(run, "sent_ns")
            arrivals_s = (max(run["sent_ns"]) - min(run["sent_ns"])) / 1e9
            for key, value, sentence in (
                ("throughput_per_s", 1e9 * len(sent) / sum(sent), "That is one request over its mean "
                 "latency; but requests are served at the same time."),
                ("throughput_per_s", 1e9 * len(sent) / sum(latency), "That is one request over its mean "
                 "latency; but requests are served at the same time."),
                ("throughput_per_s", 1e9 * len(sent) / (max(run["end_ns"]) - min(run["start_ns"])), "The time "
                 "begins with the earliest sent_ns."),
                ("throughput_per_s", right["throughput_per_s"] * (len(sent) - 1) / len(sent), "All "
                 "requests were served, the first and the last too: count requests, not the steps between."),
                ("throughput_per_s", len(sent) / max(arrivals_s, 1e-9), "The time ends with the last "
                 "answer: a request that was sent is not yet served."),
                ("mean_batch", sum(batches) / len(batches), "Averaged over requests, a batch of 16 counts "
                 "16 times. Average over batches; requests with the same start_ns are one batch."),
                ("p99_ns", nearest_rank(sent, 99), "Latency counts from intended_ns."),
                ("p99_ns", linear(latency, 99), "The percentile is by nearest rank."),
                ("p99_ns", max(latency), "That is the maximum, not the 99th percentile."),
            ):  # fmt: skip
                if not agree(one.get(key), right[key]) and agree(one.get(key), float(value)):
                    why = sentence
    call = call_words("throughput_latency_curve", capture)
    judge(call, got, want, "", why, capture=capture)


@task("ex_34.throughput_latency_curve")
@recordings(SWEEP[0], OPEN_LOOP[1])
def test_curve_of_recorded_requests(stub, recording, own_recording):
    judge_curve(stub, recording, own_recording)


@task("ex_34.throughput_latency_curve")
def test_curve_of_simulated_requests(stub, simulated):
    judge_curve(stub, simulated("requests"))


@task("ex_34.throughput_latency_curve")
def test_curve_of_equal_runs(stub, tmp_path):
    moments = {"intended_ns": [0], "sent_ns": [0], "start_ns": [0], "end_ns": [500_000_000]}
    runs = [{"run": name, **moments} for name in ("c", "a", "b")]
    got = stub.throughput_latency_curve(serving.write(tmp_path / "equal", "requests.json", runs))
    want = [point_of(name, runs[0]) for name in "abc"]
    judge("throughput_latency_curve of three equal runs", got, want, "", "Equal ones by run.")
    turned = small_requests(tmp_path / "turned", **OUT_OF_ORDER)
    want = [point_of("small", {"run": "small", **OUT_OF_ORDER})]
    why = (
        "From 0 to 60 ns, which are neither the first nor the last in the file, three were served."
    )
    got = stub.throughput_latency_curve(turned)
    judge("throughput_latency_curve of a run that is not in order", got, want, "", why)
    moments = {"intended_ns": [0, 0, 10], "sent_ns": [0, 0, 10]}
    moments |= {"start_ns": [5, 5, 20], "end_ns": [30, 40, 50], "batch": [2, 2, 1]}
    apart = small_requests(tmp_path / "apart", **moments)
    want = [point_of("small", {"run": "small", **moments})]
    why = "Two of the three began at the same time, and so in one batch; that they end apart does not matter."
    got = stub.throughput_latency_curve(apart)
    judge("throughput_latency_curve of a batch whose answers come apart", got, want, "", why)
    moments = {"intended_ns": [0, 1, 2], "sent_ns": [0, 1, 2]}
    moments |= {"start_ns": [5, 20, 5], "end_ns": [15, 30, 15], "batch": [2, 1, 2]}
    mixed = small_requests(tmp_path / "mixed", **moments)
    want = [point_of("small", {"run": "small", **moments})]
    why = "The first and the third began at the same time: one batch, with a request of another between them."
    got = stub.throughput_latency_curve(mixed)
    judge(
        "throughput_latency_curve of a batch that is not together in the file", got, want, "", why
    )


# == best_batch ===================================================================================


def within(
    runs: dict[str, dict[str, Any]],
    limit: float,
    percent: float,
    rank: Callable[[Sequence[float], float], float] = nearest_rank,
) -> dict[str, Any] | None:
    """The best batch size, from all points. rank: how to take a percentile."""
    points = [
        {
            "batch": run["batch"],
            "throughput_per_s": run["batch"] / statistics.fmean(run["service_ns"]) * 1e9,
            "percentile_ns": rank(run["service_ns"], percent),
        }
        for run in runs.values()
    ]
    kept = [point for point in points if point["percentile_ns"] <= limit]
    return max(kept, key=lambda p: (p["throughput_per_s"], -p["batch"])) if kept else None


def judge_best_batch(stub: Any, capture: str, own: bool = False) -> None:
    """Check limits below, at and above the percentiles of all sizes."""
    runs = runs_of(capture, "service.json", own)
    for percent in (99, 50):
        edges = sorted(nearest_rank(run["service_ns"], percent) for run in runs.values())
        for limit in (edges[-1] * 2, edges[0] - 1, *edges):
            arguments = (capture, limit) if percent == 99 else (capture, limit, percent)
            want = within(runs, limit, percent)
            got = stub.best_batch(*arguments)
            sizes = [
                (run["batch"], nearest_rank(run["service_ns"], percent)) for run in runs.values()
            ]
            why = f"Per size, p{percent} of its service times in ns: {sorted(sizes)}."

            def mistakes(
                limit=limit, percent=percent, got=got, want=want, sizes=sizes
            ) -> Iterable[tuple[Any, str]]:
                if percent != 99:
                    yield within(runs, limit, 99), f"That is for p99; percent is {percent} here."
                if got is not None:
                    yield (
                        within(runs, limit, percent, rank_below),
                        "That percentile's rank is rounded down; it must be rounded up.",
                    )
                    yield (
                        within(runs, limit, percent, linear),
                        "That percentile is interpolated, as numpy.percentile's: it must be the nearest rank.",
                    )
                    yield (
                        within(runs, limit, percent, lambda times, _: float(max(times))),
                        f"That is the largest time, not p{percent}.",
                    )
                early = {}
                for name, run in runs.items():
                    if nearest_rank(run["service_ns"], percent) > limit:
                        break
                    early[name] = run
                below = within(runs, math.nextafter(limit, 0), percent)
                first = within(early, limit, percent)
                equal = "A size whose percentile equals the limit is within it"
                after = "sizes after the first one over the limit count too"
                if agree(below, first):
                    yield below, f"{equal}, and {after}."
                yield below, f"{equal}."
                yield first, f"That is the best of the first sizes: {after}."
                if want is None and type(got) is dict and got.get("batch") not in dict(sizes):
                    yield got, "No size is within the limit: None."
                kept = {
                    name: run
                    for name, run in runs.items()
                    if statistics.fmean(run["service_ns"]) <= limit
                }
                for typical, found in (
                    ("mean", within(kept, math.inf, percent)),
                    ("median", within(runs, limit, 50) if percent != 50 else None),
                ):
                    if found:
                        yield (
                            found,
                            f"The {typical} compared with the limit gives this too; it must be p{percent}.",
                        )
                for typical, of in (
                    ("median", lambda times: nearest_rank(times, 50)),
                    (f"p{percent}", lambda times: nearest_rank(times, percent)),
                    ("harmonic mean, as a mean of rates is,", statistics.harmonic_mean),
                ):
                    slow = {
                        name: run | {"service_ns": [of(run["service_ns"])]}
                        for name, run in runs.items()
                    }
                    kept = {
                        run["batch"]: nearest_rank(run["service_ns"], percent)
                        for run in runs.values()
                    }
                    fits = {name: run for name, run in slow.items() if kept[run["batch"]] <= limit}
                    if found := within(fits, math.inf, percent):
                        yield (
                            found | {"percentile_ns": kept[found["batch"]]},
                            f"That throughput comes from the {typical} of the service times. A server that "
                            "runs one batch after the other takes the mean.",
                        )
                zero = {"throughput_per_s": 0}
                if type(got) is dict and want and agree(got | zero, want | zero):
                    yield (
                        got,
                        "The throughput is batch / mean service time, per second; the times are in ns.",
                    )

            call = call_words("best_batch", *arguments)
            judge(call, got, want, "", why, mistakes, capture)


@task("ex_34.best_batch")
@recordings(*SWEEP)
def test_best_batch_of_a_recorded_sweep(stub, recording, own_recording):
    judge_best_batch(stub, recording, own_recording)


@task("ex_34.best_batch")
def test_best_batch_of_a_simulated_sweep(stub, simulated):
    judge_best_batch(stub, simulated("service"))


@task("ex_34.best_batch")
def test_best_batch_by_hand(stub, tmp_path):
    def sweep(name: str, *runs: tuple[Any, Any]) -> str:
        listed = [
            {"run": f"run {i}"}
            | ({} if batch is None else {"batch": batch})
            | ({} if times is None else {"service_ns": times})
            for i, (batch, times) in enumerate(runs)
        ]
        return serving.write(tmp_path / name, "service.json", listed)

    slow = sweep("slow", (1, [10]), (8, [100]), (16, [900, 100, 100, 100]))
    want = {"batch": 1, "throughput_per_s": 1e8, "percentile_ns": 10.0}
    why = "One in 10 ns is more than 8 in 100 or 16 in 300: larger is not always better."
    judge("best_batch", stub.best_batch(slow, 1_000), want, "", why)
    judge("best_batch", stub.best_batch(slow, 0.5), None, "", "No batch takes half a ns: None.")
    for name, runs in (
        ("up", [(2, [10]), (16, [80])]),
        ("down", [(4, [20]), (2, [10])]),
    ):
        got = stub.best_batch(sweep(name, *runs), 100)
        want = {"batch": 2, "throughput_per_s": 2e8, "percentile_ns": 10.0}
        why = f"Sizes and times are {runs}: of equal throughputs the smaller size, as a number."
        judge("best_batch", got, want, "", why)
    mean = sweep("mean", (2, [10, 10, 10, 100]), (1, [10, 10, 10, 10]))
    want = {"batch": 1, "throughput_per_s": 1e8, "percentile_ns": 10.0}
    why = "Batches of 2 take 32.5 ns on average: throughput goes by the mean, not by the median."
    judge("best_batch", stub.best_batch(mean, 1_000), want, "", why)


# == token_metrics and goodput ====================================================================


def tokens_of(run: dict[str, Any]) -> dict[str, Any]:
    """What a run of tokens.json felt like, request by request."""
    first, steps, paces = [], [], []
    for sent, times in zip(run["sent_ns"], run["token_ns"], strict=True):
        first.append(times[0] - sent)
        steps += [times[i + 1] - times[i] for i in range(len(times) - 1)]
        paces.append((times[-1] - times[0]) / (len(times) - 1) if len(times) > 1 else None)
    everything = [t for times in run["token_ns"] for t in times]
    return {
        "ttft_ns": first,
        "inter_token_ns": steps,
        "tpot_ns": paces,
        "tokens_per_s": len(everything) / ((max(everything) - min(run["sent_ns"])) / 1e9),
    }


def judge_tokens(stub: Any, capture: str, own: bool = False) -> None:
    """Check every run of a capture."""
    for name, run in runs_of(capture, "tokens.json", own).items():
        want = tokens_of(run)
        why = (
            "The first token counts from sent_ns, the steps between tokens from the first token on: "
            "n tokens have n - 1 steps."
        )

        def mistakes(run=run, want=want) -> Iterable[tuple[Any, str]]:
            rows = list(zip(run["sent_ns"], run["token_ns"], strict=True))
            by_n = [(t[-1] - t[0]) / len(t) if len(t) > 1 else None for _, t in rows]
            yield want | {"tpot_ns": by_n}, "n tokens have n - 1 steps between them."
            from_sent = [(t[-1] - s) / len(t) for s, t in rows]
            yield (
                want | {"tpot_ns": from_sent},
                "The wait for the first token is no step between tokens: it has a number of its own.",
            )
            zero = [0.0 if pace is None else pace for pace in want["tpot_ns"]]
            yield (
                want | {"tpot_ns": zero},
                "A request with one token has no time per output token: None. 0 would be infinitely fast.",
            )
            total = sum(len(t) / (t[-1] - s) * 1e9 for s, t in rows)
            yield (
                want | {"tokens_per_s": total / len(rows)},
                "That is what one reader gets on average; the task asks for all requests together.",
            )
            yield (
                want | {"tokens_per_s": total},
                "The rates of requests that ran one after the other do not add up.",
            )
            yield (
                want
                | {"tokens_per_s": len(rows) * want["tokens_per_s"] / sum(len(t) for _, t in rows)},
                "That counts requests; count tokens.",
            )

        got = stub.token_metrics(capture, name)
        judge(call_words("token_metrics", capture, name), got, want, "", why, mistakes, capture)


@task("ex_34.token_metrics")
@recordings(*TOKENS)
def test_tokens_of_recorded_requests(stub, recording, own_recording):
    judge_tokens(stub, recording, own_recording)


@task("ex_34.token_metrics")
def test_tokens_of_simulated_requests(stub, simulated):
    judge_tokens(stub, simulated("tokens"))


def token_run(folder: Path, sent: Any, tokens: Any) -> str:
    """tokens.json with one run, "small"; None leaves a column out."""
    run = {"run": "small", "sent_ns": sent, "token_ns": tokens}
    return serving.write(
        folder, "tokens.json", [{key: value for key, value in run.items() if value is not None}]
    )


BAD_TOKENS: list[tuple[Any, Any, str]] = [
    (None, [[3]], "sent_ns is missing"),
    ([0], None, "token_ns is missing"),
    ([], [], "there are no requests"),
    ([0, 1], [[3], []], "a request has no token"),
    ([0, 4], [[3], [3, 5]], "a token was there before its request was sent"),
    ([0], [[3, 7, 6]], "tokens are not in order"),
    ([5], [[5]], "the run took no time"),
]


@task("ex_34.token_metrics")
def test_tokens_by_hand_and_bad_input(stub, tmp_path):
    capture = token_run(tmp_path / "good", [10, 0], [[20, 22, 28], [5]])
    want = {
        "ttft_ns": [10, 5],
        "inter_token_ns": [2, 6],
        "tpot_ns": [4.0, None],
        "tokens_per_s": 4 / 28e-9,
    }
    why = "Sent at 10: tokens at 20, 22, 28. Sent at 0: one token at 5. From 0 to 28 there were 4."
    judge("token_metrics of two requests", stub.token_metrics(capture, "small"), want, "", why)
    same = token_run(tmp_path / "same", [3, 3], [[3, 3, 5], [3]])
    want = {
        "ttft_ns": [0, 0],
        "inter_token_ns": [0, 2],
        "tpot_ns": [1.0, None],
        "tokens_per_s": 2e9,
    }
    judge(
        "token_metrics", stub.token_metrics(same, "small"), want, "", "Moments may fall together."
    )
    with stub.raises(CaptureError, "small", why="there is no such run; the message lists the runs"):
        stub.token_metrics(capture, "large")
    for i, (sent, tokens, why) in enumerate(BAD_TOKENS):
        with stub.raises(CaptureError, why=why):
            stub.token_metrics(token_run(tmp_path / str(i), sent, tokens), "small")


def good_ones(run: dict[str, Any], ttft: float, tpot: float) -> dict[str, Any]:
    """Goodput, request by request."""
    metrics = tokens_of(run)
    good = [
        first <= ttft and (pace is None or pace <= tpot)
        for first, pace in zip(metrics["ttft_ns"], metrics["tpot_ns"], strict=True)
    ]
    took = max(t for times in run["token_ns"] for t in times) - min(run["sent_ns"])
    return {
        "request_count": len(good),
        "good_count": sum(good),
        "attainment_ratio": sum(good) / len(good),
        "goodput_per_s": sum(good) / (took / 1e9),
    }


def judge_goodput(stub: Any, capture: str, own: bool = False) -> None:
    """Check limits that some requests meet exactly."""
    for name, run in runs_of(capture, "tokens.json", own).items():
        metrics = tokens_of(run)
        paces = [pace for pace in metrics["tpot_ns"] if pace is not None]
        for share in (25, 50, 80, 100):
            ttft = nearest_rank(metrics["ttft_ns"], share)
            for tpot in (nearest_rank(paces, share), nearest_rank(paces, 100)):
                want = good_ones(run, ttft, tpot)

                def mistakes(run=run, metrics=metrics, ttft=ttft, tpot=tpot, want=want):
                    steps = [[b - a for a, b in pairwise(t)] for t in run["token_ns"]]
                    all_steps = sum(
                        f <= ttft and all(step <= tpot for step in s)
                        for f, s in zip(metrics["ttft_ns"], steps, strict=True)
                    )
                    without_one = sum(
                        f <= ttft and pace is not None and pace <= tpot
                        for f, pace in zip(metrics["ttft_ns"], metrics["tpot_ns"], strict=True)
                    )
                    pairs = list(zip(metrics["ttft_ns"], metrics["tpot_ns"], strict=True))
                    either = sum(f <= ttft or (p is not None and p <= tpot) for f, p in pairs)
                    first_only = sum(f <= ttft for f, _ in pairs)
                    each = want["goodput_per_s"] / max(want["good_count"], 1)
                    for count, sentence in (
                        (
                            all_steps,
                            "The limit is on the time per output token, not each step.",
                        ),
                        (
                            without_one,
                            "A request with one token has no time per output token: only its first token counts.",
                        ),
                        (either, "Both limits must be kept, not either."),
                        (first_only, "The time per output token has a limit as well."),
                    ):
                        yield (
                            want
                            | {
                                "good_count": count,
                                "attainment_ratio": count / want["request_count"],
                                "goodput_per_s": count * each,
                            },
                            sentence,
                        )
                    yield (
                        want | {"goodput_per_s": want["request_count"] * each},
                        "That is the throughput of all requests, also of those that were too late.",
                    )

                got = stub.goodput(capture, name, ttft, tpot)
                call = call_words("goodput", capture, name, ttft, tpot)
                why = "A good request keeps both limits; a time equal to its limit keeps it."
                judge(call, got, want, "", why, mistakes, capture)


@task("ex_34.goodput")
@recordings(*TOKENS)
def test_goodput_of_recorded_requests(stub, recording, own_recording):
    judge_goodput(stub, recording, own_recording)


@task("ex_34.goodput")
def test_goodput_of_simulated_requests(stub, simulated):
    judge_goodput(stub, simulated("tokens"))


@task("ex_34.goodput")
def test_goodput_of_bad_input(stub, tmp_path):
    capture = token_run(tmp_path / "good", [10, 0], [[20, 22, 28], [5]])
    want = {
        "request_count": 2,
        "good_count": 1,
        "attainment_ratio": 0.5,
        "goodput_per_s": 1 / 28e-9,
    }
    why = "The second request has one token, 5 ns after it was sent; the first waits for 10 ns."
    judge("goodput of two requests", stub.goodput(capture, "small", 5, 1), want, "", why)
    want = dict.fromkeys(want, 0) | {
        "request_count": 2,
        "attainment_ratio": 0.0,
        "goodput_per_s": 0.0,
    }
    judge("goodput of two", stub.goodput(capture, "small", 0.5, 0.5), want, "", "None is so fast.")
    nan = float("nan")
    for ttft, tpot in ((0, 5), (5, 0), (-1, 5), (5, -1), (nan, 5), (5, nan)):
        with stub.raises(ValueError, why=f"the limits are {ttft} and {tpot}"):
            stub.goodput(capture, "small", ttft, tpot)
    with stub.raises(CaptureError, "small", why="there is no such run"):
        stub.goodput(capture, "large", 5, 5)
    for i, (sent, tokens, why) in enumerate(BAD_TOKENS):
        with stub.raises(CaptureError, why=why):
            stub.goodput(token_run(tmp_path / str(i), sent, tokens), "small", 5, 5)


# == request_breakdown ============================================================================


def nvtx_rows(capture: str) -> list[tuple[str, int, int]]:
    """Name, start and end of the NVTX ranges, straight from the file."""
    return oracles.query(
        captures.path(capture),
        """SELECT COALESCE(n.text, s.value), n.start, n."end" FROM NVTX_EVENTS AS n
           LEFT JOIN StringIds AS s ON s.id = n.textId WHERE n.eventType IN (59, 60)""",
    )


def requests_in(capture: str) -> bool:
    """Whether a capture of the learner's own has ranges of requests."""
    try:
        return any(re.fullmatch(r"request \d+", name) for name, _, _ in nvtx_rows(capture))
    except (CaptureError, sqlite3.DatabaseError):
        return False


def breakdown_of(capture: str) -> list[dict[str, int]]:
    """The time of each request: every nanosecond of it belongs to one of its parts."""
    rows = nvtx_rows(capture)
    batches = [(a, b) for name, a, b in rows if re.fullmatch(r"batch \d+", name)]
    out = []
    for name, start, end in rows:
        if not re.fullmatch(r"request \d+", name):
            continue
        (batch,) = [(a, b) for a, b in batches if a < end <= b]
        parts = dict.fromkeys(STAGES, 0)
        for stage, a, b in rows:
            if stage in parts and batch[0] <= a and b <= batch[1]:
                parts[stage] += max(0, min(b, end) - max(a, start))
        queue = max(0, batch[0] - start)
        out.append(
            {
                "request": int(name.split()[1]),
                "total_ns": end - start,
                "queue_ns": queue,
                **{f"{stage}_ns": time for stage, time in parts.items()},
                "other_ns": end - start - queue - sum(parts.values()),
            }
        )
    return sorted(out, key=lambda row: row["request"])


def judge_breakdown(stub: Any, capture: str, want: list[dict[str, int]], hint: Any = None) -> None:
    """Check the parts of every request."""
    got = stub.request_breakdown(capture)
    why = "Queue, stages and other add up to the time from arrival to answer."
    if type(got) is list and len(got) == len(want) and all(type(row) is dict for row in got):
        numbers = [row.get("request") for row in got]
        right = [row["request"] for row in want]
        if numbers != right and sorted(map(str, numbers)) == sorted(map(str, right)):
            why = f"The requests come in the order of their numbers: {right}, not {numbers}."
        elif all(row.keys() == other.keys() for row, other in zip(got, want, strict=True)):
            pairs = zip(got, want, strict=True)
            one, other = next((pair for pair in pairs if not agree(*pair)), ({}, {}))
            if one and one["request"] != other["request"]:
                why = "The number of a request stands in its range's name."
            elif one and other["queue_ns"] == 0 != one["queue_ns"]:
                why = "The batch had begun before the request came: it did not wait in the queue."
            elif one and one["queue_ns"] != other["queue_ns"]:
                why = (
                    f"Request {other['request']} waits from its start until the start of the batch in "
                    "whose range it ends."
                )
    unit = "" if why.startswith("The requests come") else "ns"
    judge(call_words("request_breakdown", capture), got, want, unit, why, capture=hint)


@task("ex_34.request_breakdown")
@recordings(*PIPELINE)
def test_breakdown_of_a_recorded_pipeline(stub, recording, own_recording):
    if own_recording and not requests_in(recording):
        raise NotGraded("not run", 'the capture has no ranges "request <i>"')
    judge_breakdown(stub, recording, breakdown_of(recording))


@task("ex_34.request_breakdown")
def test_breakdown_of_a_simulated_pipeline(stub, draw, seed):
    timeline = draw()
    want = serving.pipeline(seed, timeline)
    timeline.kernel(1_000, 2_000)
    judge_breakdown(stub, timeline.save(), want, f"/_{seed}")


@task("ex_34.request_breakdown")
def test_breakdown_by_hand(stub, draw):
    timeline = draw()
    timeline.kernel(0, 1_000)
    for name, start, end in (
        ("batch 8", 1_000, 2_000),
        ("tokenize", 1_000, 1_100),
        ("forward", 1_200, 1_900),
        ("copy_out", 1_950, 2_000),  # ends with its batch
        ("batch 9", 2_000, 3_000),
        ("forward", 2_100, 2_400),
        ("forward", 2_500, 2_900),
        ("forward_pass", 2_100, 2_300),
        ("copy_in", 900, 2_050),  # reaches over the edges: inside no batch
        ("request", 100, 200),
        ("request 5 again", 100, 200),
        ("batch", 0, 9_000),
        ("batch 11", 4_000, 5_000),
        ("forward", 4_000, 4_900),
        ("copy_out", 4_200, 4_900),  # beside the forward: the rest is less than nothing
    ):
        timeline.nvtx(name, start, end)
    for name, start, end in (
        ("request 10", 500, 2_000),  # ends where the next batch begins
        ("request 2", 1_300, 1_950),  # came while its batch was at work
        ("request 30", 1_500, 2_700),  # answered before its batch is done
        ("request 4", 2_950, 3_000),
        ("request 60", 4_000, 5_000),
    ):
        timeline.nvtx(name, start, end, kind="start_end", thread=3)

    def row(
        request: int, total: int, queue: int, tokenize: int, forward: int, other: int, out: int = 0
    ) -> dict[str, int]:
        parts = {"tokenize_ns": tokenize, "copy_in_ns": 0, "forward_ns": forward}
        return {
            "request": request,
            "total_ns": total,
            "queue_ns": queue,
            **parts,
            "copy_out_ns": out,
            "postprocess_ns": 0,
            "other_ns": other,
        }

    want = [
        row(2, 650, 0, 0, 600, 50),
        row(4, 50, 0, 0, 0, 50),
        row(10, 1_500, 500, 100, 700, 150, 50),
        row(30, 1_200, 500, 0, 500, 200),
        row(60, 1_000, 0, 0, 900, -600, 700),
    ]
    judge_breakdown(stub, timeline.save(), want)


# == amdahl_bound =================================================================================


@task("ex_34.amdahl_bound")
def test_bounds_by_hand(stub):
    parts = {"tokenize": 50, "forward": 40, "copy": 10}
    for faster, want, why in (
        ({}, 1.0, "Nothing becomes faster."),
        ({"forward": 2}, 100 / 80, "50 + 20 + 10 of 100 are left."),
        (
            {"forward": math.inf},
            100 / 60,
            "Without forward 60 of 100 are left: no faster kernel gains more.",
        ),
        ({"forward": 2, "copy": 5}, 100 / 72, "50 + 20 + 2 of 100 are left."),
        ({"copy": 0.5}, 100 / 110, "Twice as slow: 110 instead of 100."),
        (dict.fromkeys(parts, math.inf), math.inf, "Nothing is left."),
        (dict.fromkeys(parts, 4), 4.0, "All of it becomes four times as fast."),
    ):
        got = stub.amdahl_bound(parts, faster)
        judge(call_words("amdahl_bound", parts, faster), got, want, "", why)
    got = stub.amdahl_bound({"a": 0.6, "b": 0.4}, {"a": 2})
    why = "Times may be below 1: 0.3 + 0.4 are left of 1."
    judge("amdahl_bound({'a': 0.6, 'b': 0.4}, {'a': 2})", got, 1 / 0.7, "", why)
    got = stub.amdahl_bound({"a": 0, "b": 3}, {"a": 9, "b": 3})
    judge(
        "amdahl_bound({'a': 0, 'b': 3}, {'a': 9, 'b': 3})", got, 3.0, "", "A part may take no time."
    )


@task("ex_34.amdahl_bound")
def test_bounds_of_drawn_parts(stub, seed):
    rng = random.Random(f"amdahl {seed}")
    for _ in range(20):
        parts = {name: rng.uniform(1, 1e6) for name in "abcde"}
        faster = {name: rng.uniform(0.5, 20) for name in rng.sample("abcde", rng.randint(1, 4))}
        whole = sum(map(Fraction, parts.values()))
        after = sum(Fraction(t) / Fraction(faster.get(name, 1)) for name, t in parts.items())
        got = stub.amdahl_bound(parts, faster)
        why = f"Old time {float(whole):,.0f}, new time {float(after):,.0f}."

        def mistakes(parts=parts, faster=faster, whole=whole) -> Iterable[tuple[Any, str]]:
            product = math.prod(
                float(whole / (whole - Fraction(parts[n]) + Fraction(parts[n]) / Fraction(f)))
                for n, f in faster.items()
            )
            yield product, "Bounds of single parts do not multiply: the whole shrinks only once."

        call = call_words("amdahl_bound", parts, faster)
        judge(call, got, float(whole / after), "", why, mistakes)


# == simulate_batcher =============================================================================


def batched(
    arrivals: Sequence[int], service: dict[int, int], max_batch: int, max_wait: int
) -> dict[str, list[int]]:
    """What the batcher does, by stepping from event to event."""
    done = serving.serve(arrivals, serving.padded(service), max_batch, max_wait)
    names = ("start_ns", "end_ns", "batch")
    return {name: [request[i] for request in done] for i, name in enumerate(names)}


def told_by_hand(
    arrivals: Sequence[int], want: dict[str, list[int]], got: Any, max_batch: int, max_wait: int
) -> str:
    """What happens to the first request that the answer is wrong about."""
    if type(got) is not dict or any(type(got.get(key)) is not list for key in want):
        return "It must be a dictionary of three lists."
    if any(len(got[key]) != len(arrivals) for key in want):
        return f"Each list has one entry a request: {len(arrivals)}."
    i = next(i for i in range(len(arrivals)) if any(got[k][i] != want[k][i] for k in want))
    first = want["start_ns"].index(want["start_ns"][i])
    free = want["end_ns"][first - 1] if first else arrivals[0]
    after = arrivals[first : first + max_batch]
    full = after[-1] if len(after) == max_batch else None
    return (
        f"Request {i}, by its arrival: it is in a batch with request {first}, which comes at "
        f"{arrivals[first]} and will wait until {arrivals[first] + max_wait} at most; "
        + (f"{max_batch} are there at {full}" if full is not None else "the batch is never full")
        + f"; the server is free from {free}. So the batch starts at {want['start_ns'][i]} with "
        f"{want['batch'][i]} and ends at {want['end_ns'][i]}."
    )


def judge_batcher(
    stub: Any,
    arrivals: list[int],
    service: dict[int, int],
    max_batch: int,
    max_wait: int,
    hint=None,
) -> None:
    """Check one simulation."""
    want = batched(arrivals, service, max_batch, max_wait)
    got = stub.simulate_batcher(arrivals, service, max_batch, max_wait)
    if not agree(got, want):
        call = call_words("simulate_batcher", arrivals, service, max_batch, max_wait)
        why = told_by_hand(arrivals, want, got, max_batch, max_wait)
        judge(call, got, want, "ns", why, capture=hint)


@task("ex_34.simulate_batcher")
def test_batches_by_hand(stub):
    service = {1: 100, 2: 120, 4: 160}
    for arrivals, max_batch, max_wait, starts, ends, sizes in (
        ([], 4, 50, [], [], []),
        ([10], 4, 50, [60], [160], [1]),  # nobody else comes: it waits all the same
        ([10], 1, 50, [10], [110], [1]),  # one is a full batch
        ([10, 20], 2, 50, [20, 20], [140, 140], [2, 2]),
        ([10, 60], 4, 50, [60, 60], [180, 180], [2, 2]),  # comes at the very moment
        ([10, 61], 4, 50, [60, 160], [160, 260], [1, 1]),  # one too late; has waited when free
        ([10, 20, 30], 4, 50, [60] * 3, [220] * 3, [3] * 3),  # three are padded to four
        ([0, 0, 0, 0, 0], 4, 70, [0] * 4 + [160], [160] * 4 + [260], [4] * 4 + [1]),
        ([5, 5, 6, 7, 8, 9], 2, 0, [5, 5, 125, 125, 245, 245], [125, 125, 245, 245, 365, 365], [2] * 6),
        ([0, 10, 150], 1, 0, [0, 100, 200], [100, 200, 300], [1, 1, 1]),
        # While the server works a full batch gathers: it starts when the server is free.
        ([0, 50, 60, 70, 80, 90], 4, 20, [20, 120, 120, 120, 120, 280], [120] + [280] * 4 + [380],
         [1, 4, 4, 4, 4, 1]),
        # Free at 120 and one waits since 110: it may wait until 130, and another comes at 125.
        ([0, 110, 125], 4, 20, [20, 130, 130], [120, 250, 250], [1, 2, 2]),
    ):  # fmt: skip
        want = {"start_ns": starts, "end_ns": ends, "batch": sizes}
        assert batched(arrivals, service, max_batch, max_wait) == want, "the drawing is wrong"
        judge_batcher(stub, arrivals, service, max_batch, max_wait)
    judge_batcher(stub, [0, 0, 5], {1: 1}, 1, 0)
    # The order of the table says nothing: one is served in 100, not padded to four.
    judge_batcher(stub, [10, 20, 400], {4: 160, 1: 100, 2: 120}, 4, 50)


@task("ex_34.simulate_batcher")
def test_batches_of_drawn_arrivals(stub, seed):
    rng = random.Random(f"batcher {seed}")
    for _ in range(12):
        service = serving.service_table(rng, 32)
        load = rng.choice([0.2, 0.6, 0.95, 1.3])
        arrivals = serving.poisson(rng, load * 32e9 / service[32], 150)
        arrivals = [arrival // 1_000 * 1_000 for arrival in arrivals]
        judge_batcher(
            stub, arrivals, service, rng.randint(1, 32), rng.randint(0, 4 * MS), f"/_{seed}"
        )


def recorded_load(capture: str, own: bool) -> tuple[dict[str, list[int]], dict[int, int]]:
    """The arrivals of a capture's open-loop runs, and the median service time per batch size."""
    runs = runs_of(capture, "requests.json", own)
    service = {
        run["batch"]: int(statistics.median_low(run["service_ns"]))
        for run in runs_of(capture, "service.json", own).values()
    }
    return {
        name: run["intended_ns"] for name, run in runs.items() if run["loop"] == "open"
    }, service


@task("ex_34.simulate_batcher")
@recordings(*OPEN_LOOP)
def test_batches_of_recorded_arrivals(stub, recording, own_recording):
    loads, service = recorded_load(recording, own_recording)
    for arrivals in loads.values():
        arrivals = sorted(arrivals)[:600]
        for max_batch, max_wait in ((1, 0), (8, 500_000), (max(service), 2 * MS)):
            judge_batcher(stub, arrivals, service, max_batch, max_wait)


@task("ex_34.simulate_batcher")
def test_batches_of_bad_input(stub):
    service = {1: 100, 4: 160}
    with stub.raises(ValueError, why="arrivals are not ascending"):
        stub.simulate_batcher([0, 10, 9], service, 2, 0)
    for max_batch in (0, -1, 5):
        with stub.raises(ValueError, why=f"max_batch is {max_batch}, the table ends at 4"):
            stub.simulate_batcher([0, 1], service, max_batch, 0)
    with stub.raises(ValueError, why="max_wait_ns is negative"):
        stub.simulate_batcher([0, 1], service, 2, -1)
    for bad in ({}, {0: 5, 4: 9}, {-1: 5, 4: 9}, {1: 0, 4: 9}, {1: -3, 4: 9}):
        with stub.raises(ValueError, why=f"the table of service times is {bad}"):
            stub.simulate_batcher([0, 1], bad, 1, 0)
    with stub.raises(ValueError, why="the table is empty, also where nothing arrives"):
        stub.simulate_batcher([], {}, 1, 0)


# == choose_batcher ===============================================================================


def settings_of(
    arrivals: Sequence[int],
    service: dict[int, int],
    max_batches: Sequence[int],
    max_waits: Sequence[int],
    percent: float,
) -> list[dict[str, Any]]:
    """What every setting gives, in the order of preference."""
    out = []
    for max_batch in max_batches:
        for max_wait in max_waits:
            done = serving.serve(arrivals, serving.padded(service), max_batch, max_wait)
            latency = [end - a for (_, end, _), a in zip(done, arrivals, strict=True)]
            batches = {start: end - start for start, end, _ in done}
            out.append(
                {
                    "max_batch": max_batch,
                    "max_wait_ns": max_wait,
                    "percentile_ns": nearest_rank(latency, percent),
                    "busy_ns": sum(batches.values()),
                }
            )
    order = ("busy_ns", "percentile_ns", "max_batch", "max_wait_ns")
    return sorted(out, key=lambda setting: [setting[key] for key in order])


def judge_choice(
    stub: Any,
    arrivals: list[int],
    service: dict[int, int],
    max_batches: list[int],
    max_waits: list[int],
    percent: float = 99,
    hint: Any = None,
) -> None:
    """Check the choice under limits that no, one, some and all settings keep."""
    found = settings_of(arrivals, service, max_batches, max_waits, percent)
    reached = sorted(setting["percentile_ns"] for setting in found)
    for limit in (reached[0] / 2, reached[0], reached[len(found) // 2], reached[-1]):
        kept = [setting for setting in found if setting["percentile_ns"] <= limit]
        want = kept[0] if kept else None

        def mistakes(kept=kept) -> Iterable[tuple[Any, str]]:
            if not kept:
                yield found[0], "That one costs least, but does not keep the limit."
                return
            fastest = min(setting["percentile_ns"] for setting in kept)
            for setting in kept:
                if setting["percentile_ns"] == fastest:
                    yield (
                        setting,
                        "That is the fastest setting. Every one that keeps the limit is fast "
                        "enough: of those, the one that costs least.",
                    )
            yield found[0], "That one costs least, but does not keep the limit."

        arguments = (arrivals, service, limit, max_batches, max_waits)
        arguments = arguments if percent == 99 else (*arguments, percent)
        got = stub.choose_batcher(*arguments)
        table = [tuple(s.values()) for s in found[:6]]
        why = f"Settings by cost, as (max_batch, max_wait_ns, p{percent} ns, busy ns): {table}" + (
            " and so on." if len(found) > 6 else "."
        )
        call = call_words("choose_batcher", *arguments)
        judge(call, got, want, "", why, mistakes, hint)


@task("ex_34.choose_batcher")
@recordings(*OPEN_LOOP)
def test_choice_for_recorded_arrivals(stub, recording, own_recording):
    loads, service = recorded_load(recording, own_recording)
    for name in sorted(loads)[:2]:
        arrivals = sorted(loads[name])[:300]
        judge_choice(stub, arrivals, service, [max(service), 1, 8], [2 * MS, 0, 500_000])


@task("ex_34.choose_batcher")
def test_choice_for_drawn_arrivals(stub, seed):
    rng = random.Random(f"choice {seed}")
    for percent in (99, 90, 50):
        service = serving.service_table(rng, 32)
        arrivals = serving.poisson(rng, rng.uniform(0.2, 0.7) * 32e9 / service[32], 120)
        judge_choice(stub, arrivals, service, [4, 32, 1], [4 * MS, 0, MS], percent, f"/_{seed}")


@task("ex_34.choose_batcher")
def test_choice_between_equals(stub):
    # Arrivals far apart: every batch holds one request, and only waiting differs.
    arrivals, service = [0, 1_000, 2_000, 3_000], {1: 10, 2: 12, 4: 15}
    for max_batches, max_waits, why in (
        ([4, 2], [0], "equal but for max_batch: the smaller"),
        ([4, 2, 1], [50, 0], "equal work: the lower percentile, then the smaller max_batch"),
        ([1], [70, 50], "one is a full batch, so waits are equal: the smaller max_wait_ns"),
        ([1, 4], [70, 50], "a full batch of one does not wait: the lower percentile"),
    ):
        want = settings_of(arrivals, service, max_batches, max_waits, 99)[0]
        got = stub.choose_batcher(arrivals, service, 1_000, max_batches, max_waits)
        call = call_words("choose_batcher", arrivals, service, 1_000, max_batches, max_waits)
        judge(call, got, want, "", f"They are {why}.")
    got = stub.choose_batcher(arrivals, service, 0.5, [1], [0])
    judge("choose_batcher with a limit of 0.5 ns", got, None, "", "No setting is so fast: None.")


@task("ex_34.choose_batcher")
def test_choice_of_bad_input(stub):
    service = {1: 10, 4: 15}
    for arrivals, max_batches, max_waits, why in (
        ([], [1], [0], "there are no arrivals"),
        ([0], [], [0], "there is no maximum batch to try"),
        ([0], [1], [], "there is no maximum wait to try"),
        ([5, 0], [1], [0], "arrivals are not ascending"),
        ([0], [1, 8], [0], "a maximum batch is larger than the table"),
    ):
        with stub.raises(ValueError, why=why):
            stub.choose_batcher(arrivals, service, 100, max_batches, max_waits)
    for limit in (0, -1, float("nan")):
        with stub.raises(ValueError, why=f"the limit is {limit}"):
            stub.choose_batcher([0], service, limit, [1], [0])


# == evidence_verdict =============================================================================


def verdict_of(
    run: dict[str, Any], confidence: float = 0.95, *, inverted: bool = False
) -> dict[str, Any]:
    """Ratio, interval, noise and verdict, round by round. inverted: before / after instead of after / before."""
    rounds = list(zip(run["before_ns"], run["after_ns"], run["again_ns"], strict=True))
    ratios, repeats = [b / a for a, b, _ in rounds], [c / a for a, _, c in rounds]
    ratios = [1 / ratio for ratio in ratios] if inverted else ratios
    low, high = interval(ratios, 50, confidence)
    edges = interval(repeats, 50, confidence)
    noise = None if None in edges else max(abs(edge - 1) for edge in edges if edge is not None)
    if noise is None or low is None or high is None:
        verdict = "undecided"
    else:
        verdict = "win" if high < 1 - noise else "regression" if low > 1 + noise else "no_win"
    return {
        "ratio": linear(ratios, 50),
        "low_ratio": low,
        "high_ratio": high,
        "noise_ratio": noise,
        "verdict": verdict,
    }


def judge_verdict(stub: Any, capture: str, name: str, run: dict[str, Any], *more: float) -> Any:
    """Check the numbers and the verdict of one run."""
    want = verdict_of(run, *more)
    got = stub.evidence_verdict(capture, name, *more)
    why = "Each round gives one ratio; a verdict needs more than the noise of equal programs."

    def mistakes() -> Iterable[tuple[Any, str]]:
        for changed, sentence in (
            (
                run | {"again_ns": run["before_ns"]},
                "The noise is what again / before shows: the same program, measured twice.",
            ),
            (
                {key: sorted(run[key]) for key in ("before_ns", "after_ns", "again_ns")},
                "Rounds are compared in the order in which they were measured: each with its own.",
            ),
        ):
            yield verdict_of(changed, *more), sentence
        inverted = "The ratio is after / before: below 1 is faster."
        yield verdict_of(run, *more, inverted=True), inverted
        if more:
            yield verdict_of(run), f"That is for a confidence of 0.95; it is {more[0]} here."
        if type(got) is dict and got.get("verdict") == "no win":
            yield got, "The word is 'no_win'."
        if type(got) is dict and agree(got | {"ratio": 0}, want | {"ratio": 0}):
            ordered = sorted(b / a for a, b in zip(run["before_ns"], run["after_ns"], strict=True))
            if agree(got.get("ratio"), statistics.fmean(ordered)):
                yield got, "That is the mean of the ratios; the effect is their median: np.median."
            if agree(got.get("ratio"), ordered[len(ordered) // 2]):
                yield got, "Of an even number the median is the mean of the middle two: np.median."
        if type(got) is dict and agree(got | {"verdict": ""}, want | {"verdict": ""}):
            sides = "an interval that overlaps the noise on either side of 1 is no evidence"
            if want["verdict"] == "undecided":
                sides = "too few rounds bound nothing: that is not the same as no gain"
            yield got, f"The numbers are right, the verdict contradicts them: {sides}."
        if type(got) is dict:
            middles = [statistics.median(run[f"{key}_ns"]) for key in ("before", "after", "again")]
            if agree(got.get("ratio"), middles[1] / middles[0]) and not agree(
                got["ratio"], want["ratio"]
            ):
                yield (
                    got,
                    "That compares medians of all rounds, so what changes from round to round stays in the result.",
                )
            if agree(got | {"noise_ratio": want["noise_ratio"]}, want):
                yield (
                    got,
                    "noise_ratio is the distance from 1 of the farther end of the interval of again / before; None "
                    "if there is no such end.",
                )

    call = call_words("evidence_verdict", capture, name, *more)
    judge(call, got, want, "", why, mistakes, capture)
    return got


@task("ex_34.evidence_verdict")
@recordings(EVIDENCE)
def test_verdict_on_recorded_changes(stub, recording, own_recording):
    for name, run in runs_of(recording, "evidence.json", own_recording).items():
        judge_verdict(stub, recording, name, run)


@task("ex_34.evidence_verdict")
def test_verdict_on_simulated_changes(stub, simulated):
    capture = simulated("evidence")
    for name, run in runs_of(capture, "evidence.json").items():
        got = judge_verdict(stub, capture, name, run)
        judge_verdict(stub, capture, name, run, 0.8)
        if name in serving.CHANGES:
            factor, verdict = serving.CHANGES[name]
            assert got["verdict"] == verdict, (
                f"evidence_verdict says {got['verdict']!r} of a simulated change that makes the time "
                f"{factor} times as long, measured to 3 %{repeat_hint(capture)}"
            )


def rounds(folder: Path, before: Any, after: Any, again: Any) -> str:
    """evidence.json with one run, "small"; None leaves a column out."""
    run = {"run": "small", "before_ns": before, "after_ns": after, "again_ns": again}
    return serving.write(
        folder, "evidence.json", [{key: value for key, value in run.items() if value is not None}]
    )


@task("ex_34.evidence_verdict")
def test_verdict_by_hand(stub, tmp_path):
    old = [100] * 6
    for i, (after, again, verdict, why) in enumerate(
        (
            ([95] * 6, [100] * 6, "win", "Always 5 % faster, and no noise."),
            (
                [95] * 6,
                [95, 96, 97, 98, 99, 100],
                "no_win",
                "The old program alone differs by 5 %.",
            ),
            ([95] * 6, [106, 100, 100, 100, 100, 100], "no_win", "Noise upwards counts as well."),
            ([94] * 6, [95] * 6, "win", "6 % faster, where the old program alone differs by 5 %."),
            ([106] * 6, [95] * 6, "regression", "6 % slower, where noise is 5 %."),
            ([105] * 6, [95] * 6, "no_win", "5 % slower, where noise is 5 %."),
            ([80, 80, 80, 80, 80, 120], [100] * 6, "no_win", "Five of six rounds are not enough."),
            (
                [120, 120, 120, 120, 120, 80],
                [100] * 6,
                "no_win",
                "Five of six rounds do not suffice.",
            ),
            ([100] * 6, [100] * 6, "no_win", "Nothing differs."),
        )
    ):
        capture = rounds(tmp_path / str(i), old, after, again)
        run = runs_of(capture, "evidence.json")["small"]
        assert verdict_of(run)["verdict"] == verdict, (after, again)
        got = stub.evidence_verdict(capture, "small")
        call = f"evidence_verdict of before {old}, after {after}, again {again}"
        judge(call, got, verdict_of(run), "", why)
    few = rounds(tmp_path / "few", old[:5], [50] * 5, [100] * 5)
    want = {
        "ratio": 0.5,
        "low_ratio": None,
        "high_ratio": None,
        "noise_ratio": None,
        "verdict": "undecided",
    }
    why = "Five rounds bound no median with 95 %, however large the gain looks."
    judge("evidence_verdict of five rounds", stub.evidence_verdict(few, "small"), want, "", why)
    want = dict.fromkeys(want, 0.5) | {"noise_ratio": 0.0, "verdict": "win"}
    why = "With 80 % five rounds bound a median: the interval decides, not the number of rounds."
    got = stub.evidence_verdict(few, "small", 0.8)
    judge("evidence_verdict of five rounds, confidence=0.8,", got, want, "", why)
    short = rounds(tmp_path / "short", [1] * 6, [1] * 6, [1] * 6)
    want = dict.fromkeys(want, 1.0) | {"noise_ratio": 0.0, "verdict": "no_win"}
    why = "A time of one ns is valid."
    judge("evidence_verdict of 1 ns each", stub.evidence_verdict(short, "small"), want, "", why)
    even = rounds(tmp_path / "even", [100] * 6, [80, 81, 82, 86, 87, 88], [100] * 6)
    got = stub.evidence_verdict(even, "small")
    run = runs_of(even, "evidence.json")["small"]
    why = "The median of an even number of rounds is the mean of the middle two: np.median."
    judge("evidence_verdict of six rounds", got, verdict_of(run), "", why)
