"""What the lesson on copies in a timeline computes and draws."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from profiling_lab import captures
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GRID,
    INK,
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
    from matplotlib.figure import Figure

PATHS = {
    "H2D pinned": (SKY, "o"),
    "D2H pinned": (BLUE, "s"),
    "H2D pageable": (ORANGE, "o"),
    "D2H pageable": (VERMILION, "s"),
}


def copies() -> Any:
    return reference("nsys_ex03")


def rate(capture: str, path: str) -> str:
    """What the copies of a path achieved."""
    return f"{copies().copy_rates(capture)[path]['bytes_per_ns']:.1f} GB/s"


def points(capture: str, path: str) -> dict[int, list[int]]:
    """Durations by size of the copies of a path."""
    found: dict[int, list[int]] = {}
    side = "source" if path.startswith("H2D") else "destination"
    for copy in captures.open(capture).copies.rows(named=True):
        if f"{copy['kind']} {copy[side]}" == path:
            found.setdefault(copy["bytes"], []).append(copy["duration_ns"])
    return found


def rate_at(capture: str, path: str, size: int) -> str:
    """The median rate of the copies of one size."""
    return f"{size / statistics.median(points(capture, path)[size]):.1f} GB/s"


def host_rate_at(capture: str, path: str, size: int) -> str:
    """The same by the host's clock: from the start of the call to the end of the wait after it."""
    recording = captures.open(capture)
    side = "source" if path.startswith("H2D") else "destination"
    own = {
        c["correlation"]
        for c in recording.copies.rows(named=True)
        if f"{c['kind']} {c[side]}" == path and c["bytes"] == size
    }
    calls = recording.api_calls.rows(named=True)
    times = [
        following["end_ns"] - call["start_ns"]
        for call, following in itertools.pairwise(calls)
        if call["correlation"] in own and following["name"] == "cudaStreamSynchronize"
    ]
    return f"{size / statistics.median(times):.1f} GB/s"


def model(capture: str, path: str) -> dict[str, float]:
    """The fitted line."""
    return copies().transfer_model(capture, path)


def by_absolute_errors(capture: str, path: str) -> float:
    """The latency that ordinary least squares gives, in ns."""
    sizes, times = [], []
    for size, found in points(capture, path).items():
        sizes += [size] * len(found)
        times += found
    return float(np.polyfit(sizes, times, 1)[1])


def off_by(capture: str, path: str) -> float:
    """The largest relative error of the fitted line at the median of a size."""
    fit = model(capture, path)
    return max(
        abs(1 - (fit["latency_ns"] + size / fit["bytes_per_ns"]) / statistics.median(found))
        for size, found in points(capture, path).items()
    )


def link() -> tuple[int, int]:
    """Generation and width of the link, as NVML told the recorded program."""
    return told("copy_sizes", "link_generation"), told("copy_sizes", "link_width")


def peak() -> float:
    """What that link can carry, GB/s in one direction."""
    return copies().link_peak(*link())


def held(capture: str, path: str) -> float:
    """The share of the copies in which the host was in their call."""
    found = copies().async_in_name_only(capture)[path]
    return found["held_ns"] / found["copy_ns"]


def hidden(capture: str, direction: str, key: str) -> int:
    return copies().hidden_copies(capture)[direction][key]


def span_ns(capture: str) -> int:
    start, end = captures.open(capture).span_ns
    return end - start


def finding(capture: str) -> Any:
    return copies().judge_copies(capture)


def median_rate(name: str, kind: str) -> str:
    """The rate in one range of copy_directions ("in alone", "out alone", "both")."""
    recording = captures.open("copy_directions")
    area = next(r for r in recording.nvtx_ranges.rows(named=True) if r["name"] == name)
    calls = {
        c["correlation"]
        for c in recording.api_calls.rows(named=True)
        if area["start_ns"] <= c["start_ns"] < area["end_ns"]
    }
    own = [
        c
        for c in recording.copies.rows(named=True)
        if c["kind"] == kind and c["correlation"] in calls
    ]
    return f"{statistics.median(c['bytes'] / c['duration_ns'] for c in own):.1f} GB/s"


# -- plots ---------------------------------------------------------------------------------------------


def copy_sizes_and_rates() -> Figure:
    """Rates over sizes for both directions and kinds of memory, with the fitted lines and the peak."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4.1))
    figure.subplots_adjust(left=0.08, right=0.98, top=0.96, bottom=0.26)
    for path, (colour, marker) in PATHS.items():
        found = points("copy_sizes", path)
        medians = [size / statistics.median(times) for size, times in found.items()]
        axes.plot(list(found), medians, marker, color=colour, markersize=5)
        if path.endswith("pinned"):
            fit = model("copy_sizes", path)
            sizes = np.geomspace(4096, 64 << 20, 200)
            line = sizes / (fit["latency_ns"] + sizes / fit["bytes_per_ns"])
            axes.plot(sizes, line, color=colour, linewidth=1)
    axes.axhline(peak(), color=INK, linewidth=0.8, linestyle="--")
    axes.text(4096, peak() - 1, "what the link could carry", va="top")
    axes.set_xscale("log", base=2)
    ticks = [4096 * 4**i for i in range(8)]
    labels = [f"{t >> 10} KiB" if t < 1 << 20 else f"{t >> 20} MiB" for t in ticks]
    axes.set_xticks(ticks, labels)
    axes.set_ylim(0, 66)
    axes.set_ylabel("rate on the device's timeline (GB/s)")
    axes.set_xlabel("bytes of one copy")
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    legend(figure, {path: colour for path, (colour, _) in PATHS.items()}, 4)
    return figure


def copies_and_kernels() -> Figure:
    """One stream and four, on one scale: copies in, kernels, copies out, and the host's copy calls."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(3, 1, figsize=(8, 6), sharex=True)
    figure.subplots_adjust(left=0.12, right=0.98, top=0.95, bottom=0.14, hspace=0.4)
    titles = {
        "copy_pageable": "copy_pageable: pageable memory, one stream",
        "copy_serial": "copy_serial: pinned memory, one stream",
        "copy_overlapped": "copy_overlapped: pinned memory, four streams",
    }
    for axes, (capture, title) in zip(panels, titles.items(), strict=True):
        recording = captures.open(capture)
        operations = recording.device_operations.rows(named=True)
        start = operations[0]["start_ns"]
        window = start, start + 6_000_000
        lane = {"H2D": (3, SKY), "kernel": (2, ORANGE), "D2H": (1, BLUE)}
        for kind, (place, colour) in lane.items():
            own = [
                (o["start_ns"], o["end_ns"]) for o in operations if kind in (o["kind"], o["name"])
            ]
            bars(axes, place, own, window, color=colour, linewidth=0.4, edgecolor=PAPER)
        calls = [
            (c["start_ns"], c["end_ns"])
            for c in recording.api_calls.rows(named=True)
            if c["name"] == "cudaMemcpyAsync"
        ]
        bars(axes, 4, calls, window, height=0.4, color=GREEN)
        lanes(axes, ["copy calls", "copies in", "kernels", "copies out"], window, 1e6, "")
        axes.set_title(title)
    panels[2].set_xlabel("time from the first copy (ms)")
    entries = {
        "host in cudaMemcpyAsync": GREEN,
        "copy in": SKY,
        "kernel": ORANGE,
        "copy out": BLUE,
    }
    legend(figure, entries, 4)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "copy_sizes_and_rates": copy_sizes_and_rates,
    "copies_beside_kernels": copies_and_kernels,
}
