"""Figures and figures' sources of ex01-power-measurement."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import BLUE, GRID, INK, ORANGE, legend, reference, told

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TRACE = "energy_trace_fp32"


@cache
def recording(capture: str = TRACE) -> dict[str, Any]:
    """The recording of a capture."""
    return json.loads(captures.text(capture, "energy.json"))


def column(name: str, capture: str = TRACE) -> list[int]:
    """A column of samples."""
    return recording(capture)["samples"][name]


def count(capture: str = TRACE) -> int:
    """How many samples there are."""
    return len(column("time_ns", capture))


def due_count(capture: str = TRACE) -> float:
    """How many samples were due while it sampled."""
    times = column("time_ns", capture)
    return (times[-1] - times[0]) / (recording(capture)["interval_ms"] * 1e6) + 1


def rate(name: str, capture: str = TRACE) -> float:
    """Samples a second in a phase."""
    return len(within(name, "time_ns", capture)) / length_ns(name, capture) * 1e9


def mean_clock(name: str, capture: str = TRACE) -> float:
    """The mean clock of a phase, over the highest."""
    clocks = within(name, "sm_clock_mhz", capture)
    return sum(clocks) / len(clocks) / recording(capture)["device"]["highest_sm_clock_mhz"]


def within(name: str, key: str, capture: str = TRACE) -> list[int]:
    """The values of a column while a phase ran."""
    part = phase(name, capture)
    rows = zip(column("time_ns", capture), column(key, capture), strict=True)
    return [value for time, value in rows if part["start_ns"] <= time < part["end_ns"]]


def phase(name: str, capture: str = TRACE) -> dict[str, Any]:
    """The first phase of this name."""
    return next(p for p in recording(capture)["phases"] if p["name"] == name)


def length_ns(name: str, capture: str = TRACE) -> int:
    """How long a phase took."""
    return phase(name, capture)["end_ns"] - phase(name, capture)["start_ns"]


@cache
def period(name: str = "instant_mw", capture: str = TRACE) -> dict[str, float]:
    """How often a sensor has news."""
    return reference("energy_ex01").update_period(capture, name)


@cache
def delay(name: str = "instant_mw", capture: str = TRACE) -> dict[str, float]:
    """How late a sensor is."""
    return reference("energy_ex01").sensor_delay(capture, name)


@cache
def energy(name: str = "steady", capture: str = TRACE) -> dict[str, float]:
    """The energy of a phase."""
    return reference("energy_ex01").phase_energy(capture, name)


def joules(name: str, key: str, digits: int = 1) -> str:
    """One of the energies of a phase, as text."""
    return f"{energy(name)[key]:,.{digits}f} J"


def off(name: str, key: str) -> str:
    """How far a sensor's integral is from the counter, as text."""
    return f"{100 * (energy(name)[key] / energy(name)['counter_j'] - 1):+.0f} %"


def watts(value: float) -> str:
    """A power, as text."""
    return f"{value:,.0f} W"


def mean_w(name: str, capture: str = TRACE) -> float:
    """Power of a phase by its counter."""
    return energy(name, capture)["counter_j"] / length_ns(name, capture) * 1e9


def verdict(capture: str) -> Any:
    """The verdict on a recording."""
    return reference("energy_ex01").power_verdict(capture)


@cache
def clock_cost(capture: str) -> Any:
    """What the clock's verdict on a timeline is."""
    return reference("energy_ex01").clock_verdict(capture)


def products() -> tuple[float, float]:
    """The median duration of the first and of the last ten products of case_power_a."""
    kernels = captures.open("case_power_a").kernels
    lengths = kernels.filter(kernels["name"] != "spin_kernel")["duration_ns"].to_list()
    return statistics.median(lengths[:10]), statistics.median(lengths[-10:])


def untraced(key: str) -> float:
    """The median time of a step of case_power.py without a profiler, in ns."""
    return statistics.median(told("case_power_a", key))


def clock(capture: str) -> str:
    """The clock's share of the highest, as text."""
    return f"{100 * verdict(capture).evidence['clock_ratio']:.1f} %"


# -- plots --------------------------------------------------------------------------------------------


def trace_plot() -> Figure:
    """The whole recording: two sensors over time, work shaded."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9.2, 3.9))
    figure.subplots_adjust(left=0.065, right=0.985, top=0.9, bottom=0.25)
    seconds = [t / 1e9 for t in column("time_ns")]
    for one in recording()["phases"]:
        if one["name"] != "idle":
            axes.axvspan(one["start_ns"] / 1e9, one["end_ns"] / 1e9, color=GRID, linewidth=0)
    for name, colour in (("average_mw", ORANGE), ("instant_mw", BLUE)):
        axes.plot(seconds, [v / 1e3 for v in column(name)], color=colour, linewidth=1.1)
    axes.set(title="Power that two sensors read, W", xlabel="s", ylim=(0, None))
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    legend(figure, {"instant": BLUE, "average": ORANGE, "work runs": GRID}, columns=3)
    return figure


def step_plot() -> Figure:
    """The answer of both sensors to a step, and to a burst."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.2, 3.7), sharey=True)
    figure.subplots_adjust(left=0.065, right=0.985, top=0.9, bottom=0.27, wspace=0.06)
    for axes, name, after in ((panels[0], "steady", 1400), (panels[1], "burst_100ms", 1200)):
        part = phase(name)
        start = part["start_ns"]
        axes.axvspan(0, min(after, length_ns(name) / 1e6), color=GRID, linewidth=0)
        for key, colour in (("average_mw", ORANGE), ("instant_mw", BLUE)):
            rows = [
                ((t - start) / 1e6, v / 1e3)
                for t, v in zip(column("time_ns"), column(key), strict=True)
                if -200e6 <= t - start <= after * 1e6
            ]
            axes.plot(*zip(*rows, strict=True), color=colour, linewidth=1.3, drawstyle="steps-post")
        axes.axvline(0, color=INK, linewidth=0.8, linestyle=(0, (4, 3)))
        axes.set(xlabel="ms after the work began", ylim=(0, None))
        axes.grid(axis="y", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    panels[0].set_title("Long work, W")
    panels[1].set_title("A burst of 100 ms, W")
    legend(figure, {"instant": BLUE, "average": ORANGE, "work runs": GRID}, columns=3)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "power_trace": trace_plot,
    "power_step": step_plot,
}
