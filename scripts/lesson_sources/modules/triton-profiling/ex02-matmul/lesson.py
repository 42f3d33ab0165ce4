"""What the lesson on matmul over sizes computes and draws."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, roofline
from scripts.lesson_sources.drawing import BLUE, GREY, GRID, INK, ORANGE, reference, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BF16, TF32 = "triton_matmul_bf16", "triton_matmul_tf32"


@cache
def table(capture: str) -> dict[str, Any]:
    """The file of a sweep."""
    return json.loads(captures.text(capture, "measurements.json"))


@cache
def rows(capture: str) -> dict[str, dict[str, Any]]:
    """The products of a sweep by name: what the reference says, with the library's time beside it."""
    found = {}
    shares = reference("triton_ex02").roofline_share(capture)
    for share, row in zip(shares, table(capture)["sizes"], strict=True):
        library_ns = statistics.median(row["torch_device_time"])
        sizes = {"m": row["m"], "n": row["n"], "k": row["k"]}
        found[row["name"]] = {**share, **sizes, "tile": row["tile"], "torch_ns": library_ns}
    return found


def bf16(name: str) -> dict[str, Any]:
    """A product of the bfloat16 sweep."""
    return rows(BF16)[name]


def tf32(name: str) -> dict[str, Any]:
    """A product of the TF32 sweep."""
    return rows(TF32)[name]


def rate(row: dict[str, Any], which: str = "gflops") -> str:
    """A rate of a product as text: "gflops", "attainable_gflops" or that of "torch"."""
    value = row["gflops"] * row["median_ns"] / row["torch_ns"] if which == "torch" else row[which]
    digits = 0 if value >= 100_000 else 1
    return f"{value / 1e3:,.{digits}f} TFLOP/s"


def number(value: float, digits: int = 1) -> str:
    """A number with so many decimals."""
    return f"{value:,.{digits}f}"


def empty_ns(capture: str = BF16) -> float:
    """The median of the empty kernel of a sweep."""
    return statistics.median(table(capture)["empty_kernel"])


@cache
def waves(capture: str = BF16) -> dict[int, dict[str, Any]]:
    """The growing products of a sweep by their number of tiles, with waves and times."""
    found = {}
    sweep, tile = table(capture), table(capture)["wave_tile"]
    for row in sweep["waves"]:
        filled = reference("triton_ex02").tile_waves(
            row["m"], row["n"], tile["block_m"], tile["block_n"], sweep["sm_count"], 1
        )
        median_ns = statistics.median(row["device_time"])
        gflops = reference("triton_ex02").gflops(row["m"], row["n"], row["k"], median_ns / 1e6)
        found[filled["tiles_count"]] = {**filled, **row, "median_ns": median_ns, "gflops": gflops}
    return found


@cache
def laid_out(dtype: str, a: str, b: str) -> dict[str, Any]:
    """A product of `triton_layouts` with both rates in TFLOP/s."""
    found = next(
        row
        for row in table("triton_layouts")["layouts"]
        if (row["dtype"], row["a"], row["b"]) == (dtype, a, b)
    )
    flops = 2 * found["m"] * found["n"] * found["k"]
    both = {"own": found["device_time"], "torch": found["torch_device_time"]}
    return found | {name: flops / statistics.median(both[name]) / 1e3 for name in both}


def tflops(value: float) -> str:
    """TFLOP/s as text."""
    return f"{value:,.0f} TFLOP/s"


def counters(kernel: str) -> dict[str, Any]:
    """A kernel of `ncu_triton`."""
    return next(
        k for k in reference("triton_ex02").kernel_counters("ncu_triton") if k["name"] == kernel
    )


def dram_bytes(kernel: str) -> float:
    """Bytes that DRAM moved for a kernel of `ncu_triton`."""
    return counters(kernel)["dram_read_bytes"] + counters(kernel)["dram_write_bytes"]


def least_bytes(kernel: str) -> float:
    """Bytes of the tensors of a kernel of `ncu_triton`."""
    return told("ncu_triton", "minimum_bytes")[kernel]


def tiled(m: int, n: int, k: int, block_m: int, block_n: int) -> dict[str, int]:
    """Bytes of a product in bfloat16 by tiles."""
    return reference("triton_ex02").matmul_bytes(m, n, k, block_m, block_n, 2)


def needed_together(group_m: int, programs: int = 132) -> dict[str, int]:
    """What the first programs of an 8192 by 8192 result in tiles of 128 by 256 need: rows of a and
    columns of b, and how many bytes that is for a step of 64 along k in bfloat16."""
    rows, columns = 8192 // 128, 8192 // 256
    tiles = [
        (row, column)
        for top in range(0, rows, group_m)
        for column in range(columns)
        for row in range(top, top + group_m)
    ][:programs]
    a, b = (len({tile[axis] for tile in tiles}) for axis in (0, 1))
    return {"a": a, "b": b, "bytes": (a * 128 + b * 256) * 64 * 2}


# -- plots ----------------------------------------------------------------------------------------

SHOWN = {
    "256x256x256": "256³",
    "1024x1024x1024": "1024³",
    "2048x2048x2048": "2048³",
    "8192x8192x8192": "8192³",
    "16x8192x8192": "16 rows",
    "64x8192x8192": "64 rows",
    "128x8192x8192": "128 rows",
    "256x8192x8192": "256 rows",
}


def matmul_roofline() -> Figure:
    """Products of the bfloat16 sweep under the roof of the H200."""
    kinds = {"launch_bound": "launch", "memory_bound": "memory", "compute_bound": "compute"}
    points = [
        roofline.Point(label, row["intensity"], row["gflops"] * 1e9, kinds[row["category"]])
        for name, label in SHOWN.items()
        for row in (bf16(name),)
    ]
    title = "triton_matmul_bf16: products on an H200, cold caches, and what takes longest"
    return roofline.figure([roofline.roof("H200", "bfloat16")], points, title)


def matmul_waves() -> Figure:
    """Time and rate against the number of tiles, in bfloat16."""
    import matplotlib.pyplot as plt

    found = waves()
    tiles = list(found)
    places = table(BF16)["sm_count"]
    figure, (above, below) = plt.subplots(2, 1, figsize=(8, 4.6), sharex=True)
    figure.subplots_adjust(left=0.1, right=0.97, top=0.93, bottom=0.11, hspace=0.28)
    times = [row["median_ns"] / 1e3 for row in found.values()]
    rates = [row["gflops"] / 1e3 for row in found.values()]
    # What one full wave reaches, times the share of places that have a program.
    full = found[places]["gflops"] / 1e3
    expected = [full * row["efficiency_ratio"] for row in found.values()]
    above.plot(tiles, times, "o", color=BLUE, markersize=5)
    above.set_ylabel("µs")
    above.set_title("triton_matmul_bf16, waves: time of one call")
    below.plot(tiles, expected, "-", color=GREY, linewidth=2, label="a full wave × efficiency")
    below.plot(tiles, rates, "o", color=ORANGE, markersize=5, label="measured")
    below.set_ylabel("TFLOP/s")
    below.set_xlabel("tiles of 128 by 256")
    below.set_title("the same as a rate")
    below.legend(frameon=False, loc="lower center")
    for axes in (above, below):
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        for wave in (1, 2):
            axes.axvline(wave * places, color=INK, linewidth=0.8, linestyle=(0, (3, 3)))
    for wave in (1, 2):
        above.text(wave * places - 1.5, 6, f"{wave * places} places", ha="right")
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "matmul_roofline": matmul_roofline,
    "matmul_waves": matmul_waves,
}
