"""Figures and figures' sources of ex02-io-dataloader."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import (
    BLUE,
    COPY_IN,
    GRID,
    KERNEL,
    ORANGE,
    VERMILION,
    legend,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOADERS = {
    "loader_single": "num_workers=0",
    "loader_few": "one worker",
    "loader_enough": "eight workers, pinned",
}


@cache
def split(capture: str) -> dict[str, int]:
    """Where the time of a recording's steps goes."""
    return reference("advanced_ex02").step_split(capture)


def step_ns(capture: str) -> float:
    """The mean step, in ns."""
    return split(capture)["step_ns"] / split(capture)["step_count"]


def median_step_ns(capture: str) -> float:
    """The median step, in ns."""
    with captures.open(capture) as recording:
        ranges = recording.nvtx_ranges
    return statistics.median(ranges.filter(ranges["name"] == "step")["duration_ns"])


def wait_ns(capture: str) -> float:
    """The mean wait for a batch, in ns."""
    return split(capture)["data_wait_ns"] / split(capture)["step_count"]


def share(capture: str, key: str) -> float:
    """A part of the steps' time, as a ratio."""
    return split(capture)[key] / split(capture)["step_ns"]


def costs(capture: str) -> dict[str, Any]:
    """What one sample costs, as the program timed it."""
    return reference("advanced_ex02").sample_costs(
        told(capture, "read_ns"),
        told(capture, "decode_ns"),
        told(capture, "stored_bytes_per_sample"),
    )


def alone_ns() -> float:
    """What a batch would cost by samples that were timed alone, in ns."""
    return costs("loader_single")["sample_ns"] * told("loader_single", "batch_count")


def in_loop_ns() -> dict[str, list[int]]:
    """Read and decode times of the samples inside the recorded loop, in ns."""
    with captures.open("loader_single") as recording:
        ranges = recording.nvtx_ranges
    return {
        part: ranges.filter(ranges["name"] == part)["duration_ns"].to_list()
        for part in ("read", "decode")
    }


def loop_costs() -> dict[str, Any]:
    """What one sample costs inside the loop."""
    times = in_loop_ns()
    size = told("loader_single", "stored_bytes_per_sample")
    return reference("advanced_ex02").sample_costs(times["read"], times["decode"], size)


def collating_ns() -> float:
    """What is left of waiting for a batch besides its samples, in ns."""
    return batch_ns() - sum(map(sum, in_loop_ns().values())) / split("loader_single")["step_count"]


def batch_ns() -> float:
    """What the loop itself needed for a batch, in ns."""
    return wait_ns("loader_single")


def compute_ns() -> float:
    """A step without its wait for data, in ns."""
    return step_ns("loader_single") - wait_ns("loader_single")


def needed() -> dict[str, Any]:
    """The workers that the model asks for."""
    processors = told("loader_single", "cpu_count")
    return reference("advanced_ex02").workers_needed(compute_ns(), batch_ns(), processors)


@cache
def finding(capture: str) -> Any:
    """The verdict on a recording."""
    return reference("advanced_ex02").data_verdict(capture)


def verdict(capture: str) -> str:
    """Its category, as code."""
    return f"`{finding(capture).category}`"


def saved(capture: str) -> float:
    """What could be saved, as a share of the window."""
    evidence = finding(capture).evidence
    return evidence["recoverable_ns"] / evidence["window_ns"]


def exposed_ns(capture: str) -> float:
    """Copying without computing, in ns a step."""
    return finding(capture).evidence["exposed_copy_ns"] / split(capture)["step_count"]


# -- plots --------------------------------------------------------------------------------------------


def timelines_plot() -> Figure:
    """Five steps of each recording: the host's waits, and what the device does."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(3, 1, figsize=(9.2, 4.2), sharex=True)
    figure.subplots_adjust(left=0.19, right=0.985, top=0.93, bottom=0.2, hspace=0.42)
    for axes, (name, title) in zip(panels, LOADERS.items(), strict=True):
        with captures.open(name) as recording:
            ranges = recording.nvtx_ranges
            steps = ranges.filter(ranges["name"] == "step")["start_ns"].to_list()
            waits = ranges.filter(ranges["name"] == "next_batch")
            inputs = recording.copies.filter(recording.copies["kind"] == "H2D")
            rows = (
                (0, waits, VERMILION),
                (1, recording.kernels, KERNEL),
                (1, inputs, COPY_IN),
            )
            for place, frame, colour in rows:
                bars = [
                    ((start - steps[3]) / 1e6, length / 1e6)
                    for start, length in frame.select("start_ns", "duration_ns").iter_rows()
                    if steps[3] <= start < steps[8]
                ]
                axes.broken_barh(bars, (place - 0.36, 0.72), color=colour, linewidth=0)
        axes.set(ylim=(1.6, -0.6))
        axes.set_title(title)
        axes.set_yticks([0, 1], ["host waits for a batch", "device"])
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    panels[-1].set(xlabel="ms since a step began", xlim=(0, None))
    legend(
        figure, {"waiting for a batch": VERMILION, "kernels": KERNEL, "copy in": COPY_IN}, columns=3
    )
    return figure


def prefetch_plot() -> Figure:
    """Waits for uneven batches, with queues of different length."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9.2, 3.3))
    figure.subplots_adjust(left=0.075, right=0.985, top=0.9, bottom=0.3)
    batch_costs = [3.0] * 60
    batch_costs[40] = 30.0
    waits = reference("advanced_ex02").prefetch_waits
    for place, (factor, colour) in enumerate(((1, VERMILION), (2, ORANGE), (8, BLUE))):
        found = waits(batch_costs, 1.0, 4, factor)[30:56]
        axes.bar(
            [30 + number + (place - 1) * 0.28 for number in range(len(found))],
            found,
            width=0.28,
            color=colour,
        )
    axes.set(xlabel="batch", title="Wait for a batch, in steps (four workers, one slow batch)")
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    legend(
        figure,
        {"prefetch_factor=1": VERMILION, "prefetch_factor=2": ORANGE, "prefetch_factor=8": BLUE},
        columns=3,
    )
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "loader_timelines": timelines_plot,
    "loader_prefetch": prefetch_plot,
}
