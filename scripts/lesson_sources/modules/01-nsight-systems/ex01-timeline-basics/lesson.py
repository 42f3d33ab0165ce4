"""What the lesson on reading a timeline computes and draws."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILION,
    YELLOW,
    bars,
    intervals,
    lanes,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CALLS = {
    "waiting call": (VERMILION, ("cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy")),
    "allocation": (PURPLE, ("cudaMalloc", "cudaFree")),
    "launch": (SKY, ("cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemset", "cudaEventRecord")),
}
PREPARE = ("prepare the table", GREEN)
KERNELS = {"kick": ORANGE, "drift": BLUE, "energy": YELLOW, "total": GREY}


def basics() -> Any:
    return reference("nsys_ex01")


def steady_ns(capture: str) -> float:
    """The median time of a step but the first."""
    return basics().first_iteration_cost(capture, "step")["steady_ns"]


def first(capture: str, key: str) -> float:
    """One number about the first step."""
    return basics().first_iteration_cost(capture, "step")[key]


def from_second_step(capture: str) -> int:
    """When the first step is over on the device."""
    return int(first(capture, "steady_start_ns"))


def host_ns(capture: str, name: str) -> int:
    """The durations of all ranges of a name, on the host."""
    ranges = captures.open(capture).nvtx_ranges
    return int(ranges.filter(ranges["name"] == name)["duration_ns"].sum())


def worked(capture: str, name: str, key: str) -> int:
    """The device's work that a range launched; 0 if it launched none."""
    return basics().work_per_range(capture).get(name, {}).get(key, 0)


def idle(capture: str, which: str, *names: str) -> int:
    """Idle ns after the first step, by what the host did ("during") or was in ("opened_by")."""
    found = basics().idle_by_host(capture, 0, from_second_step(capture))
    return found[which] if not names else sum(found[which].get(name, 0) for name in names)


def kernels_ns(capture: str) -> int:
    """The kernels' durations of one step: the median of each kernel, added."""
    kernels = captures.open(capture).kernels
    times: dict[str, list[int]] = {}
    for name, duration in kernels.select("name", "duration_ns").iter_rows():
        times.setdefault(name, []).append(duration)
    return round(sum(statistics.median(found) for found in times.values()))


def longest_call_ns(capture: str, name: str) -> int:
    """The longest call of a name."""
    calls = captures.open(capture).api_calls
    return max(calls.filter(calls["name"] == name)["duration_ns"].to_list())


def median_call_ns(capture: str, name: str) -> float:
    """The median call of a name."""
    calls = captures.open(capture).api_calls
    return statistics.median(calls.filter(calls["name"] == name)["duration_ns"].to_list())


def shown(capture: str, period_ns: int, key: str) -> list[float]:
    """The whole periods of a utilization series of device 0."""
    return [entry[key] for entry in basics().utilization_series(capture, period_ns)[0]][:-1]


def finding(capture: str, name: str = "step") -> Any:
    """What the reference says of a capture."""
    return basics().read_timeline(capture, name)


# -- plots ---------------------------------------------------------------------------------------------


def _panel(axes: Axes, capture: str, window: tuple[int, int]) -> None:
    recording = captures.open(capture)
    calls = recording.api_calls.rows(named=True)
    ranges = recording.nvtx_ranges.rows(named=True)
    prepared = intervals(r for r in ranges if r["name"] == "prepare")
    bars(axes, 2.2, prepared, window, height=0.34, unit=1e3, color=PREPARE[1])
    for colour, names in CALLS.values():
        found = intervals(c for c in calls if c["name"] in names)
        bars(axes, 1.82, found, window, height=0.34, unit=1e3, color=colour)
    for name, colour in KERNELS.items():
        found = intervals(k for k in recording.kernels.rows(named=True) if k["name"] == name)
        bars(axes, 1, found, window, unit=1e3, color=colour)
    small = recording.device_operations.rows(named=True)
    found = intervals(o for o in small if o["kind"] in ("copy", "memset"))
    bars(axes, 1, found, window, unit=1e3, color=INK)
    lanes(axes, ["host", "device"], window, 1e3, "")


def timeline_before_after() -> Figure:
    """The same stretch of time of both programs, and what the host did."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 1, figsize=(8, 4.4))
    figure.subplots_adjust(left=0.09, right=0.98, top=0.94, bottom=0.27, hspace=0.5)
    for axes, capture in zip(panels, ("nsys_baseline", "nsys_improved"), strict=True):
        kicks = captures.open(capture).kernels
        start = int(kicks.filter(kicks["name"] == "kick")["start_ns"][12]) - 40_000
        _panel(axes, capture, (start, start + 640_000))
        axes.set_title(f"{capture}: from the thirteenth step on")
    panels[1].set_xlabel("time in the panel (µs)")
    colours = {PREPARE[0]: PREPARE[1]} | {name: colour for name, (colour, _) in CALLS.items()}
    legend(figure, colours | KERNELS | {"copy, memset": INK}, 5)
    return figure


def timeline_gaps() -> Figure:
    """Idle time of the baseline, by what opened the gaps and by what filled them."""
    import matplotlib.pyplot as plt

    found = basics().idle_by_host("nsys_baseline", 0, from_second_step("nsys_baseline"))
    names = sorted(
        {*found["during"], *found["opened_by"]},
        key=lambda n: found["during"].get(n, 0) + found["opened_by"].get(n, 0),
    )
    names = [n for n in names if found["during"].get(n, 0) + found["opened_by"].get(n, 0) > 50_000]
    figure, axes = plt.subplots(figsize=(8, 3.6))
    figure.subplots_adjust(left=0.24, right=0.98, top=0.97, bottom=0.24)
    for offset, key, colour in ((0.2, "opened_by", VERMILION), (-0.2, "during", SKY)):
        values = [found[key].get(name, 0) / 1e6 for name in names]
        axes.barh([i + offset for i in range(len(names))], values, 0.36, color=colour)
    axes.set_yticks(range(len(names)), [name or "outside of every call" for name in names])
    axes.set_xlabel("idle time of the device after the first step (ms)")
    entries = {
        "the host was in this call when the gap began": VERMILION,
        "during the gap": SKY,
    }
    legend(figure, entries, 2)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "timeline_before_after": timeline_before_after,
    "timeline_gaps": timeline_gaps,
}
