"""What the lesson on kernels of several streams computes and draws."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import (
    BLUE,
    GREY,
    ORANGE,
    PAPER,
    SKY,
    VERMILION,
    bars,
    lanes,
    legend,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def overlap() -> Any:
    return reference("nsys_ex02")


def untraced_ms(capture: str) -> float:
    """The median of the runs that the program timed without recording, in ns."""
    return statistics.median(told(capture, "untraced_ms")) * 1e6


def counted(capture: str, key: str) -> Any:
    """One number of `concurrency`."""
    return overlap().concurrency(capture)[key]


def span_ns(capture: str) -> int:
    """From the first start to the last end of a kernel."""
    kernels = captures.open(capture).kernels
    return max(kernels["end_ns"].to_list()) - min(kernels["start_ns"].to_list())


def pairs(capture: str) -> tuple[int, int]:
    """How many pairs of streams there are, and how many of them ever meet."""
    found = overlap().stream_overlap(capture)
    return len(found), sum(ns > 0 for *_, ns in found)


def waits(capture: str, key: str) -> int:
    """One number of `default_stream_waits`."""
    return overlap().default_stream_waits(capture)[key]


def delay(capture: str, stream: int, key: str) -> float:
    """One number of `start_delays`."""
    return overlap().start_delays(capture)[stream][key]


def share(capture: str, name: str) -> float:
    """The share of the device that a kernel asks for."""
    return overlap().device_share(capture)[name]


def kernel_ns(capture: str, name: str) -> float:
    """The median duration of a kernel."""
    kernels = captures.open(capture).kernels
    return statistics.median(kernels.filter(kernels["name"] == name)["duration_ns"].to_list())


def finding(capture: str) -> Any:
    return overlap().judge_streams(capture)


# -- plots ---------------------------------------------------------------------------------------------


def _panel(axes: Axes, capture: str, window: tuple[int, int], colours: dict[str, str]) -> None:
    kernels = captures.open(capture).kernels.rows(named=True)
    streams = sorted({k["stream"] for k in kernels})
    for lane, stream in enumerate(streams):
        for name, colour in colours.items():
            own = [k for k in kernels if k["stream"] == stream and k["name"] == name]
            spans = [(k["start_ns"], k["end_ns"]) for k in own]
            bars(
                axes,
                len(streams) - lane,
                spans,
                window,
                unit=1e3,
                color=colour,
                linewidth=0.4,
                edgecolor=colour if name == "tally" else PAPER,
            )
    lanes(axes, [f"stream {s}" for s in streams], window, 1e3, "")


def streams_side_by_side() -> Figure:
    """The same kernels: held up by the legacy default stream, free, and too big to share the device."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(3, 1, figsize=(8, 6.2), height_ratios=[5, 4, 4])
    figure.subplots_adjust(left=0.11, right=0.98, top=0.95, bottom=0.13, hspace=0.55)
    titles = {
        "overlap_legacy": "overlap_legacy: after each kernel a small one on the default stream",
        "overlap_streams": "overlap_streams: nothing orders the streams",
        "overlap_big": "overlap_big: nothing orders them either, each kernel has two waves",
    }
    colours = {"advance": ORANGE, "tally": BLUE}
    for axes, (capture, title) in zip(panels, titles.items(), strict=True):
        start = min(captures.open(capture).kernels["start_ns"].to_list())
        _panel(axes, capture, (start, start + 700_000), colours)
        axes.set_title(title)
    panels[2].set_xlabel("time from the first kernel (µs)")
    legend(figure, {"the kernel": ORANGE, "the small one": BLUE}, 2)
    return figure


def urgent_kernels() -> Figure:
    """Short kernels beside a long queue, with equal priority and with the greatest."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 1, figsize=(8, 3.9), sharex=True)
    figure.subplots_adjust(left=0.13, right=0.98, top=0.93, bottom=0.24, hspace=0.45)
    for axes, (capture, title) in zip(
        panels,
        {
            "overlap_equal": "overlap_equal: both streams have the same priority",
            "overlap_priority": "overlap_priority: the short kernels' stream has the greatest",
        }.items(),
        strict=True,
    ):
        recording = captures.open(capture)
        kernels = recording.kernels.rows(named=True)
        calls = {c["correlation"]: c["end_ns"] for c in recording.api_calls.rows(named=True)}
        start = min(k["start_ns"] for k in kernels)
        window = start, start + 4_700_000
        urgent = [k for k in kernels if k["name"] == "urgent"]
        queue = [(k["start_ns"], k["end_ns"]) for k in kernels if k["name"] == "advance"]
        bars(axes, 2, queue, window, color=GREY, linewidth=0.6, edgecolor=PAPER)
        waiting = [(calls[k["correlation"]], k["start_ns"]) for k in urgent]
        bars(axes, 1, waiting, window, height=0.16, color=SKY)
        bars(axes, 1, [(k["start_ns"], k["end_ns"]) for k in urgent], window, color=VERMILION)
        lanes(axes, ["short kernels", "long queue"][::-1], window, 1e6, "")
        axes.set_title(title)
    panels[1].set_xlabel("time from the first kernel (ms)")
    legend(figure, {"runs": VERMILION, "launched, has not started": SKY, "long kernels": GREY}, 3)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "streams_side_by_side": streams_side_by_side,
    "urgent_kernels": urgent_kernels,
}
