"""Figures and figures' sources of ex05-cpu-sampling."""

from __future__ import annotations

import html
from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    ORANGE,
    PAPER,
    SKY,
    VERMILION,
    YELLOW,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SAMPLED = ("host_samples_python", "host_samples_native", "host_samples_device")


def hottest(capture: str, kind: str) -> dict[str, Any]:
    """The function with the largest self count on the launching thread."""
    return reference("advanced_ex05").hot_functions(capture, kind, thread_of(capture))[0]


def hottest_launching(capture: str) -> str:
    """The hottest Python function of the launching thread, over all samples."""
    return hottest(capture, "python")["function"]


def total(capture: str, kind: str) -> int:
    """The samples of the launching thread."""
    found = reference("advanced_ex05").samples(capture, kind)
    return sum(sample.thread == thread_of(capture) for sample in found)


def short(name: str, most: int = 46) -> str:
    """A name for a page: a long one cut, signs of HTML written out."""
    return html.escape(html.unescape(name) if len(name) <= most else f"{name[:most]}…")


def interval(hits: int, count: int) -> str:
    """An interval as text."""
    found = reference("advanced_ex05").share_interval(hits, count)
    return f"{found['low_ratio'] * 100:.1f} to {found['high_ratio'] * 100:.1f} %"


@cache
def thread_of(capture: str) -> int:
    """The thread that launches."""
    with captures.open(capture) as recording:
        launched = set(recording.kernels["correlation"].to_list())
        rows = recording.api_calls.select("correlation", "thread").rows()
    return Counter(thread for number, thread in rows if number in launched).most_common(1)[0][0]


@cache
def log_thread(capture: str) -> int:
    """The other thread that runs Python."""
    found = Counter(
        sample.thread for sample in reference("advanced_ex05").samples(capture, "python")
    )
    return next(thread for thread, _ in found.most_common() if thread != thread_of(capture))


@cache
def threads(capture: str) -> dict[int, dict[str, int]]:
    """Time on a processor by thread."""
    return reference("advanced_ex05").processor_time(capture)


def launching(capture: str) -> dict[str, int]:
    """The launching thread's time."""
    return threads(capture)[thread_of(capture)]


def logging(capture: str) -> dict[str, int]:
    """The logging thread's time."""
    return threads(capture)[log_thread(capture)]


def on_share(capture: str) -> float:
    """The share of the window that the launching thread is on a processor."""
    found = launching(capture)
    return found["on_ns"] / (found["on_ns"] + found["off_ns"])


def python_of_logging(capture: str) -> int:
    """Python samples of the logging thread."""
    found = reference("advanced_ex05").samples(capture, "python")
    return sum(sample.thread == log_thread(capture) for sample in found)


@cache
def finding(capture: str) -> Any:
    """The verdict on a recording."""
    return reference("advanced_ex05").host_verdict(capture, 0.0001)


@cache
def verdict(capture: str) -> str:
    """The verdict with the usual floor."""
    return reference("advanced_ex05").host_verdict(capture).category


def idle(capture: str) -> float:
    """The share of the window in which the device is idle."""
    return finding(capture).evidence["idle_ns"] / finding(capture).evidence["window_ns"]


def hot(capture: str) -> str:
    """The function that is hot while the device is idle."""
    advice = finding(capture).recommendation
    return advice.removeprefix("make ").removesuffix(" faster, or run it ahead")


def share(capture: str) -> str:
    """Its share of the samples in idle moments, in counts."""
    evidence = finding(capture).evidence
    return f"{evidence['hot_count']} of {evidence['sample_count']}"


# -- plots --------------------------------------------------------------------------------------------


def flames_plot() -> Figure:
    """Flame graphs of the launching thread's Python samples, from collapsed stacks."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.2, 3.4))
    figure.subplots_adjust(left=0.01, right=0.99, top=0.91, bottom=0.02, wspace=0.04)
    for axes, name in zip(panels, SAMPLED[:2], strict=True):
        lines = reference("advanced_ex05").collapsed_stacks(name, "python", thread_of(name))
        parts = [line.rpartition(" ") for line in lines]
        _flames(axes, [(stack.split(";"), int(number)) for stack, _, number in parts])
        axes.set_title(name)
    return figure


def _flames(axes: Any, counted: list[tuple[list[str], int]]) -> None:
    colours = (ORANGE, YELLOW, VERMILION, SKY, GREEN, BLUE)
    known: dict[str, str] = {}
    everything = sum(number for _, number in counted)

    def draw(part: list[tuple[list[str], int]], left: int, depth: int) -> None:
        groups: dict[str, list[tuple[list[str], int]]] = {}
        for stack, number in part:
            if len(stack) > depth:
                groups.setdefault(stack[depth], []).append((stack, number))
        for function, members in sorted(groups.items(), key=lambda item: -_samples(item[1])):
            width = _samples(members)
            colour = known.setdefault(function, colours[len(known) % len(colours)])
            axes.barh(
                depth, width, 0.94, left, color=colour, alpha=0.55, edgecolor=PAPER, linewidth=0.8
            )
            label = function.partition(" ")[0]
            if width > everything * 0.022 * len(label):
                axes.text(left + width / 2, depth, label, ha="center", va="center", fontsize=9)
            draw(members, left, depth + 1)
            left += width

    draw(counted, 0, 0)
    axes.set(xlim=(0, everything), ylim=(-0.5, max(len(stack) for stack, _ in counted) - 0.5))
    axes.set_axis_off()


def _samples(members: list[tuple[list[str], int]]) -> int:
    return sum(number for _, number in members)


FIGURES: dict[str, Callable[[], Any]] = {"host_flames": flames_plot}
