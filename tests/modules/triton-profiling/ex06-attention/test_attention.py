"""Checks of `triton_ex06`: the online softmax, what attention moves, and the fused kernel.

The state is held against sums over all keys at once, bytes against a walk over programs and keys, and the
kernel, run in the counting interpreter, against numpy in float64.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import fail, judge, require, show

PROBE = Path(__file__).resolve().with_name("probes") / "triton_attention.py"
EPSILON = {"float16": 2.0**-10, "bfloat16": 2.0**-7}
MINUS = -np.inf


# -- the online softmax -----------------------------------------------------------------------------


def summed(scores: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The state after all these keys, from all of them at once."""
    largest = scores.max(axis=1)
    powers = np.exp(scores - np.where(np.isneginf(largest), 0.0, largest)[:, None])
    return largest, powers.sum(axis=1), powers @ values


def judge_steps(
    stub: Any, blocks: list[tuple[np.ndarray, np.ndarray]], what: str, first: int = 0
) -> None:
    """Step over the blocks and hold each state against the sums over all keys so far.

    first: the block to begin with; the state after those before it is given.
    """
    rows, head = len(blocks[0][0]), blocks[0][1].shape[1]
    state = (np.full(rows, MINUS), np.zeros(rows), np.zeros((rows, head)))
    if first:
        state = summed(
            np.concatenate([block[0] for block in blocks[:first]], axis=1),
            np.concatenate([block[1] for block in blocks[:first]]),
        )
    for place in range(first, len(blocks)):
        before = tuple(part.copy() for part in state)
        scores, values = blocks[place]
        call = f"online_step, block {place} of {len(blocks)}, {what}"
        after = stub.online_step(state, scores, values)
        require(
            isinstance(after, tuple) and [getattr(part, "shape", None) for part in after]
            == [(rows,), (rows,), (rows, head)],
            f"{call}: returned {show(after)}, expected (largest, total, weighted) of shapes ({rows},), "
            f"({rows},), ({rows}, {head}): the state does not grow with the keys",
        )  # fmt: skip
        want = summed(
            np.concatenate([block[0] for block in blocks[: place + 1]], axis=1),
            np.concatenate([block[1] for block in blocks[: place + 1]]),
        )
        for name, got, right in zip(("largest", "total", "weighted"), after, want, strict=True):
            size = np.abs(right) if name != "weighted" else np.abs(right).max() + want[1][:, None]
            with np.errstate(invalid="ignore"):  # -inf minus -inf, where both are right
                gap = np.nan_to_num(np.abs(got - right), nan=0.0)
            close = gap <= 1e-9 * (size + 1e-30)
            off = ~(close & (np.isnan(got) == np.isnan(right)) & (np.isinf(got) == np.isinf(right)))
            if off.any():
                row = int(np.nonzero(off)[0][0])
                hint = (
                    "What was summed up relative to the old largest score?"
                    if place
                    else "Nothing was summed up before this block: what is exp(-inf - largest)?"
                )
                fail(
                    f"{call}: {name} of row {row} is {show(np.asarray(got)[row])}, expected "
                    f"{show(right[row])}. largest was {show(before[0][row])}, the block's scores are "
                    f"{show(scores[row])}. {hint}"
                )
        state = after


def drawn_blocks(seed: int, widths: list[int], rows: int, scale: float = 3.0) -> Any:
    draw = np.random.default_rng(seed)
    return [
        (draw.standard_normal((rows, width)) * scale, draw.standard_normal((width, 3)))
        for width in widths
    ]


@task("triton_ex06.online_step")
def test_any_blocks(stub: Any, seed: int) -> None:
    judge_steps(stub, drawn_blocks(seed, [4, 1, 7, 2], 5), "random scores")
    judge_steps(stub, drawn_blocks(seed + 1, [1] * 6, 1), "one row, one key a block")
    judge_steps(stub, drawn_blocks(seed + 3, [3, 2, 4], 4), "the state after two blocks given", 2)
    rising = drawn_blocks(seed + 2, [3, 3, 3], 4)
    judge_steps(
        stub,
        [(scores + 10 * place, values) for place, (scores, values) in enumerate(rising)],
        "each block with larger scores than those before it",
    )
    judge_steps(
        stub,
        [(scores - 10 * place, values) for place, (scores, values) in enumerate(rising)],
        "each block with smaller scores than those before it",
    )


@task("triton_ex06.online_step")
def test_large_scores(stub: Any, seed: int) -> None:
    judge_steps(stub, drawn_blocks(seed, [5, 5, 5], 4, 1e4), "scores of some 10,000")
    blocks = drawn_blocks(seed, [4, 4], 3)
    judge_steps(stub, [(s - 1e5, v) for s, v in blocks], "no score above -99,000")


@task("triton_ex06.online_step")
def test_keys_that_are_not_seen(stub: Any, seed: int) -> None:
    blocks = drawn_blocks(seed, [3, 4, 3], 4)
    blocks[0][0][:3] = MINUS  # nothing seen in the first block
    blocks[1][0][1] = MINUS
    blocks[1][0][3, ::2] = MINUS
    blocks[2][0][2:] = MINUS
    judge_steps(stub, blocks, "where some rows see nothing (-inf) in a block")


# -- bytes ------------------------------------------------------------------------------------------


def walked(queries: int, keys: int, block_m: int, block_n: int, causal: bool) -> tuple[int, int]:
    """(keys loaded by all programs, programs), by looking at every query and key."""
    loaded = programs = 0
    for top in range(0, queries, block_m):
        programs += 1
        rows = range(top, min(top + block_m, queries))
        for left in range(0, keys, block_n):
            block = range(left, min(left + block_n, keys))
            if not causal or any(key <= row for row in rows for key in block):
                loaded += len(block)
    return loaded, programs


WHY_BYTES = {
    "load_bytes": "A program loads its queries once, and both K and V of every block that one of its "
    "queries sees: walk over programs and blocks.",
    "store_bytes": "The result is stored once, and nothing else.",
    "least_bytes": "Q, K, V and the result, each once.",
    "materialised_bytes": "Write down what each of the three calls reads and writes: a matrix of "
    "queries by keys is written twice and read twice.",
}


@task("triton_ex06.attention_bytes")
def test_bytes_moved(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    cases = [
        (4, 4, 1, 2, 2, True, 1),
        (64, 64, 16, 16, 16, False, 2),
        (1, 70, 16, 16, 32, False, 2),
        (1, 70, 16, 16, 32, True, 2),
        (33, 20, 32, 16, 16, True, 2),
        (20, 50, 32, 64, 16, True, 4),
        (50, 70, 16, 16, 64, True, 2),
        *(
            (*(pick.randint(1, 150) for _ in range(2)), 2 ** pick.randint(4, 7))
            + (2 ** pick.randint(4, 6), 2 ** pick.randint(4, 6), causal, pick.choice((1, 2, 4)))
            for causal in (True, False, True, True)
        ),
    ]
    for case in cases:
        queries, keys, head, block_m, block_n, causal, size = case
        loaded, _ = walked(queries, keys, block_m, block_n, causal)
        want = {
            "load_bytes": (queries + 2 * loaded) * head * size,
            "store_bytes": queries * head * size,
            "least_bytes": (2 * queries + 2 * keys) * head * size,
            "materialised_bytes": 2 * (queries + keys) * head * size + 4 * queries * keys * size,
        }
        got = stub.attention_bytes(*case)
        why = dict(WHY_BYTES)
        if isinstance(got, dict) and causal:
            all_of_it, _ = walked(queries, keys, block_m, block_n, False)
            if (
                got.get("load_bytes")
                == (queries + 2 * all_of_it) * head * size
                != want["load_bytes"]
            ):
                why["load_bytes"] = (
                    "With causal a block of keys behind a program's last query is not loaded."
                )
        judge(f"attention_bytes{case}", got, want, "bytes", why)


# -- the kernel -------------------------------------------------------------------------------------


def representable(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers cut off to what the data type can hold, in float32."""
    if dtype == "float16":
        return numbers.astype(np.float16).astype(np.float32)
    wide = np.ascontiguousarray(numbers.astype(np.float32))
    return (wide.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)


def expected(arrays: list[np.ndarray], dtype: str, causal: bool) -> tuple[np.ndarray, np.ndarray]:
    """Attention in float64, and by how much each element may be off."""
    q, k, v = (numbers.astype(np.float64) for numbers in arrays)
    with np.errstate(all="ignore"):
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        finite = np.abs(scores[np.isfinite(scores)]).max(initial=0.0)
        if causal:
            seen = np.tri(scores.shape[-2], scores.shape[-1], dtype=bool)
            scores = np.where(seen, scores, MINUS)
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights = powers / powers.sum(axis=-1, keepdims=True)
        allowed = (1.5 * EPSILON[dtype] + 2.0**-19 * finite) * (weights @ np.abs(v)) + 1e-6
        return weights @ v, allowed


def config(block_m: int, block_n: int, num_warps: int = 4, num_stages: int = 2) -> dict[str, int]:
    return {
        "block_m": block_m,
        "block_n": block_n,
        "num_warps": num_warps,
        "num_stages": num_stages,
    }


def drawn(seed: int, shape: tuple[int, ...], dtype: str, scale: float = 1.0) -> list[np.ndarray]:
    """q, k and v of (batch, heads, queries, keys, head); scale is that of q and k."""
    batch, heads, queries, keys, head = shape
    draw = np.random.default_rng(seed)
    arrays = [
        draw.standard_normal((batch, heads, tokens, head)) * size
        for tokens, size in ((queries, scale), (keys, scale), (keys, 1.0))
    ]
    return [representable(numbers, dtype) for numbers in arrays]


def judge_attention(
    stub: Any,
    arrays: list[np.ndarray],
    dtype: str,
    causal: bool,
    chosen: dict[str, int],
    what: str,
    layout: str = "plain",
) -> None:
    """Run the kernel: its numbers against float64, what it moves against a walk over the blocks."""
    batch, heads, queries, head = arrays[0].shape
    keys = arrays[1].shape[2]
    call = (
        f"attention of {batch} by {heads} heads, {queries} queries, {keys} keys, head {head}, {dtype}"
        f"{', causal' if causal else ''}, blocks {chosen['block_m']} by {chosen['block_n']}, {layout}"
    )
    claim = stub.probe(PROBE, "run", arrays, dtype, causal, chosen, layout)
    require(claim["kind"] == "Tensor", f"{call} returned a {claim['kind']}, expected a tensor")
    shape = [batch, heads, queries, head]
    require(
        (claim["shape"], claim["dtype"]) == (shape, dtype),
        f"{call} returned {claim['dtype']} of shape {claim['shape']}, expected {dtype} of {shape}",
    )
    require(
        claim["contiguous"] and claim["unchanged"],
        f"{call}: the result is a new, contiguous tensor, and q, k and v stay as they are",
    )
    want, allowed = expected(arrays, dtype, causal)
    got = claim["numbers"].astype(np.float64)
    unseen = np.isnan(want)  # a query whose scores are all -inf
    off = np.where(unseen, ~(np.isnan(got) | (got == 0)), ~(np.abs(got - want) <= allowed))
    if off.any():
        at = tuple(int(axis[0]) for axis in np.nonzero(off))
        right = "0 or nan" if unseen[at] else f"{want[at]:.6g} to {allowed[at]:.1g}"
        fail(
            f"{call}: {what}. Element {list(at)} (head {at[1]}, query {at[2]}) is {got[at]:.6g}, expected "
            f"{right}; {int(off.sum())} of {off.size} elements are off"
        )
    judge_counts(claim["counts"], arrays, dtype, causal, chosen, call)


def judge_counts(
    counts: dict[str, Any],
    arrays: list[np.ndarray],
    dtype: str,
    causal: bool,
    chosen: dict[str, int],
    call: str,
) -> None:
    batch, heads, queries, head = arrays[0].shape
    keys = arrays[1].shape[2]
    loaded, programs = walked(queries, keys, chosen["block_m"], chosen["block_n"], causal)
    row = batch * heads * head * 2
    require(
        not counts["torch_operators"] and counts["launches"] == 1,
        f"{call}: {counts['launches']} launches, and torch ran {counts['torch_operators']}; expected one "
        "launch, and of torch an empty result only",
    )
    require(
        counts["programs"] == programs * batch * heads,
        f"{call}: {counts['programs']} programs, expected {programs * batch * heads}: one for each "
        f"{chosen['block_m']} queries of a head",
    )
    for name, rows, why in (
        ("q", queries, "each program loads its own queries once"),
        (
            "k",
            loaded,
            "a block is loaded once by each program of which a query sees it, and no other",
        ),
        (
            "v",
            loaded,
            "a block is loaded once by each program of which a query sees it, and no other",
        ),
    ):
        got = counts["tensors"].get(name, {}).get("load_bytes", 0)
        require(
            got == rows * row,
            f"{call}: {got} bytes of {name} were loaded, expected {rows * row}: {why}",
        )
    everything = (counts["load_bytes"], counts["store_bytes"], counts["atomic_bytes"])
    require(
        everything == ((queries + 2 * loaded) * row, queries * row, 0),
        f"{call}: {everything[0]} bytes were loaded and {everything[1] + everything[2]} stored in all, "
        f"expected {(queries + 2 * loaded) * row} and {queries * row}: scores stay on the chip",
    )
    options = counts["kernels"][0]["options"]
    asked = {name: options.get(name) for name in ("num_warps", "num_stages")}
    require(
        all(asked[name] == chosen[name] for name in asked),
        f"{call}: launched with {asked}, expected those of the config",
    )


# batch, heads, queries, keys, head; data type; causal; blocks; layout.
CASES = [
    ((1, 1, 32, 32, 16), "float16", False, config(16, 16), "plain"),
    ((2, 2, 37, 50, 32), "bfloat16", False, config(16, 32, 8, 3), "plain"),
    ((1, 2, 1, 70, 16), "float16", False, config(16, 32), "plain"),
    ((1, 1, 35, 1, 16), "float16", False, config(32, 16), "plain"),
    ((1, 3, 75, 75, 32), "bfloat16", True, config(32, 16), "plain"),
    ((1, 1, 64, 64, 16), "float16", True, config(16, 32), "plain"),
    ((1, 1, 40, 90, 16), "float16", True, config(32, 32, 4, 1), "plain"),
    ((1, 1, 90, 40, 16), "float16", True, config(16, 16), "plain"),
    ((2, 2, 30, 41, 16), "float16", False, config(16, 16), "tokens first"),
    ((2, 2, 41, 41, 16), "bfloat16", True, config(32, 32), "parts of one tensor"),
    ((1, 1, 20, 50, 16), "float16", True, config(64, 16), "plain"),
    ((2, 2, 30, 41, 16), "float16", False, config(16, 16), "only V tokens first"),
    ((1, 1, 33, 40, 64), "bfloat16", True, config(32, 32), "plain"),
]


@task("triton_ex06.attention")
@pytest.mark.parametrize("place", range(len(CASES)))
def test_shapes_and_blocks(stub: Any, seed: int, place: int) -> None:
    shape, dtype, causal, chosen, layout = CASES[place]
    what = "which keys does a query see, and what do lanes outside of the tensors add?"
    if not causal and all(tokens % 32 == 0 for tokens in shape[2:4]):
        what = "are scores scaled once, and both sums rescaled when a larger score comes?"
    if layout != "plain":
        what = "each of the three tensors has strides of its own"
    arrays = drawn(seed, shape, dtype, 1.5)
    judge_attention(stub, arrays, dtype, causal, chosen, what, layout)


@task("triton_ex06.attention")
@pytest.mark.parametrize("causal", [False, True])
def test_large_scores_in_the_kernel(stub: Any, seed: int, causal: bool) -> None:
    arrays = drawn(seed, (1, 2, 40, 40, 16), "float16", 60.0)
    what = "scores of some 10,000: exp of a score is inf, of its distance to the largest it is not"
    judge_attention(stub, arrays, "float16", causal, config(16, 16), what)
    for numbers, sign in zip(arrays[:2], (1, -1), strict=True):
        numbers[..., 0] = sign * 200.0
    what = "no score is above -5,000: what does a lane that is masked off count?"
    judge_attention(stub, arrays, "float16", causal, config(16, 32), what)


@task("triton_ex06.attention")
@pytest.mark.parametrize("causal", [False, True])
def test_scores_of_minus_infinity(stub: Any, seed: int, causal: bool) -> None:
    arrays = drawn(seed, (1, 3, 48, 48, 16), "bfloat16")
    arrays[0][..., 0] = 1.0
    hidden = np.random.default_rng(seed).random((1, 3, 48)) < 0.3
    hidden[0, 0, :20] = True  # the whole first block, and part of the second
    hidden[0, 2] = True  # a head in which no query sees anything
    hidden[0, :2, 47] = False
    arrays[1][..., 0] = np.where(hidden, MINUS, 1.0)
    what = "some keys score -inf, all of the first block in head 0: -inf minus -inf is nan"
    judge_attention(stub, arrays, "bfloat16", causal, config(16, 16), what)


@task("triton_ex06.attention")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_are_kept_in_float32(stub: Any, dtype: str) -> None:
    keys, large = 512, 32768.0 if dtype == "float16" else 4096.0
    arrays = [np.zeros((1, 1, tokens, 16), np.float32) for tokens in (16, keys, keys)]
    arrays[2][:] = 1.0
    arrays[2][:, :, 0] = large
    claim = stub.probe(PROBE, "run", arrays, dtype, False, config(16, 16))
    got = float(np.asarray(claim.get("numbers", np.nan)).ravel()[0])
    want = (large + keys - 1) / keys
    require(
        abs(got - want) <= EPSILON[dtype] * want / 2,
        f"attention in {dtype}: {keys} equal scores, one value of {large:.0f} and then ones: {got:.6g}, "
        f"expected {want:.6g}. A sum that is rounded to {dtype} after each block loses what is small",
    )


@task("triton_ex06.attention")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_the_total_is_kept_in_float32(stub: Any, dtype: str) -> None:
    """One score of 0 and 511 weights of 2⁻¹⁶: a block of them is nothing beside 1 in 16 bits."""
    keys = 512
    arrays = [np.zeros((1, 1, tokens, 16), np.float32) for tokens in (16, keys, keys)]
    arrays[0][..., 0] = 1.0
    arrays[1][:, :, 1:, 0] = representable(np.array([-64 * np.log(2.0)]), dtype)[0]
    arrays[2][:] = 1.0
    claim = stub.probe(PROBE, "run", arrays, dtype, False, config(16, 16))
    got = float(np.asarray(claim.get("numbers", np.nan)).ravel()[0])
    require(
        abs(got - 1) <= EPSILON[dtype] / 4,
        f"attention in {dtype}: one score of 0, {keys - 1} of about -11.1, and all values 1: {got:.6g}, expected "
        f"1. A total that is kept in {dtype} loses the small weights; the weighted values keep them",
    )


@task("triton_ex06.attention")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_fading_is_kept_in_float32(stub: Any, dtype: str) -> None:
    """Each block's scores are a little larger than the last one's, so little that exp of it is 1 in 16 bits."""
    blocks, rise = 32, EPSILON[dtype] / 8
    arrays = [np.zeros((1, 1, tokens, 16), np.float32) for tokens in (16, blocks * 16, blocks * 16)]
    arrays[0][..., 0] = 1.0
    arrays[1][..., 0] = 4 * rise * np.arange(blocks).repeat(16)
    arrays[2][:] = np.repeat([1.0, -1.0], blocks * 8)[:, None]
    claim = stub.probe(PROBE, "run", arrays, dtype, False, config(16, 16))
    got = float(np.asarray(claim.get("numbers", np.nan)).ravel()[0])
    want = float(expected(arrays, dtype, False)[0].ravel()[0])
    require(
        abs(got - want) <= EPSILON[dtype] / 2,
        f"attention in {dtype}: each block scores {rise:.2g} more than the last one; half of the values are 1 and "
        f"half -1: {got:.6g}, expected {want:.6g}. exp(old - new) is so near 1 that {dtype} makes it 1",
    )


@task("triton_ex06.attention")
def test_each_call_anew(stub: Any, seed: int) -> None:
    numbers = [drawn(seed + n, (1, 1, 20, 30, 16), "float16") for n in range(2)]
    found = stub.probe(PROBE, "twice", *numbers, config(16, 16))
    for key, given in zip(("first", "second"), numbers, strict=True):
        want, allowed = expected(given, "float16", False)
        require(
            bool((np.abs(found[key] - want) <= allowed).all()),
            f"attention called twice, with other numbers in the same tensors: the {key} result, looked "
            "at afterwards, is wrong. Each call computes anew, into a tensor of its own",
        )
