"""What the lesson on the fused softmax computes and draws."""

from __future__ import annotations

import csv
import io
import json
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, devices
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    PURPLE,
    ROOT,
    VERMILION,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BF16, FP32 = "triton_softmax", "triton_softmax_fp32"
TITLES = {BF16: "bfloat16", FP32: "float32"}
UNITS = {
    "": 1.0,
    "us": 1e3,
    "ms": 1e6,
    "ns": 1.0,
    "byte": 1,
    "Kbyte": 1e3,
    "Mbyte": 1e6,
    "Gbyte": 1e9,
}


# -- sweeps -----------------------------------------------------------------------------------------


@cache
def sweep(capture: str = BF16) -> dict[tuple[str, int], dict[str, Any]]:
    """The rows of a sweep by implementation and width."""
    rows = reference("triton_ex04").read_sweep(capture)
    return {(row["implementation"], row["columns"]): row for row in rows}


def median_ns(name: str, columns: int, capture: str = BF16) -> float:
    """The median time of an implementation at a width."""
    return sweep(capture)[name, columns]["median_ns"]


def gb_s(name: str, columns: int, capture: str = BF16) -> str:
    """The bandwidth of an implementation at a width, as text."""
    return f"{sweep(capture)[name, columns]['bandwidth_gb_s']:,.0f} GB/s"


@cache
def speedups(ours: str = "fused", capture: str = BF16, base: str = "torch") -> dict[str, Any]:
    """What `speedup_by_width` says, its widths by columns."""
    found = reference("triton_ex04").speedup_by_width(capture, ours, base)
    return found | {"widths": {row["columns"]: row for row in found["widths"]}}


def speedup(columns: int, ours: str = "fused", capture: str = BF16) -> str:
    """The speedup over torch at a width, as text."""
    return f"{speedups(ours, capture)['widths'][columns]['speedup_ratio']:.2f}×"


def cell(columns: int, ours: str, capture: str) -> str:
    """Speedup and verdict, as text."""
    return f"{speedup(columns, ours, capture)} {verdict(columns, ours, capture)}"


def verdict(columns: int, ours: str = "fused", capture: str = BF16) -> str:
    """The verdict at a width."""
    return speedups(ours, capture)["widths"][columns]["verdict"]


def noise(capture: str = BF16) -> str:
    """The noise of a sweep, as text."""
    return f"{speedups(capture=capture)['noise_ratio']:.4f}"


def mean(ours: str = "fused", capture: str = BF16) -> str:
    """The geometric mean of the speedups, as text."""
    return f"{speedups(ours, capture)['geometric_mean_ratio']:.2f}×"


def arithmetic(ours: str, base: str, capture: str = BF16, inverse: bool = False) -> str:
    """The arithmetic mean of how many times as fast ours is as base (or one over it), as text."""
    rows = sweep(capture)
    widths = [columns for name, columns in rows if name == ours]
    ratios = [rows[base, w]["median_ns"] / rows[ours, w]["median_ns"] for w in widths]
    average = statistics.fmean(ratios)
    return f"{1 / average if inverse else average:.2f}"


def rows_count(columns: int, capture: str = BF16) -> int:
    """The rows of the matrix of a width."""
    table = json.loads(captures.text(capture, "measurements.json"))
    return next(row["rows"] for row in table["measurements"] if row["columns"] == columns)


def least_ns(columns: int, capture: str = BF16) -> float:
    """What the bytes of a fused softmax take at the H200's peak bandwidth."""
    moved = reference("triton_ex04").softmax_bytes(
        rows_count(columns, capture), columns, TITLES[capture], "fused"
    )
    return moved / devices.get("H200").memory_bandwidth_bytes_per_s * 1e9


@cache
def _benchmark() -> dict[str, float]:
    """The softmax ratios of the first run of the benchmark, by case."""
    file = ROOT / "benchmarks/results/triton_references.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["runs"][0]["rows"]
    return {row["case"]: row["ratio"] for row in rows if row["reference"] == "softmax"}


def benchmark(case: str) -> str:
    """The speedup over torch in the benchmark, as text."""
    return f"{_benchmark()[case]:.3f}×"


def benchmark_least() -> str:
    """The smallest of them, as text."""
    return f"{min(_benchmark().values()):.3f}×"


# -- programs ---------------------------------------------------------------------------------------


@cache
def programs(capture: str = BF16) -> dict[tuple[int, int], dict[str, Any]]:
    """The programs of a sweep by warps and block, with bandwidth and elements to a thread."""
    table = json.loads(captures.text(capture, "measurements.json"))
    size = devices.dtype(table["dtype"]).bytes
    found = {}
    for row in table["programs"]:
        median = statistics.median(row["device_time"])
        found[row["warps"], row["block"]] = row | {
            "elements": row["block"] // (32 * row["warps"]),
            "bandwidth_gb_s": 2 * row["rows"] * row["block"] * size / median,
        }
    return found


def program(warps: int, block: int, key: str, capture: str = BF16) -> str:
    """Something of a program, as text."""
    value = programs(capture)[warps, block][key]
    return f"{value:,.0f} GB/s" if key == "bandwidth_gb_s" else f"{value:,}"


# -- Nsight Compute ---------------------------------------------------------------------------------


@cache
def kernels() -> dict[str, dict[str, tuple[str, str]]]:
    """The kernels of `ncu_triton`: name to counter to value and unit."""
    names, units, *rows = csv.reader(io.StringIO(captures.text("ncu_triton", "kernels.csv")))
    return {
        row[names.index("Kernel Name")]: {
            name: (value, unit) for name, unit, value in zip(names, units, row, strict=True)
        }
        for row in rows
    }


def counter(kernel: str, name: str) -> float:
    """A counter of a kernel, in ns, bytes, or as it stands."""
    value, unit = kernels()[kernel][name]
    return float(value.replace(",", "")) * UNITS.get(unit, 1.0)


def dram_bytes(kernel: str, way: str = "read") -> float:
    """What a kernel read from, or wrote to, device memory."""
    return counter(kernel, f"dram__bytes_{way}.sum")


def duration_ns(kernel: str) -> float:
    """How long a kernel took under the profiler."""
    return counter(kernel, "gpu__time_duration.sum")


def warps_pct(kernel: str) -> str:
    """The achieved occupancy of a kernel, as text."""
    return f"{counter(kernel, 'sm__warps_active.avg.pct_of_peak_sustained_active'):.0f} %"


def resident_programs(kernel: str) -> int:
    """How many programs of a kernel fit into a multiprocessor at a time."""
    limits = ("blocks", "registers", "shared_mem", "warps")
    return round(min(counter(kernel, f"launch__occupancy_limit_{limit}") for limit in limits))


def loaded_at_once(kernel: str, tile_bytes: int) -> int:
    """The bytes that the programs on a multiprocessor ask for if each has its tile under way."""
    return resident_programs(kernel) * tile_bytes


def rows_at_a_time_bytes(kernel: str) -> int:
    """The rows of 32,768 in bfloat16 that the programs on all multiprocessors have under way."""
    count = devices.get("H200").sm_count
    assert count is not None
    return resident_programs(kernel) * count * 32768 * 2


def l2_bytes() -> int:
    """The L2 cache of the H200."""
    found = devices.get("H200").l2_bytes
    assert found is not None
    return found


# -- plots ------------------------------------------------------------------------------------------

LINES = {
    "copy": ("a copy", GREY),
    "fused": ("fused, rows by width", BLUE),
    "one_row": ("fused, one row a program", ORANGE),
    "torch": ("torch.softmax", GREEN),
    "separate": ("five kernels", VERMILION),
}


def _axis(axes: Any, title: str) -> None:
    axes.set_xscale("log", base=2)
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.set_ylim(0, 4900)
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_title(title)


def softmax_bandwidth() -> Figure:
    """Bandwidth of each implementation over the width, in both data types."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(8.4, 3.9), sharey=True)
    figure.subplots_adjust(left=0.09, right=0.98, top=0.91, bottom=0.28, wspace=0.08)
    for axes, capture in zip(panels, (BF16, FP32), strict=True):
        for name, (label, colour) in LINES.items():
            points = [
                (w, row["bandwidth_gb_s"]) for (n, w), row in sweep(capture).items() if n == name
            ]
            axes.plot(
                *zip(*points, strict=True),
                color=colour,
                label=label,
                linewidth=3.5 if name == "copy" else 1.6,
                marker=None if name == "copy" else "o",
                markersize=3.5,
            )
        _axis(axes, TITLES[capture])
        axes.set_xticks([256, 1024, 4096, 16384])
        axes.set_xlabel("columns")
    panels[0].set_ylabel("useful bytes over time (GB/s)")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=5, frameon=False, fontsize=9)
    return figure


WARP_COLOURS = {4: PURPLE, 8: BLUE, 16: GREEN, 32: ORANGE}


def softmax_spills() -> Figure:
    """Bandwidth of one row to a program over its width, by warps; crosses spill."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.6))
    figure.subplots_adjust(left=0.1, right=0.98, top=0.91, bottom=0.26)
    for warps, colour in WARP_COLOURS.items():
        rows = [row for (w, _), row in programs().items() if w == warps]
        axes.plot(
            [row["block"] for row in rows],
            [row["bandwidth_gb_s"] for row in rows],
            color=colour,
            linewidth=1.4,
            label=f"{warps} warps",
        )
        for row in rows:
            spills = row["spills_count"] > 0
            axes.plot(
                row["block"],
                row["bandwidth_gb_s"],
                marker="X" if spills else "o",
                markersize=9 if spills else 5,
                color=VERMILION if spills else colour,
                markeredgecolor=INK if spills else colour,
                markeredgewidth=0.6,
                linestyle="none",
            )
    axes.plot(
        [],
        [],
        "X",
        color=VERMILION,
        markeredgecolor=INK,
        markersize=9,
        label="spills",
        linestyle="none",
    )
    _axis(axes, f"{BF16}: one row to a program")
    axes.set_xticks(sorted({block for _, block in programs()}))
    axes.set_xlabel("columns")
    axes.set_ylabel("GB/s")
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=5, frameon=False, fontsize=9)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "softmax_bandwidth": softmax_bandwidth,
    "softmax_spills": softmax_spills,
}
