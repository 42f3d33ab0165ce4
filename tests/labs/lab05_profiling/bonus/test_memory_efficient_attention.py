"""Checks of attention in blocks: its numbers against float64, its memory by watching every tensor.

The attention runs beside the learner's code (probes/allocations.py); what comes back is a claim,
bounded by fresh inputs and by the operations that no attention does without.
"""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from grading.checks import task
from grading.checks.assertions import fail

PROBE = Path(__file__).resolve().with_name("probes") / "allocations.py"
PARTIALS = PROBE.with_name("partials.py")


# -- merge_partials -------------------------------------------------------------------------------


def partial(scores: np.ndarray, values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What is known of rows after these keys, row by row."""
    largest, total = np.full(len(scores), -np.inf), np.zeros(len(scores))
    mix = np.zeros((len(scores), values.shape[1]))
    for row, line in enumerate(scores):
        seen = [
            (score, value) for score, value in zip(line, values, strict=True) if score > -np.inf
        ]
        if seen:
            largest[row] = max(score for score, _ in seen)
            total[row] = math.fsum(math.exp(score - largest[row]) for score, _ in seen)
            mix[row] = sum(math.exp(score - largest[row]) * value for score, value in seen)
    return largest, total, mix


def judge_merge(stub: Any, scores: np.ndarray, cut: int, dtype: type, what: str) -> None:
    """Merge the partials of the keys before and after a cut, and compare."""
    values = np.random.default_rng(cut).standard_normal((scores.shape[1], 3))
    left, right = partial(scores[:, :cut], values[:cut]), partial(scores[:, cut:], values[cut:])
    first, second = (tuple(array.astype(dtype) for array in side) for side in (left, right))
    got = stub.merge_partials(first, second)
    call = f"merge_partials(…) of {cut} and {scores.shape[1] - cut} keys, {what}"
    if not isinstance(got, (tuple, list)) or len(got) != 3:
        fail(f"{call} returned {got!r}, expected three arrays: largest, total, mix")
    for name, array, want in zip(
        ("largest", "total", "mix"), got, partial(scores, values), strict=True
    ):
        if not isinstance(array, np.ndarray) or array.shape != want.shape or array.dtype != dtype:
            found = f"{array.dtype} {array.shape}" if isinstance(array, np.ndarray) else repr(array)
            fail(f"{call}: {name} is {found}, expected {np.dtype(dtype)} {want.shape}")
        right_there = np.isclose(
            array, want, rtol=1e-4 if dtype is np.float32 else 1e-11, atol=1e-6
        )
        right_there |= array == want
        if not right_there.all():
            row = int(np.argwhere(~right_there)[0][0])
            shift = want[row] if name == "largest" else "the larger one"
            why = (
                "an exponential of a score itself is beyond every float; of a difference to the largest "
                "score it is not"
            )
            if np.isfinite(array[row]).all():
                why = (
                    f"the sums of the two blocks were taken against different largest scores "
                    f"({first[0][row]} and {second[0][row]}), and the merged ones are against {shift}"
                )
            elif np.isneginf(first[0][row]) or np.isneginf(second[0][row]):
                why = (
                    "a block has no key for this row, and minus infinity minus itself is no number"
                )
            fail(f"{call}: {name} of row {row} is {array[row]}, expected {want[row]}: {why}")
    told = stub.probe(PARTIALS, "side_effects", list(first), list(second))
    if told["changed"]:
        fail(f"{call} changed its arguments; a second merge would count them twice")
    if told["warned"]:
        fail(f"{call}: numpy warns of {told['warned']!r}, a sign of a value that is no number")


@task("lab05_bonus.merge_partials")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_two_blocks_of_keys(stub: Any, seed: int, dtype: type) -> None:
    chance = np.random.default_rng(seed)
    judge_merge(stub, chance.standard_normal((5, 9)), 4, dtype, "small scores")
    judge_merge(stub, chance.standard_normal((5, 9)) * 3 + np.arange(9), 6, dtype, "rising scores")
    judge_merge(stub, chance.standard_normal((5, 9)) * 3 - np.arange(9), 2, dtype, "falling scores")


@task("lab05_bonus.merge_partials")
def test_scores_beyond_the_exponential(stub: Any, seed: int) -> None:
    chance = np.random.default_rng(seed)
    for shift in (2_000.0, -2_000.0):
        scores = chance.standard_normal((4, 8)) + shift
        judge_merge(stub, scores, 3, np.float64, f"scores near {shift:g}")
    scores = chance.standard_normal((4, 8))
    scores[:, 5] = 5_000.0
    judge_merge(stub, scores, 4, np.float64, "one score of 5000")


@task("lab05_bonus.merge_partials")
def test_rows_without_keys(stub: Any, seed: int) -> None:
    scores = np.random.default_rng(seed).standard_normal((4, 6))
    scores[0, :3] = scores[1, 3:] = scores[2] = -np.inf
    what = "with rows that one block, or both, have no key for"
    judge_merge(stub, scores, 3, np.float64, what)


@task("lab05_bonus.merge_partials")
def test_blocks_that_do_not_fit(stub: Any) -> None:
    def block(rows: int, width: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return np.zeros(rows), np.ones(rows), np.zeros((rows, width))

    for other in (block(3, 2), block(4, 3), block(1, 2)):
        with stub.raises(ValueError, why="these are not the same rows"):
            stub.merge_partials(block(4, 2), other)
    odd = (np.zeros(3), np.ones(3), np.zeros((4, 2)))
    with stub.raises(ValueError, why="3 largest scores, and 4 rows of sums"):
        stub.merge_partials(odd, odd)
    odd = (np.zeros(4), np.ones(3), np.zeros((4, 2)))
    with stub.raises(ValueError, why="4 largest scores, and 3 sums"):
        stub.merge_partials(odd, odd)
    with stub.raises(ValueError, why="the second has only two arrays"):
        stub.merge_partials(block(4, 2), block(4, 2)[:2])
    odd = (np.zeros((4, 1)), np.ones((4, 1)), np.zeros((4, 2)))
    with stub.raises(ValueError, why="largest has two dimensions"):
        stub.merge_partials(odd, odd)


# -- blockwise_attention --------------------------------------------------------------------------


def seen_keys(
    queries: int, keys: int, causal: bool, key_mask: np.ndarray | None, lead: tuple[int, ...]
) -> np.ndarray:
    """Which query sees which key, (…, queries, keys)."""
    allowed = np.ones((queries, keys), dtype=bool)
    if causal:
        for query in range(queries):
            for key in range(keys):
                allowed[query, key] = key - (keys - queries) <= query
    allowed = np.broadcast_to(allowed, (*lead, queries, keys))
    if key_mask is not None:
        allowed = allowed & np.broadcast_to(key_mask, (*lead, keys))[..., None, :]
    return allowed


def exact(
    arrays: list[np.ndarray], allowed: np.ndarray, upstream: np.ndarray | None = None
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Attention in float64 with all scores at once, and its gradients by the chain rule."""
    query, key, value = (array.astype(np.float64) for array in arrays)
    scale = 1 / math.sqrt(query.shape[-1])
    scores = np.where(allowed, query @ key.swapaxes(-1, -2) * scale, -np.inf)
    largest = scores.max(axis=-1, keepdims=True)
    powers = np.where(allowed, np.exp(scores - np.where(np.isinf(largest), 0, largest)), 0)
    total = powers.sum(axis=-1, keepdims=True)
    shares = powers / np.where(total == 0, 1, total)
    result = shares @ value
    if upstream is None:
        return result, []
    d_shares = upstream @ value.swapaxes(-1, -2)
    d_scores = shares * (d_shares - (d_shares * shares).sum(axis=-1, keepdims=True)) * scale
    grads = [d_scores @ key, d_scores.swapaxes(-1, -2) @ query, shares.swapaxes(-1, -2) @ upstream]
    return result, grads


def drawn(
    seed: int, lead: tuple[int, ...], queries: int, keys: int, width: int, out: int
) -> list[np.ndarray]:
    """Random query, key and value in float32; values around 3, so that their sums are large."""
    chance = np.random.default_rng(seed)
    shapes = [(*lead, queries, width), (*lead, keys, width), (*lead, keys, out)]
    query, key, value = (chance.standard_normal(shape).astype(np.float32) for shape in shapes)
    return [query, key, value + np.float32(3)]


def rounded_to_bf16(array: np.ndarray) -> np.ndarray:
    """To the nearest bfloat16, ties to even."""
    bits = array.astype(np.float32).view(np.uint32)
    bits = (bits + 0x7FFF + ((bits >> 16) & 1)) & np.uint32(0xFFFF0000)
    return bits.view(np.float32)


def words(arrays: list[np.ndarray], dtype: str, options: dict[str, Any]) -> str:
    shapes = ", ".join(str(array.shape) for array in arrays)
    named = "".join(f", {key}={value}" for key, value in options.items())
    return f"blockwise_attention({shapes}, {dtype}{named})"


def judge(
    stub: Any,
    arrays: list[np.ndarray],
    dtype: str = "float32",
    key_mask: np.ndarray | None = None,
    why: str = "",
    tolerance: tuple[float, float] = (1e-5, 1e-5),
    **options: Any,
) -> dict[str, Any]:
    """Run it and compare with float64; returns what was watched."""
    told = stub.probe(PROBE, "attended", arrays, dtype, options, key_mask=key_mask)
    call = words(arrays, dtype, options)
    queries, keys = arrays[0].shape[-2], arrays[1].shape[-2]
    lead = arrays[0].shape[:-2]
    allowed = seen_keys(queries, keys, options.get("causal", False), key_mask, lead)
    want, _ = exact(arrays, allowed)
    got = told["result"]
    if got.shape != want.shape or told["dtype"] != dtype:
        fail(
            f"{call} returned {told['dtype']} {got.shape}, expected {dtype} {want.shape}: the inputs' "
            "type, a row for each query"
        )
    if not np.isfinite(got).all():
        row = tuple(int(i) for i in np.argwhere(~np.isfinite(got))[0])
        fail(f"{call}: element {row} is {got[row]}, expected {want[row]:.6g}. {why}")
    wrong = np.abs(got - want) > tolerance[0] * np.abs(want) + tolerance[1]
    if wrong.any():
        place = tuple(int(i) for i in np.argwhere(wrong)[0])
        fail(
            f"{call}: element {place} is {got[place]:.6g}, expected {want[place]:.6g} (a row of "
            f"{queries} queries sees {int(allowed[place[:-1]].sum())} of {keys} keys). {why}"
        )
    if told["changed"]:
        fail(f"{call} changed its inputs")
    return told


@task("lab05_bonus.blockwise_attention")
def test_lengths_that_no_block_divides(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    for lead in ((), (2,), (2, 3)):
        queries, keys = pick.choice([7, 13, 31]), pick.choice([5, 17, 29])
        arrays = drawn(seed, lead, queries, keys, 8, 5)
        for block in (1, 4, 16, 100):
            if block > 1 or not lead:
                why = f"No block of {block} divides {queries} or {keys}: the last ones are shorter."
                judge(stub, arrays, why=why, block_size=block)
    judge(stub, drawn(seed, (), 9, 9, 4, 4), why="block_size has a default.")


@task("lab05_bonus.blockwise_attention")
def test_causal_queries_are_the_last_tokens(stub: Any, seed: int) -> None:
    why = "Query i sees the keys up to number i + keys - queries."
    for queries, keys in ((13, 13), (5, 13), (13, 5), (1, 9)):
        arrays = drawn(seed, (2,), queries, keys, 8, 8)
        for block in (4, 5, 32):
            judge(stub, arrays, why=why, block_size=block, causal=True)


@task("lab05_bonus.blockwise_attention")
def test_padding_and_rows_that_see_nothing(stub: Any, seed: int) -> None:
    chance = np.random.default_rng(seed)
    arrays = drawn(seed, (2, 3), 11, 14, 8, 8)
    mask = chance.random((2, 1, 14)) > 0.4
    mask[0, 0, :6] = False  # whole blocks at the start see nothing
    mask[1] = False
    why = "A query that sees no key gets zeros; padding is not seen."
    for causal in (False, True):
        judge(stub, arrays, key_mask=mask, why=why, block_size=4, causal=causal)
    judge(stub, arrays, key_mask=mask[0, 0], why=why, block_size=5)


@task("lab05_bonus.blockwise_attention")
def test_large_scores(stub: Any, seed: int) -> None:
    arrays = drawn(seed, (2,), 10, 23, 8, 4)
    arrays[0] = arrays[0] * np.float32(60)
    arrays[1] = arrays[1] * np.float32(60)
    why = "Scores are in the thousands here: an exponential of them is beyond every float."
    tolerance = (3e-3, 3e-3)  # scores themselves are rounded at this size
    for causal in (False, True):
        judge(stub, arrays, why=why, tolerance=tolerance, block_size=6, causal=causal)


@task("lab05_bonus.blockwise_attention")
def test_half_the_bytes_and_double(stub: Any, seed: int) -> None:
    arrays = drawn(seed, (2,), 40, 400, 8, 4)
    judge(stub, arrays, "float64", tolerance=(1e-12, 1e-12), block_size=32)
    halves = [rounded_to_bf16(array) for array in arrays]
    why = (
        "Rounding the result to bfloat16 gives an error of up to 1 in 256; sums and exponentials in "
        "bfloat16 give more."
    )
    judge(stub, halves, "bfloat16", why=why, tolerance=(2**-8, 1e-3), block_size=8)


def watched(
    stub: Any, seed: int, length: int, block: int, causal: bool
) -> tuple[dict[str, Any], str]:
    """Run it on as many queries as keys, in blocks of this size; a length of several blocks."""
    arrays = drawn(seed, (2,), length, length, 4, 4)
    options = {"block_size": block, "causal": causal}
    told, call = judge(stub, arrays, **options), words(arrays, "float32", options)
    # Not in `judge`: where a side is 1 long, torch.einsum makes an elementwise product of it.
    pairs = 2 * (length * (length + 1) // 2 if causal else length * length)
    if told["flops"] < 2 * 8 * pairs:
        fail(
            f"{call} did {told['flops']:,} operations in products; {pairs:,} pairs of query and key "
            f"need at least {2 * 8 * pairs:,}: they were not computed by products here"
        )
    return told, call


def judge_blocks(told: dict[str, Any], call: str, block: int) -> None:
    if told["largest_product"] != block * block:
        fail(
            f"{call}: the largest matrix that a product made has {told['largest_product']:,} elements; "
            f"{block} queries and {block} keys at a time make {block * block:,}"
        )


@task("lab05_bonus.blockwise_attention")
@pytest.mark.parametrize("causal", [False, True])
def test_memory_is_linear(stub: Any, seed: int, causal: bool) -> None:
    small, _ = watched(stub, seed, 128, 32, causal)
    large, call = watched(stub, seed, 256, 32, causal)
    given, block = 3 * 2 * 256 * 4, 2 * 32 * 32
    if large["largest_count"] > max(given, block):
        fail(
            f"{call} made a tensor of {large['largest_count']:,} elements. Query, key and value have "
            f"{given:,} together, a block of scores {block:,}, all scores {2 * 256 * 256:,}, a mask of "
            f"all pairs {256 * 256:,}"
        )
    growth = large["peak_bytes"] / max(small["peak_bytes"], 1)
    if growth > 2.3:
        fail(
            f"{call} keeps {large['peak_bytes']:,} bytes alive at once; with half the length it was "
            f"{small['peak_bytes']:,}: {growth:.1f} times as much for twice the length"
        )
    if taken := [name for name in large["names"] if "scaled_dot_product" in name]:
        fail(f"{call} called {taken[0]}: the blocks are yours to write here")
    judge_blocks(large, call, 32)


@task("lab05_bonus.blockwise_attention")
def test_forbidden_blocks_are_skipped(stub: Any, seed: int) -> None:
    told, call = watched(stub, seed, 192, 24, causal=True)
    blocks = 192 // 24
    most = 2 * 2 * 8 * 24 * 24 * blocks * (blocks + 1) // 2
    if told["flops"] > most:
        fail(
            f"{call} did {told['flops']:,} operations in products; the pairs of blocks in which a "
            f"query sees a key need {most:,}"
        )
    judge_blocks(told, call, 24)


@task("lab05_bonus.blockwise_attention")
def test_gradients(stub: Any, seed: int) -> None:
    arrays = drawn(seed, (2,), 9, 13, 4, 3)
    upstream = np.random.default_rng(seed).standard_normal((2, 9, 3)).astype(np.float32)
    mask = np.ones((2, 13), dtype=bool)
    mask[0, :5] = mask[1] = False
    for causal, key_mask in ((False, None), (True, None), (True, mask)):
        options = {"block_size": 4, "causal": causal}
        told = stub.probe(
            PROBE, "attended", arrays, "float64", options, key_mask=key_mask, upstream=upstream
        )
        _, want = exact(arrays, seen_keys(9, 13, causal, key_mask, (2,)), upstream.astype(float))
        for name, got, right in zip(
            ("query", "key", "value"), told["gradients"], want, strict=True
        ):
            if got is None or not np.allclose(got, right, rtol=1e-8, atol=1e-10):
                found = "missing" if got is None else f"{np.abs(got - right).max():.2g} off at most"
                fail(
                    f"{words(arrays, 'float64', options)}"
                    f"{' with a key_mask' if key_mask is not None else ''}: the gradient of {name} is "
                    f"{found}; is something computed in place, detached, or 0 times infinity?"
                )


@task("lab05_bonus.blockwise_attention")
def test_what_does_not_fit(stub: Any) -> None:
    good = [[2, 4, 8], [2, 6, 8], [2, 6, 3]]
    floats = ["float32"] * 3
    cases: list[tuple[str, list[list[int]], list[str], dict[str, Any]]] = [
        ("3 keys, 2 values", [[4, 8], [3, 8], [2, 8]], floats, {}),
        ("queries of 8, keys of 7", [[4, 8], [6, 7], [6, 8]], floats, {}),
        ("2 entries and 1", [[2, 4, 8], [1, 6, 8], [2, 6, 3]], floats, {}),
        ("values of another batch", [[2, 4, 8], [2, 6, 8], [3, 6, 3]], floats, {}),
        ("a query of one dimension", [[8], [6, 8], [6, 3]], floats, {}),
        ("a key of another type", good, ["float32", "float64", "float32"], {}),
        ("a value of another type", good, ["float32", "float32", "float16"], {}),
        ("whole numbers", good, ["int64"] * 3, {}),
        ("block_size 0", good, floats, {"block_size": 0}),
        ("block_size 2.5", good, floats, {"block_size": 2.5}),
    ]
    for what, shapes, kinds, options in cases:
        said = stub.probe(PROBE, "refused", shapes, kinds, options)
        if not said or said.startswith("!"):
            fail(f"blockwise_attention with {what}: {said or 'no error'}, expected a ValueError")
        if "block_size" in options and "block_size" not in said:
            fail(f"blockwise_attention with {what} raised {said!r}, which does not name block_size")
        if options == {} and kinds is floats and not all(str(n) in said for n in shapes[-1]):
            fail(
                f"blockwise_attention with {what} raised {said!r}, which does not say the shapes "
                f"{shapes}: then nobody sees which one is wrong"
            )
    for what, shape, kind in (
        ("for 5 of 6 keys", [5], "bool"),
        ("for one key of 6", [1], "bool"),
        ("for another batch", [3, 6], "bool"),
        ("with a dimension for each query", [2, 4, 6], "bool"),
        ("of numbers", [2, 6], "float32"),
    ):
        said = stub.probe(PROBE, "refused", good, floats, {}, mask_shape=shape, mask_dtype=kind)
        if not said or said.startswith("!"):
            fail(
                f"blockwise_attention, key_mask {what}: {said or 'no error'}, expected a ValueError"
            )
