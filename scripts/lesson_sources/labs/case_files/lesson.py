"""What the lesson on the case files computes and draws, from cases that it does not ask about."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from statistics import median
from typing import TYPE_CHECKING

from grading.checks.case_evidence import open_case
from profiling_lab.analysis import intervals
from profiling_lab.captures import kernels
from profiling_lab.mine.kernels import CAUSES
from scripts.lesson_sources.drawing import BLUE, GREY, GRID, VERMILION, legend, reference, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = (  # other recordings than those of the exercise
    "case_reinforcement_a",
    "case_reinforcement_b",
    "case_recommender_a",
    "case_decoder_b",
    "case_retrieval_b",
    "case_residual_b",
    "case_vision_b",
    "case_adversarial_b",
)


@cache
def measured(name: str, key: str) -> float:
    """A number of a case, as a verdict would bring it."""
    value = open_case(name).measure(key)
    assert value is not None
    return value


def share(name: str, key: str) -> float:
    """A time of a case over its window."""
    return measured(name, key) / open_case(name).window_ns


def long_pauses_ns(name: str) -> list[int]:
    """The lengths of a device's pauses of more than a millisecond."""
    busy = intervals.of((one.start_ns, one.end_ns) for one in open_case(name).operations)
    pauses = intervals.gaps(busy, busy.starts_ns.min(), busy.ends_ns.max())
    return [end - start for start, end in pauses.pairs() if end - start > 1_000_000]


def saved(name: str) -> float:
    """What the fixed variant saves of a step of the sick one, by the program's own samples."""
    return 1 - median(told(name, "fixed_ns")) / median(told(name, "sick_ns"))


def first_page() -> float:
    """The share of its duration that the kernel of case_sum_a would save, by Day 2's reference."""
    (kernel,) = kernels.read("case_sum_a")
    return 1 - 1 / max(reference("ex_31").estimate_gain(kernel, cause) or 1.0 for cause in CAUSES)


def signs() -> Figure:
    """For some cases: how long the host waited, and how long the device was idle."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.6))
    figure.subplots_adjust(left=0.2, right=0.97, top=0.91, bottom=0.25)
    ordered = sorted(SHOWN, key=lambda name: share(name, "idle_ns"))
    for y, name in enumerate(ordered):
        waits, idle = (share(name, key) for key in ("waiting_ns", "idle_ns"))
        axes.plot([waits, idle], [y, y], color=GREY, linewidth=1.5, zorder=1)
        axes.plot(waits, y, "o", color=BLUE, markersize=7)
        axes.plot(idle, y, "s", color=VERMILION, markersize=7)
    axes.set_yticks(range(len(ordered)), ordered)
    axes.set_xlim(-0.02, 1.02)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("share of the window")
    axes.set_title("How long the host waits says little about how long the device is idle")
    legend(figure, {"the host waits in a call": BLUE, "the device is idle": VERMILION}, 2)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {"signs": signs}
