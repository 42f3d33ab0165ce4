"""What the page of the Triton module computes and draws."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, devices
from scripts.lesson_sources.drawing import BLUE, GRID, INK, ORANGE, ROOT, legend, reference

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def add_shares(dtype: str) -> dict[int, float]:
    """By number of elements: bytes per second of a vector add over those of a copy, cold."""
    rows = reference("triton_ex01").share_of_copy(f"triton_vector_add_{dtype}")
    return {row["n"]: row["share_ratio"] for row in rows}


@cache
def product_shares(dtype: str) -> dict[int, float]:
    """By size of square matrices: time of torch's product over that of the Triton kernel."""
    table = json.loads(captures.text(f"triton_matmul_{dtype}", "measurements.json"))
    return {
        row["m"]: statistics.median(row["torch_device_time"])
        / statistics.median(row["device_time"])
        for row in table["sizes"]
        if row["m"] == row["n"] == row["k"]
    }


@cache
def softmax_shares(dtype: str) -> dict[int, float]:
    """By width of a row: time of torch's softmax over that of the fused Triton kernel."""
    name = {"bf16": "triton_softmax", "fp32": "triton_softmax_fp32"}[dtype]
    rows = reference("triton_ex04").speedup_by_width(name, "fused", "torch")["widths"]
    return {row["columns"]: row["speedup_ratio"] for row in rows}


@cache
def benchmarked(name: str) -> float:
    """The smallest ratio of a reference in the last run of benchmarks/triton_references.py."""
    file = ROOT / "benchmarks/results/triton_references.json"
    rows = json.loads(file.read_text(encoding="utf-8"))["runs"][-1]["rows"]
    return min(row["ratio"] for row in rows if row["reference"] == name)


def largest(shares: dict[int, float]) -> float:
    """The ratio at the largest size."""
    return shares[max(shares)]


def least(shares: dict[int, float]) -> float:
    """The smallest ratio of all sizes."""
    return min(shares.values())


def ratio(value: float) -> str:
    """A ratio, as text."""
    return f"{value:.2f}"


def ridge(name: str, dtype: str) -> float:
    """Operations a byte at which the memory and the arithmetic of a device take as long."""
    device = devices.get(name)
    return device.peak(dtype) / device.memory_bandwidth_bytes_per_s


def ridges(dtype: str) -> list[tuple[float, str]]:
    """The ridge points of all devices in the table that have the data type, smallest first."""
    out = []
    for name in devices.names():
        if dtype in devices.get(name).peak_flops_per_s:
            out.append((ridge(name, dtype), name))
    return sorted(out)


def peaks(name: str) -> Any:
    """A device of the table."""
    return devices.get(name)


# -- plots --------------------------------------------------------------------------------------------


def shares_plot() -> Figure:
    """How near the module's kernels come to the best that is known for this device."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9.2, 3.6))
    figure.subplots_adjust(left=0.06, right=0.985, top=0.88, bottom=0.3, wspace=0.22)
    drawn = [
        (panels[0], "Vector add against a copy", "elements", add_shares, ("fp32", "bf16")),
        (panels[1], "Softmax against torch's", "width of a row", softmax_shares, ("fp32", "bf16")),
        (panels[2], "Product against cuBLAS", "rows and columns", product_shares, ("bf16",)),
    ]
    colours = {"fp32": ORANGE, "bf16": BLUE}
    for axes, title, label, shares, dtypes in drawn:
        for dtype in dtypes:
            found = shares(dtype)
            axes.plot(
                list(found), list(found.values()), color=colours[dtype], marker="o", markersize=3
            )
        axes.axhline(1, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
        axes.set_xscale("log", base=2)
        axes.set(title=title, xlabel=label)
        axes.set_ylim(bottom=0)
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(figure, {"float32": ORANGE, "bfloat16": BLUE}, columns=2)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {"triton_shares": shares_plot}
