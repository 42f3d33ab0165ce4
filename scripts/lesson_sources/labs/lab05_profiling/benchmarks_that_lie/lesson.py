"""What the lesson on Benchmarks that lie computes and draws."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.mine.functions import load_once
from profiling_lab.virtual_gpu import VirtualGpu
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    ROOT,
    VERMILION,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SETTLED_NS = 200_000_000
BROKEN = "labs/lab05_profiling/benchmarks_that_lie/broken.py"


@cache
def recorded() -> dict[str, Any]:
    """`pitfalls.json` of the capture."""
    return json.loads(captures.text("benchmark_pitfalls", "pitfalls.json"))


def samples(name: str, which: str) -> list[int]:
    """The samples of a pitfall: "lie" or "honest", ns a call."""
    row = next(row for row in recorded()["pitfalls"] if row["name"] == name)
    return row[f"{which}_ns"]


def lie(name: str) -> float:
    """Median with the mistake, ns."""
    return statistics.median(samples(name, "lie"))


def honest(name: str) -> float:
    """Median without it, ns."""
    return statistics.median(samples(name, "honest"))


def series(first: int, last: int) -> float:
    """Median of some products after a pause, by their place in what is kept (last excluded), ns."""
    return statistics.median(duration for _, duration in recorded()["series_ns"][first:last])


def final() -> float:
    """Median of the products from `SETTLED_NS` after the first on, ns."""
    return statistics.median(took for at, took in recorded()["series_ns"] if at > SETTLED_NS)


def mhz(text: str) -> str:
    """The clock in "345 MHz, 79.33 W"."""
    return text.partition(",")[0]


def watts(text: str) -> str:
    """The power in "345 MHz, 79.33 W", whole watts."""
    return f"{float(text.partition(',')[2].removesuffix('W')):.0f} W"


def driver_said(when: str) -> str:
    """Clock and power "at_rest" or "after_series"."""
    return recorded()[f"clock_and_power_{when}"]


@cache
def reported(case: str, calls: int = 40) -> float:
    """What a broken benchmark reports on its machine."""
    broken = load_once(ROOT / BROKEN, "lies_lesson_broken")
    return broken.CASES[case](broken.machine_for(case, seed=1).gpu, calls)


# -- plots ----------------------------------------------------------------------------------------

LABELS = {
    "no_sync": "no wait at the end",
    "side_stream": "events in another stream",
    "warm_cache": "warm cache, cold was meant",
    "zeros": "zeros instead of random data",
    "best_of_many": "the best of many",
    "output_as_input": "its own output as input",
    "queued_before": "no wait before the start",
    "sync_every_call": "a wait after each short call",
    "copy_inside": "a copy to the device inside",
    "compile_inside": "the compilation inside",
}


def pitfalls() -> Figure:
    """How many times the honest time each mistake reports."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.9))
    figure.subplots_adjust(left=0.28, right=0.9, top=0.92, bottom=0.13)
    ordered = sorted(LABELS, key=lambda name: lie(name) / honest(name))
    for y, name in enumerate(ordered):
        ratio = lie(name) / honest(name)
        colour = ORANGE if ratio > 1 else BLUE
        axes.barh(y, ratio - 1, left=1, height=0.62, color=colour, linewidth=0)
        text = f"{ratio:.2f}×" if ratio < 20 else f"{ratio:,.0f}×"
        right = ratio > 1
        place, side = (ratio * 1.12, "left") if right else (ratio / 1.12, "right")
        axes.text(place, y, text, va="center", ha=side)
    axes.set_yticks(range(len(ordered)), [LABELS[name] for name in ordered])
    axes.axvline(1, color=INK, linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(0.02, 20_000)
    axes.xaxis.set_major_formatter("{x:,g}×")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("reported over honest time")
    axes.set_title("benchmark_pitfalls: too fast (blue), too slow (orange)")
    return figure


def long_run() -> Figure:
    """The duration of products in a row after a pause."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.3))
    figure.subplots_adjust(left=0.1, right=0.97, top=0.9, bottom=0.16)
    points = recorded()["series_ns"]
    axes.plot(
        [moment / 1e6 for moment, _ in points],
        [took / 1e6 for _, took in points],
        "o",
        color=BLUE,
        markersize=3,
        markeredgewidth=0,
    )
    lowest, highest = series(1, 16) / 1e6, final() / 1e6
    for value, text in ((lowest, "calls 2 to 16"), (highest, "median after 200 ms")):
        axes.axhline(value, color=VERMILION, linewidth=1, ls="--", zorder=0)
        axes.text(1, value - 0.012, f"{text}: {value:.2f} ms", color=VERMILION, va="top", ha="left")
    axes.set_xscale("symlog", linthresh=10, linscale=0.5)
    axes.set_xlim(-1, 2500)
    axes.set_ylim(lowest - 0.07)
    axes.set_xticks([0, 10, 100, 1000], ["0", "10", "100", "1000"])
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("time since the first call (ms)")
    axes.set_ylabel("a call (ms)")
    axes.set_title(
        "benchmark_pitfalls: the same product, again and again, after two seconds of rest"
    )
    return figure


SHOWN = 6  # calls that are drawn


def _drawn_cases() -> list[tuple[str, dict[str, Any]]]:
    """Logs of three benchmarks of a few calls, on machines of one kind."""
    repaired = reference("lab05_lies")
    broken = load_once(ROOT / BROKEN, "lies_lesson_broken")
    logs = []
    for title, run in (
        ("no wait at either end", broken.case_07),
        ("events in stream 0, calls in stream 1", broken.case_12),
        ("repaired: no_sync", repaired.no_sync),
    ):
        machine = VirtualGpu(3, 70_000, launch_ns=12_000, sync_ns=25_000, queued_ns=150_000)
        run(machine.gpu, SHOWN)
        machine.gpu.sync()
        logs.append((title, machine.log()))
    return logs


def what_was_measured() -> Figure:
    """What three benchmarks measured, and when the device worked."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(3, 1, figsize=(8, 4.0), sharex=True)
    figure.subplots_adjust(left=0.12, right=0.98, top=0.93, bottom=0.2, hspace=0.75)
    colours = {"call": GREEN, "queued": GREY, "fill": GREY}
    for axes, (title, log) in zip(panels, _drawn_cases(), strict=True):
        start = min(operation["start_ns"] for operation in log["operations"])
        for region in log["regions"]:
            length = region["end_ns"] - region["start_ns"]
            axes.barh(
                1,
                length / 1e3,
                left=(region["start_ns"] - start) / 1e3,
                height=0.7,
                color=VERMILION,
            )
        for operation in log["operations"]:
            length = operation["end_ns"] - operation["start_ns"]
            axes.barh(
                0,
                length / 1e3 - 1.5,
                left=(operation["start_ns"] - start) / 1e3,
                height=0.7,
                color=colours[operation["kind"]],
            )
        axes.set_yticks([1, 0], ["measured", "device"])
        axes.set_ylim(-0.5, 1.5)
        axes.set_title(title)
    panels[-1].set_xlabel("virtual time (µs)")
    legend(
        figure,
        {"what the clock or the events saw": VERMILION, "calls": GREEN, "other work": GREY},
        3,
    )
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "pitfalls": pitfalls,
    "long_run": long_run,
    "what_was_measured": what_was_measured,
}
