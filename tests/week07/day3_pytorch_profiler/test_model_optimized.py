"""Checks of `model_optimized.py`: the same results, from counted work that is less.

What the learner's functions do is watched beside them, in probes/model_optimized.py: TorchDynamo
with a backend that counts, spies on operators, a stand-in for CUDA graphs. What that says is a claim;
fresh inputs and the least work that the results need keep it within bounds.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import task

PROBE = Path(__file__).resolve().with_name("probes") / "model_optimized.py"

# Shares of the slow model's work. The reference has 0.11, 0.12 and 0.49.
MOST_OPERATORS, MOST_BYTES, MOST_FLOPS = 0.25, 0.30, 0.60
ROUNDING, FLOAT64_ROUNDING = 2e-5, 1e-9
SMALLEST_GRAPH_RATIO, SMALLEST_MODEL_RATIO = 1.5, 3.0
# torch._dynamo.config.recompile_limit of torch 2.15.
RECOMPILE_LIMIT = 8
# Two measurements of the same thing on one machine, minutes apart.
CLAIM_SPREAD = 1.6


# What came back of a run, by what was asked of which file: many checks look at one run.
_runs: dict[tuple, Any] = {}


def run_once(stub, function: str, *given: Any) -> Any:
    asked = (stub._key, function, repr(given))
    if asked not in _runs:
        _runs[asked] = stub.probe(PROBE, function, *given)
    return _runs[asked]


def close(found: Any, expected: Any, rounding: float = ROUNDING, least_scale: float = 1e-3) -> bool:
    """Whether two arrays agree, relative to the largest number expected, or to `least_scale`."""
    if found is None or expected is None:
        return found is expected
    found, expected = np.asarray(found), np.asarray(expected)
    if found.shape != expected.shape or not np.isfinite(found).all():
        return False
    scale = max(float(np.abs(expected).max(initial=0.0)), least_scale)
    return bool(np.abs(found - expected).max(initial=0.0) <= rounding * scale)


def shown(value: Any) -> str:
    """An array in a few numbers."""
    if value is None:
        return "nothing"
    array = np.asarray(value)
    numbers = ", ".join(f"{number:.4g}" for number in array.reshape(-1)[:4])
    dots = ", …" if array.size > 4 else ""
    return f"[{numbers}{dots}] of shape {list(array.shape)}"


def require_close(
    found: Any,
    expected: Any,
    what: str,
    theirs: str,
    why: str = "",
    rounding: float = ROUNDING,
    least_scale: float = 1e-3,
) -> None:
    """Fail unless two arrays agree. what and theirs: the words before either value, where they differ most."""
    if close(found, expected, rounding, least_scale):
        return
    one, other, place = shown(found), shown(expected), ""
    if found is not None and expected is not None and np.shape(found) == np.shape(expected):
        mine, right = np.asarray(found, float), np.asarray(expected, float)
        apart = np.where(np.isfinite(mine), np.abs(mine - right), np.inf)
        worst = np.unravel_index(int(apart.argmax()), apart.shape)
        one, other = f"{mine[worst]:.6g}", f"{right[worst]:.6g}"
        if worst:
            at = ", ".join(map(str, worst))
            place = f" at [{at}] (of shape {list(apart.shape)}), where they differ most"
    pytest.fail(f"{what} {one}; {theirs} {other}{place}{why}", pytrace=False)


def require_gpu(stub, function: str, given: str, slow: str) -> None:
    """Fail if a repair makes tensors on another device than its inputs. slow: what it repairs."""
    error = stub.probe(PROBE, "device_error", function)
    assert error is None, (
        f"{function}, with {given} on a GPU: {error} {slow} works there; on which device is each tensor that you make?"
    )


# -- graph breaks -----------------------------------------------------------------------------------


def watched_breaks(stub, seed: int, watched: str = "results") -> dict[str, Any]:
    chance = random.Random(seed)
    shape = [chance.randint(4, 9), chance.randint(3, 7), chance.randint(3, 7)]
    return run_once(stub, "check_of_repair_graph_breaks", watched, seed, *shape)


@task("ex_32.repair_graph_breaks")
def test_repaired_function_gives_the_same(stub, seed):
    """Values of several kinds of input: nothing scaled, scaled, rows of zeros, nothing but zeros."""
    for name, case in watched_breaks(stub, seed)["cases"].items():
        expected, found = case["expected"], case["found"]
        assert found["types"] == ["Tensor", "Tensor"], (
            f"repair_graph_breaks, {name}: it returned a {' and a '.join(found['types'])}; the mean and "
            "the largest number are both asked for as tensors"
        )
        assert found["dtypes"] == expected["dtypes"], (
            f"repair_graph_breaks, {name}: it returned tensors of {found['dtypes']}; clipped_mean returns "
            f"{expected['dtypes']}"
        )
        assert not found["printed"], (
            f"repair_graph_breaks, {name}: it printed {found['printed']!r}; it is to return what was printed"
        )
        for part in ("mean", "largest"):
            what = f"repair_graph_breaks, {name}: {part} is"
            rounding = FLOAT64_ROUNDING if "float64" in expected["dtypes"][0] else ROUNDING
            require_close(
                found[part], expected[part], what, "clipped_mean gives", rounding=rounding
            )


@task("ex_32.repair_graph_breaks")
def test_repaired_function_has_the_same_gradients(stub, seed):
    """The factor is a number in the slow function: nothing flows through it."""
    cases = watched_breaks(stub, seed)["cases"]
    for name, case in cases.items():
        for part in ("gradient of x", "gradient of weight"):
            expected, found = case["expected"][part], case["found"][part]
            what = f"repair_graph_breaks, {name}: the {part} is"
            why = ""
            if expected.any() and not found.any():
                why = (
                    ". The mean itself must keep its gradient; only the factor and the largest number are "
                    "constants"
                )
            elif close(case["found"]["mean"], case["expected"]["mean"]):
                why = ". There the factor is a number, which has no gradient"
            require_close(found, expected, what, "that of clipped_mean is", why)
    for name, case in cases.items():
        assert not case["found"]["needs_graph"], (
            f"repair_graph_breaks, {name}: the largest number asks for a gradient, and keeps the graph "
            "alive with whoever keeps it; in clipped_mean it is a number"
        )


@task("ex_32.repair_graph_breaks")
def test_repaired_function_is_one_graph(stub, seed):
    """TorchDynamo finds no break, and the graph serves all inputs."""
    watched = watched_breaks(stub, seed, "graphs")
    assert not watched["breaks"], (
        f"repair_graph_breaks: TorchDynamo breaks the graph {watched['breaks']} times, at: "
        + "; ".join(line for line in watched["at"][:3] if line)
    )
    uncompiled = watched_breaks(stub, seed)["cases"]
    assert watched["graphs"] == 1, (
        f"repair_graph_breaks: {watched['graphs']} graphs were compiled for seven inputs of one shape, "
        "some to be scaled and some not; expected 1 graph that serves them all"
    )
    for name, case in watched["cases"].items():
        found, expected = case["compiled"][0], case["expected"]["mean"]
        what = f"repair_graph_breaks, compiled, {name}: the mean is"
        why = ""
        if close(uncompiled[name]["found"]["mean"], expected):
            why = ". Was a decision made while the graph was traced?"
        require_close(found, expected, what, "clipped_mean gives", why)


@task("ex_32.repair_graph_breaks")
def test_repaired_function_reads_no_number(stub, seed):
    """No operator whose result, or its shape, must be known on the host."""
    watched = watched_breaks(stub, seed, "reads")
    read, calls = watched["reads"], len(watched["cases"])
    assert not read, (
        f"repair_graph_breaks: the host waits for {', '.join(sorted(set(read)))} ({len(read)} times in "
        f"{calls} calls); a number, or a shape that depends on numbers, has to come back from the device first"
    )


@task("ex_32.repair_graph_breaks")
def test_repaired_function_runs_on_a_gpu(stub):
    require_gpu(stub, "repair_graph_breaks", "x and weight", "clipped_mean")


# -- recompilation ----------------------------------------------------------------------------------


def watched_pooling(stub, seed: int) -> tuple[list[int], dict[str, Any]]:
    chance = random.Random(seed)
    buckets = [chance.randint(14, 18), chance.randint(3, 5), chance.randint(28, 33)]
    rows = [1, *buckets, *(chance.randint(1, max(buckets)) for _ in range(10))]
    width = chance.randint(4, 8)
    return buckets, run_once(stub, "check_of_repair_recompilations", seed, buckets, rows, width)


def in_rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


@task("ex_32.repair_recompilations")
def test_pooling_is_the_same(stub, seed):
    """Each number of rows, each step: results and gradients of `pool`."""
    buckets, watched = watched_pooling(stub, seed)
    full = [call for call in watched["calls"] if call["rows"] in buckets]
    only_filled_up = all(close(call["found"], call["expected"]) for call in full)
    given: set[tuple[int, int]] = set()
    for call in watched["calls"]:
        again = (call["rows"], call["step"]) in given
        given.add((call["rows"], call["step"]))
        why = ""
        if only_filled_up and call["rows"] not in buckets:
            why = ". What fills a bucket up must not count"
        if call["low"]:
            why += ". This row's score is about -1e35, far below that of a row of zeros"
        elif call["zero_row"]:
            why = ". One of the rows is all zeros, and counts like any other"
        elif again:
            why = ". An earlier call had as many rows in the same step, and other numbers"
        rows = in_rows(call["rows"])
        # Such a score leaves float32 too few digits for a gradient, in whatever order it is computed.
        parts = ("",) if call["low"] else ("", " gradient", " gradient of query")
        for part in parts:
            expected, found = call[f"expected{part}"], call[f"found{part}"]
            what = (
                f"repair_recompilations(buckets={buckets}): for {rows} in step {call['step']} "
                f"the{part or ' result'} is"
            )
            if part:
                whose = "query" if "query" in part else "x"
                why = f": no gradient reaches {whose}. Detached?" if found is None else ""
            # A query's gradient may be zero but for rounding; its terms are around 1.
            scale = 1.0 if "query" in part else 1e-3
            require_close(found, expected, what, "that of pool is", why, least_scale=scale)


@task("ex_32.repair_recompilations")
def test_one_compilation_a_bucket(stub, seed):
    """Many row counts and steps, and three buckets."""
    buckets, watched = watched_pooling(stub, seed)
    compiled = watched["compilations"]
    rows = [call["rows"] for call in watched["calls"]]
    last = max(call["step"] for call in watched["calls"])
    used = {min(size for size in buckets if size >= count) for count in rows}
    different = [shapes for place, shapes in enumerate(compiled) if shapes not in compiled[:place]]
    why = ""
    if len(different) < len(compiled):
        why = ". The same shapes were compiled for more than once, so the value of a Python number was guarded"
    assert len(compiled) <= len(used), (
        f"repair_recompilations(buckets={buckets}): {len(compiled)} compilations in {len(rows)} calls "
        f"with {rows} rows, steps 0 to {last}; expected at most {len(used)}, one for each "
        f"bucket in use. Shapes of the arguments, each once: {different[:5]}{why}"
    )


@task("ex_32.repair_recompilations")
def test_compile_function_is_used_once(stub, seed):
    """Not once a call, which works only as long as TorchDynamo finds the old code again."""
    buckets, watched = watched_pooling(stub, seed)
    times = watched["handed_over"]
    assert times == 1, (
        f"repair_recompilations(buckets={buckets}) handed a function to compile_function {times} times, "
        f"with {len(watched['calls'])} calls of its result; expected once, before the first of them"
    )


@task("ex_32.repair_recompilations")
def test_every_call_runs_compiled_code(stub, seed):
    """The products and the softmax are in what was compiled, not beside it."""
    buckets, watched = watched_pooling(stub, seed)
    beside = [call["rows"] for call in watched["calls"] if not call["compiled"]]
    times, why = len(watched["compilations"]), ""
    if times >= RECOMPILE_LIMIT:
        why = f". TorchDynamo compiled {times} times; at {RECOMPILE_LIMIT} for one function it gives up"
    assert not beside, (
        f"repair_recompilations(buckets={buckets}): calls with {beside[:6]} rows computed the pooling "
        f"outside of compiled code; every call is to run it{why}"
    )
    for call in watched["calls"]:
        expected = min(size for size in buckets if size >= call["rows"])
        assert expected in call["sizes"], (
            f"repair_recompilations(buckets={buckets}): {in_rows(call['rows'])} went through compiled "
            f"code as {call['sizes']} rows; the smallest bucket that holds them has {expected}"
        )
    outside = stub.probe(PROBE, "outside_of_repair_recompilations", 3, 4)
    assert not outside, (
        f"repair_recompilations: {', '.join(outside)} ran outside of compiled code; the scores, the softmax and "
        "the weighted sum are to run compiled"
    )


@task("ex_32.repair_recompilations")
def test_pooling_runs_on_a_gpu(stub):
    require_gpu(stub, "repair_recompilations", "x and query", "pool")


# -- memory that grows ------------------------------------------------------------------------------


def watched_memory(stub, seed: int, **more: Any) -> dict[str, Any]:
    batches = random.Random(seed).randint(6, 9)
    given = {"batches": batches, "grad_before": True, **more}
    return stub.probe(PROBE, "check_of_repair_memory_growth", seed, **given)


@task("ex_32.repair_memory_growth")
def test_mean_loss_is_the_same(stub, seed):
    """Batches of several sizes, each of the same weight."""
    for grad_before in (True, False):
        watched = watched_memory(stub, seed, grad_before=grad_before)
        found, expected = watched["value"], watched["expected"]
        assert isinstance(found, float), f"repair_memory_growth returned {found}; expected a float"
        hint = ""
        if math.isclose(found, watched["weighted"], rel_tol=ROUNDING):
            hint = ". That weights each batch by its size"
        elif math.isclose(found, watched["sum"], rel_tol=ROUNDING):
            hint = ". That is the sum of the losses"
        assert math.isclose(found, expected, rel_tol=ROUNDING), (
            f"repair_memory_growth returned {found:.6g}; the mean of the losses of the batches is "
            f"{expected:.6g}{hint}"
        )


@task("ex_32.repair_memory_growth")
def test_nothing_of_earlier_batches_is_alive(stub, seed):
    """Weak references tell what is still there when the next batch is read."""
    watched = watched_memory(stub, seed + 1, batches=14)
    alive, held = watched["alive"], watched["held_bytes"]
    assert max(alive) == 0, (
        f"repair_memory_growth: while batch {len(alive) - 1} is read, tensors of batches earlier than "
        f"the one just before it are still alive: {alive[-1]} of them (at each batch: {alive}). Is something kept of "
        "each batch, or is it the first loss that you add to?"
    )
    # Four batches later the one before has the same size again.
    assert held[-1] <= held[-5], (
        f"repair_memory_growth: when batch {len(held) - 5} is read, all tensors hold {held[-5]} bytes, and when batch "
        f"{len(held) - 1} is read, {held[-1]}: is a small tensor kept of each batch, or does one get longer?"
    )


@task("ex_32.repair_memory_growth")
def test_no_graph_is_built(stub, seed):
    """Neither the model nor the loss is called with gradients enabled."""
    graphs = watched_memory(stub, seed + 2)["graphs"]
    assert not graphs, (
        f"repair_memory_growth: {len(graphs)} calls of {' and '.join(sorted(set(graphs)))} ran with "
        "gradients enabled: each keeps what a backward pass would need, which never comes"
    )


@task("ex_32.repair_memory_growth")
def test_one_number_is_read(stub, seed):
    """The host waits once, not once a batch."""
    watched = watched_memory(stub, seed + 3)
    assert len(watched["reads"]) <= 1, (
        f"repair_memory_growth: {len(watched['reads'])} numbers were read from the device for "
        f"{len(watched['alive'])} batches ({', '.join(sorted(set(watched['reads'])))}); one is enough, "
        "at the end"
    )


@task("ex_32.repair_memory_growth")
def test_gradients_are_enabled_as_before(stub, seed):
    """After a result, after an exception, and where they were disabled to begin with."""
    for before in (True, False):
        for fail_at in (None, 3):
            watched = watched_memory(stub, seed + 4, grad_before=before, fail_at=fail_at)
            if fail_at is not None:
                assert watched["raised"], (
                    "repair_memory_growth swallowed an ArithmeticError of the loss; it is to go on to "
                    "the caller"
                )
            after = watched["grad_after"]
            ended = "an exception of the loss" if fail_at is not None else "it returned"
            assert after == before, (
                f"repair_memory_growth: torch.is_grad_enabled() was {before} before and is {after} after "
                f"{ended}"
            )


@task("ex_32.repair_memory_growth")
def test_mean_loss_runs_on_a_gpu(stub):
    require_gpu(stub, "repair_memory_growth", "losses", "mean_loss")


# -- CUDA graphs ------------------------------------------------------------------------------------


DEFAULT_WARM_UP = 3


def watched_capture(stub, seed: int, kind: str, warm_up: int | None = 2) -> dict[str, Any]:
    chance = random.Random(seed)
    rows, width = chance.randint(3, 6), chance.randint(4, 7)
    more = "" if warm_up is None else f", warm_up={warm_up}"
    return {
        "warm_up": DEFAULT_WARM_UP if warm_up is None else warm_up,
        "call": f"capture_step(cuda, step, example, state{more})",
        **stub.probe(PROBE, "check_of_capture_step", seed, kind, rows, width, warm_up),
    }


@task("ex_32.capture_step")
def test_replay_computes_with_the_new_input(stub, seed):
    """A graph replays addresses: what is not copied there is not seen."""
    for kind in ("plain", "statistics", "training"):
        watched = watched_capture(stub, seed, kind)
        for number, result in enumerate(watched["results"], 1):
            found, expected = result["found"], result["expected"]
            what = f"{watched['call']}, a step of kind {kind}: replay {number} gave"
            why = ""
            if not np.isfinite(np.asarray(found)).all():
                why = (
                    ". Nothing has run yet at the end of a capture; memory that only replays write "
                    "holds NaN here"
                )
            require_close(found, expected, what, "for that input the step itself gives", why)


@task("ex_32.capture_step")
def test_replay_only_replays(stub, seed):
    """One replay a call, and the step's Python is not run again."""
    watched = watched_capture(stub, seed + 1, "plain")
    calls = len(watched["results"])
    assert watched["calls_while_replaying"] == 0, (
        f"{watched['call']}: the step was called {watched['calls_while_replaying']} times in {calls} "
        "replays; a replay launches what was recorded and runs no Python of the step"
    )
    assert watched["replays"] == calls, (
        f"{watched['call']}: the graph was replayed {watched['replays']} times in {calls} calls"
    )


@task("ex_32.capture_step")
def test_results_stay_what_they_were(stub, seed):
    """The graph writes its result into the same memory each time."""
    watched = watched_capture(stub, seed + 2, "plain")
    for number, result in enumerate(watched["results"], 1):
        what = f"{watched['call']}: after the last replay the result of replay {number} is"
        why = ": it is the memory that every replay writes to"
        require_close(result["later"], result["found"], what, "it was", why)


@task("ex_32.capture_step")
@pytest.mark.parametrize("warm_up", [None, 1, 4])
def test_warm_up_and_capture(stub, seed, warm_up):
    """The order of calls, streams and waits that PyTorch asks for."""
    watched = watched_capture(stub, seed + 3, "statistics", warm_up)
    log, call = watched["log"], watched["call"]
    names = [entry[0] for entry in log]
    assert names.count("capture") == 1, (
        f"{call}: captures begun: {names.count('capture')}; expected 1"
    )
    begin = names.index("capture")
    steps = [place for place, entry in enumerate(log) if entry[0] == "step"]
    warm = [place for place in steps if place < begin]
    assert len(warm) == watched["warm_up"] and len(steps) == len(warm) + 1, (
        f"{call}: the step ran {len(warm)} times before the capture and {len(steps) - len(warm)} times "
        f"in it or after; expected {watched['warm_up']} and 1"
    )
    streams = {log[place][1] for place in warm}
    assert "current" not in streams, (
        f"{call}: the step was warmed up on the current stream; expected another one, as a capture "
        "runs on a stream of its own"
    )
    before, after = log[: warm[0]], log[warm[-1] + 1 : begin]
    for stream in streams:
        assert ["wait", stream, "current"] in before or ["synchronize"] in before, (
            f"{call}: stream {stream!r} began to work without waiting for the current one, on which the "
            "inputs may still be written"
        )
        assert ["wait", "current", stream] in after or ["synchronize"] in after, (
            f"{call}: the capture began without waiting for the warm-up on stream {stream!r}"
        )


@task("ex_32.capture_step")
def test_static_input_is_its_own(stub, seed):
    """One tensor for all calls, and not the caller's."""
    watched = watched_capture(stub, seed + 4, "plain")
    addresses = [entry[2] for entry in watched["log"] if entry[0] == "step"]
    assert watched["example_kept"] and watched["example_address"] not in addresses, (
        f"{watched['call']}: the step was given the caller's example itself; replays would write into "
        "the caller's tensor"
    )
    assert len(set(addresses)) == 1, (
        f"{watched['call']}: the step was given {len(set(addresses))} different tensors; a graph knows "
        "addresses, so warm-up and capture get the same one"
    )


@task("ex_32.capture_step")
def test_state_is_as_if_nothing_had_run(stub, seed):
    """Warm-up trains too, unless it is undone."""
    for kind in ("statistics", "training"):
        watched = watched_capture(stub, seed + 5, kind)
        for name, other, when in (
            ("state_after", "state_before", "after capture_step"),
            ("state_in_the_end", "state_expected", f"after {len(watched['results'])} replays"),
        ):
            for found, expected in zip(watched[name], watched[other], strict=True):
                what = f"{watched['call']}, a step of kind {kind}: {when} the state is"
                why = (
                    f". The {watched['warm_up']} calls of the warm-up change the state, the capture "
                    "does not"
                )
                require_close(found, expected, what, "expected", why)


@task("ex_32.capture_step")
@pytest.mark.parametrize(
    "what",
    ["one row", "more rows", "no rows dimension", "double", "whole numbers", "another device"],
)
def test_other_inputs_are_refused(stub, what):
    """`copy_` would stretch, or convert, many of them without a word."""
    with stub.raises(
        ValueError, why="the graph was captured for float32 of shape [4, 3] on the CPU"
    ):
        stub.probe(PROBE, "bad_input_of_capture_step", what)


@task("ex_32.capture_step")
@pytest.mark.parametrize("what", ["no warm-up", "negative warm-up"])
def test_warm_up_is_needed(stub, what):
    """The first calls allocate, choose algorithms and create handles: nothing for a capture."""
    with stub.raises(ValueError, "warm_up", why="a step is warmed up at least once"):
        stub.probe(PROBE, "bad_input_of_capture_step", what)


# -- the model --------------------------------------------------------------------------------------


def drawn_shape(seed: int) -> dict[str, int]:
    chance = random.Random(seed)
    heads = chance.choice([2, 3, 4])
    return {
        "vocabulary": chance.randint(20, 60),
        "width": heads * chance.randint(3, 6),
        "heads": heads,
        "layers": chance.randint(1, 3),
    }


def watched_model(stub, seed: int, small: float = 1.0) -> tuple[str, dict[str, Any]]:
    chance = random.Random(seed)
    shape = drawn_shape(seed)
    tokens = chance.randint(5, 15)
    batches = [[3, tokens], [1, 1], [chance.randint(2, 5), 2], [3, tokens], [3, 11]]
    call = f"optimized_model(SlowModel({', '.join(f'{k}={v}' for k, v in shape.items())}))"
    return call, run_once(stub, "check_of_optimized_model", seed, shape, batches, small)


@task("ex_32.optimized_model")
def test_scores_are_the_same(stub, seed):
    """Odd batches, rows of different lengths, one token; and once more after an optimizer's step."""
    for nth in range(2):
        call, watched = watched_model(stub, seed + nth)
        for batch in watched["batches"]:
            found, expected = batch["found"], batch["expected"]
            when = ", after the parameters were changed" if batch["updated"] else ""
            what = (
                f"{call} on tokens [{batch['batch']}, {batch['tokens']}] with lengths {batch['lengths']}"
                f"{when}: a score is"
            )
            whole = [row for row, n in enumerate(batch["lengths"]) if n == batch["tokens"]]
            why = ""
            if np.shape(found) == np.shape(expected) and close(found[whole], expected[whole]):
                why = (
                    ". Rows without padding are right: which keys does the mask let through, is it made of "
                    "this call's lengths, and which token's scores do you return?"
                )
            require_close(found, expected, what, "the slow model gives", why)


@task("ex_32.optimized_model")
def test_scores_of_small_numbers_are_the_same(stub, seed):
    """Where a variance is small, what is added to it counts."""
    ordinary = watched_model(stub, seed + 5)[1]["batches"]
    why = ""
    if all(close(batch["found"], batch["expected"]) for batch in ordinary):
        why = (
            ". Scores of ordinary numbers are right. Before the root, layer normalization adds a small "
            "number to the variance: the same one?"
        )
    call, watched = watched_model(stub, seed + 5, 0.01)
    for batch in watched["batches"]:
        found, expected = batch["found"], batch["expected"]
        what = (
            f"{call}, whose embeddings are around 0.01, on tokens [{batch['batch']}, "
            f"{batch['tokens']}]: a score is"
        )
        require_close(found, expected, what, "the slow model gives", why)


@task("ex_32.optimized_model")
def test_gradients_are_the_same(stub, seed):
    """For every parameter of the slow model."""
    for nth in range(2):
        call, watched = watched_model(stub, seed + nth)
        for batch in watched["batches"]:
            largest = max(scale for _, _, scale in batch["gradients"])
            for name, difference, scale in batch["gradients"]:
                where = f"{call} on tokens [{batch['batch']}, {batch['tokens']}]"
                assert difference is not None, (
                    f"{where}: no gradient reaches {name} of the slow model; does the module compute "
                    "with copies of its parameters?"
                )
                # Some gradients are zero but for rounding: that of a bias of keys, for one.
                assert difference <= ROUNDING * (scale + 0.1 * largest), (
                    f"{where}: the gradient of {name} is off by {difference:.3g}, where the largest "
                    f"number in it is {scale:.3g}"
                )


@task("ex_32.optimized_model")
def test_slow_model_is_left_as_it_is(stub, seed):
    """Nothing changes parameters, their gradients, a mode, or a batch."""
    call, watched = watched_model(stub, seed)
    assert not watched["changed"], (
        f"{call}, or a forward pass, changed the slow model or the batch: {', '.join(watched['changed'][:3])}"
    )


SIZE = {"vocabulary": 1000, "width": 32, "heads": 8, "layers": 2}
BATCH, TOKENS = 4, 20
# What the head takes, forward and backward, for all tokens but one of each row.
EXTRA_HEAD_FLOPS = 3 * 2 * BATCH * (TOKENS - 1) * SIZE["width"] * SIZE["vocabulary"]


def least_flops(lengths: list[int]) -> int:
    """Operations of the matrix products that no forward and backward pass can do without.

    Tokens that do not count are left out, and so are, in the last layer, all queries but that of the
    last token. A backward pass takes twice what its forward pass takes.
    """
    width, tokens, rows = SIZE["width"], sum(lengths), len(lengths)
    whole = 24 * tokens * width**2 + sum(4 * n * n * width for n in lengths)
    last = 4 * tokens * width**2 + 20 * rows * width**2 + sum(4 * n * width for n in lengths)
    head = 2 * rows * width * SIZE["vocabulary"]
    return 3 * ((SIZE["layers"] - 1) * whole + last + head)


@task("ex_32.optimized_model")
def test_less_work_is_counted(stub, seed):
    """Operators, bytes and operations of a forward and backward pass, as shares of the slow model's."""
    watched = run_once(stub, "work_of_optimized_model", seed, SIZE, BATCH, TOKENS)
    before, after = watched["before"], watched["after"]
    print(f"wall time of the slow model over that of the optimized one: {watched['ratio']:.2f}")
    what = f"optimized_model on tokens [{BATCH}, {TOKENS}], width {SIZE['width']}, forward and backward"
    least = least_flops(watched["lengths"])
    assert after["flops"] >= 0.99 * least, (
        f"{what}: {after['flops']} floating-point operations were counted; the results need at least "
        f"{least}. Is something kept from an earlier call, or computed where it is not counted?"
    )
    for key, most, unit in (
        ("operators", MOST_OPERATORS, "operators"),
        ("bytes", MOST_BYTES, "bytes read and written by operators"),
        ("flops", MOST_FLOPS, "floating-point operations"),
    ):
        share = after[key] / before[key]
        why = ""
        if key == "flops" and after[key] - EXTRA_HEAD_FLOPS <= most * before[key]:
            why = ". For how many tokens is the head computed, and of how many are the scores returned?"
        assert share <= most, (
            f"{what}: {after[key]} {unit}, {100 * share:.0f} % of the slow model's {before[key]}; at "
            f"most {100 * most:.0f} % is asked for{why}"
        )


@task("ex_32.optimized_model")
def test_model_runs_on_a_gpu(stub):
    require_gpu(stub, "optimized_model", "the model and the batch", "SlowModel")


@task("ex_32.optimized_model")
def test_no_number_is_read(stub, seed):
    """The host never waits for the device."""
    read = run_once(stub, "work_of_optimized_model", seed, SIZE, BATCH, TOKENS)["after"]["reads"]
    assert not read, (
        f"optimized_model: {len(read)} times in a forward and backward pass a number is read from the "
        f"device ({', '.join(sorted(set(read)))}); expected never"
    )


# -- live -------------------------------------------------------------------------------------------


def check_claim(function: str, watched: dict[str, Any], smallest: float) -> None:
    """The learner's measurement against the check's own before and after it, and the ratio that is asked for.

    A host that does other work is slower for a while: what the check measured on either side says how much.
    """
    claimed = watched["claimed"]
    assert isinstance(claimed, dict) and set(claimed) == {"before_ns", "after_ns", "ratio"}, (
        f"{function} returned {claimed!r}; expected before_ns, after_ns and ratio"
    )
    found = {}
    for name in ("before_ns", "after_ns"):
        least, most = sorted(measured[name] for measured in watched["found"])
        assert least / CLAIM_SPREAD <= claimed[name] <= most * CLAIM_SPREAD, (
            f"{function}: {name} is {claimed[name]:.0f}; the check measured {least:.0f} to {most:.0f} ns a call"
        )
        found[name] = least
    assert math.isclose(claimed["ratio"], claimed["before_ns"] / claimed["after_ns"], rel_tol=1e-6)
    ratio = found["before_ns"] / found["after_ns"]
    print(f"{function}: ratio {ratio:.2f}")
    assert ratio >= smallest, (
        f"{function}: before {found['before_ns']:.0f} ns, after {found['after_ns']:.0f} ns a call, a "
        f"ratio of {ratio:.2f}; at least {smallest} is asked for"
    )


@task("ex_32.capture_step_live")
def test_graph_on_this_gpu(stub, seed):
    """A step of 120 small kernels: right on a fresh input, and faster in a graph."""
    watched = stub.probe(PROBE, "check_of_capture_step_live", seed)
    assert watched["error"] <= 1e-3 * watched["scale"], (
        f"capture_step(torch.cuda, …): a replay is off by {watched['error']:.3g}, where the largest "
        f"number is {watched['scale']:.3g}"
    )
    check_claim("capture_step_live", watched, SMALLEST_GRAPH_RATIO)


@task("ex_32.capture_step_live")
@pytest.mark.parametrize("kind", ["statistics", "training"])
def test_state_on_this_gpu(stub, seed, kind):
    """A step that changes tensors, captured on the GPU: results and state as without a graph."""
    watched = stub.probe(PROBE, "check_of_capture_step", seed, kind, 5, 6, 3, True)
    for result in watched["results"]:
        assert close(result["found"], result["expected"], 1e-3), (
            f"capture_step(torch.cuda, …), a step of kind {kind}: {shown(result['found'])}; expected "
            f"{shown(result['expected'])}"
        )
    for found, expected in zip(watched["state_in_the_end"], watched["state_expected"], strict=True):
        assert close(found, expected, 1e-3), (
            f"capture_step(torch.cuda, …), a step of kind {kind}: in the end the state is "
            f"{shown(found)}; expected {shown(expected)}"
        )


@task("ex_32.optimized_model_live")
def test_model_on_this_gpu(stub, seed):
    """Same scores and gradients on the GPU, and faster."""
    watched = stub.probe(PROBE, "check_of_optimized_model_live", seed)
    assert watched["error"] <= 2e-3 * watched["scale"], (
        f"optimized_model on the GPU: scores are off by {watched['error']:.3g}, where the largest is "
        f"{watched['scale']:.3g}"
    )
    check_claim("optimized_model_live", watched, SMALLEST_MODEL_RATIO)
