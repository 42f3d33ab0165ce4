"""What the figures and plots of ncu_ex01's lesson are computed from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab.findings import Finding
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    SKY,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTURE = "ncu_bandwidth"
SMALL = "ncu_bandwidth_small"
LEVELS = {
    "asked_bytes": ("lanes asked for", GREY),
    "l1_bytes": ("L1 looked up", GREEN),
    "l2_bytes": ("between L1 and L2", SKY),
    "dram_bytes": ("DRAM", BLUE),
}


@cache
def _kernels(capture: str) -> dict[str, dict[str, Any]]:
    return {
        kernel["name"].split("(")[0]: kernel for kernel in reference("ex_31").read_metrics(capture)
    }


def kernel(name: str, capture: str = CAPTURE) -> dict[str, Any]:
    """A recorded kernel with its counters in base units."""
    return _kernels(capture)[name]


def metric(name: str, counter: str, capture: str = CAPTURE) -> float:
    """A counter of a recorded kernel."""
    return kernel(name, capture)["metrics"][counter]


def sectors_per_load(name: str) -> float:
    """Sectors that L1 looked up for a load of a warp."""
    load = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
    return metric(name, load.format("sectors")) / metric(name, load.format("requests"))


def predicted(stride: int, access_bytes: int = 4, offset: int = 0) -> int:
    """Sectors of a warp whose lanes take every stride-th element."""
    step = stride * access_bytes
    addresses = [offset + lane * step for lane in range(32)]
    return reference("ncu_ex01").warp_sectors(addresses, access_bytes)["sectors_count"]


def flow(name: str, way: str, key: str) -> float:
    """Bytes of a kernel at a level."""
    return reference("ncu_ex01").byte_flow(kernel(name))[way][key]


def served(name: str, key: str) -> float:
    """A share of served_by."""
    return reference("ncu_ex01").served_by(kernel(name))[key]


@cache
def shares(capture: str = CAPTURE) -> dict[str, dict[str, float]]:
    """share_of_copy of what the recorded program reported."""
    return reference("ncu_ex01").share_of_copy(
        {"kernels": told(capture, "kernels"), "mib": told(capture, "mib")}
    )


def share(name: str, capture: str = CAPTURE) -> float:
    """A kernel's bandwidth as a share of the device copy."""
    return shares(capture)[name]["share_ratio"]


def alone(name: str, capture: str = CAPTURE) -> float:
    """A kernel's duration without a profiler, in ns."""
    return told(capture, "kernels")[name]["duration_ns"]


def verdict(name: str, capture: str = CAPTURE) -> Finding:
    """What the reference says of a kernel."""
    return reference("ncu_ex01").memory_verdict(kernel(name, capture))


def number(value: float, digits: int = 1) -> str:
    """A number without a unit."""
    return f"{value:,.{digits}f}"


# -- plots --------------------------------------------------------------------------------------------


def speeds() -> Figure:
    """Every kernel's useful bandwidth as a share of the device copy."""
    from matplotlib.figure import Figure

    names = list(shares())
    figure = Figure(figsize=(8.6, 3.9))
    axes = figure.subplots()
    values = [100 * share(name) for name in names]
    colours = [BLUE if value >= 92 else ORANGE for value in values]
    axes.barh(names, values, color=colours, height=0.7)
    for place, value in enumerate(values):
        axes.text(value + 1, place, f"{value:.0f}", va="center", fontsize=8.5)
    axes.invert_yaxis()
    axes.axvline(92, color=INK, linewidth=0.9, linestyle=(0, (3, 3)))
    axes.set_xlim(0, 118)
    axes.set_xlabel("useful bytes per second, % of a device copy in the same run; dashed: 92")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    figure.subplots_adjust(left=0.17, right=0.98, top=0.98, bottom=0.13)
    return figure


def way_of_the_bytes() -> Figure:
    """Bytes read at each level, for six kernels."""
    from matplotlib.figure import Figure

    names = ("copy_float4", "copy_shifted", "stride_8", "stride_32", "copy_pieces", "gather_l2")
    figure = Figure(figsize=(8.6, 3.4))
    panels = figure.subplots(2, 3)
    for axes, name in zip(panels.flat, names, strict=True):
        labels = [label for label, _ in LEVELS.values()]
        values = [flow(name, "read", key) / 1e6 for key in LEVELS]
        axes.barh(labels, values, color=[colour for _, colour in LEVELS.values()], height=0.72)
        axes.invert_yaxis()
        axes.set_title(f"{name}: MB read")
        axes.set_xlim(0, max(values) * 1.28)
        for place, value in enumerate(values):
            axes.text(value + max(values) * 0.02, place, f"{value:,.0f}", va="center", fontsize=8)
        axes.set_xticks([])
        if axes not in (panels[0][0], panels[1][0]):
            axes.set_yticklabels([])
    figure.subplots_adjust(left=0.16, right=0.99, top=0.92, bottom=0.03, wspace=0.08, hspace=0.35)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "memory_speeds": speeds,
    "way_of_the_bytes": way_of_the_bytes,
}
