"""Checks of `triton_ex01`: a vector add by count, and sweeps over sizes by their own arithmetic."""

from __future__ import annotations

import json
import random
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from grading.checks import task
from grading.checks.assertions import call_words, near, require
from grading.checks.fixtures import recordings
from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError, LabError

PROBE = Path(__file__).resolve().with_name("probes") / "triton_vector_add.py"
SWEEPS = recordings("triton_vector_add_fp32", "triton_vector_add_bf16", holding="measurements.json")


# -- vector_add -------------------------------------------------------------------------------------

SIZES = {"float32": 4, "float16": 2, "bfloat16": 2}


@task("triton_ex01.vector_add")
@pytest.mark.parametrize("dtype", SIZES)
def test_the_sum_is_right(stub: Any, dtype: str, seed: int) -> None:
    for shape, block in (
        ([256], 64),
        ([3, 5, 7], 32),
        ([1], 128),
        ([2000], None),
        ([70_001], 8192),  # beyond the whole numbers that 16 bits hold
    ):
        counts = stub.probe(PROBE, "add", shape, dtype, block, seed)
        require(
            not counts["problem"],
            f"vector_add of two {dtype} tensors of shape {shape}, block_size {block or 1024}: "
            f"{counts['problem']}",
        )


@task("triton_ex01.vector_add")
def test_every_call_anew(stub: Any, seed: int) -> None:
    found = stub.probe(PROBE, "twice", seed)
    for key, what in (
        ("second", "called again after x was changed in place"),
        ("first", "looked at again after a second call"),
    ):
        require(
            found[key],
            f"vector_add of two float32 vectors of 100 elements, {what}: the {key} result is wrong. Each "
            "call computes anew, into a tensor of its own",
        )


@task("triton_ex01.vector_add")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_no_byte_too_many(stub: Any, dtype: str, seed: int) -> None:
    n = random.Random(f"bytes {seed}").randrange(300, 500)
    counts = stub.probe(PROBE, "add", [n], dtype, 64, seed)
    call = f"vector_add of two {dtype} vectors of {n} elements, block_size 64"
    vector = n * SIZES[dtype]
    require(
        counts["programs"] > 0,
        f"{call}: no Triton program was started. The sum must come from your kernel, not from PyTorch",
    )
    require(
        not counts["torch_operators"],
        f"{call}: PyTorch ran {', '.join(counts['torch_operators'])} beside the kernel, which moves "
        "bytes again; it may allocate the result and nothing else",
    )
    require(
        counts["load_bytes"] == 2 * vector,
        f"{call}: the programs loaded {counts['load_bytes']:,} bytes, expected {2 * vector:,}: each "
        f"of the two vectors has {vector:,} and is read once",
    )
    require(
        counts["store_bytes"] == vector and not counts["atomic_bytes"],
        f"{call}: the programs stored {counts['store_bytes']:,} bytes and {counts['atomic_bytes']:,} "
        f"by atomics, expected {vector:,} and 0: the result is written once",
    )


@task("triton_ex01.vector_add")
def test_as_many_programs_as_it_takes(stub: Any, seed: int) -> None:
    for n, block, programs in ((256, 64, 4), (257, 64, 5), (31, 32, 1), (100, 32, 4), (1025, 0, 2)):
        counts = stub.probe(PROBE, "add", [n], "float32", block or None, seed)
        require(
            (counts["launches"], counts["programs"]) == (1, programs),
            f"vector_add of {n} elements, block_size {block or 1024}: {counts['launches']} launches "
            f"with {counts['programs']} programs in all, expected one with {programs}. A program adds "
            "block_size elements, and one more than needed is launched for nothing",
        )


@task("triton_ex01.vector_add")
def test_nothing_to_add(stub: Any) -> None:
    for shape in ([0], [3, 0]):
        counts = stub.probe(PROBE, "add", shape, "float32", 64, 1)
        require(
            not counts["problem"] and not counts["launches"],
            f"vector_add of empty tensors of shape {shape}: {counts['launches']} launches "
            f"{counts['problem']}; a GPU refuses a launch of no programs, so there must be none",
        )


@task("triton_ex01.vector_add")
@pytest.mark.parametrize(
    ("case", "why"),
    [
        ("shape", "64 and 65 elements have no sum"),
        ("broadcast", "to repeat the smaller one is not asked for"),
        ("order", "64 elements and 8 by 8 are as many, but not of one shape"),
        ("dtype", "a sum of float32 and float16 would need a rule for its dtype"),
        ("integers", "the contract names three dtypes"),
        ("doubles", "the contract names three dtypes, and float64 is none of them"),
        ("device", "a kernel reaches one device's memory"),
        ("columns of x", "x is not contiguous, so its elements lie in another order"),
        ("columns of y", "y is not contiguous, so its elements lie in another order"),
        ("block", "tl.arange takes powers of two"),
        ("large block", "16384 is not one of BLOCK_SIZES"),
    ],
)
def test_what_cannot_be_added_is_refused(stub: Any, case: str, why: str) -> None:
    with stub.raises(ValueError, why=why):
        stub.probe(PROBE, "refuse", case)


# -- bandwidth_gb_s -----------------------------------------------------------------------------------


@task("triton_ex01.bandwidth_gb_s")
def test_a_rate_in_gb_a_second(stub: Any, seed: int) -> None:
    chance = random.Random(f"rate {seed}")
    for size in (4, 2, 8):
        n, time_ms = chance.randrange(10**6, 10**8), chance.uniform(0.01, 2.0)
        got = stub.bandwidth_gb_s(n, size, time_ms)
        want = 3 * n * size / (time_ms * 1e-3) / 1e9
        slips = {
            want / 3 * 2: "that leaves out the vector that is written",
            want / 3: "that counts one of the three vectors",
            want * 1e9 / 2**30: "that is in GiB/s, of 2^30 bytes",
            want * 8: "that counts bits",
            want / 1e3: "is the time in ms?",
            want * 1e3: "that is in MB/s",
            want * 1e6: "the time is in ms, not in ns",
        }
        why = next(
            (text for slip, text in slips.items() if near(got, slip)),
            "two vectors are read and one is written in that time",
        )
        require(
            near(got, want),
            f"bandwidth_gb_s({n}, {size}, {time_ms:.4g}) returned {got!r}, expected {want:.6g} GB/s: "
            f"{why}",
        )


@task("triton_ex01.bandwidth_gb_s")
@pytest.mark.parametrize("bad", [(0, 4, 1.0), (-5, 4, 1.0), (8, 0, 1.0), (8, 4, 0.0), (8, 4, -1.0)])
def test_no_rate_without_bytes_and_time(stub: Any, bad: tuple) -> None:
    with stub.raises(ValueError, why="a rate needs elements, bytes and a time"):
        stub.bandwidth_gb_s(*bad)
    require(
        near(stub.bandwidth_gb_s(1, 1, 3e-6), 1.0),
        "bandwidth_gb_s(1, 1, 3e-6): three bytes in 3 ns are 1 GB/s",
    )


# -- sweeps -------------------------------------------------------------------------------------------


def table_of(capture: str) -> dict[str, Any]:
    """The file of a sweep, read here."""
    return json.loads(captures.text(capture, "measurements.json"))


@pytest.fixture
def sweep(tmp_path: Path, seed: int) -> Callable[..., str]:
    """Writes a generated sweep: `sweep("A100 80GB SXM", nth)`; its folder."""

    def write(device: str, nth: int = 0) -> str:
        chance = random.Random(f"sweep {device} {nth} {seed}")
        known = devices.get(device)
        peak = known.memory_bandwidth_bytes_per_s / 1e9
        floors = {"eager": chance.uniform(9e3, 2e4), "graph": chance.uniform(1.5e3, 3e3)}
        rows = []
        for exponent in range(10, 29):
            n = 2**exponent + chance.randrange(0, 900)
            moved = 3 * n * 4
            row: dict[str, Any] = {"n": n, "bytes": moved}
            rate = peak * (1.8 if moved < 0.6 * (known.l2_bytes or 0) else 0.9)
            if (known.l2_bytes or 0) * 0.6 <= moved <= (known.l2_bytes or 0):
                rate = peak * 0.8
            for way, floor in floors.items():
                level = max(floor, moved / rate) * chance.uniform(1.0, 1.02)
                row[way] = _samples(chance, level)
            row["cold"] = _samples(chance, 2e3 + moved / (0.85 * peak))
            copied = 2e3 + moved * 2 / 3 / (0.9 * peak)
            row["copy"] = _samples(chance, copied) if exponent >= 22 else None
            rows.append(row)
        folder = tmp_path / f"sweep_{nth}"
        folder.mkdir()
        text = json.dumps({"format": 1, "unit": "ns", "device": device, "sizes": rows})
        (folder / "measurements.json").write_text(text, "utf-8")
        return str(folder)

    return write


def _samples(chance: random.Random, level: float) -> list[int]:
    """Samples around a level, a few of them far above: a mean is not the median."""
    found = [round(level * chance.uniform(0.98, 1.02)) for _ in range(10)]
    found += [round(level * chance.uniform(2, 5)) for _ in range(chance.randrange(1, 4))]
    chance.shuffle(found)
    return found


def judge_floor(stub: Any, capture: str, way: str) -> None:
    """Hold a floor against the file."""
    rows = table_of(capture)["sizes"]
    medians = [statistics.median(row[way]) for row in rows]
    got, want = stub.launch_floor_ns(capture, way), min(medians)
    why = "it is the smallest median of all sizes"
    if near(got, min(min(row[way]) for row in rows)):
        why = "that is the fastest single sample, which no typical call reaches"
    elif near(got, min(statistics.fmean(row[way]) for row in rows)):
        why = "that is a mean, and a few slow samples move it"
    elif any(
        near(got, min(statistics.median(row[w] or [0]) for row in rows)) for w in row_ways(way)
    ):
        why = "that is the median of another way to call"
    elif near(got, medians[0]):
        why = "that is the first row's, and another one took less"
    require(
        near(got, want),
        f"{call_words('launch_floor_ns', capture, way)} returned {got!r}, expected {want:.6g} ns: {why}",
    )


def row_ways(but: str) -> list[str]:
    """The other ways of a row."""
    return [way for way in ("eager", "graph", "cold") if way != but]


@task("triton_ex01.launch_floor_ns")
@SWEEPS
@pytest.mark.parametrize("way", ["eager", "graph"])
def test_the_floor_of_a_recording(stub: Any, recording: str, way: str) -> None:
    judge_floor(stub, recording, way)


@task("triton_ex01.launch_floor_ns")
def test_the_floor_of_a_generated_sweep(stub: Any, sweep: Callable[..., str]) -> None:
    for nth, way in enumerate(("eager", "graph")):
        judge_floor(stub, sweep("A100 80GB SXM", nth), way)


@task("triton_ex01.launch_floor_ns")
def test_what_is_no_sweep_has_no_floor(
    stub: Any, sweep: Callable[..., str], tmp_path: Path
) -> None:
    good = sweep("H200")
    for way in ("warm", "cold"):
        with stub.raises(ValueError, way, why="a floor is that of calls which follow each other"):
            stub.launch_floor_ns(good, way)
    table = table_of(good)
    del table["sizes"][3]["graph"]
    for name, text in {
        "gap": json.dumps(table),
        "empty": json.dumps({"device": "H200", "sizes": []}),
        "list": "[]",
        "text": "no json",
    }.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / "measurements.json").write_text(text, "utf-8")
        with stub.raises(CaptureError, why="there are no samples to take a floor from"):
            stub.launch_floor_ns(str(folder), "graph")


def expected_regimes(capture: str, way: str) -> list[dict[str, Any]]:
    """Regimes, computed here."""
    table = table_of(capture)
    device = devices.get(table["device"])
    medians = [statistics.median(row[way]) for row in table["sizes"]]
    out = []
    for row, median in zip(table["sizes"], medians, strict=True):
        rate = row["bytes"] / median
        beyond = bool(device.l2_bytes) and row["bytes"] > device.l2_bytes
        regime = "dram" if beyond else "mixed"
        if rate > device.memory_bandwidth_bytes_per_s / 1e9:
            regime = "cache"
        if median <= 1.25 * min(medians):
            regime = "launch"
        out.append(
            {
                "n": row["n"],
                "bytes": row["bytes"],
                "time_ns": median,
                "gb_s": rate,
                "regime": regime,
            }
        )
    return out


EVIDENCE = {
    "launch": "its time is that of the smallest sizes, so size does not rule",
    "cache": "its rate is above the peak of the memory, so the bytes cannot all come from there",
    "dram": "its bytes do not fit into the L2 cache, and its rate is below the peak of the memory",
    "mixed": "it is no longer flat, its rate is below the memory's peak, and its bytes would fit into "
    "the L2 cache: nothing here names one limit",
}


def judge_regimes(stub: Any, capture: str, way: str) -> None:
    """Hold regimes against those computed here."""
    call = call_words("regimes", capture, way)
    got, want = stub.regimes(capture, way), expected_regimes(capture, way)
    require(
        isinstance(got, list) and len(got) == len(want) and all(isinstance(r, dict) for r in got),
        f"{call} returned {len(got) if isinstance(got, list) else got!r} rows, expected {len(want)} "
        "dicts: one a size of the file",
    )
    for row, right in zip(got, want, strict=True):
        size = f"{call}, {right['n']:,} elements"
        require(row.keys() == right.keys(), f"{size}: has {sorted(row)}, expected {sorted(right)}")
        for key in ("n", "bytes", "time_ns", "gb_s"):
            require(
                near(row[key], right[key]),
                f"{size}: {key} is {row[key]!r}, expected {right[key]:.6g} (ns, bytes, GB/s of 10^9)",
            )
        require(
            row["regime"] == right["regime"],
            f"{size}: {right['time_ns']:,.0f} ns, {right['gb_s']:,.0f} GB/s: regime is "
            f"{row['regime']!r}, but {EVIDENCE[right['regime']]}",
        )


@task("triton_ex01.regimes")
@SWEEPS
@pytest.mark.parametrize("way", ["eager", "graph"])
def test_regimes_of_a_recording(stub: Any, recording: str, way: str) -> None:
    judge_regimes(stub, recording, way)


@task("triton_ex01.regimes")
@pytest.mark.parametrize("device", ["A100 80GB SXM", "H200", "T4", "L40S"])
def test_regimes_of_a_generated_sweep(stub: Any, sweep: Callable[..., str], device: str) -> None:
    folder = sweep(device)
    for way in ("eager", "graph"):
        judge_regimes(stub, folder, way)


@task("triton_ex01.regimes")
def test_at_the_limits_of_a_regime(stub: Any, tmp_path: Path) -> None:
    l2, peak = 62_914_560, 4800
    rows = [
        (2, 24, 1250.0),  # as much as FLAT_RATIO allows
        (1, 12, 1000.0),
        (3, 36, 1251.0),
        (5, 4801 * 2000, 2000.0),
        (4, 4800 * 2000, 2000.0),  # at the peak, and not above
        (6, l2, l2 / peak * 2),  # fills the cache
        (7, l2 + 12, l2 / peak * 2),
        (8, 48_000_000_010_000, 1e10),  # above the peak by less than a millionth
    ]
    table = {
        "device": "H200",
        "sizes": [{"n": n, "bytes": b, "graph": [t] * 3, "eager": [t]} for n, b, t in rows],
    }
    (tmp_path / "measurements.json").write_text(json.dumps(table), "utf-8")
    want = ["launch", "launch", "mixed", "cache", "mixed", "mixed", "dram", "cache"]
    got = [row.get("regime") for row in stub.regimes(str(tmp_path), "graph")]
    require(
        got == want,
        f"regimes of rows at the limits returned {got}, expected {want}, in the file's order: a time of exactly FLAT_RATIO "
        "times the floor is flat, a rate of exactly the peak needs no cache, and bytes that just fill "
        "the L2 cache fit",
    )


@task("triton_ex01.regimes")
def test_a_device_that_nobody_knows(stub: Any, sweep: Callable[..., str]) -> None:
    folder = Path(sweep("H200"))
    file = folder / "measurements.json"
    file.write_text(file.read_text("utf-8").replace('"H200"', '"Abacus 3"'), "utf-8")
    with stub.raises(LabError, "Abacus", why="without its peak there is no evidence for a cache"):
        stub.regimes(str(folder), "graph")
    with stub.raises(ValueError, why="there is no such way to call"):
        stub.regimes(str(folder), "often")


def judge_shares(stub: Any, capture: str) -> None:
    """Hold shares against the file."""
    call = call_words("share_of_copy", capture)
    rows = [row for row in table_of(capture)["sizes"] if row["copy"]]
    got = stub.share_of_copy(capture)
    require(
        isinstance(got, list) and [r.get("n") for r in got] == [row["n"] for row in rows],
        f"{call} returned {got!r:.300}, expected rows for the {len(rows)} sizes with a copy: "
        f"{[row['n'] for row in rows]}",
    )
    for mine, row in zip(got, rows, strict=True):
        add = row["bytes"] / statistics.median(row["cold"])
        vector = row["bytes"] / 3
        copy = 2 * vector / statistics.median(row["copy"])
        right = {"n": row["n"], "add_gb_s": add, "copy_gb_s": copy, "share_ratio": add / copy}
        size = f"{call}, {row['n']:,} elements"
        require(mine.keys() == right.keys(), f"{size}: has {sorted(mine)}, not {sorted(right)}")
        slips = {
            copy * 1.5: "a copy touches two vectors, not three",
            copy / 2: "a copy reads its source and writes its target: both count",
            row["bytes"] / statistics.median(row["graph"]): "that is of calls that repeat, whose "
            "vectors may be in the cache; the copy was timed cold",
            row["bytes"] / statistics.fmean(row["cold"]): "a few slow samples move a mean",
        }
        for key, value in right.items():
            why = next(
                (t for slip, t in slips.items() if near(mine[key], slip)), "bytes over median"
            )
            require(
                near(mine[key], value),
                f"{size}: {key} is {mine[key]!r}, expected {value:.6g} (GB/s, share): {why}",
            )


@task("triton_ex01.share_of_copy")
@SWEEPS
def test_the_share_of_a_recording(stub: Any, recording: str) -> None:
    judge_shares(stub, recording)


@task("triton_ex01.share_of_copy")
def test_the_share_of_a_generated_sweep(
    stub: Any, sweep: Callable[..., str], tmp_path: Path
) -> None:
    folder = sweep("A100 80GB SXM")
    judge_shares(stub, folder)
    table = table_of(folder)
    table["sizes"].reverse()
    (tmp_path / "measurements.json").write_text(json.dumps(table), "utf-8")
    judge_shares(stub, str(tmp_path))
    for row in table["sizes"]:
        row["copy"] = None
    (tmp_path / "measurements.json").write_text(json.dumps(table), "utf-8")
    with stub.raises(CaptureError, why="there is nothing to compare with"):
        stub.share_of_copy(str(tmp_path))


# -- live ---------------------------------------------------------------------------------------------


@task("triton_ex01.vector_add_live")
@pytest.mark.parametrize(("dtype", "exponent"), [("float32", 26), ("bfloat16", 27)])
def test_as_fast_as_a_copy(stub: Any, dtype: str, exponent: int) -> None:
    n = 2**exponent + 24  # no multiple of a block
    found = stub.probe(PROBE, "live", n, dtype, 5)
    require(found["right"], f"vector_add_live of {n:,} {dtype}: the sum is wrong")
    require(
        found["bytes"] >= 4 * found["l2_bytes"], "the vectors are too small for this GPU's cache"
    )
    ratios = [(3 / add) / (2 / copy) for add, copy in found["times_ns"]]
    share = statistics.median(ratios)
    least = statistics.median(add for add, _ in found["times_ns"])
    require(
        3 * found["bytes"] / least < 20_000,
        "more than 20 TB/s: no GPU's memory moves that, so the sum was not computed in that time",
    )
    require(
        share >= 0.92,
        f"vector_add_live of {n:,} {dtype} reached {share:.1%} of a copy's bytes a second (repeats: "
        f"{', '.join(f'{ratio:.1%}' for ratio in ratios)}), expected at least 92 %: does every thread "
        "load 16 bytes at a time, and are there enough of them in flight?",
    )
