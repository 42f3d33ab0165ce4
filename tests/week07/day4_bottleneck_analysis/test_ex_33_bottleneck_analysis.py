"""Checks of `ex_33`: costs, roofs, predictions, and what they say about recorded and made-up kernels.

Expected costs come from a machine that runs each kernel step by step and counts
(`grading.checks.counting`, itself held against torch's own counter); times from datasheet peaks by
hand; rows of captures are computed here from the file. A wrong answer is compared with what typical
mistakes give, so that the message can say what it contradicts.
"""

from __future__ import annotations

import json
import math
import random
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from grading.checks import counting, task
from grading.checks.assertions import agree, call_words, near, require, show
from grading.checks.fixtures import MOST_SEED, SEED_VARIABLE, recordings
from grading.runner.scoring import NotGraded
from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError, LabError
from profiling_lab.findings import Finding, problems

# (what a typical mistake gives, the sentence to say then)
Mistakes = Iterable[tuple[Any, str]]

# -- words ----------------------------------------------------------------------------------------


def judge(call: str, got: Any, want: Any, unit: str, why: str, mistakes: Mistakes = ()) -> None:
    """Fail unless got is want, with the sentence of the mistake that gives the same value."""
    if agree(got, want):
        return
    for value, sentence in mistakes:
        if agree(got, value):
            why = sentence
            break
    pytest.fail(f"{call} returned {show(got)}, expected {show(want)} ({unit}). {why}", False)


def whole_words(name: str, *args: Any, **named: Any) -> str:
    """As `call_words`, but with whole values, so that the case can be computed again."""
    words = [show(value) for value in args]
    return f"{name}({', '.join([*words, *(f'{key}={show(v)}' for key, v in named.items())])})"


def value_of(call: str, got: Any, key: str) -> Any:
    """One value of a returned dict."""
    if not isinstance(got, dict) or key not in got:
        pytest.fail(f"{call} returned {show(got)}, expected a dict with {key!r}", False)
    return got[key]


def verdicts_of(call: str, got: Any) -> list[Any]:
    """The verdicts of returned rows."""
    if not isinstance(got, list):
        pytest.fail(f"{call} returned {show(got)}, expected a list of rows", False)
    return [value_of(call, row, "verdict") for row in got]


# The units of values whose names do not end in `_ns`.
UNITS_OF_KEYS = {
    "flops": "operations",
    "bytes": "bytes",
    "intensity": "operations per byte",
    "rate_flops_per_s": "operations per second",
    "tokens_per_s": "tokens per second",
    "roof_ratio": "a share",
    **dict.fromkeys(("saved_ratio", "margin_ratio"), "share of the window"),
}


def judge_keys(call: str, got: Any, want: dict[str, Any], why: Callable[..., str]) -> None:
    """Fail unless got is the dict want; why(key, value) says more about the first wrong value."""
    if not isinstance(got, dict) or got.keys() != want.keys():
        keys = sorted(got) if isinstance(got, dict) else type(got).__name__
        pytest.fail(f"{call} returned {show(keys)}, expected a dict of: {', '.join(want)}", False)
    for key, value in want.items():
        if not agree(got[key], value):
            unit = UNITS_OF_KEYS.get(key, "ns" if key.endswith("_ns") else "")
            pytest.fail(
                f"{call}: {key} is {show(got[key])}, expected {show(value)}{f' ({unit})' if unit else ''}. "
                f"{why(key, got[key])}",
                False,
            )


def judge_rows(
    call: str,
    got: Any,
    want: list[dict[str, Any]],
    units: str,
    why: Callable[[str], str],
    variants: Iterable[tuple[list[dict[str, Any]], str]] = (),
    seed: int | None = None,
) -> None:
    """Fail unless got are the rows want; a variant that has the same wrong value tells the mistake."""
    repeat = (
        "" if seed is None else f" (generated; {SEED_VARIABLE}={seed % (MOST_SEED + 1)} repeats it)"
    )
    if not isinstance(got, list) or not all(isinstance(row, dict) for row in got):
        pytest.fail(f"{call} returned {show(got)}, expected a list of dicts{repeat}", False)
    if len(got) != len(want):
        pytest.fail(
            f"{call} returned {len(got)} rows, expected {len(want)}: the file's rows, in its order"
            f"{repeat}",
            False,
        )
    for place, (row, right) in enumerate(zip(got, want, strict=True)):
        label = f"{call}, row {place} ({right['name']})"
        if row.keys() != right.keys():
            pytest.fail(f"{label}: has {sorted(row)}, expected {sorted(right)}", False)
        for key, value in right.items():
            if agree(row[key], value):
                continue
            given = [other.get(key) for other in got]
            columns = [([other[key] for other in rows], text) for rows, text in variants]
            sentence = (
                *(text for column, text in columns if agree(given, column)),
                *(text for column, text in columns if agree(row[key], column[place])),
                why(key),
            )[0]
            pytest.fail(
                f"{label}: {key} is {show(row[key])}, expected {show(value)} ({units}). "
                f"{sentence}{repeat}",
                False,
            )


def refuses_sizes(stub: Any, name: str, good: dict[str, Any], *sizes: str) -> None:
    """Each of the sizes must be a whole number of at least 1."""
    call = getattr(stub, name)
    for size in sizes:
        for bad in (0, -3, 2.5):
            with stub.raises(ValueError, why=f"{size} is {bad}, and no tensor has such a size"):
                call(**(good | {size: bad}))


def refuses_names(stub: Any, name: str, good: dict[str, Any], *which: str) -> None:
    """An unknown data type or device is named, with those that are known."""
    call = getattr(stub, name)
    for argument, known in (("dtype", "bfloat16"), ("device", "H200")):
        if argument in which:
            with stub.raises(LabError, known, why=f"there is no such {argument}"):
                call(**(good | {argument: "float17"}))


DTYPES = ("float32", "bf16", "fp8", "double", "tf32")
ODD_DTYPES = ("fp8", "double")  # whose elements have neither 2 nor 4 bytes


def bytes_of(dtype: str) -> int:
    """Bytes of an element."""
    return {"float32": 4, "tf32": 4, "bf16": 2, "fp8": 1, "double": 8}[dtype]


def primes(pick: random.Random, count: int) -> list[int]:
    """Different small sizes, so that swapped ones show."""
    return pick.sample([2, 3, 5, 7, 11], count)


def judge_cost(
    stub: Any,
    name: str,
    arguments: dict[str, Any],
    dtype: str,
    machine: counting.Machine,
    mistakes: Callable[[int, int], Iterable[tuple[str, int, str]]],
) -> None:
    """Hold a cost against the counting machine.

    mistakes(flops, elements) gives (key, wrong value in operations or elements, sentence).
    """
    got = getattr(stub, name)(**arguments, dtype=dtype)
    call = call_words(name, **arguments, dtype=dtype)
    size = bytes_of(dtype)
    each = f"{size} byte{'s' * (size > 1)}"
    want = {"flops": machine.flops, "bytes": machine.elements * size}

    def why(key: str, value: Any) -> str:
        for wrong_key, wrong, sentence in mistakes(machine.flops, machine.elements):
            if wrong_key == key and value == (wrong if key == "flops" else wrong * size):
                return sentence
        if key == "bytes" and value == machine.elements * 4:
            return f"An element of {dtype} has {each} in memory, not 4."
        return (
            "Counted step by step on paper, it takes this many operations."
            if key == "flops"
            else f"Counted step by step, it moves {machine.elements} elements of {each}."
        )

    for key, value in want.items():
        if isinstance(got, dict) and type(got.get(key)) is float and got[key] == value:
            pytest.fail(
                f"{call}: {key} is {got[key]!r}, a float; the contract says an integer (use //)",
                False,
            )
    judge_keys(call, got, want, why)


# -- bad input ---------------------------------------------------------------------------------------


@task("ex_33.refuses_bad_input")
@pytest.mark.parametrize("bad", [0, -3, 2.5, 2.0, "3", None, True])
def test_what_is_no_size_is_refused(stub: Any, bad: Any) -> None:
    good = dict.fromkeys(("rows", "width", "layers", "heads", "hidden", "batch"), 4)
    for name in good:
        sizes = good | {name: bad}
        with stub.raises(ValueError, name, why=f"{name} is {bad!r}, and no tensor has such a size"):
            stub.refuses_bad_input(**sizes)
        with stub.raises(
            ValueError,
            repr(bad),
            why=f"{name} is {bad!r}, and the message shows it as repr writes it",
        ):
            stub.refuses_bad_input(**sizes)


@task("ex_33.refuses_bad_input")
def test_sizes_are_taken(stub: Any, seed: int) -> None:
    sizes = {f"size_{number}": random.Random(seed).randint(1, 10**9) for number in range(4)}
    got = stub.refuses_bad_input(**sizes, smallest=1)
    require(got is None, f"refuses_bad_input of good sizes returned {show(got)}, expected None")


# -- costs ----------------------------------------------------------------------------------------


@task("ex_33.matmul_cost")
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_product_is_counted(stub: Any, seed: int, dtype: str) -> None:
    m, k, n = primes(random.Random(seed), 3)
    judge_cost(
        stub,
        "matmul_cost",
        {"m": m, "k": k, "n": n},
        dtype,
        counting.matmul(m, k, n),
        lambda flops, elements: [
            (
                "flops",
                flops // 2,
                "A multiply-add is two operations: a multiplication, an addition.",
            ),
            ("bytes", m * k + k * n, "The result is written to memory, too."),
            ("bytes", elements + m * n, "C is only written: nothing of it needs to be read."),
        ],
    )


@task("ex_33.matmul_cost")
@pytest.mark.parametrize("shared_b", [False, True])
def test_a_batch_of_products(stub: Any, seed: int, shared_b: bool) -> None:
    m, k, n, batch = primes(random.Random(seed), 4)
    arguments = {"m": m, "k": k, "n": n, "batch": batch, "shared_b": shared_b}
    others = batch * (m * k + m * n)
    judge_cost(
        stub,
        "matmul_cost",
        arguments,
        "bf16",
        counting.matmul(**arguments),
        lambda flops, elements: [
            ("flops", flops // batch, "There is a product for each entry of the batch."),
            ("bytes", others + batch * k * n, "All products use the same B: it is read once."),
            ("bytes", others + k * n, "Each product has a B of its own, and all are read."),
        ],
    )


# With these other inputs no two typical mistakes give the same number of tensors.
TELLING = [0, 3, 0, 6, 0]


@task("ex_33.elementwise_cost")
@pytest.mark.parametrize("fused", [False, True], ids=["kernels", "fused"])
def test_a_chain_is_counted(stub: Any, seed: int, fused: bool) -> None:
    for extra_inputs in (TELLING, [1, 2, 0], [0], [2], [0, 4], [1, 0, 2, 1]):
        judge_chain(stub, random.Random(seed), extra_inputs, fused)


def judge_chain(stub: Any, pick: random.Random, extra_inputs: list[int], fused: bool) -> None:
    """A chain against the machine; of TELLING, with the mistakes that fit it."""
    # One of the chains is always of elements that are neither 2 nor 4 bytes long.
    dtype = pick.choice(ODD_DTYPES if extra_inputs == [2] else DTYPES)
    count = pick.randint(5, 40)
    arguments = {"element_count": count, "extra_inputs": extra_inputs, "fused": fused}
    steps, extra = len(extra_inputs), sum(extra_inputs)
    at_most_one = sum(map(bool, extra_inputs))
    between = "Each operation is a kernel here: it writes its result, and the next one reads it."
    several = "An operation may read several other tensors: its entry says how many."
    inside = "In one kernel the results between two operations never go to memory."
    again = (
        inside if fused else "An intermediate tensor is read again by the operation that uses it."
    )
    tensors = [
        (extra + 2, between),
        (2 * steps, "An operation also reads its other inputs."),
        (2, "An operation also reads its other inputs."),
        (2 * (1 if fused else steps) + at_most_one, several),
        (1 + extra + steps, again),
        (extra + steps, again),
        (2 * steps + extra, inside),
    ]
    judge_cost(
        stub,
        "elementwise_cost",
        arguments,
        dtype,
        counting.elementwise(count, extra_inputs, fused),
        lambda flops, elements: [
            ("flops", count, "Fusing saves traffic, not operations: every one is still done."),
            *(
                ("bytes", count * number, sentence)
                for number, sentence in tensors
                if extra_inputs == TELLING
            ),
        ],
    )


def judge_defaults(stub: Any, name: str, given: dict[str, Any], defaults: dict[str, Any]) -> None:
    """What is not said is as the signature says."""
    short = getattr(stub, name)(**given)
    full = getattr(stub, name)(**given, **defaults)
    said = ", ".join(f"{key}={value!r}" for key, value in defaults.items())
    judge(call_words(name, **given), short, full, "operations, bytes", f"Left out means {said}.")


@task("ex_33.matmul_cost")
def test_a_product_by_default(stub: Any) -> None:
    given = {"m": 2, "k": 3, "n": 5, "dtype": "bf16"}
    judge_defaults(stub, "matmul_cost", given | {"batch": 3}, {"shared_b": False})
    judge_defaults(stub, "matmul_cost", given, {"batch": 1})


@task("ex_33.elementwise_cost")
def test_a_chain_by_default(stub: Any) -> None:
    given = {"element_count": 8, "extra_inputs": [1, 0], "dtype": "bf16"}
    judge_defaults(stub, "elementwise_cost", given, {"fused": False})


@task("ex_33.layer_norm_cost")
def test_a_layer_norm_by_default(stub: Any) -> None:
    judge_defaults(
        stub, "layer_norm_cost", {"rows": 3, "width": 5, "dtype": "bf16"}, {"affine": True}
    )


@task("ex_33.roofline_points")  # whose costs use the given function
def test_a_softmax_by_default(stub: Any) -> None:
    judge_defaults(stub, "softmax_cost", {"rows": 3, "width": 5, "dtype": "bf16"}, {"fused": True})


@task("ex_33.layer_norm_cost")
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_a_layer_norm_is_counted(stub: Any, seed: int, affine: bool, dtype: str) -> None:
    rows, width = primes(random.Random(seed), 2)
    area = rows * width
    judge_cost(
        stub,
        "layer_norm_cost",
        {"rows": rows, "width": width, "affine": affine},
        dtype,
        counting.layer_norm(rows, width, affine),
        lambda flops, elements: [
            ("flops", 10 * area, "Ten operations an element is a guess: count the steps."),
            ("flops", (7 if affine else 5) * area, "A row has operations of its own as well."),
            ("flops", flops + (-2 if affine else 2) * area, "Weight and bias only with affine."),
            (
                "bytes",
                2 * area + 2 * area,
                "Weight and bias are the same for all rows: each is read once.",
            ),
            ("bytes", 2 * area, "Weight and bias are read as well."),
            ("bytes", 2 * area + 2 * width, "Without affine there is no weight and no bias."),
            ("bytes", 3 * area, "In one kernel the input is read once."),
        ],
    )


@task("ex_33.layer_norm_cost")
def test_layer_norms_that_do_not_exist(stub: Any) -> None:
    good = {"rows": 3, "width": 5, "dtype": "bf16"}
    refuses_sizes(stub, "layer_norm_cost", good, "rows", "width")
    refuses_names(stub, "layer_norm_cost", good, "dtype")


@task("ex_33.roofline_points")  # whose costs use the given function
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "bf16"])
def test_the_given_softmax_is_counted(stub: Any, seed: int, fused: bool, dtype: str) -> None:
    rows, width = primes(random.Random(seed), 2)
    judge_cost(
        stub,
        "softmax_cost",
        {"rows": rows, "width": width, "fused": fused},
        dtype,
        counting.softmax(rows, width, fused),
        lambda flops, elements: [],
    )


@task("ex_33.attention_cost")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("causal", [False, True])
def test_attention_is_counted(stub: Any, seed: int, fused: bool, causal: bool) -> None:
    pick = random.Random(seed)
    batch, heads, queries, head_dim = primes(pick, 4)
    for keys in (queries, queries + pick.randint(2, 5)):
        full = queries * keys
        arguments = {
            "batch": batch,
            "heads": heads,
            "query_tokens": queries,
            "key_tokens": keys,
            "head_dim": head_dim,
            "causal": causal,
            "fused": fused,
        }
        judge_attention(stub, arguments, heads, full)


def judge_attention(stub: Any, arguments: dict[str, Any], kv_heads: int, full: int) -> None:
    """Attention against the machine, with the mistakes that fit these arguments."""
    batch, heads, head_dim = arguments["batch"], arguments["heads"], arguments["head_dim"]
    queries, keys = arguments["query_tokens"], arguments["key_tokens"]
    masked = arguments["causal"] and arguments["fused"]
    own = 2 * batch * heads * queries * head_dim
    others = 2 * batch * kv_heads * keys * head_dim
    corner = counting.triangle(min(queries, keys), min(queries, keys))

    def mistakes(flops: int, elements: int) -> list[tuple[str, int, str]]:
        of_pair = 4 * batch * heads * head_dim
        return [
            (
                "flops",
                -1 if masked else flops // 2,
                "There are two products, and a multiply-add is two operations.",
            ),
            (
                "flops",
                flops + batch * heads * queries * (5 * keys - 2),
                "Only the operations of the two products count, not those of the softmax.",
            ),
            (
                "flops",
                flops // heads * kv_heads,
                "Every query head has products of its own, also where heads share keys and values.",
            ),
            (
                "flops",
                of_pair * (queries * ((2 * keys - queries + 1) // 2)) if masked else -1,
                "Multiply before you halve: // drops the half of an odd number.",
            ),
            (
                "flops",
                of_pair * full,
                "A fused kernel does not compute the pairs that the mask excludes.",
            ),
            (
                "flops",
                of_pair * corner if masked else -1,
                "The queries are the last tokens: even the first of them sees older keys.",
            ),
            (
                "flops",
                of_pair * (full - queries * (queries + 1) // 2),
                "A query sees its own key: the excluded triangle has no diagonal."
                if masked
                else "Without a fused kernel masked pairs are computed like all others.",
            ),
            (
                "flops",
                of_pair * full // 2,
                "The mask excludes less than half: a query sees its own key."
                if masked
                else "Without a fused kernel masked pairs are computed like all others.",
            ),
            (
                "flops",
                of_pair * (full // 2),
                "The mask excludes less than half: a query sees its own key."
                if masked
                else "Without a fused kernel masked pairs are computed like all others.",
            ),
            (
                "flops",
                of_pair * counting.triangle(queries, keys),
                "Without a fused kernel masked pairs are computed like all others.",
            ),
            (
                "bytes",
                own + others + 2 * batch * heads * full,
                "Scores and probabilities are both written, and both are read again.",
            ),
            (
                "bytes",
                own + others,
                "Scores and probabilities of every head go to memory between the kernels.",
            ),
            (
                "bytes",
                own + others + 4 * batch * heads * full,
                "In one kernel scores and probabilities never go to memory.",
            ),
            (
                "bytes",
                own + others + 4 * batch * kv_heads * full,
                "Every query head has scores of its own, also where heads share keys and values.",
            ),
            (
                "bytes",
                elements - others + 2 * batch * heads * keys * head_dim,
                "Keys and values have kv_heads heads, shared by the query heads.",
            ),
        ]

    machine = counting.attention(
        batch, heads, queries, keys, head_dim, kv_heads, arguments["causal"], arguments["fused"]
    )
    judge_cost(stub, "attention_cost", arguments, "bf16", machine, mistakes)


@task("ex_33.attention_cost")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("causal", [False, True])
def test_heads_that_share_keys(stub: Any, seed: int, fused: bool, causal: bool) -> None:
    pick = random.Random(seed)
    batch, kv_heads, queries, head_dim = primes(pick, 4)
    arguments = {
        "batch": batch,
        "heads": 3 * kv_heads,
        "query_tokens": queries,
        "key_tokens": queries + 2,
        "head_dim": head_dim,
        "kv_heads": kv_heads,
        "causal": causal,
        "fused": fused,
    }
    judge_attention(stub, arguments, kv_heads, queries * (queries + 2))


@task("ex_33.attention_cost")
@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize(("queries", "keys"), [(4, 6), (1, 5)], ids=["even", "decode"])
def test_a_few_last_queries(stub: Any, queries: int, keys: int, fused: bool) -> None:
    sizes = {"batch": 3, "heads": 2, "query_tokens": queries, "key_tokens": keys, "head_dim": 7}
    judge_attention(stub, sizes | {"causal": True, "fused": fused}, 2, queries * keys)


@task("ex_33.attention_cost")
def test_attention_by_default(stub: Any) -> None:
    sizes = ("batch", "heads", "query_tokens", "key_tokens", "head_dim")
    given = dict.fromkeys(sizes, 4) | {"dtype": "bf16"}
    judge_defaults(
        stub, "attention_cost", given, {"kv_heads": None, "causal": False, "fused": True}
    )


CONVOLUTIONS: list[dict[str, Any]] = [
    {"kernel": [3, 3], "padding": [1, 1]},
    {"kernel": [1, 1]},
    {"kernel": [3, 2], "stride": [2, 3], "padding": [0, 1]},
    {"kernel": [2, 3], "dilation": [3, 2]},
    {"kernel": [3, 3], "stride": [2, 1], "groups": 3},
    {"kernel": [5, 4], "padding": [2, 0], "groups": 6},
]


@task("ex_33.conv2d_cost")
@pytest.mark.parametrize("which", range(len(CONVOLUTIONS)))
def test_a_convolution_is_counted(stub: Any, seed: int, which: int) -> None:
    pick = random.Random(seed + which)
    batch = pick.randint(2, 3)
    height, width = pick.sample([8, 9, 10, 11], 2)
    own = CONVOLUTIONS[which]
    arguments = {
        "batch": batch,
        "in_channels": 6,
        "height": height,
        "width": width,
        "out_channels": 12,
        **own,
    }
    full: dict[str, Any] = {
        "stride": (1, 1),
        "padding": (0, 0),
        "dilation": (1, 1),
        "groups": 1,
    } | arguments
    groups = full["groups"]

    def mistakes(flops: int, elements: int) -> list[tuple[str, int, str]]:
        same_size, one_by_one = (
            counting.closed("conv2d", full | change)
            for change in ({"stride": (1, 1)}, {"dilation": (1, 1)})
        )
        weights = 12 * (6 // groups) * own["kernel"][0] * own["kernel"][1]
        by_input = 2 * weights * batch * height * width
        return [
            ("flops", flops * groups, "A filter sees the channels of its group only."),
            (
                "bytes",
                elements + weights * (groups - 1),
                "A filter sees its group's channels only.",
            ),
            ("flops", same_size[0], "With a stride the filter stops at fewer places."),
            ("bytes", same_size[1], "With a stride the filter stops at fewer places."),
            ("flops", one_by_one[0], "Dilation spreads the filter, so it fits at fewer places."),
            ("flops", by_input, "Count the elements of the result, not of the input."),
            ("flops", flops // 2, "A multiply-add is two operations."),
        ]

    judge_cost(stub, "conv2d_cost", arguments, "bf16", counting.conv2d(**full), mistakes)


@task("ex_33.conv2d_cost")
def test_convolutions_that_do_not_exist(stub: Any) -> None:
    sizes = ("batch", "in_channels", "height", "width", "out_channels", "groups")
    good: dict[str, Any] = {**dict.fromkeys(sizes, 4), "kernel": [3, 3], "dtype": "bf16"}
    refuses_sizes(stub, "conv2d_cost", good, *sizes)
    refuses_names(stub, "conv2d_cost", good, "dtype")
    for change, why in (
        ({"kernel": [0, 3]}, "a filter of no rows sees nothing"),
        ({"kernel": [3, -1]}, "a filter of -1 columns sees nothing"),
        ({"stride": [1, 0]}, "with a step of 0 the filter never moves"),
        ({"stride": [0, 1]}, "with a step of 0 the filter never moves"),
        ({"dilation": [0, 1]}, "dilation counts from 1"),
        ({"dilation": [1, 0]}, "dilation counts from 1"),
        ({"padding": [-1, 0]}, "there is no negative padding"),
        ({"padding": [0, -1]}, "there is no negative padding"),
        ({"padding": [-1, 0], "kernel": [1, 1]}, "there is no negative padding"),
        ({"padding": [0, -1], "kernel": [1, 1]}, "there is no negative padding"),
        ({"padding": [0.5, 0], "kernel": [1, 1]}, "there is no half an element of padding"),
        ({"in_channels": 3, "groups": 2}, "3 channels do not split into 2 groups"),
        ({"out_channels": 3, "groups": 2}, "3 channels do not split into 2 groups"),
        ({"kernel": [5, 3]}, "a filter of 5 rows does not fit an input of 4"),
        ({"kernel": [3, 5]}, "a filter of 5 columns does not fit an input of 4"),
    ):
        with stub.raises(ValueError, why=why):
            stub.conv2d_cost(**(good | change))
    exact = stub.conv2d_cost(**(good | {"kernel": [4, 4], "groups": 1}))
    want = {"flops": 2 * 4 * 4 * 4 * 16, "bytes": 2 * (4**4 + 4**4 + 4 * 4)}
    judge(
        "conv2d_cost of a filter as large as its input",
        exact,
        want,
        "operations and bytes",
        "It fits at one place.",
    )


MODEL = {
    "layers": 2,
    "hidden": 6,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 3,
    "ffn": 5,
    "ffn_matrices": 3,
}


# -- roofs ----------------------------------------------------------------------------------------

# Peaks in operations per second and bandwidth in bytes per second, from the datasheets; a harness
# test of the table itself is elsewhere. Here they are written out, so that a table read at the wrong
# place shows.
PEAKS = {
    ("H200", "bfloat16"): (989e12, 4.8e12),
    ("H200", "tf32"): (495e12, 4.8e12),
    ("NVIDIA H200", "float32"): (66.9e12, 4.8e12),
    ("H100 SXM", "fp16"): (989e12, 3.35e12),
    ("A100 40GB", "half"): (312e12, 1.555e12),
    ("A100 80GB SXM", "fp32"): (19.5e12, 2.039e12),
    ("V100", "float16"): (125e12, 0.9e12),
    ("T4", "float32"): (8.1e12, 0.32e12),
}


def roof_mistakes(device: str, dtype: str) -> Mistakes:
    """What a ridge point comes out as when it is looked up or divided wrongly."""
    peak, bandwidth = PEAKS[device, dtype]
    fp32 = devices.get(device).peak("float32")
    yield fp32 / bandwidth, f"That is the peak of float32; the work is done in {dtype}."
    yield bandwidth / peak, "Operations per byte: peak rate over bandwidth."
    for fixed in (5.0, 20.0, 5, 20):
        yield fixed, "It depends on device and data type: no number holds for all of them."
    for (other, kind), (rate, width) in PEAKS.items():
        yield rate / width, f"That is the ridge point of {other} in {kind}."


@task("ex_33.ridge_point")
@pytest.mark.parametrize(("device", "dtype"), PEAKS)
def test_where_the_roofs_meet(stub: Any, device: str, dtype: str) -> None:
    peak, bandwidth = PEAKS[device, dtype]
    judge(
        call_words("ridge_point", device, dtype),
        stub.ridge_point(device, dtype),
        peak / bandwidth,
        "operations per byte",
        f"{device} does {peak:.4g} operations a second in {dtype} and moves {bandwidth:.4g} bytes.",
        roof_mistakes(device, dtype),
    )


@task("ex_33.ridge_point")
def test_where_other_roofs_meet(stub: Any, seed: int) -> None:
    pairs = [
        (name, kind) for name in devices.names() for kind in devices.get(name).peak_flops_per_s
    ]
    for name, dtype in random.Random(seed).sample(pairs, 12):
        device = devices.get(name)
        peak, bandwidth = device.peak_flops_per_s[dtype], device.memory_bandwidth_bytes_per_s
        judge(
            call_words("ridge_point", name, dtype),
            stub.ridge_point(name, dtype),
            peak / bandwidth,
            "operations per byte",
            f"{name} does {peak:.4g} operations a second in {dtype} and moves {bandwidth:.4g} bytes.",
            (),
        )


@task("ex_33.attainable_rate")
@pytest.mark.parametrize(("device", "dtype"), PEAKS)
def test_the_lower_roof_counts(stub: Any, seed: int, device: str, dtype: str) -> None:
    peak, bandwidth = PEAKS[device, dtype]
    pick = random.Random(seed)
    ridge = peak / bandwidth
    for intensity in (
        ridge * pick.uniform(0.05, 0.9),
        ridge * pick.uniform(1.2, 9),
        0.0,
        math.inf,
    ):
        judge(
            call_words("attainable_rate", intensity, device, dtype),
            stub.attainable_rate(intensity, device, dtype),
            min(peak, intensity * bandwidth),
            "operations per second",
            f"The roofs: {peak:.4g} operations a second, and {bandwidth:.4g} bytes a second.",
            [
                (intensity * bandwidth, "No more operations are done than the peak rate allows."),
                (peak, "With so few operations per byte the memory roof is the lower one."),
                (
                    min(devices.get(device).peak("float32"), intensity * bandwidth),
                    f"The peak is that of {dtype}.",
                ),
            ],
        )


@task("ex_33.attainable_rate")
def test_intensities_that_do_not_exist(stub: Any) -> None:
    for bad, why in ((-1.0, "intensity is negative"), (math.nan, "NaN is no intensity")):
        with stub.raises(ValueError, why=why):
            stub.attainable_rate(bad, "H200", "bf16")
    good = {"intensity": 3.0, "device": "H200", "dtype": "bf16"}
    refuses_names(stub, "attainable_rate", good, "device", "dtype")


def floor_ns(cost: dict[str, Any], device: str, dtype: str) -> tuple[float, float]:
    """The least times of the bytes and of the operations, in ns."""
    found = devices.get(device)
    rate = found.peak_flops_per_s[devices.dtype(dtype).name]
    return (
        1e9 * cost["bytes"] / found.memory_bandwidth_bytes_per_s,
        1e9 * cost["flops"] / rate,
    )


def some_costs(pick: random.Random, device: str, dtype: str) -> list[dict[str, int]]:
    """Kernels on both sides of the ridge point."""
    found = devices.get(device)
    rate = found.peak_flops_per_s[devices.dtype(dtype).name]
    costs = []
    for factor in (pick.uniform(0.2, 0.7), pick.uniform(1.5, 4)):
        moved = pick.randint(10**7, 10**9)
        ridge = rate / found.memory_bandwidth_bytes_per_s
        costs.append({"flops": int(moved * ridge * factor), "bytes": moved})
    pick.shuffle(costs)
    return costs


@task("ex_33.predicted_time_ns")
@pytest.mark.parametrize(("device", "dtype"), PEAKS)
def test_the_slower_of_both_counts(stub: Any, seed: int, device: str, dtype: str) -> None:
    for cost in some_costs(random.Random(seed), device, dtype):
        memory, compute = floor_ns(cost, device, dtype)
        judge(
            whole_words("predicted_time_ns", [cost], device, dtype),
            stub.predicted_time_ns([cost], device, dtype),
            max(memory, compute),
            "ns",
            f"The bytes take {memory:.6g} ns, the operations {compute:.6g} ns, side by side.",
            [
                (memory + compute, "Traffic and arithmetic overlap: the longer one is the time."),
                (min(memory, compute), "Both must be done: the longer one is the time."),
                (max(memory, compute) / 1e3, "Times are in ns."),
                (max(memory, compute) / 1e9, "Times are in ns."),
            ],
        )


@task("ex_33.predicted_time_ns")
def test_kernels_run_one_after_the_other(stub: Any, seed: int) -> None:
    device, dtype = "H200", "bf16"
    costs = some_costs(random.Random(seed), device, dtype)
    costs.append({"flops": 0, "bytes": 480_000_000})  # a copy
    times = [max(floor_ns(cost, device, dtype)) for cost in costs]
    merged = {key: sum(cost[key] for cost in costs) for key in ("flops", "bytes")}
    judge(
        whole_words("predicted_time_ns", costs, device, dtype),
        stub.predicted_time_ns(costs, device, dtype),
        sum(times),
        "ns",
        f"They take at least {[round(time) for time in times]} ns, one after the other.",
        [
            (
                max(floor_ns(merged, device, dtype)),
                "The bytes of one kernel do not hide behind the operations of another.",
            ),
            (max(times), "The kernels run one after the other, so their times add up."),
        ],
    )


@task("ex_33.predicted_time_ns")
def test_a_kernel_without_bytes(stub: Any) -> None:
    only = stub.predicted_time_ns([{"flops": 989, "bytes": 0}], "H200", "bf16")
    judge(
        "predicted_time_ns of 989 operations and no bytes", only, 0.001, "ns", "It has operations."
    )


# -- measurements -----------------------------------------------------------------------------------


def document_of(capture: str, name: str = "measurements.json") -> dict[str, Any]:
    """A JSON file of a capture, read without the learner's code."""
    return json.loads(captures.text(capture, name))


def quartiles(samples: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median, upper quartile, linear between neighbours."""
    if len(samples) == 1:
        return (samples[0],) * 3
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return low, middle, high


SCALE = {"ns": 1.0, "us": 1e3, "ms": 1e6, "s": 1e9}


def measured_rows(document: dict[str, Any], **flips: Any) -> list[dict[str, Any]]:
    """What read_measurements must give; flips are typical mistakes."""
    scale = flips.get("scale", SCALE.get(document["unit"], 1.0))
    rows = []
    for row in document["measurements"]:
        centre = flips.get("centre", lambda values: quartiles(values)[1])
        spread = flips.get("spread", lambda values: quartiles(values)[2] - quartiles(values)[0])
        host = row.get("host_time")
        rows.append(
            {
                "name": row["name"],
                "op": row["op"],
                "arguments": row["arguments"],
                "dtype": devices.dtype(row["dtype"]).name,
                "cache": row["cache"],
                "device_ns": centre(row["device_time"]) * scale,
                "device_iqr_ns": spread(row["device_time"]) * scale,
                "host_ns": flips.get("no_host") if not host else centre(host) * scale,
                "sample_count": len(row["device_time"]),
            }
        )
    return rows


def measured_variants(document: dict[str, Any]) -> list[tuple[list[dict[str, Any]], str]]:
    """Typical mistakes in reading, as rows."""
    return [
        (
            measured_rows(document, centre=statistics.fmean),
            "That is the mean, which one slow sample can change; expected the median.",
        ),
        (measured_rows(document, centre=min), "That is the fastest sample, not the median."),
        (
            measured_rows(document, centre=lambda values: sorted(values)[len(values) // 2]),
            "The median of an even number of samples is the mean of the two in the middle.",
        ),
        (
            measured_rows(document, scale=1.0),
            f"The file gives its times in {document.get('unit')}; the result is in ns.",
        ),
        (
            measured_rows(document, spread=lambda v: statistics.stdev(v) if len(v) > 1 else 0.0),
            "That is the standard deviation; expected the distance between the quartiles.",
        ),
        (
            measured_rows(document, spread=statistics.pstdev),
            "That is the standard deviation; expected the distance between the quartiles.",
        ),
        (
            measured_rows(document, spread=lambda v: max(v) - min(v)),
            "That is the whole range; expected the distance between the quartiles.",
        ),
        (
            measured_rows(document, no_host=0.0),
            "No host time was measured: that is None, and 0 would say that issuing is free.",
        ),
        (
            measured_rows(document, no_host=0),
            "No host time was measured: that is None, and 0 would say that issuing is free.",
        ),
    ]


SMALL_SHAPES: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"m": 4096, "k": 512, "n": 1024}),
    ("matmul", {"m": 16, "k": 4096, "n": 4096, "batch": 3, "shared_b": True}),
    ("elementwise", {"element_count": 1 << 22, "extra_inputs": [1, 1, 0], "fused": False}),
    ("layer_norm", {"rows": 4096, "width": 1000, "affine": True}),
    ("softmax", {"rows": 2048, "width": 1111, "fused": True}),
    (
        "attention",
        {
            "batch": 2,
            "heads": 8,
            "query_tokens": 512,
            "key_tokens": 512,
            "head_dim": 64,
            "causal": True,
            "fused": True,
        },
    ),
    (
        "conv2d",
        {
            "batch": 4,
            "in_channels": 64,
            "height": 56,
            "width": 56,
            "out_channels": 32,
            "kernel": [3, 3],
            "stride": [2, 2],
            "padding": [1, 1],
        },
    ),
]


def made_up(folder: Path, seed: int, unit: str, device: str = "A100 80GB SXM") -> str:
    """A capture of measurements that nobody saw before; some are impossible. Returns its folder."""
    pick = random.Random(seed)
    rows = []
    shapes = SMALL_SHAPES * 2
    pick.shuffle(shapes)
    for number, (op, given) in enumerate(shapes):
        dtype = pick.choice(["float16", "bf16", "fp32", "tf32"])
        flops, elements = counting.closed(op, given)
        cost = {"flops": flops, "bytes": elements * devices.dtype(dtype).bytes}
        memory, compute = floor_ns(cost, device, dtype)
        low, high = sorted((memory, compute))
        factor = pick.uniform(1.05, 2.5)
        middle = high * factor
        if number % 4 == 1:  # too fast
            middle = (low + high) / 2 if number % 8 == 1 else low * pick.uniform(0.3, 0.8)
        samples = [middle * pick.uniform(0.95, 1.05) for _ in range(pick.randint(7, 12))]
        samples[-1] *= 30 if number % 4 != 1 else 1  # one sample was disturbed
        host = [pick.uniform(2e3, 9e3) for _ in range(4 + number % 2)] if number % 3 else None
        scale = SCALE[unit]
        rows.append(
            {
                "name": f"{op} {number}",
                "op": op,
                "arguments": given,
                "dtype": dtype,
                "cache": pick.choice(["cold", "warm"]),
                "device_time": [sample / scale for sample in samples],
                "host_time": host and [sample / scale for sample in host],
                "note": "a key that a newer program adds",
            }
        )
    return write(folder, {"format": 1, "unit": unit, "device": device, "measurements": rows})


def write(folder: Path, document: Any, name: str = "measurements.json") -> str:
    """A capture of one JSON file; returns the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    text = document if isinstance(document, str) else json.dumps(document)
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder)


def judge_measurements(stub: Any, capture: str, seed: int | None = None) -> None:
    """read_measurements against the file."""
    document = document_of(capture)
    judge_rows(
        call_words("read_measurements", capture),
        stub.read_measurements(capture),
        measured_rows(document),
        "times in ns",
        lambda key: f"It follows from the row's samples alone, in {document['unit']} in the file.",
        measured_variants(document),
        seed,
    )


@task("ex_33.read_measurements")
@recordings("roofline_ops", "roofline_decode", holding="measurements.json")
def test_recorded_samples(stub: Any, recording: str) -> None:
    judge_measurements(stub, recording)


@task("ex_33.read_measurements")
@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s"])
def test_generated_samples(stub: Any, seed: int, tmp_path: Path, unit: str) -> None:
    judge_measurements(stub, made_up(tmp_path / f"made_up_{unit}", seed, unit), seed)


def one_row(**change: Any) -> dict[str, Any]:
    """A file of one good row, changed."""
    row = {
        "name": "the row",
        "op": "matmul",
        "arguments": {"m": 2, "k": 3, "n": 4},
        "dtype": "bf16",
        "cache": "cold",
        "device_time": [5.0, 6.0, 9.0],
        "host_time": [2.0, 4.0],
    }
    return {"format": 1, "unit": "us", "device": "H200", "measurements": [row | change]}


def without(document: dict[str, Any], key: str) -> dict[str, Any]:
    """The file of one row, the row without a key."""
    for row in document["measurements"]:
        del row[key]
    return document


@task("ex_33.read_measurements")
def test_samples_that_say_nothing(stub: Any, tmp_path: Path) -> None:
    rows = [
        ({"device_time": []}, "a row without samples has no median"),
        ({"device_time": None}, "a row without samples has no median"),
        ({"device_time": [5.0, math.nan]}, "NaN is no time"),
        ({"device_time": [5.0, math.inf]}, "an infinite time was not measured"),
        ({"device_time": [5.0, 0.0]}, "no kernel takes 0"),
        ({"device_time": [5.0, -1.0]}, "a negative time was not measured"),
        ({"host_time": [5.0, math.nan]}, "NaN is no time"),
        ({"host_time": [-5.0]}, "a negative time was not measured"),
        ({"host_time": []}, "host_time has no samples"),
        ({"device_time": [5.0, "7.0"]}, "text is no number"),
        ({"device_time": [5.0, "fast"]}, "text is no number"),
        ({"device_time": [5.0, None]}, "a missing sample is no time"),
    ]
    for number, (change, why) in enumerate(rows):
        capture = write(tmp_path / f"row_{number}", one_row(**change))
        with stub.raises(CaptureError, "the row", why=why):
            stub.read_measurements(capture)
    for number, (change, why) in enumerate(
        (
            ({"unit": None}, "without a unit a number is no time"),
            ({"unit": "minutes"}, "the unit is none of the known ones"),
        )
    ):
        document = {key: value for key, value in (one_row() | change).items() if value is not None}
        with stub.raises(CaptureError, "us", why=why):
            stub.read_measurements(write(tmp_path / f"unit_{number}", document))
    text = json.dumps(one_row())
    for number, (content, why) in enumerate(
        (
            (text[: len(text) // 2], "the file is cut off"),
            (json.dumps(one_row() | {"format": 2}), "the format is a newer one"),
            ("[]", "the file is of another kind"),
            (json.dumps(one_row() | {"device": None}), "the file names no device"),
            (json.dumps(one_row() | {"measurements": None}), "the file holds no list of rows"),
            *(
                (json.dumps(without(one_row(), key)), f"the row has no {key}")
                for key in ("name", "op", "arguments", "dtype")
            ),
        )
    ):
        with stub.raises(CaptureError, why=why):
            stub.read_measurements(write(tmp_path / f"file_{number}", content))


@task("ex_33.read_measurements")
def test_a_single_sample(stub: Any, tmp_path: Path) -> None:
    document = one_row(device_time=[7.0])
    del document["measurements"][0]["host_time"]
    capture = write(tmp_path / "single", document)
    judge_measurements(stub, capture)


# -- prediction and measurement ---------------------------------------------------------------------


def predicted_rows(document: dict[str, Any], **flips: Any) -> list[dict[str, Any]]:
    """What prediction_error must give; flips are typical mistakes."""
    rows = []
    device = flips.get("device", document["device"])
    for row in measured_rows(document):
        flops, elements = counting.closed(row["op"], row["arguments"])
        size = flips.get("size", devices.dtype(row["dtype"]).bytes)
        cost = {"flops": flops, "bytes": elements * size}
        measured = row["device_ns"]
        found: dict[str, Any] = dict.fromkeys(("predicted_ns", "error_ratio", "verdict"))
        if row["dtype"] in devices.get(device).peak_flops_per_s:
            memory, compute = floor_ns(cost, device, row["dtype"])
            predicted = max(memory, compute)
            verdict = "holds"
            if measured < predicted:
                verdict = "memory_floor_broken" if measured >= compute else "compute_floor_broken"
            found = {
                "predicted_ns": predicted,
                "error_ratio": flips.get("error", lambda p, m: m / p - 1)(predicted, measured),
                "verdict": flips.get("verdict", lambda right: right)(verdict),
            }
        rows.append({"name": row["name"], "measured_ns": measured, **found})
    return rows


def judge_prediction(stub: Any, capture: str, seed: int | None = None) -> None:
    """prediction_error against the file."""
    document = document_of(capture)
    share = "The error is a share of the prediction."
    variants = [
        (predicted_rows(document, error=lambda p, m: p / m - 1), share),
        (predicted_rows(document, error=lambda p, m: 1 - p / m), share),
        (
            predicted_rows(document, error=lambda p, m: 1 - m / p),
            "The sign: positive where the measurement is longer than the prediction.",
        ),
        (
            predicted_rows(document, error=lambda p, m: abs(m / p - 1)),
            "The sign matters: a measurement below the floor says that an assumption is wrong.",
        ),
        (
            predicted_rows(document, error=lambda p, m: max(0.0, m / p - 1)),
            "The sign matters: a measurement below the floor says that an assumption is wrong.",
        ),
        (
            predicted_rows(document, error=lambda p, m: 100 * (m / p - 1)),
            "A ratio, not a percentage.",
        ),
        (predicted_rows(document, size=4), "The row names its data type."),
        (
            predicted_rows(document, verdict=lambda right: "holds"),
            "It was faster than the least time that its cost allows.",
        ),
        (
            predicted_rows(
                document,
                verdict=lambda right: right if right == "holds" else "memory_floor_broken",
            ),
            "It was faster than its operations allow: no cache explains that.",
        ),
        (
            predicted_rows(
                document,
                verdict=lambda right: right if right == "holds" else "compute_floor_broken",
            ),
            "The time is enough for its operations, but not for its bytes.",
        ),
    ]
    judge_rows(
        call_words("prediction_error", capture),
        stub.prediction_error(capture),
        predicted_rows(document),
        "times in ns, the error as a ratio",
        lambda key: f"It was measured on {document['device']}; the cost is that of the row.",
        variants,
        seed,
    )


@task("ex_33.prediction_error")
@recordings("roofline_ops", "roofline_decode", holding="measurements.json")
def test_recorded_against_predicted(stub: Any, recording: str, own_recording: bool) -> None:
    if own_recording and training_rows(document_of(recording)):
        raise NotGraded("not run", "a training step has no cost function here")
    judge_prediction(stub, recording)


@task("ex_33.prediction_error")
@pytest.mark.parametrize("device", ["A100 80GB SXM", "H100 SXM"])
def test_generated_against_predicted(stub: Any, seed: int, tmp_path: Path, device: str) -> None:
    judge_prediction(stub, made_up(tmp_path / "made_up", seed, "us", device), seed)


@task("ex_33.prediction_error")
def test_exactly_on_the_floor(stub: Any, tmp_path: Path) -> None:
    # 2,400,000 elements of 2 bytes on an H200: 4.8 MB take 1 µs.
    given = {"element_count": 1_200_000, "extra_inputs": [0], "fused": True}
    rows = []
    for name, time_ns in (("on the floor", 1000.0), ("below", 999.0)):
        row = one_row(
            name=name, op="elementwise", arguments=given, device_time=[time_ns], host_time=None
        )["measurements"][0]
        rows.append(row)
    document = {"format": 1, "unit": "ns", "device": "H200", "measurements": rows}
    capture = write(tmp_path / "floor", document)
    got = stub.prediction_error(capture)
    verdicts = verdicts_of("prediction_error", got)
    require(
        verdicts == ["holds", "memory_floor_broken"],
        f"prediction_error: 4.8 MB on an H200, measured as 1,000 ns and as 999 ns, gave {verdicts}; "
        "expected 'holds' and 'memory_floor_broken': its bytes take 1,000 ns",
    )


@task("ex_33.prediction_error")
def test_as_fast_as_its_operations(stub: Any, tmp_path: Path) -> None:
    # 989,000,000 operations take 1,000 ns on an H200 in bfloat16; their bytes take much longer.
    given = {"element_count": 989_000_000, "extra_inputs": [0], "fused": True}
    rows = []
    for time_ns in (1000.0, 999.99999999, 999.9):
        change = {"name": str(time_ns), "op": "elementwise", "arguments": given}
        rows += one_row(**change, device_time=[time_ns], host_time=None)["measurements"]
    document = {"format": 1, "unit": "ns", "device": "H200", "measurements": rows}
    got = stub.prediction_error(write(tmp_path / "operations", document))
    verdicts = verdicts_of("prediction_error", got)
    want = ["memory_floor_broken", "compute_floor_broken", "compute_floor_broken"]
    require(
        verdicts == want,
        "prediction_error: operations that take 1,000 ns at least, measured as 1,000 ns and a little "
        f"less, gave {verdicts}, expected {want}: what is as long as the operations take is not shorter",
    )


@task("ex_33.prediction_error")
def test_nothing_to_predict(stub: Any, tmp_path: Path) -> None:
    with stub.raises(CaptureError, "the row", why="there is no cost function for a training step"):
        stub.prediction_error(write(tmp_path / "step", one_row(op="training_step")))
    with stub.raises(CaptureError, why="there are no samples"):
        stub.prediction_error(write(tmp_path / "empty", one_row(device_time=[])))
    with stub.raises(LabError, "H200", why="there is no such device"):
        stub.prediction_error(write(tmp_path / "device", one_row() | {"device": "Voodoo2"}))
    # A T4 has no peak in bfloat16.
    document = one_row() | {"device": "T4"}
    judge_rows(
        "prediction_error of a row in bfloat16 on a T4",
        stub.prediction_error(write(tmp_path / "no_peak", document)),
        predicted_rows(document),
        "times in ns, the error as a ratio",
        lambda key: "The T4 has no peak in bfloat16, so nothing is predicted: None.",
    )


# -- counters -------------------------------------------------------------------------------------

UNITS = {"byte": 1, "Kbyte": 1e3, "Mbyte": 1e6, "Gbyte": 1e9, "inst": 1, "": 1} | {
    short: scale
    for scale, names in (
        (1.0, ("ns", "nsecond")),
        (1e3, ("us", "usecond")),
        (1e6, ("ms", "msecond")),
        (1e9, ("s", "second")),
    )
    for short in names
}
EXECUTED = {
    f"smsp__sass_thread_inst_executed_op_{kind}{name}_pred_on.sum": weight
    for kind in "fd"
    for name, weight in (("add", 1), ("mul", 1), ("fma", 2))
}
TENSOR = "sm__inst_executed_pipe_tensor.sum"
CORE = (
    "matmul",
    "elementwise",
    "softmax",
    "attention",
)  # the operations with a cost function in the core


def points(document: dict[str, Any], **flips: Any) -> list[dict[str, Any]]:
    """What roofline_points must give; flips are typical mistakes."""
    rows = []
    for row in document["kernels"]:

        def value(metric: str, row: dict[str, Any] = row) -> float | None:
            found = row["metrics"].get(metric)
            if found is None or found["value"] is None or found["value"] != found["value"]:
                return flips.get("missing")
            return found["value"] * (1 if "raw" in flips else UNITS[found["unit"]])

        duration = value("gpu__time_duration.sum")
        ways = [value(f"dram__bytes_{way}.sum") for way in flips.get("ways", ("read", "write"))]
        moved = None if None in ways else sum(way for way in ways if way is not None)
        weights = EXECUTED | {m: flips["fma"] for m in EXECUTED if "fma" in m and "fma" in flips}
        if "kinds" in flips:
            weights = {m: w for m, w in weights.items() if f"op_{flips['kinds']}" in m}
        counted = [value(metric) for metric in weights]
        tensor = value(TENSOR)
        flops: float | None
        if None not in counted and ("blind" in flips or tensor == 0) and "unseen" not in flips:
            flops, source = (
                sum(w * (c or 0) for w, c in zip(weights.values(), counted, strict=True)),
                "counters",
            )
        elif row.get("op") not in CORE or ("incomplete" in flips and None in counted):
            flops, source = None, None
        else:
            flops, source = float(counting.closed(row["op"], row["arguments"])[0]), "analytic"
        rows.append(
            {
                "name": row["name"],
                "flops": None if flops is None else float(flops),
                "flops_source": source,
                "dram_bytes": None if moved is None else float(moved),
                "duration_ns": duration,
                "intensity": flops / moved if flops is not None and moved else None,
                "rate_flops_per_s": flops / duration * 1e9
                if flops is not None and duration
                else None,
            }
        )
    return rows


def judge_points(stub: Any, capture: str, seed: int | None = None) -> None:
    """roofline_points against the file."""
    document = document_of(capture, "counters.json")
    zero = (
        "A counter that is missing is not 0. Without it a known operation's count comes from its cost "
        "function; every other number that needs it is None."
    )
    decides = (
        "Seven counters decide, read with `counter`. If they do not count all, the cost's operations are "
        "taken, and without a cost both values are None."
    )
    variants = [
        (
            points(document, blind=True),
            "These counters see no tensor cores, and the tensor pipe was active, or its counter is missing.",
        ),
        (
            points(document, unseen=True),
            "The counters saw all operations of this kernel: take them, not the cost.",
        ),
        (points(document, fma=1), "A fused multiply-add is two operations."),
        (points(document, raw=True), "Values are in the unit that the file names."),
        (points(document, missing=0.0), zero),
        (points(document, incomplete=True), zero),
        (points(document, ways=("read",)), "Written bytes are traffic as well."),
        (points(document, kinds="f"), "There are counters for float64 as well."),
    ]
    judge_rows(
        call_words("roofline_points", capture),
        stub.roofline_points(capture),
        points(document),
        "operations, bytes, ns, operations per byte or per second",
        lambda key: {
            "rate_flops_per_s": "Durations are in ns, and the rate is per second.",
            "flops": decides,
            "flops_source": decides,
        }.get(key, "It follows from the kernel's metrics, as the file gives them."),
        variants,
        seed,
    )


@task("ex_33.roofline_points")
@recordings("roofline_counters", "roofline_counters_fp16", holding="counters.json")
def test_recorded_counters(stub: Any, recording: str) -> None:
    judge_points(stub, recording)


def made_up_counters(folder: Path, seed: int, nth: int) -> str:
    """A capture of counters that nobody saw before, some missing: absent, None or NaN. Returns its folder."""
    pick = random.Random(seed)
    times = ["ns", "us", "ms", "nsecond", "usecond", "msecond"]
    kernels = []

    def metric(value: float, unit: str) -> dict[str, Any]:
        return {"value": value / UNITS[unit], "unit": unit}

    for number in range(16):
        op, given = pick.choice(SMALL_SHAPES)
        executed = {m: metric(pick.randint(10**5, 10**8), "inst") for m in EXECUTED}
        metrics = {
            "gpu__time_duration.sum": metric(pick.uniform(2e3, 9e5), pick.choice(times)),
            "dram__bytes_read.sum": metric(
                pick.uniform(1e6, 1e9), pick.choice(["byte", "Kbyte", "Mbyte", "Gbyte"])
            ),
            "dram__bytes_write.sum": metric(
                pick.uniform(1e6, 1e9), pick.choice(["byte", "Kbyte", "Mbyte"])
            ),
            TENSOR: metric(pick.choice([0, pick.randint(1000, 10**6)]), "inst"),
            **executed,
        }
        if number < 4:
            metrics[TENSOR]["value"] = 0 if number % 2 else 4096
        if number in (4, 5, 6, 7, 8):
            metrics[TENSOR]["value"] = 0
            gone = [
                "gpu__time_duration.sum",
                pick.choice(list(EXECUTED)),
                "dram__bytes_write.sum",
                "dram__bytes_read.sum",
                TENSOR,
            ][number - 4]
            match (number + nth) % 3:
                case 0:
                    del metrics[gone]
                case 1:
                    metrics[gone]["value"] = None
                case _:
                    metrics[gone]["value"] = math.nan
        if number == 9:
            for way in ("read", "write"):
                metrics[f"dram__bytes_{way}.sum"] = metric(0, "byte")
            metrics["gpu__time_duration.sum"] = metric(0, "ns")
        named = number % 2 == 0 or number in (3, 5, 9)
        kernels.append(
            {
                "name": f"kernel {number}",
                "kernel": f"void kernel_{number}<float>(float *)",
                "op": op if named else None,
                "arguments": given if named else None,
                "dtype": pick.choice(["bf16", "float32"]) if named else None,
                "metrics": metrics,
            }
        )
    document = {"format": 1, "device": "H200", "kernels": kernels}
    return write(folder, document, "counters.json")


@task("ex_33.roofline_points")
@pytest.mark.parametrize("nth", range(3))
def test_generated_counters(stub: Any, seed: int, tmp_path: Path, nth: int) -> None:
    number = seed + nth * (MOST_SEED + 1)
    judge_points(stub, made_up_counters(tmp_path / "made_up", number, nth), seed)


@task("ex_33.roofline_points")
def test_a_kernel_without_operations(stub: Any, tmp_path: Path) -> None:
    metrics: dict[str, Any] = {metric: {"value": 0, "unit": "inst"} for metric in EXECUTED}
    metrics |= {
        TENSOR: {"value": 0, "unit": "inst"},
        "gpu__time_duration.sum": {"value": 5.0, "unit": "us"},
        "dram__bytes_read.sum": {"value": 8.0, "unit": "Mbyte"},
        "dram__bytes_write.sum": {"value": 0, "unit": "byte"},
    }
    row = {"name": "a copy", "op": None, "arguments": None, "dtype": None, "metrics": metrics}
    document = {"format": 1, "device": "H200", "kernels": [row]}
    judge_rows(
        "roofline_points of a copy",
        stub.roofline_points(write(tmp_path / "copy", document, "counters.json")),
        points(document),
        "operations, bytes, ns, operations per byte or per second",
        lambda key: (
            "A counted 0 is a number, not a missing one: a copy does no operations, and nothing was "
            "written."
        ),
    )


@task("ex_33.roofline_points")
def test_counters_that_are_missing(stub: Any, tmp_path: Path) -> None:
    def file(**metrics: Any) -> dict[str, Any]:
        row = {"name": "the kernel", "op": None, "arguments": None, "dtype": None}
        return {"format": 1, "device": "H200", "kernels": [row | {"metrics": metrics}]}

    short = file(**{"gpu__time_duration.sum": {"value": 0.5, "unit": "ns"}})
    judge_rows(
        "roofline_points of a kernel of 0.5 ns",
        stub.roofline_points(write(tmp_path / "short", short, "counters.json")),
        points(short),
        "operations, bytes, ns, operations per byte or per second",
        lambda key: (
            "A time of less than 1 ns is not 0."
            if key == "duration_ns"
            else "The file has no counter for it: it is None, not 0."
        ),
    )
    want = dict.fromkeys(points(file())[0], None) | {"name": "the kernel"}
    judge_rows(
        "roofline_points of a kernel without metrics",
        stub.roofline_points(write(tmp_path / "bare", file(), "counters.json")),
        [want],
        "None",
        lambda key: "Nothing was measured.",
    )


# -- classes --------------------------------------------------------------------------------------


def parts_of(
    cost: dict[str, int], dtype: str, device: str, device_ns: float, host_ns: float | None
) -> dict[str, float]:
    """Window and its parts, in ns."""
    memory, compute = floor_ns(cost, device, dtype)
    roof = max(memory, compute)
    window = device_ns if host_ns is None else max(device_ns, host_ns)
    return {
        "window_ns": window,
        "idle_ns": window - device_ns,
        "above_roof_ns": device_ns - roof,
        "recoverable_ns": window - roof,
    }


def judge_class(
    stub: Any,
    cost: dict[str, int],
    dtype: str,
    device: str,
    device_ns: float,
    host_ns: float | None,
    category: str,
    mistakes: dict[str, str],
) -> None:
    """classify_bound against parts worked out here. mistakes: wrong category to sentence."""
    name = f"op of {cost['bytes']} bytes"
    call = call_words("classify_bound", name, cost, dtype, device, device_ns, host_ns)
    got = stub.classify_bound(name, cost, dtype, device, device_ns, host_ns)
    require(isinstance(got, Finding), f"{call} returned {show(got)}, expected a Finding")
    want = parts_of(cost, dtype, device, device_ns, host_ns)
    memory, compute = floor_ns(cost, dtype=dtype, device=device)
    roof = max(memory, compute)
    parts = sorted((roof, want["above_roof_ns"], want["idle_ns"]))
    margin = (parts[2] - parts[1]) / want["window_ns"]
    shares = (
        f"Of {want['window_ns']:,.1f} ns the roof takes {roof:,.1f}, the device is above it for "
        f"{want['above_roof_ns']:,.1f} and idle for {want['idle_ns']:,.1f}; bytes take "
        f"{memory:,.1f}, operations {compute:,.1f}."
    )
    if device_ns < roof:
        shares += " A device time below the roof makes above_roof_ns negative."
    if host_ns is None:
        shares += " host_ns is None: the device never waits for the host."
    if got.category != category:
        pytest.fail(
            f"{call} says {got.category}, which the evidence contradicts. {shares} "
            f"{mistakes.get(got.category, 'The largest part names the bound.')}",
            False,
        )
    subject = f"kernel:{name}"
    require(got.subject == subject, f"{call}: subject is {got.subject!r}, expected {subject!r}")

    def why(key: str, value: Any) -> str:
        if key == "window_ns":
            return (
                "Host and device work side by side: the window is the longer of both, and the three parts "
                f"add up to it. {shares}"
            )
        if value and any(agree(value, part) for part in parts):
            return (
                f"bound_finding takes the parts in the order roof, above the roof, idle. {shares}"
            )
        return shares

    # A time of 0 may be the difference of two long times, rounded.
    evidence = {
        key: 0.0 if near(value, 0.0, absolute=1e-6) else value
        for key, value in got.evidence.items()
    }
    judge_keys(f"{call}, evidence", evidence, want | {"margin_ratio": margin}, why)
    require(not problems(got), f"{call}: {'; '.join(problems(got))}")
    begins = got.recommendation.startswith("borderline")
    if begins != (margin <= 0.05):
        pytest.fail(
            f"{call}: the recommendation is {got.recommendation!r}, and the margin between the two "
            f"largest parts is {margin:.3f} of the window: {'not ' if begins else ''}borderline",
            False,
        )


@task("ex_33.classify_bound")
@pytest.mark.parametrize(
    ("device", "dtype"), [("H200", "bf16"), ("A100 40GB", "fp32"), ("T4", "half")]
)
def test_each_class_once(stub: Any, seed: int, device: str, dtype: str) -> None:
    pick = random.Random(seed)
    named_by_intensity = "The ridge point of this device and data type decides between the roofs."
    unexplained = "Neither roof explains most of the device's time."
    for cost in some_costs(pick, device, dtype):
        memory, compute = floor_ns(cost, device, dtype)
        roof, bound = max((memory, "memory_bound"), (compute, "compute_bound"))
        both = dict.fromkeys(("memory_bound", "compute_bound"), named_by_intensity)
        far = dict.fromkeys(("memory_bound", "compute_bound"), unexplained)
        near = roof * pick.uniform(1.05, 1.3)
        judge_class(
            stub,
            cost,
            dtype,
            device,
            near,
            roof * 0.5,
            bound,
            both | {"launch_bound": "The device never waits for the host: it is the slower one."},
        )
        judge_class(stub, cost, dtype, device, near, None, bound, both)
        judge_class(stub, cost, dtype, device, roof * pick.uniform(3, 9), roof, "above_roof", far)
        idle = "The device waits for the host most of the time."
        judge_class(
            stub,
            cost,
            dtype,
            device,
            near,
            near + roof * pick.uniform(4, 9),
            "launch_bound",
            dict.fromkeys(("memory_bound", "compute_bound", "above_roof"), idle),
        )


@task("ex_33.classify_bound")
def test_intensity_alone_does_not_tell(stub: Any) -> None:
    ridge = "The ridge point of this device and data type decides between the roofs."
    # 100 operations a byte: far below the ridge point of an H200 in bfloat16, far above a T4's in float32.
    cost = {"flops": 48_000_000_000, "bytes": 480_000_000}
    judge_class(
        stub, cost, "bf16", "H200", 110_000.0, None, "memory_bound", {"compute_bound": ridge}
    )
    judge_class(stub, cost, "fp32", "T4", 6.5e6, None, "compute_bound", {"memory_bound": ridge})
    # 15 operations a byte: above the ridge point of an H200 in float32.
    cost = {"flops": 15 * 480_000_000, "bytes": 480_000_000}
    judge_class(
        stub, cost, "fp32", "H200", 120_000.0, None, "compute_bound", {"memory_bound": ridge}
    )
    judge_class(
        stub, cost, "bf16", "H200", 120_000.0, None, "memory_bound", {"compute_bound": ridge}
    )
    # A copy has no operations, and a kernel that stays on chip no bytes.
    copy = {"flops": 0, "bytes": 480_000_000}
    judge_class(stub, copy, "bf16", "H200", 110_000.0, 5e3, "memory_bound", {})
    on_chip = {"flops": 989_000_000, "bytes": 0}
    judge_class(stub, on_chip, "bf16", "H200", 1_200.0, None, "compute_bound", {})


@task("ex_33.classify_bound")
@pytest.mark.parametrize(
    ("device", "bound"), [("H200", "compute_bound"), ("H100 SXM", "memory_bound")]
)
def test_between_two_ridge_points(stub: Any, device: str, bound: str) -> None:
    # In float16 the ridge point of an H200 is at 206 operations a byte, that of an H100 SXM at 295.
    cost = {"flops": 250 * 480_000_000, "bytes": 480_000_000}
    ridge = "The ridge point of this device and data type decides between the roofs."
    other = {"compute_bound": ridge, "memory_bound": ridge}
    judge_class(stub, cost, "float16", device, 150_000.0, None, bound, other)


@task("ex_33.classify_bound")
def test_equal_parts_and_borders(stub: Any) -> None:
    copy = {"flops": 0, "bytes": 4_800_000}  # 1,000 ns on an H200
    first = "Of equal parts the roof comes first, then the time above it."
    judge_class(stub, copy, "bf16", "H200", 2_000.0, None, "memory_bound", {"above_roof": first})
    judge_class(stub, copy, "bf16", "H200", 2_100.0, None, "above_roof", {})
    judge_class(stub, copy, "bf16", "H200", 2_120.0, None, "above_roof", {})
    judge_class(stub, copy, "bf16", "H200", 2_500.0, 4_000.0, "above_roof", {"launch_bound": first})
    # On the ridge point operations and bytes take the same time: from there on it is compute_bound.
    rate = {"flops": 989 * 10**6, "bytes": 4_800_000}
    tie = {"memory_bound": "The bytes do not take longer: compute_bound."}
    judge_class(stub, rate, "bf16", "H200", 1_100.0, None, "compute_bound", tie)


@task("ex_33.classify_bound")
def test_on_the_roof_and_on_the_border(stub: Any) -> None:
    copy = {"flops": 0, "bytes": 4_800_000}
    roof = stub.predicted_time_ns([copy], "H200", "bf16")
    got = stub.classify_bound("op", copy, "bf16", "H200", roof)
    require(isinstance(got, Finding), f"classify_bound returned {show(got)}, expected a Finding")
    require(
        got.category == "memory_bound" and got.evidence.get("above_roof_ns") == 0,
        f"classify_bound of a copy exactly on the roof ({roof} ns) says {got.category} and "
        f"{got.evidence.get('above_roof_ns')} ns above it, expected memory_bound and 0",
    )
    # Parts of 90, 100 and 10 ns: 10 of 200 are 0.05 exactly, and the difference of their shares is not above it.
    assert (100 - 90) / 200 == 0.05 and 100 / 200 - 90 / 200 <= 0.05
    even = {"flops": 0, "bytes": 90 * 4800}
    judge_class(stub, even, "bf16", "H200", 190.0, 200.0, "above_roof", {})
    tiny = {"flops": 0, "bytes": 480}
    judge_class(stub, tiny, "bf16", "H200", 0.5, 1.0, "launch_bound", {})


@task("ex_33.classify_bound")
def test_below_the_roof(stub: Any) -> None:
    # The bytes of a call whose data is in the cache do not come from memory.
    copy = {"flops": 0, "bytes": 4_800_000}  # 1,000 ns on an H200
    judge_class(stub, copy, "bf16", "H200", 900.0, None, "memory_bound", {})
    judge_class(stub, copy, "bf16", "H200", 900.0, 2_500.0, "launch_bound", {})


FIVE = ["T4", "V100 SXM2", "A100 40GB", "H100 SXM", "H200"]


def product_rows(m: int, k: int, n: int, dtype: str, names: Sequence[str]) -> list[dict[str, Any]]:
    """What class_by_device must give but for rows_to_ridge, which is judged by what it means."""
    flops, elements = counting.closed("matmul", {"m": m, "k": k, "n": n})
    intensity = flops / (elements * devices.dtype(dtype).bytes)
    rows = []
    for name in names:
        found = devices.get(name)
        rate = found.peak_flops_per_s.get(devices.dtype(dtype).name)
        ridge = None if rate is None else rate / found.memory_bandwidth_bytes_per_s
        category = None
        if ridge is not None:
            category = "memory_bound" if intensity < ridge else "compute_bound"
        rows.append(
            {
                "device": found.name,
                "intensity": intensity,
                "ridge": ridge,
                "category": category,
                "name": found.name,
            }
        )
    return rows


def intensity_of(m: int, k: int, n: int, dtype: str) -> float:
    """Operations per byte of a product."""
    flops, elements = counting.closed("matmul", {"m": m, "k": k, "n": n})
    return flops / (elements * devices.dtype(dtype).bytes)


def judge_devices(stub: Any, m: int, k: int, n: int, dtype: str, names: list[str]) -> None:
    """class_by_device against the table, and rows_to_ridge against its definition."""
    call = call_words("class_by_device", m, k, n, dtype, names)
    got = stub.class_by_device(m, k, n, dtype, names)
    want = product_rows(m, k, n, dtype, names)
    if not isinstance(got, list) or not all(
        isinstance(row, dict) and "rows_to_ridge" in row for row in got
    ):
        pytest.fail(
            f"{call} returned {show(got)}, expected a row a device, with rows_to_ridge", False
        )
    stripped = [
        {key: value for key, value in row.items() if key != "rows_to_ridge"}
        | {"name": row.get("device")}
        for row in got
    ]
    judge_rows(
        call,
        stripped,
        want,
        "operations per byte",
        lambda key: (
            f"At {want[0]['intensity']:.4g} operations a byte it is the device's ridge point that "
            "decides."
            if key == "category"
            else "Where a device has no peak for the data type there is nothing to compare with."
        ),
    )
    for row, right in zip(got, want, strict=True):
        rows, ridge = row["rows_to_ridge"], right["ridge"]
        where = f"{call}, {right['device']}: rows_to_ridge is {show(rows)}"
        if ridge is None:
            require(rows is None, f"{where}; without a peak there is no ridge point to reach: None")
            continue
        limit = 2 * k * n / ((k + n) * devices.dtype(dtype).bytes)
        reachable = limit > ridge
        if rows is None or type(rows) is not int or rows < 1:
            require(
                rows is None and not reachable,
                f"{where}; with k = {k} and n = {n} the intensity grows up to {limit:.4g} operations a "
                f"byte, the ridge point is {ridge:.4g}: a whole number of rows reaches it",
            )
            continue
        require(
            reachable,
            f"{where}; however large m is, the intensity stays below {limit:.4g} operations a byte, "
            f"and the ridge point is {ridge:.4g}: None",
        )
        here = intensity_of(rows, k, n, dtype)
        before = intensity_of(rows - 1, k, n, dtype) if rows > 1 else 0.0
        require(
            before < ridge <= here,
            f"{where}; there the intensity is {here:.6g}, one row less gives {before:.6g}, and the "
            f"ridge point is {ridge:.6g} operations a byte; expected the smallest m that reaches it",
        )


@task("ex_33.class_by_device")
@pytest.mark.parametrize("dtype", ["float16", "fp32", "bf16", "tf32"])
def test_the_same_product_on_five_devices(stub: Any, seed: int, dtype: str) -> None:
    pick = random.Random(seed)
    for m in (1, pick.randint(150, 400), 8192):
        judge_devices(stub, m, 4096 + pick.randint(0, 99), 8192, dtype, FIVE)


@task("ex_33.class_by_device")
def test_products_that_never_reach_the_ridge(stub: Any) -> None:
    judge_devices(stub, 5, 64, 128, "fp16", FIVE)
    judge_devices(stub, 100_000, 139, 139, "fp16", ["V100", "NVIDIA T4"])
    judge_devices(stub, 1, 10**6, 10**6, "float8", ["L4", "H200", "T4"])
    # Its own short side keeps it below, not the rows; the second one by a little only.
    judge_devices(stub, 1000, 16, 4096, "fp32", FIVE)
    judge_devices(stub, 1000, 250, 250, "fp16", ["V100"])
    # 8 * 54 * 810 = 405 * (54 + 810): the limit is the ridge point of a T4 itself, never reached.
    judge_devices(stub, 1000, 54, 810, "fp32", ["T4"])


@task("ex_33.class_by_device")
def test_the_ridge_far_out(stub: Any) -> None:
    # 405 * 52 * 1915 / (8 * 52 * 1915 - 405 * (52 + 1915)) = 8,065,980: the limit is above the
    # ridge point by very little, and so many rows do reach it.
    assert 8 * 52 * 1915 - 405 * (52 + 1915) == 5
    judge_devices(stub, 1000, 52, 1915, "fp32", ["T4"])


@task("ex_33.class_by_device")
def test_exactly_the_ridge_points_intensity(stub: Any) -> None:
    # The ridge point of a T4 in float32 is 25.3125 = 405 / 16, and this product has just that.
    flops, elements = counting.closed("matmul", {"m": 23_490, "k": 58, "n": 405})
    assert flops * 16 == elements * 4 * 405
    judge_devices(stub, 23_490, 58, 405, "fp32", ["T4"])


@task("ex_33.class_by_device")
def test_devices_that_are_not_known(stub: Any) -> None:
    with stub.raises(LabError, "H200", why="there is no such device"):
        stub.class_by_device(2, 3, 4, "bf16", ["H200", "Voodoo2"])
    with stub.raises(LabError, "bfloat16", why="there is no such data type"):
        stub.class_by_device(2, 3, 4, "float17", ["H200"])
    with stub.raises(ValueError, why="no device is named"):
        stub.class_by_device(2, 3, 4, "bf16", [])
    good = {"m": 2, "k": 3, "n": 4, "dtype": "bf16", "device_names": ["H200"]}
    refuses_sizes(stub, "class_by_device", good, "m", "k", "n")


# -- training -------------------------------------------------------------------------------------


def training_rows(document: dict[str, Any], **flips: Any) -> list[dict[str, Any]]:
    """What model_flops_utilization must give; flips are typical mistakes."""
    rows = []
    for row in measured_rows(document):
        if row["op"] != "training_step":
            continue
        a = row["arguments"]
        # One matrix that holds all weights counts like all of them; attention is counted sequence by
        # sequence, layer by layer, product by product.
        flops = counting.training_step(
            [(1, a["parameter_count"])], 1, 1, a["batch"], a["sequence"], False
        )
        flops -= counting.training_step([], 1, 1, a["batch"], a["sequence"], False)
        attention = counting.training_step([], 1, a["hidden"], 1, a["sequence"], False)
        attention *= a["layers"] * a["batch"]
        total = flops + attention
        if flips.get("only") == "weights":
            total = flops
        if flips.get("only") == "forward":
            total //= 3
        if flips.get("only") == "half":
            total = flops + attention // 2
        if flips.get("only") == "backward once":
            total = total * 2 // 3
        if "recompute" in flips and a["recompute"]:
            total = total * 4 // 3
        rate = total / row["device_ns"] * 1e9
        device = devices.get(document["device"])
        peak = device.peak_flops_per_s[flips.get("dtype", row["dtype"])]
        again = 4 / 3 if a["recompute"] and "never" not in flips else 1
        rows.append(
            {
                "name": row["name"],
                "model_flops": float(total),
                "rate_flops_per_s": rate,
                "mfu_ratio": rate / peak,
                "hfu_ratio": rate / peak * again,
            }
        )
    return rows


def judge_training(stub: Any, capture: str, seed: int | None = None) -> None:
    """model_flops_utilization against the file."""
    document = document_of(capture)
    variants = [
        (training_rows(document, only="weights"), "Attention has products without weights."),
        (
            training_rows(document, only="forward"),
            "The backward pass does twice the forward's work.",
        ),
        (training_rows(document, only="half"), "Attention is counted without a mask here."),
        (
            training_rows(document, only="backward once"),
            "The backward pass has two products for each of the forward pass.",
        ),
        (
            training_rows(document, recompute=True),
            "The second forward pass is the hardware's work, not the model's.",
        ),
        (
            training_rows(document, never=True),
            "The hardware ran the forward pass a second time, and that took time as well.",
        ),
        (training_rows(document, dtype="float32"), "The step runs in the row's data type."),
    ]
    judge_rows(
        call_words("model_flops_utilization", capture),
        stub.model_flops_utilization(capture),
        training_rows(document),
        "operations, operations per second, ratios",
        lambda key: f"It was measured on {document['device']}.",
        variants,
        seed,
    )


@task("ex_33.model_flops_utilization")
@recordings("roofline_train", "roofline_train_long", holding="measurements.json")
def test_recorded_training(stub: Any, recording: str, own_recording: bool) -> None:
    if own_recording and not training_rows(document_of(recording)):
        raise NotGraded("not run", "the capture holds no training step")
    judge_training(stub, recording)


def made_up_training(folder: Path, seed: int) -> str:
    """A capture of training steps that nobody saw before, with rows of something else between."""
    pick = random.Random(seed)
    rows = []
    for number in range(4):
        hidden, layers = 64 * pick.randint(3, 20), pick.randint(3, 30)
        time_ms = pick.uniform(50, 900)
        rows.append(
            {
                "name": f"step {number}",
                "op": "training_step",
                "arguments": {
                    "parameter_count": 12 * layers * hidden**2 + pick.randint(1, 999),
                    "layers": layers,
                    "hidden": hidden,
                    "batch": pick.randint(2, 9),
                    "sequence": pick.randint(100, 4000),
                    "recompute": number % 2 == 1,
                },
                "dtype": pick.choice(["bf16", "fp16"]),
                "cache": "warm",
                "device_time": [time_ms * pick.uniform(0.98, 1.02) for _ in range(7)],
                "host_time": None,
            }
        )
    pick.shuffle(rows)
    for place in (0, 2, 6):
        rows.insert(place, one_row(name=f"no step {place}")["measurements"][0])
    return write(
        folder, {"format": 1, "unit": "ms", "device": "A100 80GB PCIe", "measurements": rows}
    )


@task("ex_33.model_flops_utilization")
def test_generated_training(stub: Any, seed: int, tmp_path: Path) -> None:
    judge_training(stub, made_up_training(tmp_path / "made_up", seed), seed)


@task("ex_33.model_flops_utilization")
def test_steps_that_do_not_exist(stub: Any, tmp_path: Path) -> None:
    with stub.raises(CaptureError, why="nothing in it is a training step"):
        stub.model_flops_utilization(write(tmp_path / "none", one_row()))
    good: dict[str, Any] = dict.fromkeys(
        ("parameter_count", "layers", "hidden", "batch", "sequence"), 4
    )
    for number, size in enumerate(good):
        for bad in (0, -3):
            document = one_row(op="training_step", arguments=good | {size: bad, "recompute": False})
            capture = write(tmp_path / f"{number}_{bad}", document)
            with stub.raises(ValueError, why=f"{size} is {bad}"):
                stub.model_flops_utilization(capture)
    step = one_row(op="training_step", arguments=good | {"recompute": False})
    with stub.raises(LabError, "float16", why="the T4 has no peak in bfloat16 to take a share of"):
        stub.model_flops_utilization(write(tmp_path / "no_peak", step | {"device": "T4"}))


# -- inference ------------------------------------------------------------------------------------

BLOCK = {
    "layers": 4,
    "hidden": 4096,
    "heads": 32,
    "kv_heads": 8,
    "head_dim": 128,
    "ffn": 14336,
    "ffn_matrices": 3,
}


def pass_of(model: dict[str, int], batch: int, new: int, cached: int, dtype: str) -> dict[str, int]:
    """The cost of a forward pass."""
    given = model | {"batch": batch, "new_tokens": new, "cached_tokens": cached}
    flops, elements = counting.closed("transformer", given)
    return {"flops": flops, "bytes": elements * devices.dtype(dtype).bytes}


@task("ex_33.prefill_decode")
@pytest.mark.parametrize(("device", "dtype"), [("H200", "bf16"), ("V100", "half"), ("L4", "fp8")])
def test_both_phases(stub: Any, seed: int, device: str, dtype: str) -> None:
    pick = random.Random(seed)
    for batch, prompt in ((1, pick.randint(3, 40)), (pick.randint(2, 9), pick.randint(900, 3000))):
        call = whole_words("prefill_decode", BLOCK, batch, prompt, dtype, device)
        got = stub.prefill_decode(BLOCK, batch, prompt, dtype, device)
        if not isinstance(got, dict) or got.keys() != {"prefill", "decode"}:
            pytest.fail(f"{call} returned {show(got)}, expected prefill and decode", False)
        for phase, new, cached in (("prefill", prompt, 0), ("decode", 1, prompt)):
            cost = pass_of(BLOCK, batch, new, cached, dtype)
            memory, compute = floor_ns(cost, device, dtype)
            time_ns = max(memory, compute)
            want = {
                "intensity": cost["flops"] / cost["bytes"],
                "category": "compute_bound" if compute >= memory else "memory_bound",
                "time_ns": time_ns,
                "tokens_per_s": batch * new / time_ns * 1e9,
            }
            fresh = pass_of(BLOCK, batch, 1, 0, dtype)
            short = [pass_of(BLOCK, batch, 1, tokens, dtype) for tokens in (1, prompt - 1)]
            wrong = {
                new / time_ns * 1e9: "All sequences of the batch get their tokens in that time.",
                batch * prompt / time_ns * 1e9: "A decode step makes one new token a sequence.",
                fresh["flops"] / fresh["bytes"]: "While decoding, the prompt is in the cache.",
                **{
                    one["flops"]
                    / one["bytes"]: "While decoding, all of the prompt is in the cache."
                    for one in short
                },
                1e9
                * batch
                * new
                / max(floor_ns(fresh, device, dtype)): "The prompt is in the cache.",
            }
            judge_keys(
                f"{call}, {phase}",
                got[phase],
                want,
                lambda key, value, wrong=wrong, memory=memory, compute=compute: next(
                    (text for number, text in wrong.items() if agree(value, number)),
                    f"The bytes take {memory:.5g} ns, the operations {compute:.5g} ns.",
                ),
            )


@task("ex_33.prefill_decode")
def test_a_phase_on_the_ridge(stub: Any) -> None:
    # The ridge point of a T4 in float32 is 25.3125, which has an exact binary form.
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "ffn_matrices")
    model = dict(zip(names, (2, 44, 2, 1, 4, 31, 2), strict=True))
    cost = pass_of(model, 383_130, 1, 3, "fp32")
    assert cost["flops"] * 16 == cost["bytes"] * 405
    got = stub.prefill_decode(model, 383_130, 3, "fp32", "T4")
    decode = value_of("prefill_decode", got, "decode")
    category = value_of("prefill_decode, decode", decode, "category")
    require(
        category == "compute_bound",
        f"prefill_decode: a decode step of exactly the T4's ridge point in float32, 25.3125 operations "
        f"per byte, is called {category}; it is compute_bound from the ridge point on",
    )


@task("ex_33.decode_ridge_batch")
@pytest.mark.parametrize(
    ("device", "dtype"),
    [("H200", "bf16"), ("A100 40GB", "fp16"), ("T4", "fp32"), ("H100 PCIe", "fp8")],
)
def test_the_batch_that_leaves_the_roof(stub: Any, seed: int, device: str, dtype: str) -> None:
    pick = random.Random(seed)
    found = devices.get(device)
    ridge = found.peak(dtype) / found.memory_bandwidth_bytes_per_s
    size = devices.dtype(dtype).bytes
    for kv_heads in (1, 8, 32):
        for cached in (0, pick.randint(10, 60), pick.randint(2000, 9000)):
            model = BLOCK | {"kv_heads": kv_heads}
            call = whole_words("decode_ridge_batch", model, cached, dtype, device)
            got = stub.decode_ridge_batch(model, cached, dtype, device)
            if not isinstance(got, dict) or got.keys() != {"ridge_batch", "fitting_batch"}:
                pytest.fail(f"{call} returned {show(got)}: ridge_batch and fitting_batch", False)

            def intensity(batch: int, model: dict = model, cached: int = cached) -> float:
                cost = pass_of(model, batch, 1, cached, dtype)
                return cost["flops"] / cost["bytes"]

            batch = got["ridge_batch"]
            limit = intensity(10**12)
            where = f"{call}: ridge_batch is {show(batch)}"
            if batch is None:
                require(
                    limit <= ridge,
                    f"{where}; with growing batches the intensity grows up to {limit:.4g} operations "
                    f"a byte, and the ridge point is {ridge:.4g}: some batch reaches it",
                )
            else:
                require(
                    limit > ridge,
                    f"{where}; however large the batch, the KV cache grows with it and keeps the "
                    f"intensity below {limit:.4g} operations a byte; the ridge point is {ridge:.4g}: None",
                )
                require(
                    type(batch) is int and batch >= 1,
                    f"{call}: ridge_batch is {batch!r}, expected a whole number (int) of at least 1",
                )
                before = intensity(batch - 1) if batch > 1 else 0.0
                require(
                    before < ridge <= intensity(batch),
                    f"{where}; its intensity is {intensity(batch):.6g}, that of one less {before:.6g}, "
                    f"and the ridge point is {ridge:.6g}; expected the smallest that reaches it",
                )
            fitting = got["fitting_batch"]
            require(
                type(fitting) is int,
                f"{call}: fitting_batch is {fitting!r}, expected a whole number (int), 0 if none fits",
            )
            weights = model["layers"] * (
                2 * model["hidden"] * 128 * (32 + kv_heads) + 3 * 4096 * 14336
            )
            a_sequence = 2 * model["layers"] * kv_heads * 128 * (cached + 1) * size
            fits = weights * size + fitting * a_sequence <= found.memory_bytes
            more = weights * size + (fitting + 1) * a_sequence <= found.memory_bytes
            require(
                fits and not more,
                f"{call}: fitting_batch is {show(fitting)}; matrices take {weights * size} bytes, the "
                f"cache of a sequence {a_sequence}, and the device has {found.memory_bytes}",
            )


@task("ex_33.decode_ridge_batch")
def test_exactly_on_the_ridge(stub: Any) -> None:
    # The ridge point of a T4 in float32 is 25.3125, which has an exact binary form.
    names = ("layers", "hidden", "heads", "kv_heads", "head_dim", "ffn", "ffn_matrices")
    model = dict(zip(names, (2, 44, 2, 1, 4, 31, 2), strict=True))
    batch = 383_130
    cost = pass_of(model, batch, 1, 3, "fp32")
    assert cost["flops"] * 16 == cost["bytes"] * 405
    got = stub.decode_ridge_batch(model, 3, "fp32", "T4")
    require(
        value_of("decode_ridge_batch", got, "ridge_batch") == batch,
        f"decode_ridge_batch says {got['ridge_batch']}; a batch of {batch} has exactly the ridge "
        "point's intensity, and that is enough",
    )
    never = dict(zip(names, (3, 10, 4, 1, 10, 9, 3), strict=True))
    got = stub.decode_ridge_batch(never, 0, "fp32", "T4")
    require(
        value_of("decode_ridge_batch", got, "ridge_batch") is None,
        f"decode_ridge_batch says {got['ridge_batch']}; the intensity comes arbitrarily close to the ridge "
        "point, but no batch reaches it: None",
    )


@task("ex_33.decode_ridge_batch")
def test_a_model_that_does_not_fit(stub: Any) -> None:
    model = BLOCK | {"layers": 400}
    got = stub.decode_ridge_batch(model, 100, "fp16", "T4")
    require(
        value_of("decode_ridge_batch", got, "fitting_batch") == 0,
        f"decode_ridge_batch of 400 layers on a T4 says fitting_batch {got['fitting_batch']}, "
        "expected 0: the matrices alone are larger than its memory",
    )
    good = {"model": MODEL, "cached_tokens": 5, "dtype": "bf16", "device": "H200"}
    refuses_names(stub, "decode_ridge_batch", good, "device", "dtype")
    with stub.raises(LabError, "float16", why="no peak of a T4 in bfloat16 is known"):
        stub.decode_ridge_batch(MODEL, 5, "bf16", "T4")
    with stub.raises(ValueError, why="a cache of -1 tokens does not exist"):
        stub.decode_ridge_batch(MODEL, -1, "bf16", "H200")


# -- what a change will give -------------------------------------------------------------------------

NOISE_RATIO, WIDEST_RATIO = 0.03, 1.2
DRAWN, INSIDE = 60, 54  # nine of ten
UNITS_OF_A_DEVICE = ("dram", "l2", "l1", "issue", "tensor")


def drawn_pair(pick: random.Random, kind: str) -> tuple[dict[str, Any], dict[str, float], float]:
    """A call, a change to it, and the window that is measured after it: made from the parts themselves."""
    while True:
        names = pick.sample(UNITS_OF_A_DEVICE, 3)
        device = float(pick.randint(20_000, 900_000))
        shares = [round(pick.uniform(0.6, 0.97), 3)]
        shares += [round(shares[0] * pick.uniform(0.1, 0.95), 3) for _ in names[1:]]
        work = [device * share for share in shares]
        factor = round(pick.uniform(0.3, 0.9), 2)
        host: float | None = pick.choice((None, device * pick.uniform(0.1, 0.4)))
        change = {names[0]: factor}
        match kind:
            case "another unit":
                change = {pick.choice(names[1:]): factor}
            case "a unit with more to do":
                change = {names[1]: round(pick.uniform(1.2, 4), 2)}
            case "a faster host that hides":
                host, change = device * pick.uniform(0.3, 0.9), {"host": factor}
            case "a faster host":
                host, change = (
                    device * pick.uniform(1.2, 4),
                    {"host": round(pick.uniform(0.1, 0.9), 2)},
                )
            case "a faster kernel behind the host":
                host = device * pick.uniform(1.2, 4)
            case "everything larger":
                change = dict.fromkeys(names, round(pick.uniform(1.5, 8), 2))
                host = device * pick.uniform(0.1, 2)
        host = None if host is None else float(round(host))
        after = max(time * change.get(name, 1) for name, time in zip(names, work, strict=True))
        rest = device - work[0]
        shrinking = pick.random()  # how much of the rest goes with the busiest unit
        rest_after = rest * (shrinking * after / work[0] + 1 - shrinking)
        window = max(after + rest_after, (host or 0) * change.get("host", 1))
        # Beyond this no interval of the width that is allowed could hold nine of ten.
        if abs(rest * (after / work[0] - 1)) < 0.11 * (after + min(rest, rest * after / work[0])):
            items = list(zip(names, shares, strict=True))
            pick.shuffle(items)
            facts = {"device_ns": device, "host_ns": host, "busy": dict(items)}
            return facts, change, window * (1 + pick.uniform(-NOISE_RATIO, NOISE_RATIO))


def busiest(facts: dict[str, Any], change: dict[str, float]) -> str:
    """The facts of a call that lead to its window, in words."""
    times = {unit: share * facts["device_ns"] for unit, share in facts["busy"].items()}
    changed = {unit: time * change.get(unit, 1) for unit, time in times.items()}
    before, after = (max(of, key=lambda unit: of[unit]) for of in (times, changed))
    host = f"{facts['host_ns'] * change.get('host', 1):.0f} ns" if facts["host_ns"] else "no time"
    factor = changed[after] / times[before]
    moves = (
        "stays" if factor == 1 else f"stays or changes by {factor:.2f}, as the busiest time does"
    )
    return (
        f"The busiest unit takes {times[before]:.0f} ns before ({before}) and {changed[after]:.0f} ns after ({after}). "
        f"The rest, {facts['device_ns'] - times[before]:.0f} ns, {moves}. The host then needs {host}."
    )


def judge_interval(call: str, got: Any) -> None:
    """The form of a predicted window."""
    if isinstance(got, list):
        pytest.fail(f"{call} returned {show(got)}, a list, not a tuple (low_ns, high_ns)", False)
    fine = (
        isinstance(got, tuple) and len(got) == 2 and all(type(end) in (int, float) for end in got)
    )
    if not fine or not 0 < got[0] <= got[1]:
        pytest.fail(
            f"{call} returned {show(got)}, expected (low_ns, high_ns) with low_ns <= high_ns", False
        )
    if got[1] > got[0] * WIDEST_RATIO * (1 + 1e-9):
        pytest.fail(
            f"{call} returned {show(got)}: high_ns is {got[1] / got[0]:.2f} times low_ns, at most "
            f"{WIDEST_RATIO} is a prediction",
            False,
        )
    if got[1] < got[0] * (1 + NOISE_RATIO) / (1 - NOISE_RATIO) * (1 - 1e-9):
        pytest.fail(
            f"{call} returned {show(got)}, narrower than the noise of two recordings: useful_interval adds it, "
            "after the ends are raised to the host's time",
            False,
        )


KINDS = {
    "the busiest unit": "The rest of the device's time may shrink with the busiest unit, or stay.",
    "another unit": "Another unit is the busiest, before and after: such a change gains nothing.",
    "a unit with more to do": "The busiest unit after the change may be another one than before. The rest "
    "of the device's time may grow with the time of the busiest unit, or stay.",
    "a faster host that hides": "The host needed less time than the device already: this gains nothing.",
    "a faster host": "The window is the longer of host and device.",
    "a faster kernel behind the host": "The window is the host's time, before and after: this gains nothing.",
    "everything larger": "All units of the device have more to do, and the host as much as before. The rest of "
    "the device's time may grow by the same factor as the busiest unit's, or stay.",
}


@task("ex_33.predict_window")
@pytest.mark.parametrize("kind", KINDS)
def test_changes_that_nobody_has_seen(stub: Any, seed: int, kind: str) -> None:
    pick = random.Random(f"{seed} {kind}")
    outside = []
    for _ in range(DRAWN):
        facts, change, measured = drawn_pair(pick, kind)
        call = whole_words("predict_window", facts, change)
        got = stub.predict_window(facts, change)
        judge_interval(call, got)
        if not got[0] <= measured <= got[1]:
            outside.append((call, got, measured, busiest(facts, change)))
    if len(outside) > DRAWN - INSIDE:
        call, got, measured, parts = outside[0]
        pytest.fail(
            f"predict_window: of {DRAWN} changes to {kind}, {DRAWN - len(outside)} windows lie in "
            f"the predicted interval; {INSIDE} are needed. {KINDS[kind]} One of the others: {call} returned "
            f"({got[0]:.0f}, {got[1]:.0f}), and the call then takes {measured:.0f} ns (all generated, with a noise "
            f"of {100 * NOISE_RATIO:.0f} % to either side). {parts}",
            False,
        )


@task("ex_33.predict_window")
@pytest.mark.parametrize(
    ("busy", "change", "host_ns", "ends", "why"),
    [
        (
            {"dram": 0.9},
            {"dram": 0.5},
            None,
            (50.0, 55.0),
            "This is the contract's example: 50 and 55 ns, with the noise.",
        ),
        (
            {"dram": 0.9},
            {"host": 0.0, "dram": 0.5},
            200.0,
            (50.0, 55.0),
            "The host and a unit change together: nothing is left for the host, so the device's 50 and 55 ns are the "
            "ends.",
        ),
        (
            {"dram": 0.9},
            {"host": 2.0},
            90.0,
            (180.0, 180.0),
            "The host becomes slower and needs 180 ns, longer than the device's 100. Raise the ends to it before "
            "the interval is widened.",
        ),
        (
            {"dram": 0.9},
            {"dram": 2.0},
            120.0,
            (190.0, 200.0),
            "DRAM then needs 180 ns, so the device takes longer than the host. The rest, 10 ns of the device's time, "
            "stays or doubles: the ends are 190 and 200 ns.",
        ),
        (
            {"dram": 0.5},
            {"dram": 2.0},
            200.0,
            (200.0, 200.0),
            "DRAM then needs 100 ns. The rest is 50 ns of the device's time, not of the window: it stays or doubles. "
            "Both ends are 200 ns, the host's time at least.",
        ),
        (
            {"dram": 0.3, "sm": 0.9},
            {"dram": 0.5},
            40.0,
            (100.0, 100.0),
            "Nothing is gained, so both ends are 100 ns, with the noise.",
        ),
        (
            {"dram": 0.9, "sm": 0.6},
            {"dram": 0.0},
            None,
            (200 / 3, 70.0),
            "The busiest unit takes 90 ns before, and another one 60 ns after. The rest, 10 ns, stays or changes by "
            "60 / 90: the ends are 70 and 66.7 ns.",
        ),
        (
            {"sm": 0.6},
            {"sm": 0.5},
            None,
            (50.0, 70.0),
            "The ends are 50 and 70 ns, with the noise 48.5 and 72.1. They are further apart than WIDEST_RATIO.",
        ),
        (
            {"sm": 0.97},
            {"sm": 0.3},
            None,
            (30.0, 32.1),
            "The ends are 30 and 32.1 ns, with the noise. A change may save more than half.",
        ),
    ],
    ids=[
        "example",
        "host and unit",
        "slower host",
        "past the host",
        "behind the host",
        "nothing gained",
        "another unit takes over",
        "too wide",
        "most is gained",
    ],
)
def test_the_interval_of_the_contract(
    stub: Any,
    busy: dict[str, float],
    change: dict[str, float],
    host_ns: float | None,
    ends: tuple[float, float],
    why: str,
) -> None:
    facts = {"device_ns": 100.0, "host_ns": host_ns, "busy": busy}
    call = whole_words("predict_window", facts, change)
    got = stub.predict_window(facts, change)
    judge_interval(call, got)
    noisy = (ends[0] * (1 - NOISE_RATIO), ends[1] * (1 + NOISE_RATIO))
    middle = math.sqrt(noisy[0] * noisy[1])
    widest = (middle / math.sqrt(WIDEST_RATIO), middle * math.sqrt(WIDEST_RATIO))
    judge(
        call,
        tuple(map(float, got)),
        noisy if noisy[1] <= WIDEST_RATIO * noisy[0] else widest,
        "ns",
        why,
        [
            (ends, f"{why} The noise is missing: useful_interval adds it."),
            (
                widest,
                f"{why} The interval around the geometric mean is right only if the ends are further apart than "
                "WIDEST_RATIO.",
            ),
        ],
    )


# What the counters of one recorded call say, the change, and the call that was measured with it. One of the ten, a
# layer norm, became slower than its units explain; nine of ten are enough.
RECORDED: list[tuple[str, str, str, str, dict[str, float]]] = [
    (ops, before, ops, after, change)
    for ops, before, after, change in (
        ("roofline_ops", "chain fp32 67108864 fused", "chain bf16 67108864 fused", {"dram": 0.5}),
        ("roofline_ops", "chain fp64 67108864 fused", "chain fp32 67108864 fused", {"dram": 0.5}),
        ("roofline_ops", "softmax fp32 16384x4096", "softmax bf16 16384x4096", {"dram": 0.5}),
        ("roofline_ops", "layer_norm bf16 16384x4096", "layer_norm fp32 16384x4096", {"dram": 2.0}),
        (
            "roofline_ops",
            "matmul bf16 8192x8192x8192",
            "matmul tf32 8192x8192x8192",
            {"dram": 2.0, "sm": 2.0},
        ),
        ("roofline_ops", "matmul bf16 64x8192x8192", "matmul bf16 16x8192x8192", {"sm": 0.25}),
        ("roofline_ops", "matmul bf16 1x8192x8192", "matmul bf16 16x8192x8192", {"sm": 2.0}),
        (
            "roofline_ops",
            "attention bf16 4x32x4096x4096x128 flash",
            "attention bf16 4x32x4096x4096x128 causal flash",
            {"sm": 0.5},
        ),
        (
            "roofline_ops_fp16",
            "attention fp16 8x12x2048x2048x64 flash",
            "attention fp16 8x12x2048x2048x64 causal flash",
            {"sm": 0.5},
        ),
    )
] + [
    (
        "roofline_ops_fp16",
        "matmul fp16 6144x6144x6144",
        "roofline_ops",
        "matmul fp16 8192x8192x8192",
        {"dram": (8192 / 6144) ** 2, "sm": (8192 / 6144) ** 3},
    )
]
SHARES = {
    "dram": "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
}


def measured_row(capture: str, name: str) -> dict[str, Any]:
    return next(row for row in measured_rows(document_of(capture)) if row["name"] == name)


def recorded_pair(
    capture: str, before: str, other: str, after: str
) -> tuple[dict[str, Any], float]:
    """Facts of a recorded call, and the window of another one."""
    counters = document_of(capture.replace("ops", "counters"), "counters.json")
    metrics = next(row for row in counters["kernels"] if row["name"] == before)["metrics"]
    busy = {unit: metrics[name]["value"] / 100 for unit, name in SHARES.items()}
    first, second = measured_row(capture, before), measured_row(other, after)
    facts = {"device_ns": first["device_ns"], "host_ns": first["host_ns"], "busy": busy}
    return facts, max(second["device_ns"], second["host_ns"])


@task("ex_33.predict_window")
def test_changes_that_were_recorded(stub: Any) -> None:
    outside = []
    for capture, before, other, after, change in RECORDED:
        facts, measured = recorded_pair(capture, before, other, after)
        call = whole_words("predict_window", facts, change)
        got = stub.predict_window(facts, change)
        judge_interval(call, got)
        if not got[0] <= measured <= got[1]:
            ends = f"({got[0]:.0f}, {got[1]:.0f})"
            outside.append(f"{before}, then {after}: {ends}, measured {measured:.0f} ns")
    if len(outside) > 1:
        pytest.fail(
            f"predict_window: of {len(RECORDED)} recorded changes {len(RECORDED) - len(outside)} lie in the "
            f"predicted interval, 9 are needed. Outside: {'; '.join(outside)}",
            False,
        )


# -- a test that can fail -----------------------------------------------------------------------------

HYPOTHESES = ("memory_bound", "compute_bound", "launch_bound")
PART_OF = dict(zip(HYPOTHESES, ("memory", "compute", "host"), strict=True))
# So many times as long as before each part takes after a change; what is not named stays.
EFFECTS: dict[str, dict[str, float]] = {
    "half_the_bytes": {"memory": 0.5},
    "half_size_type": {"memory": 0.5, "compute": 0.5},
    "arithmetic_twice": {"compute": 2},
    "twice_the_elements": {"memory": 2, "compute": 2, "elements": 2},
    "cuda_graph": {"host": 0.02},
    "next_device": {"memory": 0.5, "compute": 0.5},
}
MOVED = 0.10  # SAVING_FLOOR_RATIO


def measured(call: dict[str, float], measure: str) -> float:
    """What is measured of a call: host and device work side by side, and so do memory and arithmetic."""
    device = max(call["memory"], call["compute"]) * call["above_roof"]
    window = max(device, call["host"])
    return {
        "window_ns": window,
        "device_ns": device,
        "element_ns": window / call["elements"],
    }[measure]


def drawn_call(pick: random.Random, bound: str, fuller: str) -> dict[str, float]:
    """A call with that bound; where the host is the limit, its device waits for `fuller`."""
    longest = pick.uniform(20_000, 900_000)
    call = {part: longest * pick.uniform(0.02, 0.09) for part in PART_OF.values()}
    call[fuller] = longest * pick.uniform(0.15, 0.3)
    call[PART_OF[bound]] = longest
    return call | {
        "above_roof": pick.uniform(1.0, 1.1),
        "elements": float(pick.randint(2**10, 2**26)),
    }


def readable(value: float) -> str:
    """A time in ns, of a call or of an element."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.4g}"


def direction(before: float, after: float) -> str:
    moved = after / before - 1
    return "same" if abs(moved) <= MOVED else "up" if moved > 0 else "down"


@task("ex_33.design_test")
@pytest.mark.parametrize("hypothesis", HYPOTHESES)
def test_a_test_is_one_that_can_fail(stub: Any, seed: int, hypothesis: str) -> None:
    got = stub.design_test(hypothesis)
    call = call_words("design_test", hypothesis)
    choices = {"change": EFFECTS, "measure": ("window_ns", "device_ns", "element_ns")}
    choices |= dict.fromkeys(("if_true", "if_false"), ("up", "down", "same"))
    if type(got) is not dict or set(got) != set(choices):
        pytest.fail(f"{call} returned {show(got)}, expected a dict of {', '.join(choices)}", False)
    for key, known in choices.items():
        if type(got[key]) is not str or got[key] not in known:
            pytest.fail(f"{call}: {key} is {show(got[key])}; known are {', '.join(known)}", False)
    if got["if_true"] == got["if_false"]:
        pytest.fail(
            f"{call} expects {got['if_true']!r} either way: whatever is measured, nothing is refuted",
            False,
        )
    pick = random.Random(f"{seed} {hypothesis}")
    kinds = [(bound, fuller) for bound in HYPOTHESES for fuller in ("memory", "compute")] * 4
    pick.shuffle(kinds)
    kinds.sort(key=lambda kind: kind[0] != hypothesis)  # first where it holds
    for bound, fuller in kinds:
        before = drawn_call(pick, bound, fuller)
        after = {part: time * EFFECTS[got["change"]].get(part, 1) for part, time in before.items()}
        noise = [1 + pick.uniform(-0.01, 0.01) for _ in range(2)]
        first, second = (
            measured(one, got["measure"]) * factor
            for one, factor in zip((before, after), noise, strict=True)
        )
        holds = bound == hypothesis
        said = got["if_true" if holds else "if_false"]
        if direction(first, second) != said:
            parts = ", ".join(f"{part} {readable(before[part])} ns" for part in PART_OF.values())
            pytest.fail(
                f"{call} says that {got['measure']} goes {said!r} with {got['change']} where the call "
                f"{'is' if holds else 'is not'} {hypothesis}. In a call of which each part alone takes ({parts}) it went "
                f"from {readable(first)} ns to {readable(second)} ns: {direction(first, second)!r}.",
                False,
            )


# -- what to do -----------------------------------------------------------------------------------


def copy_of(time_ns: float) -> dict[str, int]:
    """A cost whose bytes take this long on an H200, and that has hardly any operations."""
    return {"flops": 1000, "bytes": round(time_ns * 4800)}


def product_of(time_ns: float) -> dict[str, int]:
    """A cost whose operations take this long on an H200 in bfloat16, and that has hardly any bytes."""
    return {"flops": round(time_ns * 989_000), "bytes": 4800}


def judge_choice(
    stub: Any,
    given: dict[str, Any],
    action: str,
    saved_ns: float,
    window_ns: float,
    why: str,
    mistakes: dict[str, str] | None = None,
) -> None:
    """choose_optimization against a saving worked out by hand; mistakes: wrong action to sentence."""
    call = whole_words("choose_optimization", **given)
    got = stub.choose_optimization(**given)
    roof = max(floor_ns(given["cost"], given["device"], given["dtype"]))
    why = (
        f"{why} Of the device's {given['device_ns']:.0f} ns the roof takes {roof:.0f}, and "
        f"{given['device_ns'] - roof:.0f} are above it. tune_kernel would bring it to roof / reachable_ratio, "
        f"{roof / given['reachable_ratio']:.0f} ns."
    )
    want = {"action": action, "saved_ns": saved_ns, "saved_ratio": saved_ns / window_ns}
    if isinstance(got, dict) and got.get("action") != action and "action" in got:
        sentence = (mistakes or {}).get(got["action"], "")
        pytest.fail(
            f"choose_optimization says {got['action']!r}, which the evidence does not support. {why} {sentence} "
            f"The call: {call}",
            False,
        )
    judge_keys(
        "choose_optimization",
        got,
        want,
        lambda key, value: f"{why} The call: {call}",
    )


def situation(
    cost: dict[str, int], device_ns: float, host_ns: float | None, *changes: dict[str, Any]
) -> dict[str, Any]:
    """Arguments for an H200 in bfloat16, where nine tenths of the roof can be reached. A change that says nothing of
    the host's time keeps it.
    """
    return {
        "cost": cost,
        "dtype": "bf16",
        "device": "H200",
        "device_ns": float(device_ns),
        "host_ns": host_ns,
        "reachable_ratio": 0.9,
        "changes": [{"host_ns": host_ns} | change for change in changes],
    }


@task("ex_33.choose_optimization")
def test_the_largest_saving_wins(stub: Any, seed: int) -> None:
    scale = random.Random(seed).randint(2, 9) * 1000  # ns of a tenth of everything below
    fuse = {"action": "fuse", "cost": copy_of(3 * scale), "dtype": "bf16"}
    side = "Host and device work side by side: time hidden behind the host is not saved."
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 10 * scale, scale, fuse),
        "fuse",
        6.0 * scale,
        10 * scale,
        "Fusing removes two thirds of the bytes, and the call is bound by its bytes.",
    )
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 10 * scale, 40.0 * scale, fuse),
        "issue_less",
        30.0 * scale,
        40 * scale,
        "The device waits for the host three quarters of the time.",
        {"fuse": side},
    )
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 40 * scale, scale, fuse),
        "tune_kernel",
        30.0 * scale,
        40 * scale,
        "Three quarters of the device's time lie above what a good kernel needs.",
        {"fuse": "It saves the time of bytes alone: the time above the roof stays."},
    )
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 10 * scale, 16.0 * scale, fuse),
        "issue_less",
        6.0 * scale,
        16 * scale,
        "Most of the device's time is the roof, but the host needs longer than the device.",
        {"fuse": side},
    )
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 10 * scale, 8.0 * scale, fuse),
        "fuse",
        2.0 * scale,
        10 * scale,
        side,
    )
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 10 * scale, 8.0 * scale, fuse | {"host_ns": 2.0 * scale}),
        "fuse",
        6.0 * scale,
        10 * scale,
        "The fused version is also issued in less time: 2 instead of 8 parts of ten.",
    )
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 10 * scale, 4.0 * scale, fuse | {"host_ns": 8.5 * scale}),
        "fuse",
        1.5 * scale,
        10 * scale,
        "The fused version takes the host longer to issue: 8.5 instead of 4 parts of ten.",
    )
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 10 * scale, 12.0 * scale, fuse | {"host_ns": 1.0 * scale}),
        "fuse",
        8.0 * scale,
        12 * scale,
        "Fused, it needs 4 parts of ten of the device and 1 of the host, of a window of 12. Issuing less saves 2.",
        {"issue_less": "What limits the call need not be what saves most."},
    )
    other = "What limits the call need not be what saves most."
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 10 * scale, 30.0 * scale, fuse | {"host_ns": 1.0 * scale}),
        "fuse",
        26.0 * scale,
        30 * scale,
        "Fused, it needs 4 parts of ten of the device and 1 of the host, of a window of 30. Issuing less saves 20.",
        {"issue_less": other},
    )
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 20 * scale, 19.0 * scale, fuse | {"host_ns": 1.0 * scale}),
        "fuse",
        6.0 * scale,
        20 * scale,
        "Fused, it needs 14 parts of ten of the device and 1 of the host, of a window of 20. A better kernel would "
        "wait for the host.",
        {"none": other, "tune_kernel": other},
    )
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 10 * scale, 8.0 * scale, fuse | {"host_ns": None}),
        "fuse",
        6.0 * scale,
        10 * scale,
        "The changed version needs no time of the host: its host_ns is None.",
    )


@task("ex_33.choose_optimization")
def test_a_kernel_behind_a_busy_host(stub: Any, seed: int) -> None:
    scale = random.Random(seed).randint(2, 9) * 1000
    side = "Host and device work side by side: time hidden behind the host is not saved."
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 30 * scale, 40.0 * scale),
        "issue_less",
        10.0 * scale,
        40 * scale,
        "The calls wait for the host; a better kernel would make the device wait longer for it.",
        {"tune_kernel": side},
    )
    judge_choice(
        stub,
        situation(copy_of(9 * scale), 40 * scale, 32.0 * scale),
        "tune_kernel",
        8.0 * scale,
        40 * scale,
        f"A better kernel needs 10 parts of 40, and the host still 32. {side}",
    )


@task("ex_33.choose_optimization")
def test_choices_on_another_device(stub: Any) -> None:
    # 9,000 ns on an H100 SXM are 6,281 ns on an H200.
    cost, less = ({"flops": 1000, "bytes": 3350 * time} for time in (9_000, 3_000))
    fuse = {"action": "fuse", "cost": less, "dtype": "bf16"}
    given = situation(cost, 10_000, None, fuse) | {"device": "H100 SXM"}
    why = "The bytes take 9,000 ns on this device, and 3,000 ns after the change."
    judge_choice(stub, given, "fuse", 6_000.0, 10_000.0, why)


@task("ex_33.choose_optimization")
def test_a_call_below_its_roof(stub: Any) -> None:
    # The bytes of a call whose data is in the cache do not come from memory.
    fuse = {"action": "fuse", "cost": copy_of(500), "dtype": "bf16"}
    judge_choice(
        stub,
        situation(copy_of(1_000), 900, None, fuse),
        "fuse",
        500.0,
        900.0,
        "The call is 100 ns below the roof of 1,000 ns, and stays 100 ns below the new one of 500 ns.",
    )


@task("ex_33.choose_optimization")
def test_several_changes(stub: Any) -> None:
    slow, fast = (
        {"action": action, "cost": copy_of(time), "dtype": "bf16"}
        for action, time in (("fuse two", 6_000), ("fuse all", 3_000))
    )
    for changes, why in (
        ((slow, fast), "The second change saves more than the first."),
        ((fast, slow), "The first change saves more than the second."),
    ):
        judge_choice(
            stub, situation(copy_of(9_000), 10_000, None, *changes), "fuse all", 6e3, 1e4, why
        )
    judge_choice(
        stub,
        situation(copy_of(9_000), 10_000, None, fast | {"host_ns": 0.5}),
        "fuse all",
        6_000.0,
        10_000.0,
        "Half a nanosecond is a valid time, and the host needs less than the device.",
    )
    same = slow | {"action": "fuse all"}
    judge_choice(
        stub,
        situation(copy_of(9_000), 10_000, None, fast, same),
        "fuse all",
        6_000.0,
        10_000.0,
        "Both changes have the same name, and the first one saves more.",
    )


@task("ex_33.choose_optimization")
def test_a_smaller_type_pays_where_it_is_the_limit(stub: Any) -> None:
    # In float8 an H200 does twice the operations of bfloat16.
    fast = {"action": "float8", "cost": product_of(9_000), "dtype": "float8"}
    peak = devices.get("H200").peak_flops_per_s
    half = 9_000 * peak["bfloat16"] / peak["float8"]
    given = situation(product_of(9_000), 10_000, None, fast)
    judge_choice(
        stub,
        given,
        "float8",
        9_000.0 - half,
        10_000.0,
        "Its operations are the limit, and in float8 they take half the time; the time above the roof stays.",
    )
    same_bytes = {"action": "tensor_cores", "cost": copy_of(9_000), "dtype": "float8"}
    judge_choice(
        stub,
        situation(copy_of(9_000), 10_000, None, same_bytes),
        "none",
        0.0,
        10_000.0,
        "The bytes are the limit, and the change moves as many: nothing to gain.",
        {"tensor_cores": "A higher peak does not help a call that is bound by memory."},
    )


@task("ex_33.choose_optimization")
def test_nothing_to_gain(stub: Any) -> None:
    less = {"action": "fuse", "cost": copy_of(8_100), "dtype": "bf16"}
    why = "The largest saving is below a tenth of the window: not worth its trouble."
    judge_choice(
        stub,
        situation(copy_of(9_000), 10_000, 5_000.0, less),
        "none",
        900.0,
        10_000.0,
        why,
        {
            "fuse": "That saves 9 % of the window.",
            "tune_kernel": "No kernel reaches the whole roof.",
        },
    )
    judge_choice(
        stub,
        situation(copy_of(9_000), 10_500, None),
        "none",
        500.0,
        10_500.0,
        "A good kernel reaches nine tenths of the roof, and this one is close to that.",
        {"tune_kernel": "No kernel reaches the whole roof."},
    )
    judge_choice(
        stub,
        situation(copy_of(9_000), 9_050, 10_000.0),
        "none",
        950.0,
        10_000.0,
        "The floor is a share of the window, and the window is the host's.",
        {"issue_less": "That saves 9.5 % of the window."},
    )
    judge_choice(
        stub,
        situation(copy_of(8_999), 8_999, 10_000.0),
        "issue_less",
        1_001.0,
        10_000.0,
        "A saving of 10.01 % is not below the floor.",
    )
    faster = "It is better than what reachable_ratio says: there is nothing to tune."
    judge_choice(stub, situation(copy_of(9_500), 10_000, None), "none", 0.0, 10_000.0, faster)
    worse = {"action": "rewrite", "cost": copy_of(12_000), "dtype": "bf16"}
    judge_choice(
        stub,
        situation(copy_of(9_000), 10_000, None, worse),
        "none",
        0.0,
        10_000.0,
        "The change moves more bytes than before.",
    )
    enough = {"action": "fuse", "cost": copy_of(7_950), "dtype": "bf16"}
    judge_choice(
        stub,
        situation(copy_of(9_000), 10_000, None, enough),
        "fuse",
        1_050.0,
        10_000.0,
        "A saving of 10.5 % is above the floor.",
    )


@task("ex_33.choose_optimization")
def test_equal_savings(stub: Any) -> None:
    first = {"action": "first", "cost": copy_of(3_000), "dtype": "bf16"}
    second = {"action": "second", "cost": copy_of(3_000), "dtype": "bf16"}
    judge_choice(
        stub,
        situation(copy_of(9_000), 10_000, None, first, second),
        "first",
        6_000.0,
        10_000.0,
        "Both save the same: the one that is named first.",
    )
    # Above the reachable roof by as much as fusing would save.
    tie = {"action": "fuse", "cost": copy_of(4_000), "dtype": "bf16"}
    judge_choice(
        stub,
        situation(copy_of(9_000), 15_000, None, tie),
        "tune_kernel",
        5_000.0,
        15_000.0,
        "Both save the same: tune_kernel comes before the changes.",
    )


@task("ex_33.choose_optimization")
def test_all_of_the_roof(stub: Any) -> None:
    whole = situation(copy_of(9_000), 12_000, None) | {"reachable_ratio": 1.0}
    judge_choice(
        stub, whole, "tune_kernel", 3_000.0, 12_000.0, "All of the roof can be reached here."
    )


# -- live -----------------------------------------------------------------------------------------

PROBE = Path(__file__).resolve().with_name("probes") / "live_roofline.py"


@task("ex_33.measure_and_place")
@pytest.mark.parametrize(("kind", "size"), [("product", 4096), ("copy", 1 << 27)])
def test_live_measurement(stub: Any, kind: str, size: int) -> None:
    name = stub.probe(PROBE, "device_name")
    try:
        device = devices.get(name)
    except LabError:
        pytest.skip(f"no peaks of {name} are known")
    repeats = 15
    claim = stub.probe(PROBE, "measured", kind, size, repeats, device.name)
    got, cost = claim["result"], claim["cost"]
    call = f"measure_and_place of a {kind} in bf16 on {device.name}, {repeats} repeats"
    wanted = ["operation"] * 3 + ["flush", "operation"] * repeats
    assert claim["log"] == wanted, (
        f"{call}: called {show(claim['log'])}; expected three operations to warm up, then a flush and "
        f"an operation {repeats} times"
    )
    assert claim["waits"] <= 1, (
        f"{call}: waited for the device {claim['waits']} times; expected once, at the end: after a "
        "wait the device is idle until the host has issued more, and that time is measured too"
    )
    keys = {"device_times_ns", "median_ns", "intensity", "rate_flops_per_s", "roof_ratio"}
    assert isinstance(got, dict) and got.keys() == keys, f"{call}: returned {show(got)}"
    times = got["device_times_ns"]
    assert isinstance(times, list) and len(times) == repeats, (
        f"{call}: {len(times)} times, expected {repeats}"
    )
    floor = max(floor_ns(cost, device.name, "bf16"))
    low, high = sorted(claim["own_ns"])
    median = statistics.median(times)
    assert median >= floor, (
        f"{call}: a median of {median:.0f} ns, and no device needs less than {floor:.0f}"
    )
    assert 0.7 * low <= median <= 1.4 * high, (
        f"{call}: a median of {median:.0f} ns; the same work measured beside it took {low:.0f} to "
        f"{high:.0f} ns (device time, cold caches)"
    )
    judge_keys(
        call,
        got,
        {
            "device_times_ns": times,
            "median_ns": float(median),
            "intensity": cost["flops"] / cost["bytes"],
            "rate_flops_per_s": cost["flops"] / median * 1e9,
            "roof_ratio": floor / median,
        },
        lambda key, value: "It follows from the times returned and the cost given.",
    )
