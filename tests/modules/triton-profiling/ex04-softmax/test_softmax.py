"""Checks of `triton_ex04`: what a softmax moves, what fits on the chip, the kernel, and recorded sweeps.

Bytes come from a machine that runs each kernel step by step and counts (`grading.checks.counting`);
the kernel runs in the counting interpreter and its numbers are held against numpy in float64; rows of
captures are computed here from the file.
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

from grading.checks import counting, task
from grading.checks.assertions import fail, show
from grading.checks.fixtures import SEED_VARIABLE, recordings
from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError, LabError

PROBE = Path(__file__).resolve().with_name("probes") / "triton_softmax.py"
BYTES = {"float32": 4, "bfloat16": 2, "float16": 2, "fp32": 4, "bf16": 2, "float8": 1}
SWEEPS = ("triton_softmax", "triton_softmax_fp32")


def same(got: Any, want: Any) -> bool:
    """Equal; numbers to a relative 1e-9, whole numbers and words exactly."""
    if isinstance(want, float):
        return type(got) in (int, float) and math.isclose(got, want, rel_tol=1e-9, abs_tol=1e-9)
    return type(got) is type(want) and got == want


# -- bytes ------------------------------------------------------------------------------------------


def passes(rows: int, columns: int, reads: int) -> int:
    """Elements moved by a kernel that goes over each row `reads` times and writes it the last time."""
    machine = counting.Machine()
    x, y = machine.tensor(), machine.tensor()
    for number in range(reads):
        with machine.kernel():
            for row in range(rows):
                for column in range(columns):
                    value = x[row, column]
                    if number == reads - 1:
                        y[row, column] = value
    return machine.elements


WALKED: dict[str, Callable[[int, int], int]] = {
    "separate": lambda rows, columns: counting.softmax(rows, columns, False).elements,
    "three_pass": lambda rows, columns: passes(rows, columns, 3),
    "online": lambda rows, columns: passes(rows, columns, 2),
    "fused": lambda rows, columns: counting.softmax(rows, columns, True).elements,
}
WALKS = {
    "separate": "walk the five kernels and put an arrow to or from memory for each tensor, those with "
    "one element a row included",
    "three_pass": "three reads of each element and one write",
    "online": "the first pass needs nothing but one read of each element; the second reads again and "
    "writes",
    "fused": "a row that stays on the chip is read once and written once",
}


@task("triton_ex04.softmax_bytes")
@pytest.mark.parametrize("algorithm", WALKED)
def test_bytes_are_counted(stub: Any, seed: int, algorithm: str) -> None:
    pick = random.Random(seed)
    for dtype in pick.sample(sorted(BYTES), 3):
        rows, columns = pick.sample([2, 3, 5, 7, 11], 2)
        got = stub.softmax_bytes(rows, columns, dtype, algorithm)
        want = WALKED[algorithm](rows, columns) * BYTES[dtype]
        if not same(got, want):
            fail(
                f"softmax_bytes({rows}, {columns}, {dtype!r}, {algorithm!r}) returned {show(got)}, "
                f"expected {want} bytes: an element has {BYTES[dtype]} bytes, and "
                f"{WALKS[algorithm]} ({SEED_VARIABLE}={seed} repeats it)"
            )


@task("triton_ex04.softmax_bytes")
def test_bytes_of_nothing(stub: Any) -> None:
    for rows, columns in ((0, 4), (4, -1), (2.0, 4)):
        with stub.raises(ValueError, why=f"there is no matrix of {rows} by {columns}"):
            stub.softmax_bytes(rows, columns, "float32", "fused")
    with stub.raises(ValueError, "online", why="the message names the algorithms there are"):
        stub.softmax_bytes(4, 4, "float32", "lazy")
    with stub.raises(LabError, "bfloat16", why="there is no such data type"):
        stub.softmax_bytes(4, 4, "float17", "fused")


# -- what fits --------------------------------------------------------------------------------------

SM_REGISTERS, THREAD_REGISTERS = 65536, 255


def holds(width: int, warps: int, overhead: int) -> bool:
    """Whether the threads of a program have the registers for a row of this width."""
    threads = 32 * warps
    each = -(-width // threads) + overhead
    return width >= threads and each <= THREAD_REGISTERS and each * threads <= SM_REGISTERS


def widest(warps: int, overhead: int) -> int:
    return max((w for w in (2**n for n in range(21)) if holds(w, warps, overhead)), default=0)


@task("triton_ex04.largest_width")
@pytest.mark.parametrize("warps", [1, 2, 4, 8, 16, 32])
def test_registers_decide(stub: Any, seed: int, warps: int) -> None:
    edge = min(THREAD_REGISTERS, SM_REGISTERS // (32 * warps))
    for overhead in (0, 24, random.Random(seed).randrange(20, 60), edge - 1, edge, edge + 9):
        got = stub.largest_width(warps, overhead)
        want = widest(warps, overhead)
        if not same(got, want):
            call = f"largest_width({warps}, {overhead})"
            if type(got) is not int or got < 0:
                fail(f"{call} returned {show(got)}, expected {want} elements (a whole number)")
            each = -(-got // (32 * warps)) + overhead
            if got > want:
                fail(
                    f"{call} returned {got}, expected {want}: each of the {32 * warps} threads would "
                    f"need {each} registers; a thread has at most {THREAD_REGISTERS}, and all of them "
                    f"would need {each * 32 * warps} of the multiprocessor's {SM_REGISTERS}"
                )
            fail(
                f"{call} returned {got}, expected {want}: a row of {want} elements fits too, with "
                f"{want // (32 * warps) + overhead} registers for each of the {32 * warps} threads"
            )


@task("triton_ex04.largest_width")
def test_no_such_program(stub: Any) -> None:
    for warps in (0, 3, 64, -4):
        with stub.raises(ValueError, why=f"no program has {warps} warps"):
            stub.largest_width(warps, 24)
    for overhead in (-1, 2.5):
        with stub.raises(ValueError, why=f"a thread cannot need {overhead} registers"):
            stub.largest_width(8, overhead)


# -- the launch -------------------------------------------------------------------------------------

TILE_ELEMENTS, THREAD_ELEMENTS, WIDEST = 1024, 32, 32768


def padding(columns: int) -> int:
    """The next power of two, by trying."""
    return next(2**n for n in range(16) if 2**n >= columns)


def configured(columns: int) -> tuple[int, int]:
    """Rows and warps, by trying."""
    rows = next(2**n for n in range(11) if 2**n * padding(columns) >= TILE_ELEMENTS)
    tile = rows * padding(columns)
    return rows, next(w for w in (1, 2, 4, 8, 16, 32) if tile <= w * 32 * THREAD_ELEMENTS)


@task("triton_ex04.launch_configuration")
def test_rows_and_warps(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    widths = [1, 2, 33, 256, 257, 512, 513, 1000, 1024, 1025, 2048, 4096, 8192, 8193, 16384, 32768]
    for columns in [*widths, *(pick.randrange(1, WIDEST) for _ in range(8))]:
        got = stub.launch_configuration(columns)
        rows, warps = configured(columns)
        call = f"launch_configuration({columns})"
        if not isinstance(got, (tuple, list)) or len(got) != 2:
            fail(f"{call} returned {show(got)}, expected (rows_per_program, warps)")
        if not same(got[0], rows):
            fail(
                f"{call}: rows_per_program is {show(got[0])}, expected {rows}: a row is padded to "
                f"{padding(columns)} elements, and the tile should have at least {TILE_ELEMENTS} of "
                "them, in the fewest rows (a power of two)"
            )
        if not same(got[1], warps):
            fail(
                f"{call}: warps is {show(got[1])}, expected {warps}: the tile has "
                f"{rows * padding(columns)} elements, and a warp's 32 threads hold "
                f"{32 * THREAD_ELEMENTS}"
            )


@task("triton_ex04.launch_configuration")
def test_no_such_launch(stub: Any) -> None:
    for columns in (0, -4, 2.0, WIDEST + 1):
        with stub.raises(ValueError, why=f"{columns} columns do not go into one program"):
            stub.launch_configuration(columns)


# -- the kernel -------------------------------------------------------------------------------------

# Half a unit in the last place of the result, and a little for the float32 arithmetic before.
RELATIVE = {"float32": 4e-6, "bfloat16": 2**-8 * 1.02, "float16": 2**-11 * 1.05}
SMALLEST = {"float32": 1e-38, "bfloat16": 1e-38, "float16": 2**-25 * 1.05}


def representable(numbers: np.ndarray, dtype: str) -> np.ndarray:
    """The numbers cut off to what the data type can hold, in float32."""
    numbers = numbers.astype(np.float32)
    if dtype == "float16":
        return numbers.astype(np.float16).astype(np.float32)
    if dtype == "bfloat16":
        return (numbers.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return numbers


def expected(numbers: np.ndarray) -> np.ndarray:
    """The softmax of each row, in float64."""
    wide = numbers.astype(np.float64)
    with np.errstate(all="ignore"):
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)


def judge_softmax(
    stub: Any, numbers: np.ndarray, dtype: str, what: str, layout: str = "plain"
) -> dict[str, Any]:
    """Run `softmax` on the numbers and hold its result against float64; what was counted comes back."""
    numbers = representable(numbers, dtype)
    claim = stub.probe(PROBE, "run", numbers, dtype, layout)
    rows, columns = numbers.shape
    call = f"softmax of {rows} by {columns} in {dtype}" + (
        "" if layout == "plain" else f", {layout}"
    )
    if claim["kind"] != "Tensor":
        fail(f"{call} returned a {claim['kind']}, expected a tensor")
    if (claim["shape"], claim["dtype"]) != ([rows, columns], dtype):
        fail(
            f"{call} returned {claim['dtype']} of shape {claim['shape']}, expected {dtype} of "
            f"{[rows, columns]}: the result is like x"
        )
    if not claim["contiguous"] or not claim["unchanged"]:
        fail(f"{call}: the result is a new, contiguous tensor, and x stays as it is")
    got, want = claim["numbers"].astype(np.float64), expected(numbers)
    sure = np.isfinite(want)
    off = np.abs(got - want) > RELATIVE[dtype] * want + SMALLEST[dtype]
    off |= ~np.isfinite(got)
    off &= sure
    if off.any():
        row, column = (int(axis[0]) for axis in np.nonzero(off))
        fail(
            f"{call}: {what}. Element [{row}, {column}] is {got[row, column]:.6g}, expected "
            f"{want[row, column]:.6g} (to {RELATIVE[dtype]:.1e} of it: computed in float32, rounded "
            f"once); {int(off.sum())} of {int(sure.sum())} elements are off"
        )
    return claim["counts"]


def drawn(seed: int, rows: int, columns: int, scale: float = 3.0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((rows, columns)) * scale).astype(np.float32)


@task("triton_ex04.softmax")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_rows_of_any_width(stub: Any, seed: int, dtype: str) -> None:
    for rows, columns in ((5, 1), (9, 33), (3, 1000), (2, 4097)):
        what = (
            f"{columns} columns are padded to a power of two: what does the padding add to a row?"
        )
        judge_softmax(stub, drawn(seed, rows, columns), dtype, what)
    for most in (-40.0, -5e4 if dtype == "float16" else -1e32):
        low = most - np.abs(drawn(seed, 7, 100, abs(most) / 40))
        what = f"no element is above {most:.0e}: does the padding count as the largest of a row?"
        judge_softmax(stub, np.maximum(low, -6e4) if dtype == "float16" else low, dtype, what)


@task("triton_ex04.softmax")
def test_the_widest_rows(stub: Any, seed: int) -> None:
    for dtype in ("float32", "bfloat16"):
        judge_softmax(stub, drawn(seed, 2, WIDEST), dtype, "the widest rows that one program holds")


@task("triton_ex04.softmax")
def test_large_numbers(stub: Any, seed: int) -> None:
    for dtype, scale in (("float16", 2e4), ("float32", 1e30), ("bfloat16", 1e30)):
        numbers = np.clip(drawn(seed, 4, 50, scale), -6e4 if dtype == "float16" else -3e38, None)
        numbers = np.clip(numbers, None, 6e4 if dtype == "float16" else 3e38)
        what = "exp of a large number is inf; of its difference to the largest of the row it is not"
        judge_softmax(stub, numbers, dtype, what)


@task("triton_ex04.softmax")
def test_masked_elements(stub: Any, seed: int) -> None:
    numbers = drawn(seed, 20, 40)
    numbers[np.random.default_rng(seed + 1).random(numbers.shape) < 0.5] = -np.inf
    numbers[:, 3] = 1.0
    judge_softmax(stub, numbers, "float32", "an element of -inf gives 0")
    numbers[4], numbers[7, 5], numbers[11, 0] = -np.inf, np.nan, np.inf
    what = "rows 4, 7 and 11 hold nan, inf, or nothing but -inf; the other rows do not know that"
    judge_softmax(stub, numbers, "float32", what)


@task("triton_ex04.softmax")
@pytest.mark.parametrize("layout", ["transposed", "every other row", "part of wider rows"])
def test_other_layouts(stub: Any, seed: int, layout: str) -> None:
    numbers = drawn(seed, 12, 70)
    what = "strides say where the next row and the next column are"
    counts = judge_softmax(stub, numbers, "float32", what, layout)
    judge_counts(counts, 12, 70, "float32", f", {layout}")


def judge_counts(
    counts: dict[str, Any], rows: int, columns: int, dtype: str, more: str = ""
) -> None:
    """Each element once in and once out, by one launch, and nothing else."""
    call = f"softmax of {rows} by {columns} in {dtype}{more}"
    least = rows * columns * BYTES[dtype]
    if counts["torch_operators"]:
        fail(
            f"{call}: beside the kernel torch ran {', '.join(counts['torch_operators'])}, which reads "
            "and writes memory of its own; the kernel can do without"
        )
    if counts["launches"] != 1:
        fail(f"{call}: {counts['launches']} launches, expected one")
    for verb, key, name in (("loaded", "load_bytes", "x"), ("stored", "store_bytes", "result")):
        moved = counts[key] + counts["atomic_bytes"]
        if moved != least:
            fail(
                f"{call}: {moved} bytes were {verb}, expected {least}: each element once. "
                f"That is {moved / least:.2f} times the least, and a kernel that waits for memory "
                "takes as much longer"
            )
        distinct = counts["tensors"].get(name, {}).get(f"distinct_{key}", 0)
        if distinct != least:
            fail(f"{call}: of {name}, {distinct} different bytes were {verb}, expected {least}")


@task("triton_ex04.softmax")
def test_each_element_once(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    for dtype, rows, columns in (
        ("float32", 3, pick.randrange(2000, 3000)),
        ("bfloat16", pick.randrange(30, 40), 256),
        ("float16", 2, pick.randrange(9000, 10000)),
    ):
        numbers = drawn(seed, rows, columns)
        counts = judge_softmax(stub, numbers, dtype, "the numbers come first")
        judge_counts(counts, rows, columns, dtype)


@task("triton_ex04.softmax")
def test_the_launch_is_the_configured_one(stub: Any, seed: int) -> None:
    for dtype, rows, columns in (("bfloat16", 11, 256), ("float32", 5, 500), ("float32", 2, 8192)):
        counts = judge_softmax(stub, drawn(seed, rows, columns), dtype, "the numbers come first")
        per_program, warps = configured(columns)
        programs = -(-rows // per_program)
        call = f"softmax of {rows} by {columns} in {dtype}"
        if counts["programs"] != programs:
            fail(
                f"{call}: {counts['programs']} programs ran, expected {programs}, of {per_program} "
                "rows each: with fewer rows to a program short rows leave threads without work"
            )
        given = counts["kernels"][0]["options"].get("num_warps", 4)
        if given != warps:
            fail(f"{call}: a program got {given} warps (num_warps), expected {warps}")


@task("triton_ex04.softmax")
@pytest.mark.parametrize("far", ["rows", "columns"])
def test_elements_far_apart(stub: Any, seed: int, far: str) -> None:
    numbers = representable(drawn(seed, 3, 3), "bfloat16")
    got = stub.probe(PROBE, "far_apart", numbers, far)
    if got is None:  # this machine does not lend so many addresses
        return
    astray = got.partition(": is a lane")[0] if isinstance(got, str) else ""
    if astray or not np.allclose(got, expected(numbers), rtol=RELATIVE["bfloat16"], atol=0):
        fail(
            f"softmax of 3 by 3 in bfloat16, with {far} 2^30 + 8 elements apart: "
            f"{astray or 'wrong numbers'}. Offsets of 2^31 and more do not fit into the 32 bits of a "
            "range, a program's number, or a stride"
        )


@task("triton_ex04.softmax")
def test_every_call_anew(stub: Any, seed: int) -> None:
    numbers = [drawn(seed + n, 6, 40) for n in range(2)]
    found = stub.probe(PROBE, "twice", *numbers)
    for key, given, what in (
        ("second", numbers[1], "called again after x was changed in place"),
        ("first", numbers[0], "looked at again after a second call"),
    ):
        if not np.allclose(found[key], expected(given), rtol=RELATIVE["float32"], atol=1e-30):
            fail(
                f"softmax of 6 by 40 in float32, {what}: the {key} result is wrong. Each call "
                "computes anew, into a tensor of its own"
            )


@task("triton_ex04.softmax")
def test_no_rows(stub: Any) -> None:
    claim = stub.probe(PROBE, "run", np.zeros((0, 5), np.float32), "float32")
    if claim.get("shape") != [0, 5]:
        fail(f"softmax of 0 by 5 gave {show(claim.get('shape'))}, expected an empty tensor, 0 by 5")


@task("triton_ex04.softmax")
@pytest.mark.parametrize(
    "what",
    [
        "one dimension",
        "three dimensions",
        "no columns",
        "too many columns",
        "whole numbers",
        "float64",
    ],
)
def test_what_is_refused(stub: Any, what: str) -> None:
    with stub.raises(
        ValueError, why=f"a tensor with {what} is not what the kernel was written for"
    ):
        stub.probe(PROBE, "refused", what)


# -- sweeps -----------------------------------------------------------------------------------------

NS = {"ns": 1, "us": 1_000, "ms": 1_000_000}


def made_up(folder: Path, seed: int, unit: str, drop: tuple[str, int] | None = None) -> str:
    """A sweep with random numbers: some widths faster, some slower, some within the noise."""
    pick = random.Random(f"{seed} {unit}")
    dtype = pick.choice(["bfloat16", "float32"])
    rows = []
    for columns, factor in zip(
        pick.sample(range(100, 9000), 5), (0.4, 0.7, 0.998, 1.4, 2.9), strict=True
    ):
        typical = pick.uniform(50, 400) * 1_000
        again = pick.uniform(0.97, 1.03)
        count = pick.randrange(40, 4000)
        for name, share in (("mine", 1 / factor), ("rival", 1.0), ("rival_again", again)):
            samples = [
                typical * share * pick.uniform(0.999, 1.001) for _ in range(pick.choice([6, 9]))
            ]
            samples[2] *= pick.uniform(3, 5)  # one late sample
            if (name, len(rows) // 3) != drop:
                row = {"implementation": name, "rows": count, "columns": columns}
                rows.append(row | {"device_time": [round(s / NS[unit], 6) for s in samples]})
    folder.mkdir(parents=True, exist_ok=True)
    table = {"format": 1, "unit": unit, "dtype": dtype, "measurements": rows}
    (folder / "measurements.json").write_text(json.dumps(table), encoding="utf-8")
    return str(folder)


def quartile(samples: list[float], share: float) -> float:
    """Between the samples, linearly: 0 is the smallest, 1 the largest."""
    ordered = sorted(samples)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (place - low)


def sweep_of(capture: str) -> list[dict[str, Any]]:
    table = json.loads(captures.text(capture, "measurements.json"))
    factor, size = NS[table["unit"]], devices.dtype(table["dtype"]).bytes
    out = []
    for row in table["measurements"]:
        samples = [value * factor for value in row["device_time"]]
        median = quartile(samples, 0.5)
        out.append(
            {
                "implementation": row["implementation"],
                "columns": row["columns"],
                "median_ns": float(median),
                "iqr_ns": float(quartile(samples, 0.75) - quartile(samples, 0.25)),
                "bandwidth_gb_s": 2 * row["rows"] * row["columns"] * size / median,
                "_mean_ns": statistics.fmean(samples),
                "_unit": factor,
            }
        )
    return out


def judge_sweep(stub: Any, capture: str) -> None:
    got, want = stub.read_sweep(capture), sweep_of(capture)
    call = f"read_sweep({Path(capture).name})"
    if not isinstance(got, list) or len(got) != len(want):
        fail(
            f"{call} returned {show(got)}, expected {len(want)} rows: those of the file, in its order"
        )
    for row, right in zip(got, want, strict=True):
        keys = [key for key in right if not key.startswith("_")]
        label = f"{call}, {right['implementation']} at {right['columns']} columns"
        if not isinstance(row, dict) or sorted(row) != sorted(keys):
            fail(f"{label}: {show(row)}, expected a dict of {', '.join(keys)}")
        for key in keys:
            if not same(row[key], right[key]):
                fail(
                    f"{label}: {key} is {show(row[key])}, expected {show(right[key])}. "
                    f"{sweep_mistake(key, row[key], right)}"
                )


def sweep_mistake(key: str, got: Any, right: dict[str, Any]) -> str:
    if key == "median_ns":
        if same(got, right["_mean_ns"]):
            return (
                "That is the mean: one late sample moves it, and tells nothing of a typical call."
            )
        if right["_unit"] != 1 and same(got, right["median_ns"] / right["_unit"]):
            return "The file says in which unit its samples are."
    if key == "bandwidth_gb_s" and type(got) in (int, float) and got:
        ratio = right[key] / got
        if math.isclose(ratio, 2**30 / 1e9, rel_tol=1e-6):
            return "That is in GiB/s (2³⁰ bytes); datasheets and this course use 10⁹."
        if math.isclose(ratio, 2, rel_tol=1e-6):
            return "Each element is read and written: both pass through the memory."
    return "It follows from the samples, rows, columns and data type in the file."


@task("triton_ex04.read_sweep")
@recordings(*SWEEPS, holding="measurements.json")
def test_recorded_sweeps(stub: Any, recording: str) -> None:
    judge_sweep(stub, recording)


@task("triton_ex04.read_sweep")
@pytest.mark.parametrize("unit", ["ns", "us", "ms"])
def test_generated_sweeps(stub: Any, seed: int, tmp_path: Path, unit: str) -> None:
    judge_sweep(stub, made_up(tmp_path / f"made_up_{unit}_{seed}", seed, unit))


def one_row(folder: Path, samples: list[float], unit: str = "ns") -> str:
    folder.mkdir()
    row = {"implementation": "mine", "rows": 4, "columns": 8, "device_time": samples}
    table = {"format": 1, "unit": unit, "dtype": "float32", "measurements": [row]}
    (folder / "measurements.json").write_text(json.dumps(table), encoding="utf-8")
    return str(folder)


@task("triton_ex04.read_sweep")
def test_samples_that_say_nothing(stub: Any, tmp_path: Path) -> None:
    for number, samples in enumerate(([], [5.0], [5.0, 0.0, 4.0], [5.0, -1.0])):
        with stub.raises(CaptureError, "mine", why=f"{samples} tell no median and quartiles"):
            stub.read_sweep(one_row(tmp_path / str(number), samples))
    with stub.raises(CaptureError, "ms", why="fortnights are no unit of the format"):
        stub.read_sweep(one_row(tmp_path / "unit", [5.0, 6.0], "fortnight"))
    two = stub.read_sweep(one_row(tmp_path / "two", [5.0, 6.0]))
    if not two or not same(two[0].get("median_ns"), 5.5):
        fail(f"read_sweep of two samples, 5 and 6 ns, returned {show(two)}; their median is 5.5 ns")


def speedups_of(capture: str, ours: str, base: str) -> dict[str, Any]:
    median = {
        (row["implementation"], row["columns"]): row["median_ns"] for row in sweep_of(capture)
    }
    widths = [columns for name, columns in median if name == ours]
    noise = 1.0
    for columns in widths:
        first, second = median[base, columns], median[f"{base}_again", columns]
        noise = max(noise, first / second, second / first)
    rows, product = [], 1.0
    for columns in widths:
        speedup = median[base, columns] / median[ours, columns]
        product *= speedup
        verdict = "no win"
        if speedup > noise:
            verdict = "faster"
        elif speedup * noise < 1:
            verdict = "slower"
        rows.append({"columns": columns, "speedup_ratio": speedup, "verdict": verdict})
    return {
        "noise_ratio": noise,
        "widths": rows,
        "geometric_mean_ratio": product ** (1 / len(rows)),
    }


def judge_speedups(stub: Any, capture: str, ours: str, base: str) -> None:
    got, want = stub.speedup_by_width(capture, ours, base), speedups_of(capture, ours, base)
    call = f"speedup_by_width({Path(capture).name}, {ours!r}, {base!r})"
    if not isinstance(got, dict) or sorted(got) != sorted(want):
        fail(f"{call} returned {show(got)}, expected a dict of {', '.join(want)}")
    rows = got["widths"]
    if not isinstance(rows, list) or len(rows) != len(want["widths"]):
        fail(
            f"{call}: widths is {show(rows)}, expected {len(want['widths'])} of them, those of {ours}"
        )
    if not same(got["noise_ratio"], want["noise_ratio"]):
        fail(
            f"{call}: noise_ratio is {show(got['noise_ratio'])}, expected {show(want['noise_ratio'])}: "
            f"{base} and {base}_again are the same code, and at one width their medians differ so much"
        )
    for row, right in zip(rows, want["widths"], strict=True):
        label = f"{call} at {right['columns']} columns"
        if not isinstance(row, dict) or sorted(row) != sorted(right):
            fail(f"{label}: {show(row)}, expected a dict of {', '.join(right)}")
        if not same(row["columns"], right["columns"]):
            fail(f"{label}: columns is {show(row['columns'])}; the order is that of the file")
        if not same(row["speedup_ratio"], right["speedup_ratio"]):
            upside_down = same(row["speedup_ratio"], 1 / right["speedup_ratio"])
            fail(
                f"{label}: speedup_ratio is {show(row['speedup_ratio'])}, expected "
                f"{show(right['speedup_ratio'])}: "
                + (
                    f"that says how much slower {ours} is"
                    if upside_down
                    else f"the median of {base} over the median of {ours}"
                )
            )
        if row["verdict"] != right["verdict"]:
            fail(
                f"{label}: verdict is {show(row['verdict'])}, expected {right['verdict']!r}: the speedup "
                f"is {right['speedup_ratio']:.4f}, and two measurements of the same code differ by up "
                f"to {want['noise_ratio']:.4f} here"
            )
    geometric = got["geometric_mean_ratio"]
    if not same(geometric, want["geometric_mean_ratio"]):
        ratios = [row["speedup_ratio"] for row in want["widths"]]
        why = "the mean of all widths"
        if same(geometric, statistics.fmean(ratios)):
            why = (
                "that is the arithmetic mean. Half as fast at one width and twice as fast at another "
                "would give 1.25, and 1.25 again with the two exchanged"
            )
        fail(
            f"{call}: geometric_mean_ratio is {show(geometric)}, expected "
            f"{show(want['geometric_mean_ratio'])}: {why}"
        )


@task("triton_ex04.speedup_by_width")
@recordings(*SWEEPS, holding="measurements.json")
def test_recorded_speedups(stub: Any, recording: str, own_recording: bool) -> None:
    judge_speedups(stub, recording, "fused", "torch")
    judge_speedups(stub, recording, "one_row", "torch")
    if not own_recording and stub.speedup_by_width(recording) != stub.speedup_by_width(
        recording, "fused", "torch"
    ):
        fail(f"speedup_by_width({recording}) without names is that of fused against torch")


@task("triton_ex04.speedup_by_width")
def test_generated_speedups(stub: Any, seed: int, tmp_path: Path) -> None:
    for unit in ("us", "ms"):
        capture = made_up(tmp_path / f"made_up_{unit}_{seed}", seed, unit)
        judge_speedups(stub, capture, "mine", "rival")


@task("triton_ex04.speedup_by_width")
def test_on_the_border_of_noise(stub: Any, tmp_path: Path) -> None:
    rows = []
    for columns, mine in ((64, 80.0), (128, 125.0), (256, 79.0), (512, 126.0)):
        for name, time in (("mine", mine), ("rival", 100.0), ("rival_again", 80.0)):
            row = {"implementation": name, "rows": 4, "columns": columns}
            rows.append(row | {"device_time": [time, time]})
    table = {"format": 1, "unit": "ns", "dtype": "float32", "measurements": rows}
    (tmp_path / "measurements.json").write_text(json.dumps(table), encoding="utf-8")
    judge_speedups(stub, str(tmp_path), "mine", "rival")


@task("triton_ex04.speedup_by_width")
def test_nothing_to_compare_with(stub: Any, seed: int, tmp_path: Path) -> None:
    whole = made_up(tmp_path / "whole", seed, "ns")
    for ours, base, missing in (("other", "rival", "other"), ("mine", "mine", "mine_again")):
        with stub.raises(CaptureError, missing, why=f"the sweep holds no {missing}"):
            stub.speedup_by_width(whole, ours, base)
    for lost in ("rival", "rival_again"):
        part = made_up(tmp_path / lost, seed, "ns", drop=(lost, 2))
        with stub.raises(CaptureError, lost, why=f"{lost} was not measured at each width of mine"):
            stub.speedup_by_width(part, "mine", "rival")


# -- what the recordings say of registers -----------------------------------------------------------


@task("triton_ex04.largest_width")
@recordings(*SWEEPS, holding="measurements.json")
def test_recorded_spills(stub: Any, recording: str, own_recording: bool) -> None:
    if own_recording:
        return  # 24 registers of overhead are those of one compiler
    table = json.loads(captures.text(recording, "measurements.json"))
    for row in table.get("programs", ()):
        width = stub.largest_width(row["warps"], 24)
        spilled = row["spills_count"] > 0
        if (row["block"] > width) != spilled:
            fail(
                f"largest_width({row['warps']}, 24) returned {show(width)}; in "
                f"{Path(recording).name} a program of {row['warps']} warps with a row of {row['block']} "
                f"has {row['registers_count']} registers a thread and "
                + ("spills" if spilled else "no spills")
            )


# -- live -------------------------------------------------------------------------------------------

ALLOWANCE_RATIO = 0.98  # of torch's speed, for what the medians of five samples differ by


@task("triton_ex04.softmax_live")
@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
def test_live_speed(stub: Any, dtype: str) -> None:
    widths = [2**n for n in range(8, 16)]
    claim = stub.probe(PROBE, "timed", dtype, widths)
    ratios = {}
    for columns in widths:
        found = claim[str(columns)]
        limit = 2**-8 if dtype == "bfloat16" else 1e-5
        if found["torch_operators"]:
            fail(
                f"softmax_live of {columns} columns in {dtype}: torch ran "
                f"{', '.join(found['torch_operators'])}; its contract is that of softmax, a kernel of "
                "your own and nothing beside it"
            )
        if found["error_ratio"] > limit or not found["end_is_right"]:
            fail(
                f"softmax_live of {columns} columns in {dtype} is wrong on this GPU, at its first call "
                "or at a later one with other numbers"
            )
        ratios[columns] = statistics.median(found["torch"]) / statistics.median(found["own"])
    slow = {
        columns: round(ratio, 3) for columns, ratio in ratios.items() if ratio < ALLOWANCE_RATIO
    }
    shown = ", ".join(f"{columns}: {ratio:.3f}" for columns, ratio in ratios.items())
    if slow:
        fail(
            f"softmax_live in {dtype} against torch.softmax, ratio of speeds by columns: {shown}. "
            f"Below {ALLOWANCE_RATIO}: {slow}. Look at those widths with Nsight Compute: how many bytes "
            "are in flight?"
        )
