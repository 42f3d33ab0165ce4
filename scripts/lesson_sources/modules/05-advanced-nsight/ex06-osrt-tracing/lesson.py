"""Figures and figures' sources of ex06-osrt-tracing."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.analysis import intervals
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GRID,
    ORANGE,
    VERMILION,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COSTS = Path(__file__).parents[5] / "benchmarks/results/recorder_cost.json"
WAITS = ("waits_locked", "waits_inline", "waits_paced", "waits_free")
COLOURS = {"io": VERMILION, "lock": ORANGE, "sleep": BLUE}


@cache
def finding(capture: str) -> Any:
    """The verdict on a recording."""
    return reference("advanced_ex06").os_verdict(capture)


@cache
def loop_of_jax() -> dict[str, int]:
    """ns that a function of JAX takes in a loop, without a recorder and with what is traced."""
    runs = json.loads(COSTS.read_text(encoding="utf-8"))["later"][:2]
    loops = [run["loops"]["a function of JAX"] for run in runs]
    return {
        "without": loops[0]["without_ns"],
        "system": loops[0]["with_ns"],
        "cuda alone": loops[1]["with_ns"],
        "without, then": loops[1]["without_ns"],
    }


def window_ns(capture: str) -> int:
    """The window of a recording."""
    return finding(capture).evidence["window_ns"]


def saved(capture: str) -> float:
    """Idle time in waits, as a share of the window."""
    return finding(capture).evidence["recoverable_ns"] / window_ns(capture)


def parts(capture: str) -> str:
    """Idle time by class, as text."""
    evidence = finding(capture).evidence
    return ", ".join(f"{evidence[f'{kind}_ns'] / 1e6:.1f} ms" for kind in COLOURS)


def writer(capture: str) -> int:
    """The thread that writes the files: the most io of all but the launching one."""
    times = reference("advanced_ex06").time_by_class(capture)
    launching = reference("advanced_ex06")._read(capture).launching
    others = {thread: kinds.get("io", 0) for thread, kinds in times.items() if thread != launching}
    return max(others, key=lambda thread: (others[thread], -thread))


def in_class(capture: str, who: str, kind: str) -> int:
    """Time of the "launching" thread or the "writer" in calls of a class."""
    times = reference("advanced_ex06").time_by_class(capture)
    launching = reference("advanced_ex06")._read(capture).launching
    return times[launching if who == "launching" else writer(capture)].get(kind, 0)


def threshold(capture: str, loss: float) -> dict[str, float]:
    """The threshold that loses at most this share of the time."""
    with captures.open(capture) as recording:
        durations = [d for d in recording.os_calls["duration_ns"].to_list() if d > 0]
    return reference("advanced_ex06").threshold_for(durations, loss)


def wait(capture: str, place: int) -> dict[str, Any]:
    """One of the launching thread's waits."""
    return reference("advanced_ex06").costly_waits(capture)[place]


def held(capture: str) -> dict[str, Any]:
    """Who may hold the lock."""
    return reference("advanced_ex06").holder(capture)


# -- plots --------------------------------------------------------------------------------------------


def waits_plot() -> Figure:
    """The device, and the waits of two threads, in each recording."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(4, 1, figsize=(9.2, 6.0))
    figure.subplots_adjust(left=0.14, right=0.985, top=0.95, bottom=0.13, hspace=0.62)
    for axes, name in zip(panels, WAITS, strict=True):
        recording = reference("advanced_ex06")._read(name)
        first, last = recording.window
        joined = intervals.union(
            intervals.of(recording.busy), join_ns=40_000
        )  # gaps that nobody would see
        bars = [((a - first) / 1e6, (b - a) / 1e6) for a, b in joined.pairs()]
        axes.broken_barh(bars, (-0.36, 0.72), color=GREEN, linewidth=0)
        rows = [(1, recording.launching)]
        if name in ("waits_locked", "waits_free"):
            rows.append((2, writer(name)))
        for place, thread in rows:
            for start, end, call, own in recording.calls:
                kind = reference("advanced_ex06").call_class(call)
                if own == thread and end > first and start < last and kind in COLOURS:
                    begin = max(start, first)
                    bar = [((begin - first) / 1e6, (min(end, last) - begin) / 1e6)]
                    axes.broken_barh(bar, (place - 0.36, 0.72), color=COLOURS[kind], linewidth=0)
        labels = ["device", "launching thread", "writer"][: len(rows) + 1]
        axes.set_yticks(range(len(labels)), labels)
        axes.set(ylim=(len(labels) - 0.4, -0.6), xlim=(0, (last - first) / 1e6))
        axes.set_title(name)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    panels[-1].set_xlabel("ms of the window")
    legend(
        figure,
        {"device busy": GREEN, "in io": VERMILION, "in a lock": ORANGE, "in a sleep": BLUE},
        columns=4,
    )
    return figure


FIGURES: dict[str, Callable[[], Any]] = {"os_waits": waits_plot}
