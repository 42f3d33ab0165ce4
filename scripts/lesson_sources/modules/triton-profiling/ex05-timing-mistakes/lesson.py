"""What the lesson on timing a Triton kernel computes and draws."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    SKY,
    VERMILION,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KERNELS = {"add": "add of 2²² float32", "matmul": "product, 4096³ bfloat16"}
# Names for a reader, and whether a way measures the device, the host, or both.
WAYS = {
    "not_synchronised": ("wall, no synchronisation", VERMILION),
    "wall": ("wall, one call and a wait", ORANGE),
    "blocks": ("wall, 100 calls and a wait", ORANGE),
    "after_idle": ("events, calls in a row", BLUE),
    "warm": ("events, launch hidden, warm", BLUE),
    "cold": ("events, launch hidden, cold", BLUE),
}
SAID = {
    "do_bench(fn)": "do_bench(fn)",
    "do_bench_cudagraph(fn)": "do_bench_cudagraph(fn)",
}


@cache
def table(kernel: str) -> dict[str, Any]:
    """The recorded samples of a kernel ("add" or "matmul")."""
    return json.loads(captures.text(f"triton_samples_{kernel}", "samples.json"))


def series(kernel: str, name: str) -> list[int]:
    """One series of samples, in ns."""
    return table(kernel)["series"][name]


def median(kernel: str, name: str, first: int = 0, last: int | None = None) -> float:
    """The median of a series, or of a part of it, in ns."""
    return statistics.median(series(kernel, name)[first:last])


def mean(kernel: str, name: str, count: int | None = None) -> float:
    """The mean of the first samples of a series, in ns."""
    return statistics.fmean(series(kernel, name)[:count])


def said_ns(kernel: str, call: str) -> float:
    """What one of Triton's functions returned, in ns."""
    return table(kernel)["triton_ms"][call] * 1e6


def needed(kernel: str, name: str, ratio: float) -> int:
    """How many samples a mean needs."""
    return reference("triton_ex05").repeats_needed(series(kernel, name), ratio)


def steady(kernel: str, name: str, window: int = 5, tolerance: float = 0.05) -> str:
    """Where a series becomes steady, or that it does not, as text."""
    try:
        return str(reference("triton_ex05").steady_from(series(kernel, name), window, tolerance))
    except ValueError:
        return "nowhere in the first half"


def error(kernel: str, name: str, repeats: int, key: str, trusted: str = "cold") -> Any:
    """Bias or spread of a way of timing, against the median of another."""
    found = reference("triton_ex05").error_after(
        series(kernel, name), median(kernel, trusted), repeats
    )
    return found[key]


def mistakes(kernel: str, name: str, count: int) -> str:
    """The mistakes that the first samples of a series show."""
    found = reference("triton_ex05").timing_mistakes(
        series(kernel, name)[:count], median(kernel, "warm")
    )
    return ", ".join(f"`{one}`" for one in found) or "none"


@cache
def scopes(dtype: str) -> dict[str, dict[str, Any]]:
    """The scopes of a proton profile ("fp32" or "bf16") by name."""
    return {
        row["scope"]: row for row in reference("triton_ex05").proton_rates(f"triton_proton_{dtype}")
    }


def scope(dtype: str, name: str) -> dict[str, Any]:
    """One scope of a proton profile."""
    return scopes(dtype)[name]


# -- plots --------------------------------------------------------------------------------------------


def ways_plot() -> Figure:
    """The same call timed in many ways: median and quartiles of each."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.2, 4.3), sharey=True)
    figure.subplots_adjust(left=0.23, right=0.985, top=0.9, bottom=0.2, wspace=0.07)
    names = [*(label for label, _ in WAYS.values()), *SAID.values()]
    for axes, (kernel, title) in zip(panels, KERNELS.items(), strict=True):
        for place, (name, (_, colour)) in enumerate(WAYS.items()):
            low, middle, high = statistics.quantiles(series(kernel, name), n=4, method="inclusive")
            axes.plot(
                [low / 1e3, high / 1e3], [place, place], color=colour, linewidth=5, alpha=0.45
            )
            axes.plot([middle / 1e3], [place], "o", color=colour, markersize=6)
            axes.text(high / 1e3, place + 0.36, f" {middle / 1e3:.1f}", fontsize=8.5, ha="center")
        for place, name in enumerate(SAID, len(WAYS)):
            value = said_ns(kernel, name) / 1e3
            axes.plot([value], [place], "s", color=GREEN, markersize=6)
            axes.text(value, place + 0.36, f" {value:.1f}", fontsize=8.5, ha="center")
        axes.set(title=f"{title}, µs", ylim=(len(names) - 0.4, -0.6))
        axes.set_xlim(0, max(statistics.quantiles(series(kernel, "wall"), n=4)) / 1e3 * 1.15)
        axes.set_yticks(range(len(names)), names)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(
        figure,
        {
            "not synchronised": VERMILION,
            "wall clock: median, quartiles": ORANGE,
            "device's events: median, quartiles": BLUE,
            "what Triton's function returned": GREEN,
        },
        columns=4,
    )
    return figure


def repeats_plot() -> Figure:
    """The first samples of a process; and what more samples do to a mean."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.9))
    figure.subplots_adjust(left=0.075, right=0.985, top=0.9, bottom=0.29, wspace=0.2)
    first = series("add", "from_start")[:40]
    left.plot(range(1, 41), [x / 1e3 for x in first], "o", color=ORANGE, markersize=3.5)
    left.set(yscale="log", title="Wall time of the first 40 calls of an add, µs", xlabel="call")
    left.axhline(median("add", "cold") / 1e3, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    for name, colour in (("wall", ORANGE), ("cold", BLUE)):
        samples = series("add", name)[5:]
        counts = [3, 5, 8, 12, 20, 30, 50, 80, 120, 200, 300, len(samples)]
        means = [statistics.fmean(samples[:c]) / 1e3 for c in counts]
        halves = [1.96 * statistics.stdev(samples[:c]) / math.sqrt(c) / 1e3 for c in counts]
        right.plot(counts, means, color=colour, linewidth=1.4)
        right.fill_between(
            counts,
            [m - h for m, h in zip(means, halves, strict=True)],
            [m + h for m, h in zip(means, halves, strict=True)],
            color=SKY if colour == BLUE else GREY,
            alpha=0.5,
            linewidth=0,
        )
    right.axhline(median("add", "cold") / 1e3, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    right.set(
        xscale="log", ylim=(0, 40), title="Mean of so many samples, µs", xlabel="samples averaged"
    )
    for axes in (left, right):
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(
        figure,
        {
            "wall clock, a wait after each call": ORANGE,
            "events, launch hidden": BLUE,
            "95 % interval (wall)": GREY,
            "95 % interval (events)": SKY,
        },
        columns=4,
    )
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "timing_ways": ways_plot,
    "timing_repeats": repeats_plot,
}
