"""What the lesson on the cost of communication computes and draws."""

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
    ORANGE,
    VERMILION,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

GPU, FOUR, CPU = "scaling_bf16", "scaling_four_bf16", "scaling_cpu"


@cache
def content(capture: str = GPU) -> dict[str, Any]:
    """A recording of communication."""
    return json.loads(captures.text(capture, "communication.json"))


def reduce_ns(size: int, world_size: int = 2, capture: str = GPU) -> float:
    """The median time of an all-reduce, in ns."""
    return next(
        statistics.median(row["samples_ns"])
        for row in content(capture)["all_reduce"]
        if (row["bytes"], row["world_size"]) == (size, world_size)
    )


def bandwidth(size: int, world_size: int = 2, capture: str = GPU) -> dict[str, float]:
    """Algorithm and bus bandwidth of a recorded all-reduce."""
    return reference("scaling_ex03").bus_bandwidth(
        "all_reduce", size, reduce_ns(size, world_size, capture), world_size
    )


def gb_s(bytes_per_s: float, digits: int = 0) -> str:
    """Bytes a second as text."""
    return f"{bytes_per_s / 1e9:,.{digits}f} GB/s"


@cache
def fit(world_size: int = 2, capture: str = GPU) -> dict[str, float]:
    """Latency and bandwidth of an all-reduce."""
    return reference("scaling_ex03").fit_all_reduce(capture, world_size)


def foretold_ns(size: int, world_size: int, known: int = 2, capture: str = FOUR) -> float:
    """An all-reduce by the latency and bus bandwidth of another world size, in ns."""
    found, factor = fit(known, capture), 2 * (world_size - 1) / world_size
    return found["latency_ns"] + 1e9 * factor * size / found["bus_bytes_per_s"]


def absolute_latency_ns(world_size: int = 2, capture: str = GPU) -> float:
    """The latency by ordinary least squares of the same medians, in ns."""
    table = [row for row in content(capture)["all_reduce"] if row["world_size"] == world_size]
    sizes = [row["bytes"] for row in table]
    times = [statistics.median(row["samples_ns"]) for row in table]
    return statistics.linear_regression(sizes, times).intercept


def best_copy(capture: str = GPU) -> float:
    """The best of the copies, in bytes per second."""
    return max(
        1e9 * row["bytes"] / statistics.median(row["samples_ns"])
        for row in content(capture)["copy"]
    )


@cache
def rows(capture: str = GPU, world_size: int = 2) -> dict[tuple[int, int], dict[str, Any]]:
    """What the exchange adds, by samples and bucket cap."""
    found = reference("scaling_ex03").exposed_by_bucket(capture, world_size)
    return {(row["samples_count"], row["bucket_cap_mib"]): row for row in found}


def cost(samples: int, cap: int, capture: str = GPU, world_size: int = 2) -> dict[str, float]:
    """What the buckets of a training cost by the model."""
    buckets = rows(capture, world_size)[samples, cap]["bucket_bytes"]
    return reference("scaling_ex03").gradient_cost(buckets, fit(world_size, capture), world_size)


def predicted(samples: int, cap: int, capture: str = GPU, world_size: int = 2) -> dict[str, float]:
    """What of it the model says is exposed."""
    row = rows(capture, world_size)[samples, cap]
    return reference("scaling_ex03").predict_exposed(
        row["bucket_bytes"], row["backward_ns"], fit(world_size, capture), world_size
    )


@cache
def verdict(samples: int, cap: int, capture: str = GPU, world_size: int = 2) -> Any:
    """The finding on a training."""
    return reference("scaling_ex03").communication_verdict(capture, world_size, samples, cap)


# -- plots --------------------------------------------------------------------------------------------


def fit_plot() -> Figure:
    """All-reduce times over sizes, with the fitted model."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.9))
    figure.subplots_adjust(left=0.07, right=0.985, top=0.9, bottom=0.28, wspace=0.18)
    cases = [(FOUR, 2, BLUE), (FOUR, 4, GREEN), (CPU, 2, ORANGE), (CPU, 16, VERMILION)]
    for capture, size, colour in cases:
        table = [row for row in content(capture)["all_reduce"] if row["world_size"] == size]
        ordered = sorted((row["bytes"], statistics.median(row["samples_ns"])) for row in table)
        found, factor = fit(size, capture), 2 * (size - 1) / size
        lows = [b for b, _ in ordered]
        model = [found["latency_ns"] + 1e9 * factor * b / found["bus_bytes_per_s"] for b in lows]
        left.plot(lows, [t / 1e3 for _, t in ordered], "o", color=colour, markersize=4)
        left.plot(lows, [t / 1e3 for t in model], color=colour, linewidth=1.2)
        right.plot(lows, [factor * b / t for b, t in ordered], "o", color=colour, markersize=4)
        right.plot(
            lows,
            [factor * b / t for b, t in zip(lows, model, strict=True)],
            color=colour,
            linewidth=1.2,
        )
    right.axhline(best_copy(FOUR) / 1e9, color=GREY, linewidth=1.2, linestyle=(0, (4, 3)))
    left.set(xscale="log", yscale="log", title="Time of an all-reduce, µs", xlabel="bytes")
    right.set(xscale="log", yscale="log", title="Bus bandwidth, GB/s", xlabel="bytes")
    for axes in (left, right):
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(
        figure,
        {
            "2 GPUs, NCCL": BLUE,
            "4 GPUs, NCCL": GREEN,
            "2 processes, gloo": ORANGE,
            "16 processes, gloo": VERMILION,
            "best copy between two GPUs": GREY,
        },
        columns=5,
    )
    return figure


def exposed_plot() -> Figure:
    """What the exchange adds to a step: without overlap, predicted, and measured."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 1, figsize=(9.2, 5.8), sharey=True)
    figure.subplots_adjust(left=0.075, right=0.985, top=0.94, bottom=0.16, hspace=0.55)
    for axes, (capture, size, name) in zip(
        panels, ((GPU, 2, "two GPUs"), (FOUR, 4, "four GPUs")), strict=True
    ):
        table = rows(capture, size)
        for place, (samples, cap) in enumerate(table):
            values = [
                cost(samples, cap, capture, size)["time_ns"],
                predicted(samples, cap, capture, size)["exposed_ns"],
                table[samples, cap]["exposed_ns"],
            ]
            for at, (value, colour) in enumerate(zip(values, (GREY, BLUE, VERMILION), strict=True)):
                axes.bar([place + 0.27 * (at - 1)], [value / 1e6], width=0.25, color=colour)
        axes.set_xticks(
            range(len(table)),
            [f"{samples} samples\n{cap} MiB" for samples, cap in table],
            fontsize=8,
        )
        axes.set(title=f"What the exchange adds to a step on {name}, ms")
        axes.grid(axis="y", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(
        figure,
        {
            "all of it, by the model": GREY,
            "exposed, by the model": BLUE,
            "exposed, measured": VERMILION,
        },
        columns=3,
    )
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "all_reduce_fit": fit_plot,
    "exposed_time": exposed_plot,
}
