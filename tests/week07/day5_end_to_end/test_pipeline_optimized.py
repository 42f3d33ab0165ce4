"""Checks of pipeline_optimized: the same answers as the slow pipeline, and less counted work.

Both run beside the learner's code on a stand-in for the device (probes/stand_in_device.py), with
fresh weights and texts; answers are compared with those of the slow pipeline, and no answer can be had
for less than the least work. The slow one answers each text by itself, so it runs once, for all sizes. With
`--live` both also run on the GPU, in turns.
"""

from __future__ import annotations

import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from grading.checks import task

PROBE = Path(__file__).resolve().with_name("probes") / "pipelines.py"
COUNT, MAX_BATCH, BEST = 43, 10, 5
BATCHES = -(-COUNT // MAX_BATCH)
SLACK = 1.25
MOST_OPERATIONS = 12
MOST_PASSES = 2
CASE = "Are the words looked up in lower case, and the vocabulary taken as it is?"
TOLERANCE = 1e-4
LONGEST = 48  # words of a text that count
SMALLEST_RATIO = 3.0

# What came back of a run, by what was asked of which file: many checks look at one run.
_runs: dict[tuple, dict[str, Any]] = {}


def ran(stub, which: str, *arguments: int) -> Any:
    key = (stub._key, which, *arguments)
    if key not in _runs:
        _runs[key] = stub.probe(PROBE, which, *arguments)
    return _runs[key]


def compared(
    stub, seed: int, count: int = COUNT, max_batch: int = MAX_BATCH, best: int = BEST
) -> dict[str, Any]:
    """What the learner's pipeline did with the first `count` texts, and what the slow one did with them."""
    slow = ran(stub, "run_pipeline_slow", seed, COUNT, BEST)
    counts = {name: number * count // COUNT for name, number in slow["counts"].items()}
    return {
        "lengths": slow["lengths"][:count],
        "different": slow["different"],
        "slow": {
            **slow,
            "answers": [answer[:best] for answer in slow["answers"][:count]],
            "counts": counts,  # of `best` labels, as many for each text
        },
        "fast": ran(stub, "run_pipeline_optimized", seed, count, max_batch, best),
    }


def called(count: int = COUNT, max_batch: int = MAX_BATCH, best: int = BEST) -> str:
    return f"pipeline_optimized({count} texts, …, max_batch={max_batch}, best={best})"


def places_in_order(lengths: list[int], max_batch: int) -> int:
    """Texts times length of batches of texts in the order of their lengths, up or down."""

    def places(ordered: list[int]) -> int:
        batches = [
            ordered[first : first + max_batch] for first in range(0, len(ordered), max_batch)
        ]
        return sum(len(batch) * max(batch) for batch in batches)

    return max(places(sorted(lengths)), places(sorted(lengths, reverse=True)))


def is_right(got: Any, right: list) -> bool:
    """Whether an answer has the labels and probabilities that are right."""
    return len(got) == len(right) and all(
        abs(probability - at) <= TOLERANCE and (label == wanted or abs(probability - at) <= 1e-6)
        for (label, probability), (wanted, at) in zip(got, right, strict=True)
    )


def answered(found: list, expected: list) -> list[int | None]:
    """Of each answer, the first text to which it is the right one."""
    return [
        next((other for other, right in enumerate(expected) if is_right(got, right)), None)
        for got in found
    ]


def why_it_differs(number: int, found: list, expected: list, lengths: list[int]) -> str:
    """What the most likely mistake is if a text got a wrong answer."""
    got, right = found[number], expected[number]
    texts = answered(found, expected)
    # Answers to a few texts only are no order: they are those to texts of unknown words.
    if texts[number] is not None and len(set(texts)) > len(found) / 2:
        return f"That is the answer to text {texts[number]}: are the answers in the order of the texts?"
    if is_right(sorted(got, key=lambda pair: -pair[1]), right):
        return "These are the right pairs, not highest first"
    if [label for label, _ in got] == [label for label, _ in right]:
        if any(not 0 <= at <= 1 for _, at in got):
            return "The labels are right; these are scores, not probabilities: softmax is missing"
        if abs(sum(at for _, at in got) - 1) <= TOLERANCE:
            return (
                "The labels are right, their probabilities add up to 1: softmax goes over all labels, not over "
                "the best"
            )
    # A wrong mask or id leaves some texts right: those as long as their batch.
    if not any(is_right(one, other) for one, other in zip(found, expected, strict=True)):
        return "No text has the right probabilities: does softmax go over the labels of each text?"
    words = f"Text {number} has {lengths[number]} word{'s' * (lengths[number] != 1)}"
    if lengths[number] == LONGEST:
        return f"{words} or more: does the model get more than the first {LONGEST} of them? {CASE}"
    return (
        f"{words}: does the model get a mask that is True at these words only, and the id of an unknown "
        f"word for a text without words? {CASE}"
    )


def same_answers(found: Any, expected: list, asked: str, lengths: list[int] | None = None) -> None:
    assert type(found) is list and len(found) == len(expected), (
        f"{asked} returned {len(found) if type(found) is list else type(found).__name__}; expected a "
        f"list of {len(expected)} answers, one for each text"
    )
    for number, (got, right) in enumerate(zip(found, expected, strict=True)):
        where = f"{asked}: text {number} was answered with {got}, by pipeline_slow with {right}"
        assert len(got) == len(right), f"{where}: expected {len(right)} labels"
        assert all(type(label) is int and type(at) is float for label, at in got), (
            f"{where}: expected (label, probability) as int and float"
        )
        why = f". {why_it_differs(number, found, expected, lengths)}" if lengths else ""
        assert is_right(got, right), (
            f"{where}: expected these labels, probabilities to {TOLERANCE}{why}"
        )


@task("ex_34.pipeline_optimized")
def test_answers_are_the_same(stub, seed: int) -> None:
    got = compared(stub, seed)
    found = got["fast"]["answers"]
    assert "nan" not in str(found), (
        f"{called()} answered nan: is the mask False everywhere in a row?"
    )
    same_answers(found, got["slow"]["answers"], called(), got["lengths"])


@task("ex_34.pipeline_optimized")
@pytest.mark.parametrize(("count", "max_batch", "best"), [(1, 8, 1), (9, 1, 2), (8, 8, 5)])
def test_answers_are_the_same_for_other_sizes(
    stub, seed: int, count: int, max_batch: int, best: int
) -> None:
    got = compared(stub, seed, count, max_batch, best)
    asked = called(count, max_batch, best)
    same_answers(got["fast"]["answers"], got["slow"]["answers"], asked, got["lengths"])


@task("ex_34.pipeline_optimized")
def test_answers_are_those_of_the_model_and_the_device(stub, seed: int) -> None:
    """On the host, with two models, each with its vocabulary, and the same texts."""
    for model, got in enumerate(ran(stub, "on_the_host", seed, 12, 5, 3), 1):
        asked = f'pipeline_optimized(12 texts, …, device="cpu", max_batch=5, best=3), model {model} of 2 with a vocabulary of its own'
        assert "error" not in got, f"{asked} raised {got['error']}: everything must go to `device`"
        for what, (before, after) in got["modes"].items():
            assert before == after, (
                f"{asked}: {what} was {before} before and {after} afterwards; expected it as before: gradients are "
                "switched off by `with torch.inference_mode():`, and the model is the caller's"
            )
        same_answers(got["fast"], got["slow"], asked, got["lengths"])


@task("ex_34.pipeline_optimized")
def test_no_texts(stub, seed: int) -> None:
    got = compared(stub, seed, 0)["fast"]
    assert got["answers"] == [], f"{called(0)} returned {got['answers']}, expected []"
    assert not got["calls"], f"{called(0)} called the model {len(got['calls'])} times; expected 0"


@task("ex_34.pipeline_optimized")
def test_model_is_called_in_full_batches(stub, seed: int) -> None:
    got = compared(stub, seed)
    calls = got["fast"]["calls"]
    rows = [call[0] for call in calls]
    assert max(rows) <= MAX_BATCH, (
        f"{called()} gave the model {max(rows)} texts at once; it takes at most max_batch = {MAX_BATCH}"
    )
    least = len(got["different"])
    assert sum(rows) >= least, (
        f"{called()} gave the model {sum(rows)} texts in all, expected at least the {least} different ones: "
        "each must be answered"
    )
    assert len(calls) <= BATCHES, (
        f"{called()} called the model {len(calls)} times, with {rows} texts; expected at most {BATCHES} "
        f"calls (pipeline_slow: {len(got['slow']['calls'])}). Each call starts the same operations, "
        "however many texts are in it"
    )
    with_gradients = sum(call[2] for call in calls)
    assert not with_gradients, (
        f"{called()}: in {with_gradients} of {len(calls)} calls of the model gradients were on; expected "
        "none: for gradients every layer keeps its inputs, and the pipeline needs no gradients"
    )
    assert got["fast"]["gradients_after"], (
        f"{called()} left gradients off for the whole program; expected them as they were before: use "
        "`with torch.inference_mode():`"
    )


@task("ex_34.pipeline_optimized")
def test_little_of_a_batch_is_padding(stub, seed: int) -> None:
    got = compared(stub, seed)
    places = sum(call[0] * call[1] for call in got["fast"]["calls"])
    least = places_in_order(got["lengths"], MAX_BATCH)
    words = sum(got["different"])
    assert places >= words, (
        f"{called()} gave the model {places} places for {words} words; expected at least one each"
    )
    assert places <= SLACK * least, (
        f"{called()} gave the model {places} places (texts times length, padding included) for {words} "
        f"words; expected at most {SLACK} · {least} = {SLACK * least:.0f}, where {least} is what texts "
        "in the order of their lengths in words take. A short text beside a long one is mostly padding"
    )


@task("ex_34.pipeline_optimized")
def test_copies_to_the_device(stub, seed: int) -> None:
    got = compared(stub, seed)
    counts, slow = got["fast"]["counts"], got["slow"]["counts"]
    places = sum(call[0] * call[1] for call in got["fast"]["calls"])
    assert counts["to_device"] <= 2 * BATCHES, (
        f"{called()} made {counts['to_device']} copies to the device, expected at most 2 a batch = "
        f"{2 * BATCHES} (pipeline_slow: {slow['to_device']}). A copy costs a call, however small it is"
    )
    assert counts["to_device_bytes"] <= 9 * places, (
        f"{called()} copied {counts['to_device_bytes']} bytes to the device, expected at most 9 a place "
        f"= {9 * places} bytes (pipeline_slow: {slow['to_device_bytes']})"
    )


# Several batches, and one: what is done once more at the end is too much only there.
SIZES = pytest.mark.parametrize(
    ("count", "max_batch", "best"), [(COUNT, MAX_BATCH, BEST), (8, 8, 5)]
)


@task("ex_34.pipeline_optimized")
@SIZES
def test_copies_back(stub, seed: int, count: int, max_batch: int, best: int) -> None:
    got = compared(stub, seed, count, max_batch, best)
    asked, batches = called(count, max_batch, best), -(-count // max_batch)
    counts, slow = got["fast"]["counts"], got["slow"]["counts"]
    most = 16 * count * best
    assert counts["to_host"] <= batches, (
        f"{asked} made {counts['to_host']} copies back to the host, expected at most one a batch = "
        f"{batches} (pipeline_slow: {slow['to_host']}). Each number that is read by itself is one"
    )
    assert counts["to_host_bytes"] <= most, (
        f"{asked} copied {counts['to_host_bytes']} bytes back, expected at most 16 a label of the "
        f"answers = {most} bytes (pipeline_slow: {slow['to_host_bytes']}): only the best are asked for"
    )


@task("ex_34.pipeline_optimized")
@SIZES
def test_waits_of_the_host(stub, seed: int, count: int, max_batch: int, best: int) -> None:
    got = compared(stub, seed, count, max_batch, best)
    asked, batches = called(count, max_batch, best), -(-count // max_batch)
    waits, slow = got["fast"]["counts"]["waits"], got["slow"]["counts"]["waits"]
    assert waits >= 1, (
        f"{asked} never waited for the device, so what it returned cannot be what the device computed"
    )
    assert waits <= batches, (
        f"{asked} waited {waits} times for the device, expected at most one wait a batch = {batches} "
        f"(pipeline_slow: {slow}). While the host waits it prepares nothing, and the device then waits "
        "for the host"
    )


@task("ex_34.pipeline_optimized")
def test_operations_beside_the_model(stub, seed: int) -> None:
    got = compared(stub, seed)["fast"]
    own = got["counts"]["operations"] - got["model_operations"]
    assert got["model_operations"] > 0, f"{called()}: the model did nothing on the device"
    assert own <= MOST_OPERATIONS * BATCHES, (
        f"{called()} started {own} operations on the device besides the model's, expected at most "
        f"{MOST_OPERATIONS} a batch = {MOST_OPERATIONS * BATCHES}: what is done text by text or label "
        "by label is many small operations"
    )


@task("ex_34.pipeline_optimized")
def test_vocabulary_is_not_searched(stub, seed: int) -> None:
    got = compared(stub, seed)
    assert not got["fast"]["searches"], (
        f"{called()} searched the vocabulary from its beginning {got['fast']['searches']} times, expected "
        f"0 (pipeline_slow: {got['slow']['searches']}): each search looks at every word until it finds "
        "its own"
    )
    assert got["fast"]["passes"] <= MOST_PASSES, (
        f"{called()} went through the whole vocabulary {got['fast']['passes']} times, expected at most "
        f"{MOST_PASSES}: one dictionary serves all texts"
    )


# -- timing both ------------------------------------------------------------------------------------


def drawn_times(seed: int, rounds: int) -> tuple[list[int], list[int]]:
    """What each call takes, in ns: slow first calls, and rounds in which everything is slower."""
    chance = random.Random(seed)
    slow, fast = [900_000_000], [700_000_000]
    for _ in range(rounds):
        machine = chance.choice([1.0, 1.1, 2.5])
        slow.append(int(machine * chance.randint(20_000_000, 24_000_000)))
        fast.append(int(machine * chance.randint(4_000_000, 6_000_000)))
    return slow, fast


@task("ex_34.pipeline_speedup")
@pytest.mark.parametrize("rounds", [3, 4, 9])
def test_times_are_taken_in_turns(stub, seed: int, rounds: int) -> None:
    slow, fast = drawn_times(seed, rounds)
    got = stub.probe(PROBE, "speedup_on_paper", slow, fast, rounds)
    asked = f"pipeline_speedup(slow, fast, synchronize, rounds={rounds})"
    expected = ["slow", "fast"] * (rounds + 1)
    assert got["calls"] == expected, (
        f"{asked} called {got['calls']}; expected each once to warm up, then both in turns: what slows "
        "the machine down for a while must meet both"
    )
    set_by_others = [name for name in got["clocks"] if name.startswith("time")]
    assert not set_by_others, (
        f"{asked} read time.{set_by_others[0]}: that clock tells the time of day, and is set, also "
        "backwards, while a program runs; expected time.perf_counter"
    )
    ratios = [a / b for a, b in zip(slow[1:], fast[1:], strict=True)]
    right = {
        "ratio": statistics.median(ratios),
        "low_ratio": min(ratios),
        "high_ratio": max(ratios),
    }
    for key, value in right.items():
        told = got["told"].get(key)
        assert told is not None and abs(told - value) <= 1e-6 * value, (
            f"{asked} returned {key} = {told}, expected {value:.4f}: the device worked "
            f"{slow[1:]} ns in the rounds of slow, {fast[1:]} ns in those of fast"
        )


@task("ex_34.pipeline_speedup")
@pytest.mark.parametrize("rounds", [2, 0, -1])
def test_too_few_rounds(stub, rounds: int) -> None:
    with stub.raises(ValueError, why="a median needs three rounds at least"):
        stub.probe(PROBE, "speedup_on_paper", [1_000] * 3, [1_000] * 3, rounds)


@task("ex_34.pipeline_on_gpu")
def test_it_is_faster_on_this_gpu(stub, seed: int) -> None:
    rounds = 7
    got = stub.probe(PROBE, "on_this_gpu", seed, rounds=rounds)
    asked = "pipeline_optimized(128 texts, …, max_batch=32, best=5) on this GPU"
    same_answers(got["fast"], got["slow"], asked)
    assert got["fast_copies"] <= 3 * 4, (
        f"{asked}: the profiler saw {got['fast_copies']} copies, expected at most 12, three for each of "
        f"4 batches (pipeline_slow: {got['slow_copies']})"
    )
    told, median = got["told"], got["median_ratio"]
    asked = f"pipeline_on_gpu(pipeline_slow, pipeline_optimized, rounds={rounds})"
    assert got["calls"] == ["slow", "fast"] * (rounds + 1), (
        f"{asked} called {got['calls']}; expected each once to warm up, then both in turns"
    )
    assert told.get("device") == got["device"], (
        f"{asked} named the device {told.get('device')!r}; it is {got['device']!r}"
    )
    assert 0.6 * median <= told["ratio"] <= median / 0.6, (
        f"{asked} returned a ratio of {told['ratio']:.2f}; timed here, {median:.2f}"
    )
    assert median >= SMALLEST_RATIO, (
        f"{asked}: pipeline_slow took {median:.2f} times as long (median of {rounds} rounds in turns), "
        f"expected at least {SMALLEST_RATIO} times"
    )
