"""What the lesson on a single-GPU baseline computes and draws."""

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

GPU, LATE = "scaling_baseline_bf16", "scaling_baseline_late"
WARM_UP = 4
PHASES = {"load": VERMILION, "copy": ORANGE, "compute": BLUE, "optimizer": GREEN}


@cache
def content(capture: str) -> dict[str, Any]:
    """A recorded baseline."""
    return json.loads(captures.text(capture, "baseline.json"))


@cache
def sweep(capture: str = GPU) -> dict[int, dict[str, float]]:
    """The rows of a sweep by batch size."""
    rows = reference("scaling_ex01").batch_sweep(capture, WARM_UP)
    return {int(row["batch"]): row for row in rows}


def largest(capture: str = GPU) -> int:
    """The largest batch size of a sweep."""
    return max(sweep(capture))


def runs(batch: int, capture: str = GPU) -> list[list[int]]:
    """The steps of each run of a batch size, in ns."""
    found = [run for run in content(capture)["runs"] if run["batch"] == batch]
    return [[sum(phases) for phases in run["phases"]] for run in found]


def rate(batch: int, turn: int = -1, capture: str = GPU) -> dict[str, float]:
    """The throughput of one run."""
    return reference("scaling_ex01").throughput(runs(batch, capture)[turn], batch, WARM_UP)


def mean_of_rates(batch: int, warm_up: int, turn: int = -1, capture: str = GPU) -> float:
    """Samples a second, as the mean of the rates of steps."""
    return statistics.fmean(1e9 * batch / step for step in runs(batch, capture)[turn][warm_up:])


def utilization(batch: int, capture: str = GPU) -> float:
    """The model's share of the peak at a batch size."""
    return count(batch, capture)["utilization_ratio"]


def count(batch: int, capture: str = GPU) -> dict[str, float]:
    """Model FLOPs of a sample, and the share of the peak."""
    told = content(capture)["environment"]
    return reference("scaling_ex01").model_flops_utilization(
        told["layers"], sweep(capture)[batch]["samples_per_s"], told["device"], told["dtype"]
    )


def knee(share: float = 0.9, capture: str = GPU) -> dict[str, Any]:
    """Knee, best and undecided batches."""
    return reference("scaling_ex01").knee_batch(list(sweep(capture).values()), share)


def verdict(capture: str, warm_up: int = WARM_UP) -> Any:
    """The finding on a baseline."""
    return reference("scaling_ex01").baseline_verdict(capture, warm_up)


def phase_ns(name: str, batch: int, capture: str) -> float:
    """The mean of a phase over the steady steps of all runs of a batch size."""
    place = content(capture)["phase_names"].index(name)
    return statistics.fmean(
        step[place]
        for run in content(capture)["runs"]
        if run["batch"] == batch
        for step in run["phases"][WARM_UP:]
    )


@cache
def scaled(dtype: str, size: int) -> float:
    """Samples a second of the strong series on one or two GPUs, by data type."""
    found = json.loads(captures.text(f"scaling_{dtype}", "scaling.json"))["runs"]
    run = next(r for r in found if r["series"] == "a" and r["world_size"] == size)
    return 1e9 * sum(run["samples_per_rank"]) / statistics.fmean(run["step_ns"][0])


def conditions(one: str, other: str) -> dict[str, list[str]]:
    """What two recordings of scaling differ in."""
    sides = [
        json.loads(captures.text(name, "scaling.json"))["environment"] for name in (one, other)
    ]
    return reference("scaling_ex01").same_conditions(*sides)


# -- plots --------------------------------------------------------------------------------------------


def sweep_plot() -> Figure:
    """Throughput by batch size with every run, and the phases of a step of two baselines."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 3.9), width_ratios=[1.2, 1])
    figure.subplots_adjust(left=0.08, right=0.985, top=0.9, bottom=0.27, wspace=0.3)
    rows = sweep()
    for batch in rows:
        for steps in runs(batch):
            level = statistics.median(steps[WARM_UP:])
            left.plot([batch], [batch / level * 1e3], "o", color=GREY, markersize=4)
    left.plot(
        list(rows), [row["samples_per_s"] / 1e6 for row in rows.values()], color=INK, linewidth=1.4
    )
    found = knee()
    left.axvline(found["knee"], color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    left.set(xscale="log", ylim=(0, None), title="Million samples per second", xlabel="batch")
    left.set_xscale("log", base=2)
    left.set_xticks(list(rows), [str(batch) for batch in rows], fontsize=8)
    left.text(found["knee"], 0.02, " knee", fontsize=8.5)
    for place, capture in enumerate((GPU, LATE)):
        start = 0.0
        for name, colour in PHASES.items():
            width = phase_ns(name, largest(capture), capture) / 1e6
            right.barh([place], [width], left=start, color=colour, height=0.5)
            start += width
    right.set_yticks([0, 1], ["prefetched", "made late"])
    right.set(title=f"A step of batch {largest()}, ms", ylim=(1.6, -0.6))
    for axes in (left, right):
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(figure, {"one run": GREY, "median of runs": INK} | PHASES, columns=6)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {"baseline_sweep": sweep_plot}
