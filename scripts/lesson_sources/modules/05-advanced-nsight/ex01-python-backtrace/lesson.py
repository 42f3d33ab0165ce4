"""Figures and figures' sources of ex01-python-backtrace."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import cache
from statistics import median
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    KERNEL,
    ROOT,
    VERMILION,
    bars,
    legend,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FILE = "backtrace_training.py"
DRAWN_MS = 14
STACKS = ("backtrace_logging", "backtrace_masking", "backtrace_clean")


def covered(capture: str, key: str) -> float:
    """A share of the kernels' time."""
    found = reference("advanced_ex01").coverage(capture)
    return found[key] / found["kernel_ns"]


def rows(capture: str) -> tuple[int, int]:
    """Rows in the table of CUDA calls, and calls."""
    file = captures.path(capture).resolve()
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        query = "SELECT count(*), sum(eventClass <> 67) FROM CUPTI_ACTIVITY_KIND_RUNTIME"
        return connection.execute(query).fetchone()


def without(capture: str) -> tuple[int, str, float]:
    """Kernels whose launch has no stack: how many, the names of the calls, their share of the time."""
    traced = {trace.correlation for trace in reference("advanced_ex01").backtraces(capture)}
    with captures.open(capture) as recording:
        kernels = recording.kernels.select("correlation", "duration_ns").rows()
        calls = dict(recording.api_calls.select("correlation", "name").rows())
    missing = [(number, length) for number, length in kernels if number not in traced]
    names = ", ".join(sorted({calls[number] for number, _ in missing}))
    time = sum(length for _, length in missing)
    return len(missing), names, time / sum(length for _, length in kernels)


def launched_by(capture: str, call: str) -> float:
    """The share of the kernels' time that was launched by calls of this name."""
    with captures.open(capture) as recording:
        kernels = recording.kernels.select("correlation", "duration_ns").rows()
        calls = dict(recording.api_calls.select("correlation", "name").rows())
    total = sum(length for _, length in kernels)
    return sum(length for number, length in kernels if calls.get(number) == call) / total


def operator(capture: str, place: int) -> tuple[str, float]:
    """The operator with the most, second most … time, and its share."""
    found = reference("advanced_ex01").time_by_operator(capture)
    name = sorted(found, key=lambda name: (-found[name], name))[place]
    return name or "(none)", found[name] / sum(found.values())


@cache
def lines(capture: str) -> dict[int, dict[str, int]]:
    """Kernel time by lines of the program."""
    return reference("advanced_ex01").time_by_line(capture, FILE)


def line(capture: str, place: int) -> tuple[int, dict[str, int]]:
    """The line with the most, second most … own time."""
    found = lines(capture)
    number = sorted(found, key=lambda number: (-found[number]["self_ns"], number))[place]
    return number, found[number]


def source(number: int) -> str:
    """What is in a line of the program."""
    text = (ROOT / "captures" / "programs" / FILE).read_text(encoding="utf-8")
    return text.splitlines()[number - 1].strip()


def worst(capture: str) -> dict[str, int]:
    """The line that costs the device most."""
    return reference("advanced_ex01").waiting_lines(capture, FILE)[0]


@cache
def finding(capture: str) -> Any:
    """The verdict on a recording."""
    return reference("advanced_ex01").line_verdict(capture, FILE)


def saved(capture: str) -> float:
    """Idle time after waits, as a share of the window."""
    evidence = finding(capture).evidence
    return evidence["recoverable_ns"] / evidence["window_ns"]


def untraced_ns(capture: str) -> float:
    """The time of as many steps, before the recording began."""
    return told(capture, "untraced_s") * 1e9


def step_ns(capture: str) -> tuple[int, float]:
    """The first recorded step, and the median of them all."""
    with captures.open(capture) as recording:
        ranges = recording.nvtx_ranges
    steps = ranges.filter(ranges["name"] == "step")["duration_ns"].to_list()
    return steps[0], median(steps)


# -- plots --------------------------------------------------------------------------------------------


def steps_plot() -> Figure:
    """The same time of each recording, from a late step on."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(3, 1, figsize=(9.2, 4.2))
    figure.subplots_adjust(left=0.11, right=0.985, top=0.93, bottom=0.19, hspace=0.75)
    for axes, name in zip(panels, STACKS, strict=True):
        with captures.open(name) as recording:
            ranges = recording.nvtx_ranges
            steps = ranges.filter(ranges["name"] == "step")
            first = steps["start_ns"][2]
            device = recording.kernels.select("start_ns", "end_ns").rows()
        waits = [
            (trace.start_ns, trace.end_ns)
            for trace in reference("advanced_ex01").backtraces(name)
            if trace.name in reference("advanced_ex01").BLOCKING
        ]
        for place, found, colour in ((0, device, KERNEL), (1, waits, VERMILION)):
            window = (first, first + DRAWN_MS * 1e6)
            bars(axes, place, found, window, height=0.72, color=colour)
        axes.set(ylim=(1.6, -0.6), xlim=(0, DRAWN_MS))
        axes.set_yticks([0, 1], ["device", "host"])
        axes.set_title(name)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    panels[-1].set_xlabel("ms since a step began")
    legend(figure, {"kernels": KERNEL, "the host waits for the device": VERMILION}, columns=2)
    return figure


def shares_plot() -> Figure:
    """Kernel time by operator, and by own line."""
    import matplotlib.pyplot as plt

    name = "backtrace_logging"
    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.4))
    figure.subplots_adjust(left=0.155, right=0.985, top=0.9, bottom=0.13, wspace=0.8)
    found = reference("advanced_ex01").time_by_operator(name)
    total = sum(found.values())
    order = sorted(found, key=lambda key: (-found[key], key))[:7]
    left.barh(
        [key or "(none)" for key in order],
        [found[key] / 1e6 for key in order],
        color=[BLUE if key else GREY for key in order],
    )
    own = {number: row["self_ns"] for number, row in lines(name).items() if row["self_ns"]}
    ranked = sorted(own, key=lambda number: (-own[number], number))[:6]
    labels = [f"{number}: {source(number)[:30]}" for number in ranked]
    unknown = total - sum(own.values())
    right.barh(
        [*labels, "no line known"],
        [*(own[number] / 1e6 for number in ranked), unknown / 1e6],
        color=[*[GREEN] * len(ranked), GREY],
    )
    left.set_title("Kernel time by operator, ms")
    right.set_title("Kernel time by own line, ms")
    for axes in (left, right):
        axes.invert_yaxis()
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.tick_params(axis="y", labelsize=8)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "backtrace_steps": steps_plot,
    "backtrace_shares": shares_plot,
}
