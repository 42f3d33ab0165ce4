"""Figures and figures' sources of ex02-energy-efficiency."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, devices
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GRID,
    INK,
    ORANGE,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEEP, PACED = "energy_sweep_4096", "energy_pacing_fp32"
COLOURS = {"float32": ORANGE, "tf32": BLUE, "bfloat16": GREEN}
NAMES = {"race": "at once", "paced_100ms": "every 100 ms", "paced_10ms": "every 10 ms"}


@cache
def recording(capture: str) -> dict[str, Any]:
    """The recording of a capture."""
    return json.loads(captures.text(capture, "energy.json"))


@cache
def rows(capture: str = SWEEP) -> list[dict[str, Any]]:
    """The rows of a sweep."""
    return reference("energy_ex02").efficiency(capture)


def row(precision: str, batch: int, capture: str = SWEEP) -> dict[str, Any]:
    """One row of a sweep."""
    return next(r for r in rows(capture) if (r["precision"], r["batch"]) == (precision, batch))


def mj(precision: str, batch: int, capture: str = SWEEP) -> str:
    """Energy of a sample in mJ, with its range, as text."""
    found = row(precision, batch, capture)
    low, middle, high = (found[key] * 1e3 for key in ("low_j", "j_per_sample", "high_j"))
    return f"{middle:.3g} ({low:.3g} to {high:.3g})"


def gflop(precision: str, batch: int, capture: str = SWEEP) -> str:
    """GFLOP for a joule, as text."""
    return f"{row(precision, batch, capture)['flop_per_j'] / 1e9:,.1f} GFLOP/J"


def watts(precision: str, batch: int, capture: str = SWEEP) -> str:
    """Power, as text."""
    return f"{row(precision, batch, capture)['power_w']:,.0f} W"


def error(precision: str, capture: str = SWEEP) -> str:
    """The error of a precision, as text."""
    return f"{recording(capture)['error_ratio'][precision]:.1e}"


def peak_per_watt(dtype: str) -> str:
    """Peak over the limit of power, in GFLOP/J, as text."""
    limit = recording(SWEEP)["device"]["power_limit_w"]
    return f"{devices.get('H200').peak(dtype) / limit / 1e9:,.0f} GFLOP/J"


@cache
def best(capture: str = SWEEP, batch: int | None = None) -> dict[str, str]:
    """The best rows by each product, for the time and energy of a million samples."""
    runs = {
        f"{r['precision']}, {r['batch']}": (1e6 / r["samples_per_s"], 1e6 * r["j_per_sample"])
        for r in rows(capture)
        if batch in (None, r["batch"])
    }
    return reference("energy_ex02").energy_delay(runs)


def latency_front(capture: str = SWEEP) -> str:
    """The front of a call's time against energy, as text."""
    runs = {
        f"{r['precision']} at {r['batch']}": (r["call_ns"], r["j_per_sample"])
        for r in rows(capture)
    }
    return ", ".join(reference("energy_ex02").pareto_front(runs))


@cache
def paced(capture: str = PACED) -> dict[str, dict[str, Any]]:
    """The strategies by name."""
    return {r["strategy"]: r for r in reference("energy_ex02").pacing_energy(capture)}


def joules(strategy: str, capture: str = PACED) -> str:
    """The energy of a strategy with its range, as text."""
    found = paced(capture)[strategy]
    return f"{found['energy_j']:,.0f} J ({found['low_j']:,.0f} to {found['high_j']:,.0f})"


def mean_clock(name: str, capture: str) -> str:
    """The mean clock of the first phase of this name, as text."""
    samples = recording(capture)["samples"]
    part = next(p for p in recording(capture)["phases"] if p["name"] == name)
    rows = zip(samples["time_ns"], samples["sm_clock_mhz"], strict=True)
    clocks = [clock for time, clock in rows if part["start_ns"] <= time < part["end_ns"]]
    return f"{sum(clocks) / len(clocks):,.0f} MHz"


def ahead(capture: str) -> float:
    """By how much the cheapest strategy is below the next."""
    first, second = sorted(r["energy_j"] for r in paced(capture).values())[:2]
    return 1 - first / second


def within(longest_ns: float, capture: str = SWEEP) -> str:
    """The cheapest row within a limit, as text."""
    found = reference("energy_ex02").cheapest_within(rows(capture), longest_ns)
    if found is None:
        return "none"
    rivals = ", ".join(f"{p} at {b}" for p, b in found["rivals"])
    return f"{found['precision']} at {found['batch']}" + (f" (or {rivals})" if rivals else "")


def ridge() -> float:
    """FLOP a byte at which an H200 is balanced in float32."""
    device = devices.get("H200")
    return device.peak("float32") / device.memory_bandwidth_bytes_per_s


def work(precision: str, batch: int, capture: str = SWEEP) -> dict[str, Any]:
    """The first run of a precision and batch."""
    key = ("work", precision, batch)
    phases = recording(capture)["phases"]
    return next(p for p in phases if (p["name"], p["precision"], p["batch"]) == key)


def intensity(batch: int) -> float:
    """Operations a byte in float32."""
    return work("float32", batch)["flop"] / work("float32", batch)["bytes"]


def moved(batch: int) -> float:
    """Bytes a second in float32, over the bandwidth."""
    return finding(batch, 1.0, SWEEP).evidence["bandwidth_ratio"]


def tf32_saves(batch: int) -> float:
    """What tf32 saves in energy."""
    return 1 - row("tf32", batch)["j_per_sample"] / row("float32", batch)["j_per_sample"]


@cache
def finding(batch: int, tolerance: float, capture: str) -> Any:
    """A verdict on a batch."""
    bandwidth = devices.get("H200").memory_bandwidth_bytes_per_s
    return reference("energy_ex02").precision_verdict(capture, batch, tolerance, bandwidth)


def verdict(batch: int, tolerance: float, capture: str = SWEEP) -> str:
    """A verdict, as text."""
    found = finding(batch, tolerance, capture)
    border = ", borderline" if "borderline" in found.recommendation else ""
    return f"`{found.category}`{border}, {found.evidence['saved_pct']:.0f} % saved"


# -- plots --------------------------------------------------------------------------------------------


def sweep_plot() -> Figure:
    """Energy of a sample over batches, at three precisions, and samples per second."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.2, 3.9))
    figure.subplots_adjust(left=0.075, right=0.985, top=0.9, bottom=0.27, wspace=0.16)
    for precision, colour in COLOURS.items():
        mine = [r for r in rows() if r["precision"] == precision]
        batches = [r["batch"] for r in mine]
        low, high = ([r[key] * 1e3 for r in mine] for key in ("low_j", "high_j"))
        panels[0].fill_between(batches, low, high, color=colour, alpha=0.3, linewidth=0)
        cost = [r["j_per_sample"] * 1e3 for r in mine]
        panels[0].plot(batches, cost, "o-", color=colour, markersize=4)
        panels[1].plot(batches, [r["power_w"] for r in mine], "o-", color=colour, markersize=4)
    panels[0].set(title="Energy of a sample, mJ", xscale="log", yscale="log", xlabel="batch")
    panels[1].set(title="Power, W", xscale="log", ylim=(0, None), xlabel="batch")
    panels[1].axhline(
        recording(SWEEP)["device"]["power_limit_w"],
        color=INK,
        linewidth=0.8,
        linestyle=(0, (4, 3)),
    )
    for axes in panels:
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(figure, COLOURS, columns=3)
    return figure


def pacing_plot() -> Figure:
    """The energy of three strategies for the same work, in two recordings."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.2, 2.6), sharey=True)
    figure.subplots_adjust(left=0.11, right=0.985, top=0.86, bottom=0.17, wspace=0.06)
    both = ((PACED, "float32, J"), ("energy_pacing_bf16", "bfloat16, larger matrices, J"))
    for axes, (capture, title) in zip(panels, both, strict=True):
        for place, name in enumerate(NAMES):
            found = paced(capture)[name]
            axes.plot(
                [found["low_j"], found["high_j"]],
                [place, place],
                color=BLUE,
                linewidth=5,
                solid_capstyle="butt",  # else a bar is longer than its range
                alpha=0.4,
            )
            axes.plot([found["energy_j"]], [place], "o", color=BLUE, markersize=6)
        axes.set_yticks(range(len(NAMES)), list(NAMES.values()))
        axes.set(title=title, xlim=(0, None), ylim=(len(NAMES) - 0.4, -0.6))
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "efficiency_sweep": sweep_plot,
    "efficiency_pacing": pacing_plot,
}
