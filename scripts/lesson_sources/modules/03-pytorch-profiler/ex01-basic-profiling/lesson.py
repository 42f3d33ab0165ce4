"""What the lesson on basic profiling computes and draws."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import BLUE, GREEN, GREY, GRID, ORANGE, legend, reference, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INLINE, READY, NARROW = (f"training_phases_{variant}" for variant in ("inline", "ready", "narrow"))
FIRST_RECORDED, RECORDED_COUNT = 5, 3  # profile_training.py, FIRST_STEPS and PROFILED_STEPS


@cache
def phases(capture: str) -> dict[str, dict[str, Any]]:
    """The phases of a recorded loop by name."""
    return {row["phase"]: row for row in reference("torch_ex01").phase_times(capture)}


def phase(capture: str, name: str, key: str) -> float:
    """One time of a phase, for one step, in ns."""
    row = phases(capture)[name]
    return row[key] / row["count"]


def step_ns(capture: str) -> float:
    """How long a step took, on average over those after the recording, the device's work done."""
    return told(capture, "rest_step_ms") * 1e6


def issued_ns(capture: str) -> float:
    """How long the host took for one of the recorded steps, on average."""
    return look(capture).evidence["window_ns"] / RECORDED_COUNT


@cache
def look(capture: str) -> Any:
    """The Finding of a recorded loop."""
    return reference("torch_ex01").first_look(capture)


def told_ms(capture: str, number: int) -> float:
    """Wall time in ns of a step, counted from 0, as the program printed it."""
    return told(capture, "step_ms")[number] * 1e6


def usual_ns(capture: str) -> float:
    """The median wall time of the steps after the recording."""
    return statistics.median(told(capture, "step_ms")[FIRST_RECORDED + RECORDED_COUNT :]) * 1e6


@cache
def table(capture: str) -> list[dict[str, Any]]:
    """torch's table of operators of a recording."""
    return json.loads(captures.text(capture, "key_averages.json"))


def column_sum(capture: str, column: str = "self_device_time_total") -> float:
    """All rows of a column added up, for one step, in ns."""
    return sum(row[column] for row in table(capture)) * 1e3 / RECORDED_COUNT


def device_sum(capture: str) -> float:
    """How long the device worked for all phases, for one step, in ns."""
    return sum(row["device_ns"] / row["count"] for row in phases(capture).values())


def top(capture: str, place: int, by: str = "device") -> dict[str, Any]:
    """An entry of the list of operators."""
    return reference("torch_ex01").top_operators(table(capture), by, place + 1)[place]


@cache
def overhead(size: str) -> dict[str, dict[str, Any]]:
    """What the ways of watching cost ("narrow" or "wide"), by way."""
    rows = reference("torch_ex01").profiler_overhead(f"profiler_overhead_{size}")
    return {row["way"]: row for row in rows}


def plain_ns(size: str) -> float:
    """A step without the profiler."""
    text = captures.text(f"profiler_overhead_{size}", "overhead.json")
    return statistics.median(json.loads(text)["samples_ns"]["none"])


def cost(size: str, way: str) -> str:
    """Overhead of a way as text: time, share, and whether it can be told from chance."""
    row = overhead(size)[way]
    if not row["visible"]:
        return "within the spread"
    return f"{row['overhead_ns'] / 1e3:,.0f} µs ({row['overhead_ratio']:.0%})"


def sentence(capture: str) -> str:
    """A Finding in a table."""
    found = look(capture)
    return f"{found.evidence['idle_ratio']:.0%} | `{found.category}`, `{found.subject}`"


# -- plots --------------------------------------------------------------------------------------------

NAMES = ("data", "forward", "backward", "optimizer", "log")


def phases_plot() -> Figure:
    """Of each phase: the host's time, in Python and in operators and calls, and the device's."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9.2, 3.6), sharey=True)
    figure.subplots_adjust(left=0.09, right=0.985, top=0.9, bottom=0.22, wspace=0.08)
    titles = {INLINE: "batches made inline", READY: "batches made ahead", NARROW: "narrow layers"}
    for axes, (capture, title) in zip(panels, titles.items(), strict=True):
        for place, name in enumerate(NAMES):
            python = phase(capture, name, "python_ns") / 1e6
            host = phase(capture, name, "host_ns") / 1e6
            device = phase(capture, name, "device_ns") / 1e6
            axes.barh(place - 0.2, python, height=0.36, color=ORANGE)
            axes.barh(place - 0.2, host - python, left=python, height=0.36, color=BLUE)
            axes.barh(place + 0.2, device, height=0.36, color=GREEN)
        axes.set(title=f"{title}, ms a step", ylim=(len(NAMES) - 0.4, -0.6))
        axes.set_yticks(range(len(NAMES)), NAMES)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    entries = {"host, in Python": ORANGE, "host, in operators and CUDA calls": BLUE}
    legend(figure, entries | {"device, for this phase": GREEN}, columns=3)
    return figure


def overhead_plot() -> Figure:
    """What each way of watching adds to a step, by the size of the step."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.2, 3.1), sharey=True)
    figure.subplots_adjust(left=0.13, right=0.985, top=0.88, bottom=0.12, wspace=0.08)
    most = max(
        row["overhead_ratio"] for size in ("narrow", "wide") for row in overhead(size).values()
    )
    for axes, size in zip(panels, ("narrow", "wide"), strict=True):
        rows = overhead(size)
        for place, (_, row) in enumerate(rows.items()):
            value = row["overhead_ratio"] * 100
            axes.barh(place, value, height=0.6, color=BLUE if row["visible"] else GREY)
            axes.text(max(value, 0), place, f" {value:.1f} %", va="center", fontsize=8.5, ha="left")
        axes.set(title=f"{size}: a step of {plain_ns(size) / 1e6:.1f} ms, longer by")
        axes.set(xlim=(-1, most * 125), ylim=(len(rows) - 0.4, -0.6))
        axes.set_yticks(range(len(rows)), [way.replace("_", " ") for way in rows])
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "training_phases": phases_plot,
    "profiler_overhead": overhead_plot,
}
