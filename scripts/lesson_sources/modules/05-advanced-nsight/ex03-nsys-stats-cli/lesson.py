"""What the lesson on `nsys stats` computes and draws."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError
from scripts.lesson_sources.drawing import BLUE, GRID, INK, ORANGE, SKY, legend, reference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Recordings and the range that is their window.
WINDOWS = {
    "cuda_pipeline_baseline": "pipeline",
    "cuda_pipeline_improved": "pipeline",
    "two_streams": "streams",
    "training_item": "training",
    "decode_eager": "decode",
    "decode_graph": "decode",
}
SUMS = ("cuda_gpu_kern_sum", "cuda_gpu_mem_time_sum", "cuda_api_sum", "nvtx_sum")


@cache
def transcript(recorded: str, name: str) -> dict[str, Any]:
    """What one call of `nsys stats` printed."""
    told = json.loads(captures.text(recorded, "transcripts.json"))["transcripts"]
    return next(one for one in told if one["name"] == name)


def read(recorded: str, name: str) -> dict[str, Any]:
    """The same, as the reference reads it."""
    return reference("advanced_ex03").read_reports(transcript(recorded, name)["stdout"])


def kernels(name: str) -> int:
    """How many kernels a transcript of `reports_pipeline` counts."""
    return sum(row["Instances"] for row in read("reports_pipeline", name)["cuda_gpu_kern_sum"])


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@cache
def reports(capture: str) -> dict[str, Any]:
    """The tool's sums beside a recording."""
    found: dict[str, Any] = {}
    for name in SUMS:
        try:
            rows = csv.DictReader(io.StringIO(captures.text(capture, f"stats/{name}.csv")))
            found[name] = [{key: _number(text) for key, text in row.items()} for row in rows]
        except CaptureError:
            found[name] = None
    return found


def bound(capture: str, key: str) -> int:
    """One of the bounds on busy time."""
    return reference("advanced_ex03").busy_bounds(reports(capture), WINDOWS[capture])[key]


def busy(capture: str) -> int:
    """Busy time inside the window, by the timeline."""
    return sum(reference("ex_30").busy_time(capture, WINDOWS[capture]).values())


def row(capture: str, report: str, name: str) -> dict[str, Any]:
    """One row of the tool's report."""
    rows = reports(capture)[report]
    key = "Range" if report == "nvtx_sum" else "Name"
    return next(row for row in rows if str(row[key]).lstrip(":").startswith(name))


def verdict(capture: str, key: str = "category") -> Any:
    """The verdict on a recording's sums: its category, or a piece of evidence."""
    try:
        found = reference("advanced_ex03").verdict(reports(capture), WINDOWS[capture])
    except CaptureError:
        return "not from these sums"
    return found.category if key == "category" else found.evidence[key]


# -- plots --------------------------------------------------------------------------------------------


def bounds_plot() -> Figure:
    """Sum, window, and what the sums say about busy time; the truth beside it."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9.2, 3.6))
    figure.subplots_adjust(left=0.2, right=0.97, top=0.91, bottom=0.2)
    for lane, capture in enumerate(WINDOWS):
        window = bound(capture, "window_ns")
        least, most, total = (
            bound(capture, key) / window for key in ("least_ns", "most_ns", "sum_ns")
        )
        axes.barh(lane, most - least, left=least, height=0.62, color=SKY)
        axes.plot([total], [lane], "D", color=ORANGE, markersize=7)
        axes.plot([busy(capture) / window] * 2, [lane - 0.31, lane + 0.31], color=BLUE, linewidth=3)
    axes.axvline(1, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set_yticks(range(len(WINDOWS)), list(WINDOWS))
    axes.set(xlim=(0, 2.8), ylim=(len(WINDOWS) - 0.4, -0.6), title="Time over the window")
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    legend(
        figure,
        {"the sum": ORANGE, "busy, as far as sums tell": SKY, "busy, by the timeline": BLUE},
        columns=3,
    )
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {"stats_bounds": bounds_plot}
