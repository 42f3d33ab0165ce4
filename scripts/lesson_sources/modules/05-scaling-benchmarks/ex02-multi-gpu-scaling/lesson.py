"""What the lesson on scaling over GPUs computes and draws."""

from __future__ import annotations

import json
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
    VERMILION,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SERIES = {"a": BLUE, "b": GREEN, "c": VERMILION}
FOUR = "scaling_four_bf16"  # one, two and four GPUs


@cache
def run(capture: str, series: str, size: int) -> dict[str, Any]:
    """One run of a recording of scaling."""
    found = json.loads(captures.text(capture, "scaling.json"))["runs"]
    return next(r for r in found if r["series"] == series and r["world_size"] == size)


def told(capture: str, key: str) -> Any:
    """What a recording says of where it was made."""
    return json.loads(captures.text(capture, "scaling.json"))["environment"][key]


def sizes(capture: str) -> list[int]:
    """The world sizes that were measured."""
    return json.loads(captures.text(capture, "scaling.json"))["world_sizes"]


def step(capture: str, series: str, size: int) -> float:
    """The mean step of rank 0, in ns."""
    return statistics.fmean(run(capture, series, size)["step_ns"][0])


def alone(capture: str, series: str, size: int) -> float:
    """The mean step without exchange, over ranks and steps, in ns."""
    return statistics.fmean(
        step for rank in run(capture, series, size)["alone_ns"] for step in rank
    )


def kind(capture: str, series: str) -> dict[str, Any]:
    """Strong or weak."""
    return reference("scaling_ex02").scaling_kind(capture, series)


@cache
def efficiency(capture: str, series: str, size: int) -> dict[str, float]:
    """Speed-up and efficiency with its interval, by the steps of rank 0."""
    one, many = (run(capture, series, n)["step_ns"][0] for n in (1, size))
    return reference("scaling_ex02").scaling_efficiency(
        one, many, size, kind(capture, series)["kind"]
    )


def speedups(capture: str, series: str) -> list[float]:
    """The speed-ups over the world sizes."""
    return [
        1.0 if n == 1 else efficiency(capture, series, n)["speedup_ratio"] for n in sizes(capture)
    ]


def share(capture: str, series: str, most: int = 10**6) -> dict[str, float]:
    """The fitted serial share, from world sizes up to `most`."""
    points = [
        (n, s) for n, s in zip(sizes(capture), speedups(capture, series), strict=True) if n <= most
    ]
    return reference("scaling_ex02").serial_share(
        kind(capture, series)["kind"], [n for n, _ in points], [s for _, s in points]
    )


def predicted(capture: str, series: str, size: int, most: int = 10**6) -> dict[str, Any]:
    """The speed-up that the law says, fitted to world sizes up to `most`."""
    points = [
        (n, s) for n, s in zip(sizes(capture), speedups(capture, series), strict=True) if n <= most
    ]
    return reference("scaling_ex02").predict_speedup(
        kind(capture, series)["kind"], [n for n, _ in points], [s for _, s in points], size
    )


def bound(capture: str, series: str, least: float) -> dict[str, Any]:
    """Up to where an efficiency is proven."""
    rows = [{"world_size": n, **efficiency(capture, series, n)} for n in sizes(capture) if n > 1]
    return reference("scaling_ex02").efficient_up_to(rows, least)


def interval(capture: str, series: str, size: int) -> str:
    """An efficiency with its interval, as text."""
    found = efficiency(capture, series, size)
    return (
        f"{found['efficiency_ratio']:.3f} ({found['low_ratio']:.3f} to {found['high_ratio']:.3f})"
    )


def serial(capture: str, series: str) -> str:
    """The fitted serial share, as text."""
    return f"{share(capture, series)['serial_ratio']:.2f}"


def measured(capture: str, series: str, size: int) -> str:
    """A speed-up with the interval of its efficiency, as text."""
    found = efficiency(capture, series, size)
    low, high = size * found["low_ratio"], size * found["high_ratio"]
    return f"{found['speedup_ratio']:.2f} ({low:.2f} to {high:.2f})"


def foretold(capture: str, series: str, size: int, known: int = 2) -> str:
    """What the law fitted to one process and `known` says, for that efficiency and its ends."""
    found = efficiency(capture, series, known)
    said = [
        reference("scaling_ex02").predict_speedup(
            kind(capture, series)["kind"], [1, known], [1.0, known * found[key]], size
        )["speedup_ratio"]
        for key in ("efficiency_ratio", "low_ratio", "high_ratio")
    ]
    return f"{said[0]:.2f} ({said[1]:.2f} to {said[2]:.2f})"


def overlaps(one: str, other: str, size: int) -> int:
    """Of how many of the series a, b and c the intervals of two recordings overlap."""
    pairs = [(efficiency(one, series, size), efficiency(other, series, size)) for series in SERIES]
    return sum(
        a["low_ratio"] <= b["high_ratio"] and b["low_ratio"] <= a["high_ratio"] for a, b in pairs
    )


@cache
def verdict(capture: str, series: str, size: int) -> Any:
    """The finding on a run."""
    return reference("scaling_ex02").scaling_verdict(capture, series, size)


def waits_longer(capture: str, series: str, size: int, steps: int) -> list[bool]:
    """Whether waiting costs more than the exchange, for each so many steps of a run by themselves."""
    found = run(capture, series, size)
    out = []
    for start in range(0, len(found["step_ns"][0]), steps):
        alone = [rank[start : start + steps] for rank in found["alone_ns"]]
        window = statistics.fmean(
            t for rank in found["step_ns"] for t in rank[start : start + steps]
        )
        slowest = statistics.fmean(map(max, zip(*alone, strict=True)))
        out.append(slowest - statistics.fmean(t for rank in alone for t in rank) > window - slowest)
    return out


# -- plots --------------------------------------------------------------------------------------------


def scaling_plot() -> Figure:
    """Speed-ups on the CPU with a fit; efficiencies on GPUs with intervals."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.9))
    figure.subplots_adjust(left=0.06, right=0.985, top=0.9, bottom=0.28, wspace=0.24)
    cpu = sizes("scaling_cpu")
    fine = [1 + at * (cpu[-1] - 1) / 60 for at in range(61)]
    left.plot([1, cpu[-1]], [1, cpu[-1]], color=GREY, linewidth=1, linestyle=(0, (4, 3)))
    for series in ("a", "b"):
        left.plot(cpu, speedups("scaling_cpu", series), "o", color=SERIES[series], markersize=5)
    amdahl = share("scaling_cpu", "a")["serial_ratio"]
    gustafson = share("scaling_cpu", "b")["serial_ratio"]
    left.plot(fine, [1 / (amdahl + (1 - amdahl) / n) for n in fine], color=BLUE, linewidth=1.2)
    left.plot(fine, [n - gustafson * (n - 1) for n in fine], color=GREEN, linewidth=1.2)
    left.set(ylim=(0, 8), title="Speed-up of processes on a CPU", xlabel="processes")
    left.set_xticks(cpu)
    labels = []
    cases = [("bf16", FOUR, series, size) for series in SERIES for size in (2, 4)]
    cases += [("fp32", "scaling_fp32", series, 2) for series in SERIES]
    for place, (dtype, capture, series, size) in enumerate(cases):
        found = efficiency(capture, series, size)
        right.plot(
            [found["low_ratio"], found["high_ratio"]],
            [place, place],
            color=SERIES[series],
            linewidth=5,
            alpha=0.5,
        )
        right.plot([found["efficiency_ratio"]], [place], "o", color=SERIES[series], markersize=5)
        labels.append(f"{dtype}, {series}, {size}")
    right.axvline(1, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    right.set_yticks(range(len(labels)), labels, fontsize=8)
    right.set(
        ylim=(len(labels) - 0.5, -0.5),
        xlim=(0.15, 1.05),
        title="Efficiency of two and four GPUs, 95 %",
    )
    for axes in (left, right):
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(
        figure,
        {
            "series a, Amdahl's law": BLUE,
            "series b, Gustafson's law": GREEN,
            "series c": VERMILION,
            "ideal": GREY,
        },
        columns=4,
    )
    return figure


def waiting_plot() -> Figure:
    """What a step of each series on two and on four GPUs consists of."""
    import matplotlib.pyplot as plt

    names = [("bf16", FOUR, series, size) for series in "acd" for size in (2, 4)]
    names += [("fp32", "scaling_fp32", series, 2) for series in "acd"]
    figure, axes = plt.subplots(figsize=(9.2, 4.0))
    figure.subplots_adjust(left=0.1, right=0.97, top=0.92, bottom=0.23)
    for place, (_, capture, series, size) in enumerate(names):
        found = verdict(capture, series, size).evidence
        window = found["window_ns"]
        parts = [
            (1 - (found["waiting_ns"] + found["exposed_ns"]) / window, BLUE),
            (found["waiting_ns"] / window, ORANGE),
            (found["exposed_ns"] / window, VERMILION),
        ]
        start = 0.0
        for width, colour in parts:
            axes.barh([place], [100 * width], left=start, color=colour, height=0.6)
            start += 100 * width
    axes.set_yticks(range(len(names)), [f"{d}, {s}, {n}" for d, _, s, n in names])
    axes.set(
        ylim=(len(names) - 0.5, -0.5), xlim=(0, 100.5), title="Share of a step on 2 or 4 GPUs, %"
    )
    legend(
        figure,
        {
            "the mean rank's own work": BLUE,
            "waiting for the slowest": ORANGE,
            "exchange": VERMILION,
        },
        columns=3,
    )
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "scaling_curves": scaling_plot,
    "scaling_waiting": waiting_plot,
}
