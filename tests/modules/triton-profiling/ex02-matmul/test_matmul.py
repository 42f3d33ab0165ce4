"""Checks of `triton_ex02`: a tiled product that is counted, and what recordings and counters say of one.

Expected traffic comes from walking over the tiles of a result, expected rows of captures from the files
and the device table, read here. What a kernel loads is counted by the interpreter in
`probes/triton_interpreter.py`.
"""

from __future__ import annotations

import json
import math
import random
import statistics
from pathlib import Path
from typing import Any

import pytest

from grading.checks import ncu, task
from grading.checks.assertions import agree, judge, require, show
from grading.checks.fixtures import recordings
from grading.checks.generate.ncu import Raw
from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError

PROBE = Path(__file__).resolve().with_name("probes") / "triton_matmul.py"


def judge_rows(
    call: str, got: Any, want: list[dict[str, Any]], unit: str, why: dict[str, str]
) -> None:
    """Fail unless got are the rows want."""
    require(
        isinstance(got, list) and len(got) == len(want),
        f"{call} returned {show(got)}, expected a list of {len(want)} rows, one for each in the file",
    )
    for place, (row, right) in enumerate(zip(got, want, strict=True)):
        judge(f"{call}, row {place} ({right['name']})", row, right, unit, why)


# -- gflops ---------------------------------------------------------------------------------------


@task("triton_ex02.gflops")
def test_a_rate(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    m, n, k = (pick.randint(2, 5000) for _ in range(3))
    time_ms = pick.uniform(0.01, 50.0)
    got = stub.gflops(m, n, k, time_ms)
    want = 2 * m * n * k / (time_ms / 1000) / 1e9
    why = "Operations in a second, in units of 10⁹."
    for factor, sentence in (
        (0.5, "A multiply-add is two operations."),
        (1e-3, "The time is in milliseconds, and the rate is per second."),
        (1e3, "The time is in milliseconds, and the rate is per second."),
        (1e9 / 2**30, "Giga is 10⁹ here, not 2³⁰."),
    ):
        if agree(got, want * factor):
            why = sentence
    require(
        agree(got, want),
        f"gflops({m}, {n}, {k}, {show(time_ms)}) returned {show(got)}, expected {show(want)} GFLOP/s. "
        f"{why}",
    )


@task("triton_ex02.gflops")
def test_rates_that_do_not_exist(stub: Any) -> None:
    require(
        agree(stub.gflops(1, 1, 1, 1.0), 2e-6),
        "gflops(1, 1, 1, 1.0): one multiply-add in a millisecond is 2e-06 GFLOP/s",
    )
    for bad in ((0, 1, 1, 1.0), (1, -1, 1, 1.0), (1, 1, 0, 1.0)):
        with stub.raises(ValueError, why="no product has a size below 1"):
            stub.gflops(*bad)
    for time_ms in (0.0, -1.0, math.nan):
        with stub.raises(ValueError, why=f"{time_ms} ms is not the time of anything"):
            stub.gflops(8, 8, 8, time_ms)


# -- matmul_bytes ---------------------------------------------------------------------------------


def walked(m: int, n: int, k: int, block_m: int, block_n: int) -> tuple[int, int]:
    """Elements loaded and stored, tile by tile."""
    loads = stores = 0
    for top in range(0, m, block_m):
        for left in range(0, n, block_n):
            height, width = min(block_m, m - top), min(block_n, n - left)
            loads += height * k + k * width
            stores += height * width
    return loads, stores


WHY_BYTES = {
    "load_bytes": "Walk over the tiles: each program loads its rows of a and its columns of b, inside "
    "the matrices, whatever the others load.",
    "store_bytes": "Every element of the result is stored once, in its own data type.",
    "least_bytes": "Each of the three matrices has to move once.",
}


@task("triton_ex02.matmul_bytes")
def test_bytes_of_tiles(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    cases = [
        (64, 64, 64, 32, 32, 2),
        (100, 70, 33, 32, 16, 4),
        (5, 7, 3, 16, 16, 2),
        (1, 1, 1, 1, 1, 1),
        *(
            (*(pick.randint(1, 300) for _ in range(3)), *pick.sample([16, 32, 64, 128], 2), size)
            for size in (2, 4, 1)
        ),
    ]
    for case in cases:
        *sizes, element_bytes = case
        loads, stores = walked(*sizes)
        m, n, k = sizes[:3]
        got = stub.matmul_bytes(*case)
        why = dict(WHY_BYTES)
        if isinstance(got, dict) and got.get("load_bytes") == (m * k + k * n) * element_bytes:
            why["load_bytes"] = (
                "Each program loads for itself: a row of a is needed in every tile of it."
            )
        want = {
            "load_bytes": loads * element_bytes,
            "store_bytes": stores * element_bytes,
            "least_bytes": (m * k + k * n + m * n) * element_bytes,
        }
        judge(f"matmul_bytes{case}", got, want, "bytes", why)


@task("triton_ex02.matmul_bytes")
def test_tiles_that_do_not_exist(stub: Any) -> None:
    good = [8, 8, 8, 4, 4, 2]
    for place in range(6):
        with stub.raises(ValueError, why="nothing here can be 0"):
            stub.matmul_bytes(*good[:place], 0, *good[place + 1 :])


# -- matmul ---------------------------------------------------------------------------------------


def config(
    block_m: int,
    block_n: int,
    block_k: int,
    group_m: int = 2,
    num_warps: int = 4,
    num_stages: int = 2,
) -> dict[str, int]:
    return {
        "block_m": block_m,
        "block_n": block_n,
        "block_k": block_k,
        "group_m": group_m,
        "num_warps": num_warps,
        "num_stages": num_stages,
    }


# Shape, layouts of a and b, dtype, configuration.
PRODUCTS = [
    ((64, 64, 64), ("rows", "rows"), "float32", config(32, 32, 32)),
    ((64, 32, 32), ("rows", "columns"), "float16", config(32, 16, 16, 8)),
    ((37, 50, 45), ("columns", "gaps"), "bfloat16", config(16, 32, 32, 2, 8, 3)),
    ((90, 17, 40), ("gaps", "columns"), "float32", config(32, 16, 32, 2)),
    ((5, 3, 1), ("rows", "rows"), "float16", config(16, 16, 16, 1, 1, 1)),
    ((80, 40, 16), ("rows", "gaps"), "float32", config(16, 16, 16, 3)),
    ((40, 32, 32), ("rows", "rows"), "float32", config(32, 32, 32)),
    ((32, 40, 32), ("rows", "rows"), "float32", config(32, 32, 32)),
    ((32, 32, 40), ("rows", "rows"), "float32", config(32, 32, 32)),
    ((33, 17, 17), ("rows", "rows"), "float32", config(16, 16, 16)),
]


@task("triton_ex02.matmul")
@pytest.mark.parametrize("place", range(len(PRODUCTS)))
def test_products(stub: Any, seed: int, place: int) -> None:
    shape, layouts, dtype, chosen = PRODUCTS[place]
    m, n, k = shape
    size = 4 if dtype == "float32" else 2
    call = (
        f"matmul of ({m}, {k}) by ({k}, {n}) in {dtype}, elements by {layouts[0]} and {layouts[1]}, "
        f"tile {chosen['block_m']}x{chosen['block_n']}x{chosen['block_k']}"
    )
    told = stub.probe(PROBE, "counted", list(shape), list(layouts), dtype, chosen, seed)
    require("error" not in told, f"{call}: {told.get('error')}")
    require(
        told["shape"] == [m, n] and told["dtype"] == dtype and told["owns"],
        f"{call} returned a tensor of shape {told['shape']}, {told['dtype']}"
        f"{'' if told['owns'] else ', in the memory of an input'}; expected a new ({m}, {n}), {dtype}",
    )
    require(
        not told["torch_operators"] and told["launches"] == 1,
        f"{call}: {told['launches']} launches, and torch ran {told['torch_operators']}; expected one "
        "launch, and of torch an empty result only: what torch copies or computes is traffic, too",
    )
    require(
        not math.isnan(told["error_ratio"]),
        f"{call}: an element is not a number. A lane that is masked off, in a load without other=, is "
        "undefined on a GPU and nan here: what does it add to the sum?",
    )
    require(
        told["error_ratio"] <= 1,
        f"{call}: an element is {told['error_ratio']:.3g} times as far from the float64 product as "
        "rounding it allows. Which elements belong to a tile, and where do they lie?",
    )
    loads, stores = walked(m, n, k, chosen["block_m"], chosen["block_n"])
    in_tiles = {
        "a": m * k * math.ceil(n / chosen["block_n"]) * size,
        "b": k * n * math.ceil(m / chosen["block_m"]) * size,
    }
    for name, want in in_tiles.items():
        got = told["tensors"].get(name, {}).get("load_bytes", 0)
        require(
            got == want,
            f"{call}: the programs loaded {got} bytes of {name}, expected {want}: a tile of every step "
            "once, and at the edges only what lies inside. A lane that is not needed is masked off; one "
            "that wraps around loads something again",
        )
    stored = told["tensors"].get("result", {}).get("store_bytes", 0)
    require(
        (told["load_bytes"], told["store_bytes"], stored)
        == (loads * size, stores * size, stores * size),
        f"{call}: the programs loaded {told['load_bytes']} and stored {told['store_bytes']} bytes, "
        f"{stored} of these in the result; expected {loads * size} and {stores * size}, all in the result",
    )
    tiles = math.ceil(m / chosen["block_m"]) * math.ceil(n / chosen["block_n"])
    require(
        told["programs"] == tiles,
        f"{call}: {told['programs']} programs, expected {tiles}: one a tile",
    )
    for length, _, precision in told["dots"]:
        require(
            length == chosen["block_k"],
            f"{call}: a tl.dot of {length} columns of a, expected steps of block_k={chosen['block_k']}",
        )
        require(
            dtype != "float32" or precision == "ieee",
            f"{call}: tl.dot was told input_precision={precision!r} or left to its default, which "
            "rounds float32 to TF32 on a GPU; expected 'ieee'. The interpreter's result is the same",
        )
    options = told["kernels"][0]["options"]
    asked = {name: options.get(name) for name in ("num_warps", "num_stages")}
    require(
        all(asked[name] == chosen[name] for name in asked),
        f"{call}: launched with {asked}, expected those of the config: "
        f"{ {name: chosen[name] for name in asked} }",
    )


@task("triton_ex02.matmul")
@pytest.mark.parametrize("group_m", [1, 2, 8])
def test_order_of_tiles(stub: Any, group_m: int) -> None:
    rows, columns = 5, 2
    got = stub.probe(PROBE, "order", [16 * rows - 3, 16 * columns, 16], config(16, 16, 16, group_m))
    want = [
        [row, column]
        for top in range(0, rows, group_m)
        for column in range(columns)
        for row in range(top, min(top + group_m, rows))
    ]
    require(
        got == want,
        f"matmul with {rows} by {columns} tiles and group_m={group_m}: programs 0, 1, … store the tiles "
        f"(row, column) {show(got)}, expected {show(want)}: {group_m} rows of tiles at a time, column by "
        "column. What runs at the same time shares tiles of a and of b that way",
    )


@task("triton_ex02.matmul")
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_sums_in_float32(stub: Any, dtype: str) -> None:
    told = stub.probe(PROBE, "carried", dtype, config(16, 16, 16))
    require(
        told["before"] == 0,
        f"matmul in {dtype}: a product of zeros held {told['before']:.0f} after the next product of that "
        "shape: each call returns a new tensor",
    )
    require(
        told["got"] != 0,
        f"matmul in {dtype} gave 0, as the product of zeros of the same shape before it: each call computes",
    )
    require(
        told["got"] == told["want"],
        f"matmul in {dtype}: {told['large']:.0f} in the first step along k and 16 in each of four more "
        f"gave {told['got']:.0f}, expected {told['want']:.0f}: a sum that is rounded to {dtype} after "
        "each step loses what is small against it",
    )


@task("triton_ex02.matmul")
def test_empty_products(stub: Any, seed: int) -> None:
    for m, n, k in ((0, 4, 3), (4, 0, 3), (2, 3, 0)):
        told = stub.probe(
            PROBE, "counted", [m, n, k], ["rows", "rows"], "float32", config(16, 16, 16), seed
        )
        call = f"matmul of ({m}, {k}) by ({k}, {n})"
        require(
            told.get("shape") == [m, n],
            f"{call} returned {told.get('shape', told)}, expected a tensor of shape ({m}, {n})",
        )
        require(
            told.get("error_ratio", 0.0) == 0.0,
            f"{call}: a sum of no products is 0, not what lay there",
        )


@task("triton_ex02.matmul")
def test_products_that_do_not_exist(stub: Any) -> None:
    good = config(16, 16, 16)
    for case, why in {
        "inner": "a has 5 columns and b 4 rows",
        "vector": "b is no matrix",
        "vector a": "a is no matrix",
        "dtypes": "float32 by float16 has no one dtype",
        "double": "float64 is not among the dtypes",
        "devices": "a kernel reaches the memory of one device",
    }.items():
        with stub.raises(ValueError, why=why):
            stub.probe(PROBE, "refused", case, good)
    less = {name: value for name, value in good.items() if name != "group_m"}
    for bad, why in (
        (less, "group_m is missing"),
        (good | {"block": 16}, "there is no option block"),
        (good | {"block_m": 48}, "48 is no power of two"),
        (good | {"block_n": 8}, "tl.dot needs tiles of 16 at least"),
        (good | {"block_k": 0}, "no step along k"),
    ):
        with stub.raises(ValueError, why=why):
            stub.probe(PROBE, "refused", "good", bad)


# -- roofline_share -------------------------------------------------------------------------------

WHY_SHARE = {
    "median_ns": "The median of all samples of the Triton kernel.",
    "gflops": "Operations at the median time, in 10⁹ a second.",
    "intensity": "Operations over the bytes of all three matrices, each moved once; an element of "
    "tfloat32 has 4 bytes in memory.",
    "ridge": "The peak of this data type on this device over the bandwidth of its memory.",
    "attainable_gflops": "The lower of the two roofs at this intensity.",
    "share_ratio": "The rate over the lower of the two roofs.",
    "category": "Compare three times: the bytes at full bandwidth, the operations at the "
    "peak, and a kernel that does nothing.",
}


def shares(capture: str) -> list[dict[str, Any]]:
    """The rows of a sweep, computed from times."""
    table = json.loads(captures.text(capture, "measurements.json"))
    device = devices.get(table["device"])
    peak = device.peak_flops_per_s[table["dtype"]]
    bandwidth = device.memory_bandwidth_bytes_per_s
    size = {"bfloat16": 2, "float16": 2, "tfloat32": 4, "float32": 4, "float8": 1}[table["dtype"]]
    empty_ns = float(statistics.median(table["empty_kernel"]))
    rows = []
    for row in table["sizes"]:
        m, n, k = row["m"], row["n"], row["k"]
        samples = sorted(row["device_time"])
        middle = len(samples) // 2
        median_ns = (
            samples[middle] if len(samples) % 2 else (samples[middle - 1] + samples[middle]) / 2
        )
        flops, moved = 2 * m * n * k, size * (m * k + n * k + m * n)
        memory_ns, compute_ns = moved * 1e9 / bandwidth, flops * 1e9 / peak
        roof_ns = max(memory_ns, compute_ns)
        longest = max(roof_ns, empty_ns)
        rows.append(
            {
                "name": row["name"],
                "median_ns": float(median_ns),
                "gflops": flops / median_ns,
                "intensity": flops / moved,
                "ridge": peak / bandwidth,
                "attainable_gflops": flops / roof_ns,
                "share_ratio": roof_ns / median_ns,
                "category": "memory_bound"
                if memory_ns == longest
                else "compute_bound"
                if compute_ns == longest
                else "launch_bound",
            }
        )
    return rows


PLACE = ("intensity", "ridge")


def judge_shares(stub: Any, capture: str) -> None:
    want = shares(capture)
    got = stub.roofline_share(capture)
    call = f"roofline_share({Path(capture).name!r})"
    if isinstance(got, list) and len(got) == len(want):
        for row, right in zip(got, want, strict=True):
            if not isinstance(row, dict) or not all(agree(row.get(k), right[k]) for k in PLACE):
                continue
            by_rule = "compute_bound" if right["intensity"] > 20 else "memory_bound"
            require(
                row.get("category") in (right["category"], None)
                or row["category"] != by_rule
                or right["category"] == "launch_bound",
                f"{call}, {right['name']}: {row.get('category')!r}. Its intensity is "
                f"{right['intensity']:.1f} operations a byte, and the ridge of this device and dtype "
                f"lies at {right['ridge']:.1f}: no fixed limit such as 5 or 20 replaces it",
            )
    judge_rows(call, got, want, "ns, GFLOP/s, operations a byte, ratios", WHY_SHARE)


@task("triton_ex02.roofline_share")
@recordings("triton_matmul_bf16", "triton_matmul_tf32", holding="measurements.json")
def test_recorded_sweeps(stub: Any, recording: str) -> None:
    judge_shares(stub, recording)


def made_sweep(pick: random.Random) -> dict[str, Any]:
    """A sweep with shapes on every side of the roofline of some device."""
    name, dtype = pick.choice(
        [
            ("A100 40GB", "tfloat32"),
            ("H100 SXM", "bfloat16"),
            ("T4", "float16"),
            ("V100", "float32"),
        ]
    )
    shapes = [
        (16, 16, 32),
        (pick.randint(1, 8), 4096, 4096 + pick.randint(0, 50)),
        (4096, 4096 + pick.randint(0, 50), 2048),
        (256, pick.randint(2000, 3000), 3000),
        (8192, 8, pick.randint(4000, 5000)),
    ]
    rows = []
    for m, n, k in shapes:
        time = pick.randint(2_000_000, 90_000_000)
        samples = [time + pick.randint(-9000, 90_000) for _ in range(pick.choice((4, 5, 7)))]
        rows.append({"name": f"{m} by {n} by {k}", "m": m, "n": n, "k": k, "device_time": samples})
    return {
        "device": name,
        "dtype": dtype,
        "empty_kernel": [pick.randint(1500, 2500) for _ in range(4)],
        "sizes": rows,
    }


@task("triton_ex02.roofline_share")
def test_made_sweeps(stub: Any, seed: int, tmp_path: Path) -> None:
    pick = random.Random(seed)
    for place in range(4):
        folder = tmp_path / f"sweep_{place}_{seed}"
        judge_shares(stub, written(folder, made_sweep(pick)))


@task("triton_ex02.roofline_share")
def test_against_a_kernel_that_does_nothing(stub: Any, tmp_path: Path) -> None:
    bandwidth = devices.get("A100 40GB").memory_bandwidth_bytes_per_s
    rows: list[dict[str, Any]] = [
        {"name": f"{n} columns", "m": 1, "n": n, "k": 4096, "device_time": [90_000]}
        for n in (4000, 6000)
    ]
    short, long = (
        2 * (4096 + 4097 * row["n"]) / bandwidth * 1e9 for row in rows
    )  # what the bytes take, in ns
    table = {"device": "A100 40GB", "dtype": "float16", "sizes": rows}
    # The median lies between the two; the smallest sample and the mean do not.
    table["empty_kernel"] = [(short + long) / 2, short / 2, 20 * long]
    judge_shares(stub, written(tmp_path / "empty_kernel", table))


def written(folder: Path, table: Any) -> str:
    """A folder with this table in measurements.json, as a path."""
    folder.mkdir()
    (folder / "measurements.json").write_text(json.dumps(table), encoding="utf-8")
    return str(folder)


@task("triton_ex02.roofline_share")
def test_files_that_hold_no_sweep(stub: Any, tmp_path: Path) -> None:
    whole = made_sweep(random.Random(1))
    broken: dict[str, Any] = {
        f"{left_out!r} is missing": {key: whole[key] for key in whole if key != left_out}
        for left_out in whole
    }
    broken |= {
        "the empty kernel has no samples": whole | {"empty_kernel": []},
        "a row has a name only": whole | {"sizes": [{"name": "x"}]},
        "the file holds a list, not an object": [],
    }
    for place, (why, table) in enumerate(broken.items()):
        capture = written(tmp_path / str(place), table)
        with stub.raises(CaptureError, why=why):
            stub.roofline_share(capture)
    (tmp_path / "measurements.json").write_text("no JSON", encoding="utf-8")
    with stub.raises(CaptureError, why="this is no JSON"):
        stub.roofline_share(str(tmp_path))


# -- tile_waves -----------------------------------------------------------------------------------

WHY_WAVES = {
    "tiles_count": "A tile that hangs over an edge needs a program as well.",
    "waves_count": "What does not fit into one wave begins another one.",
    "efficiency_ratio": "Places that had a program, over all places of all waves.",
}


@task("triton_ex02.tile_waves")
def test_waves(stub: Any, seed: int) -> None:
    pick = random.Random(seed)
    cases = [
        (1536, 2816, 128, 256, 132, 1),
        (1536, 3072, 128, 256, 132, 1),
        (130, 128, 128, 128, 4, 2),
        (1, 1, 128, 128, 132, 1),
        *(
            (pick.randint(1, 4000), pick.randint(1, 4000), 64, 128, pick.randint(2, 150), places)
            for places in (1, 2, 3)
        ),
    ]
    for case in cases:
        m, n, block_m, block_n, sm_count, sm_programs = case
        tiles = len(range(0, m, block_m)) * len(range(0, n, block_n))
        left, waves = tiles, 0
        while left > 0:
            left -= sm_count * sm_programs
            waves += 1
        want = {
            "tiles_count": tiles,
            "waves_count": waves,
            "efficiency_ratio": tiles / (waves * sm_count * sm_programs),
        }
        judge(f"tile_waves{case}", stub.tile_waves(*case), want, "counts and a ratio", WHY_WAVES)


@task("triton_ex02.tile_waves")
def test_waves_that_do_not_exist(stub: Any) -> None:
    good = [64, 64, 16, 16, 4, 1]
    for place in range(6):
        with stub.raises(ValueError, why="nothing here can be 0"):
            stub.tile_waves(*good[:place], 0, *good[place + 1 :])


# -- kernel_counters ------------------------------------------------------------------------------

METRICS = {
    "time_ns": "gpu__time_duration.sum",
    "registers_count": "launch__registers_per_thread",
    "shared_bytes": "launch__shared_mem_per_block",
    "tensor_pipe_pct": "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    "dram_read_bytes": "dram__bytes_read.sum",
    "dram_write_bytes": "dram__bytes_write.sum",
    "theoretical_occupancy_pct": "sm__maximum_warps_per_active_cycle_pct",
    "achieved_occupancy_pct": "sm__warps_active.avg.pct_of_peak_sustained_active",
}
WHY_COUNTERS = {
    key: f"It is in the column {name}; the second row of the file says in which unit."
    for key, name in METRICS.items()
}


def counters_of(kernels: Any) -> list[dict[str, Any]]:
    """The rows that kernel_counters should give for kernels with metrics in base units."""
    rows = []
    for kernel in kernels:
        values = {key: kernel["metrics"].get(name) for key, name in METRICS.items()}
        rows.append(
            {"name": kernel["name"].split("(")[0]}
            | {
                key: float(value) if isinstance(value, (int, float)) else None
                for key, value in values.items()
            }
        )
    return rows


@task("triton_ex02.kernel_counters")
@recordings("ncu_triton", "ncu_compute", holding="kernels.csv")
def test_recorded_counters(stub: Any, recording: str) -> None:
    call = f"kernel_counters({Path(recording).name!r})"
    want = counters_of(ncu.kernels(recording))
    judge_rows(call, stub.kernel_counters(recording), want, "ns, bytes, percent", WHY_COUNTERS)


@task("triton_ex02.kernel_counters")
@pytest.mark.parametrize("units", ["auto", "base", "old"])
def test_made_counters(stub: Any, seed: int, units: str, tmp_path: Path) -> None:
    pick = random.Random(seed)
    table = Raw(seed, units, preamble=units != "base")
    for place in range(4):
        metrics: dict[str, float | str | None] = {
            "gpu__time_duration.sum": float(pick.randint(1_000, 9_000_000)),
            "launch__registers_per_thread": pick.randint(16, 255),
            "launch__shared_mem_per_block": 1024.0 * pick.randint(1, 200),
            "dram__bytes_read.sum": float(pick.randint(10**4, 10**10)),
            "dram__bytes_write.sum": pick.choice((None, float(pick.randint(10**4, 10**9)))),
            "sm__maximum_warps_per_active_cycle_pct": pick.uniform(1, 100),
            "sm__warps_active.avg.pct_of_peak_sustained_active": pick.uniform(1, 100),
            "smsp__inst_executed.sum": pick.randint(1000, 10**7),
        }
        if units != "base":  # an older tool, or fewer sections: no such column
            name = METRICS["tensor_pipe_pct"]
            metrics[name] = pick.uniform(0, 100) if place else None
        table.add(pick.choice(("matmul_kernel", "copy(float *, int)")), metrics)
    truth = table.save(tmp_path / f"raw_{units}_{seed}")
    call = f"kernel_counters of a page in {units} units"
    got = stub.kernel_counters(str(tmp_path / f"raw_{units}_{seed}"))
    judge_rows(call, got, counters_of(truth), "ns, bytes, percent", WHY_COUNTERS)


PAGE = """==PROF== Connected to process 12
"ID","Kernel Name","launch__registers_per_thread","gpu__time_duration.sum","dram__bytes_read.sum",\
"dram__bytes_write.sum","launch__shared_mem_per_block"
"","","register/thread","ns","Kbyte","byte","Kbyte/block"
"0","large(int, int)","255","1,234,567","2,048.5","nan","1.024"
"1","small","16.00","960","n/a","","0"
"""


@task("triton_ex02.kernel_counters")
def test_numbers_as_the_tool_writes_them(stub: Any, tmp_path: Path) -> None:
    (tmp_path / "kernels.csv").write_text(PAGE, encoding="utf-8")
    keys = ("time_ns", "registers_count", "shared_bytes", "dram_read_bytes", "dram_write_bytes")
    want = [
        {"name": name} | dict.fromkeys(METRICS) | dict(zip(keys, values, strict=True))
        for name, values in (
            ("large", (1234567.0, 255.0, 1024.0, 2048500.0, None)),
            ("small", (960.0, 16.0, 0.0, None, None)),
        )
    ]
    why = {key: f"{text} The page is:\n{PAGE}" for key, text in WHY_COUNTERS.items()}
    got = stub.kernel_counters(str(tmp_path))
    judge_rows("kernel_counters of a small page", got, want, "ns, bytes, percent", why)


@task("triton_ex02.kernel_counters")
def test_pages_that_are_none(stub: Any, tmp_path: Path) -> None:
    (tmp_path / "kernels.csv").write_text('"ID","Kernel Name"\n"",""\n', encoding="utf-8")
    got = stub.kernel_counters(str(tmp_path))
    require(
        got == [], f"kernel_counters of a page without a launch returned {show(got)}, expected []"
    )
    for text in ("", "==PROF== Connected\n", '"ID","Grid Size"\n"","block"\n"0","(1, 1, 1)"\n'):
        (tmp_path / "kernels.csv").write_text(text, encoding="utf-8")
        with stub.raises(CaptureError, why="there is no table of kernels in it"):
            stub.kernel_counters(str(tmp_path))


# -- live -----------------------------------------------------------------------------------------

WANTED_RATIO = 0.97


@task("triton_ex02.matmul_live")
def test_as_fast_as_the_library(stub: Any) -> None:
    told = stub.probe(PROBE, "live", 8192, 5)
    call = f"matmul_live of 8192 by 8192 bfloat16 matrices on {told['device']}"
    require(
        told["error"] < 5e-3,
        f"{call}: a relative error of {told['error']:.2g} against torch.mm",
    )
    require(
        told["float32_error"] < 1e-5,
        f"matmul_live of float32 matrices: a relative error of {told['float32_error']:.2g}: TF32 is "
        "not float32",
    )
    require(
        not told["products"],
        f"{call} called torch's {', '.join(told['products'])}: the product is to come from your kernel",
    )
    shown = {name: [round(value, 4) for value in times] for name, times in told["times_ms"].items()}
    require(
        told["ratio"] >= WANTED_RATIO,
        f"{call} reached {told['ratio']:.3f} of torch.mm's rate (medians of {shown} ms, in turns), "
        f"expected {WANTED_RATIO}",
    )
