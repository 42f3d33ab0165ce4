"""What the lesson on comparing two recordings computes and draws."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import BLUE, GREEN, GREY, GRID, ORANGE, VERMILION, reference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

BEFORE, AFTER, STEP = "cuda_pipeline_baseline", "cuda_pipeline_improved", "batch"
PAIRS = {
    BEFORE: f"{BEFORE}_again",
    AFTER: f"{AFTER}_again",
}


@cache
def times(capture: str, step: str = STEP) -> list[int]:
    """The reference's samples of a step."""
    return reference("advanced_ex07").step_times(capture, step)


def median(capture: str, step: str = STEP) -> float:
    """Their median, in ns."""
    return statistics.median(times(capture, step))


def host_median(capture: str, step: str = STEP) -> float:
    """The median length of the ranges on the host, in ns."""
    ranges = captures.open(capture).nvtx_ranges
    return statistics.median(ranges.filter(ranges["name"] == step)["duration_ns"].to_list())


def shift(before: str, after: str, key: str, step: str = STEP) -> float:
    """A piece of `shift` over the median before, as a ratio."""
    found = reference("advanced_ex07").shift(times(before, step), times(after, step))
    return found[key] / median(before, step)


def signed(ratio: float) -> str:
    """0.05 → "+5.0 %"."""
    return f"{100 * ratio:+.1f} %"


@cache
def pieces(before: str = BEFORE, after: str = AFTER) -> list[dict[str, Any]]:
    """The pieces of a change."""
    return reference("advanced_ex07").decompose(before, after)


def piece(name: str, key: str, before: str = BEFORE, after: str = AFTER) -> int:
    """One number of one piece; 0 if there is none of that name."""
    rows = [row for row in pieces(before, after) if row["piece"].startswith(name)]
    return rows[0][key] if rows else 0


def whole(key: str, before: str = BEFORE, after: str = AFTER) -> int:
    """One number of all pieces, added up."""
    return sum(row[key] for row in pieces(before, after))


def kernel_sum(capture: str, name: str) -> int:
    """The durations of a kernel, added up."""
    kernels = captures.open(capture).kernels
    return int(kernels.filter(kernels["name"] == name)["duration_ns"].sum())


def rate(capture: str, kind: str = "H2D") -> str:
    """The rate of all copies of one kind, bytes over their durations."""
    copies = captures.open(capture).copies
    copies = copies.filter(copies["kind"] == kind)
    return f"{int(copies['bytes'].sum()) / int(copies['duration_ns'].sum()):.1f} GB/s"


def gate(before: str, after: str, step: str) -> dict[str, Any]:
    """The reference's gate at 5 %."""
    return reference("advanced_ex07").gate(before, after, step, 0.05)


def category(before: str, after: str, step: str) -> str:
    """What the gate's finding says."""
    return gate(before, after, step)["finding"].category


# -- plots --------------------------------------------------------------------------------------------


def samples_plot() -> Figure:
    """The step times of four runs, two and two equal."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.2, 3.0))
    figure.subplots_adjust(left=0.07, right=0.985, top=0.9, bottom=0.2, wspace=0.16)
    for axes, (one, again) in zip(panels, PAIRS.items(), strict=True):
        for lane, (capture, colour) in enumerate(((one, BLUE), (again, ORANGE))):
            values = [ns / 1e6 for ns in times(capture)]
            axes.plot(values, [lane] * len(values), "o", color=colour, markersize=5, alpha=0.55)
            middle = statistics.median(values)
            axes.plot([middle, middle], [lane - 0.3, lane + 0.3], color=colour, linewidth=2)
        axes.set_yticks([0, 1], ["run 1", "run 2"])
        axes.set(ylim=(1.6, -0.6), title=f"{one}: step, ms")
        axes.set_xlim(left=0)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    return figure


def pieces_plot() -> Figure:
    """From before to after, piece by piece."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9.2, 2.9))
    figure.subplots_adjust(left=0.15, right=0.97, top=0.9, bottom=0.12)
    rows = [("before", 0, whole("before_ns"), GREY)]
    at = whole("before_ns")
    for row in pieces():
        name = row["piece"].partition("(")[0]
        rows.append((name, at, row["change_ns"], GREEN if row["change_ns"] < 0 else VERMILION))
        at += row["change_ns"]
    rows.append(("after", 0, at, GREY))
    for lane, (_, start, length, colour) in enumerate(rows):
        axes.barh(lane, length / 1e6, left=start / 1e6, height=0.7, color=colour)
        text = f"{length / 1e6:+.1f}" if start else f"{length / 1e6:.1f}"
        axes.text(max(start, start + length) / 1e6 + 0.6, lane, text, va="center", fontsize=8.5)
    axes.set_yticks(range(len(rows)), [name for name, *_ in rows])
    axes.set(ylim=(len(rows) - 0.4, -0.6), title="From the first to the second program, ms")
    axes.set_xlim(0, whole("before_ns") / 1e6 * 1.08)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "comparison_samples": samples_plot,
    "comparison_pieces": pieces_plot,
}
