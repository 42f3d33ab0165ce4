"""What the figures and plots of ncu_ex02's lesson are computed from."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab.findings import Finding
from scripts.lesson_sources.drawing import (
    BLUE,
    GREY,
    GRID,
    INK,
    ORANGE,
    SKY,
    VERMILION,
    legend,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CAPTURE = "ncu_waiting"
FMA = "sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active"
# Warps of a scheduler and chains of a thread, as the program launches them.
UNDER_WAY = {
    "chains_1": (1, 1),
    "chains_2": (1, 2),
    "chains_4": (1, 4),
    "chains_8": (1, 8),
    "warps_2": (2, 1),
    "warps_4": (4, 1),
    "warps_16": (16, 1),
    "warps_16_registers": (16, 1),
    "few_warps_many_chains": (2, 16),
}
LOSSES = {
    "filled_ratio": ("filled", BLUE),
    "gap_ratio": ("free while the SM had work", SKY),
    "idle_ratio": ("on SMs without work", ORANGE),
    "limit_ratio": ("nobody may take them", GREY),
}


@cache
def _kernels(capture: str) -> dict[str, dict[str, Any]]:
    return {
        kernel["name"].split("(")[0]: kernel for kernel in reference("ex_31").read_metrics(capture)
    }


def kernel(name: str, capture: str = CAPTURE) -> dict[str, Any]:
    """A recorded kernel with its counters in base units."""
    return _kernels(capture)[name]


def metric(name: str, counter: str) -> float:
    """A counter of a recorded kernel."""
    return kernel(name)["metrics"][counter]


def alone(name: str) -> float:
    """A kernel's duration without a profiler, in ns."""
    return told(CAPTURE, "kernels")[name]["duration_ns"]


def rate(name: str) -> float:
    """TFLOP/s of a kernel in its program."""
    row = told(CAPTURE, "kernels")[name]
    return row["flops"] / row["duration_ns"] / 1e3


def view(name: str, key: str) -> float:
    """A number of scheduler_view."""
    return reference("ncu_ex02").scheduler_view(kernel(name))[key]


def latency() -> float:
    """Cycles of a step of a chain, its part of the loop included: one warp, one chain."""
    return view("chains_1", "resident_count") / (metric("chains_1", FMA) / 100)


def predicted(name: str) -> float:
    """The share of cycles in which a multiply-add issues, by predict_issue."""
    warps, chains = UNDER_WAY[name]
    return reference("ncu_ex02").predict_issue(warps, chains, latency())["issue_ratio"]


def issued(name: str) -> float:
    """The same, counted."""
    return metric(name, FMA) / 100


def cost(segments: list[tuple[int, int]], key: str) -> float:
    """A number of divergence_cost."""
    return reference("ncu_ex02").divergence_cost(segments)[key]


def slots(name: str, key: str) -> Any:
    """A number of warp_slots."""
    return reference("ncu_ex02").warp_slots(kernel(name))[key]


def rule(key: str) -> str:
    """Kernels of occupancy_rule, as text."""
    found = reference("ncu_ex02").occupancy_rule(list(_kernels(CAPTURE).values()))
    return ", ".join(f"`{name.split('(')[0]}`" for name in found[key])


def stall(name: str, reason: str) -> float:
    """Warps of a scheduler that wait for a reason, for each instruction issued."""
    return metric(name, f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio")


def verdict(name: str) -> Finding:
    """What the reference says of a kernel."""
    return reference("ncu_ex02").compute_verdict(kernel(name))


def number(value: float, digits: int = 1) -> str:
    """A number without a unit."""
    return f"{value:,.{digits}f}"


# -- plots --------------------------------------------------------------------------------------------


def little() -> Figure:
    """How often a scheduler issues, predicted and counted, over what is under way."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8.6, 3.7))
    axes = figure.subplots()
    fine = [1 + 39 * step / 400 for step in range(401)]
    law = [min(1.0, one / latency()) for one in fine]
    axes.plot(fine, law, color=INK, linewidth=1.4, label="Little's law")
    groups = {
        "chains of one warp": (BLUE, "o", ("chains_1", "chains_2", "chains_4", "chains_8")),
        "warps of one chain": (ORANGE, "s", ("warps_2", "warps_4", "warps_16")),
        "the same, three registers read": (VERMILION, "D", ("warps_16_registers",)),
        "two warps of sixteen chains": (SKY, "^", ("few_warps_many_chains",)),
    }
    for label, (colour, marker, names) in groups.items():
        xs = [UNDER_WAY[name][0] * UNDER_WAY[name][1] for name in names]
        axes.plot(
            xs,
            [issued(name) for name in names],
            marker,
            color=colour,
            markersize=7,
            linestyle="none",
            label=label,
        )
    axes.set_xscale("log", base=2)
    axes.set_xticks([1, 2, 4, 8, 16, 32], ["1", "2", "4", "8", "16", "32"])
    axes.set(xlim=(0.9, 40), ylim=(0, 1.08))
    axes.set_xlabel("chains in flight in a scheduler: warps × chains of each warp")
    axes.set_ylabel("multiply-adds a cycle")
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    figure.subplots_adjust(left=0.08, right=0.98, top=0.98, bottom=0.14)
    return figure


def places() -> Figure:
    """Where the places for warps went, for eight kernels."""
    from matplotlib.figure import Figure

    names = (
        "whole_waves",
        "wave_and_a_bit",
        "uneven_blocks",
        "many_warps_one_load",
        "warps_16",
        "chains_1",
        "chains_8",
        "few_warps_many_chains",
    )
    figure = Figure(figsize=(8.6, 3.6))
    axes = figure.subplots()
    left = [0.0] * len(names)
    for key, (_, colour) in LOSSES.items():
        shares = [100 * max(0.0, slots(name, key)) for name in names]
        axes.barh(names, shares, left=left, color=colour, height=0.72)
        left = [a + b for a, b in zip(left, shares, strict=True)]
    for place, name in enumerate(names):
        axes.text(101, place, f"{100 * verdict(name).evidence['compute_ratio']:.0f} %", va="center")
    axes.invert_yaxis()
    axes.set_xlim(0, 112)
    axes.set_xticks([0, 20, 40, 60, 80, 100])
    axes.set_xlabel(
        "share of all places for warps over the duration, %; right: instruction throughput"
    )
    legend(figure, dict(LOSSES.values()), 4)
    figure.subplots_adjust(left=0.21, right=0.98, top=0.98, bottom=0.25)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {"littles_law": little, "places_for_warps": places}
