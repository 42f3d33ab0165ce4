"""What the lesson on the optimization loop computes and draws."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from scripts.lesson_sources.drawing import (
    BLUE,
    DARK,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    PAPER,
    VERMILION,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

KEPT = DARK
LOOP, SMALL = "sgemm_steps", "sgemm_steps_small"
WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts.sum"
WARPS = "sm__warps_active.avg.pct_of_peak_sustained_active"
INSTRUCTIONS = "smsp__inst_executed.sum"
LONG_STALL = "smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio"
SECTORS = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
REQUESTS = "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"
PER_REQUEST = "sectors per request"
# What each change was meant to move, and where to.
HYPOTHESES = {
    "coalesced": (PER_REQUEST, "lower"),
    "shared_tile": (SECTORS, "lower"),
    "thread_tile": (WAVEFRONTS, "lower"),
    "vectorised": (INSTRUCTIONS, "lower"),
    "more_blocks": (WARPS, "higher"),
    "prefetched": (LONG_STALL, "lower"),
    "fast": (WAVEFRONTS, "lower"),
}
UNITS = {
    "fma": ("multiply-adds", GREEN),
    "issue": ("issue slots", BLUE),
    "l1": ("L1 and shared memory", ORANGE),
    "dram": ("DRAM", GREY),
}


@cache
def samples(capture: str = LOOP) -> dict[str, list[int]]:
    """The times of each step in ns, in the order of the loop."""
    return reference("ncu_ex04").read_samples(capture)


@cache
def kernels(capture: str = LOOP) -> dict[str, dict[str, Any]]:
    """The counters of each step's launch."""
    read = reference("ncu_ex04").read_kernels(capture)
    return {name: read[i]["metrics"] for i, name in enumerate(samples(capture))}


def time_ns(step: str, capture: str = LOOP) -> float:
    """The median time of a step."""
    return statistics.median(samples(capture)[step])


def cublas_ns(capture: str = LOOP) -> float:
    """The median time of cuBLAS in the same run."""
    return statistics.median(told(capture, "cublas_ns"))


def rate(time: float, capture: str = LOOP) -> float:
    """TFLOP/s of a product that took so long."""
    sizes = (told(capture, key) for key in "mnk")
    total = 2.0
    for size in sizes:
        total *= size
    return total / time / 1e3


def tflops(step: str, capture: str = LOOP) -> str:
    """TFLOP/s of a step, as text."""
    return f"{rate(time_ns(step, capture), capture):.1f} TFLOP/s"


def of_cublas(step: str, capture: str = LOOP) -> float:
    """A step's speed over that of cuBLAS."""
    return cublas_ns(capture) / time_ns(step, capture)


def metric(step: str, name: str, capture: str = LOOP) -> float:
    """A counter of a step, "sectors per request" among them."""
    metrics = kernels(capture)[step]
    if name == PER_REQUEST:
        return metrics[SECTORS] / metrics[REQUESTS]
    return metrics[name]


def per_fma(step: str, name: str, capture: str = LOOP) -> float:
    """A counter for each multiply-add of a warp."""
    count = kernels(capture)[step]["smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"] / 32
    return metric(step, name, capture) / count


def shares(step: str, capture: str = LOOP) -> dict[str, float]:
    """Each unit's need over the duration of the profiled launch."""
    metrics = kernels(capture)[step]
    needs = reference("ncu_ex04").unit_needs(metrics)
    return {unit: need / metrics["gpu__time_duration.sum"] for unit, need in needs.items()}


def share(step: str, unit: str, capture: str = LOOP) -> float:
    """One of `shares`."""
    return shares(step, capture)[unit]


def expected(step: str, factors: dict[str, float], capture: str = LOOP) -> dict[str, Any]:
    """What expected_gain says of a change of a step."""
    module = reference("ncu_ex04")
    metrics = kernels(capture)[step]
    needs = module.unit_needs(metrics)
    return module.expected_gain(needs, metrics["gpu__time_duration.sum"], factors)


def gain(before: str, after: str, capture: str = LOOP) -> float:
    """How many times as fast a step is as another one."""
    return time_ns(before, capture) / time_ns(after, capture)


@cache
def rows(capture: str = LOOP) -> dict[str, dict[str, Any]]:
    """The log of the loop, by the step's name."""
    steps: list[dict[str, Any]] = []
    for name, times in samples(capture).items():
        used, wanted = HYPOTHESES.get(name, ("", "lower"))
        values = {m: metric(name, m, capture) for m, _ in HYPOTHESES.values()}
        steps.append(
            {
                "name": name,
                "samples_ns": times,
                "metric": used,
                "wanted": wanted,
                "values": values,
            }
        )
    return {row["name"]: row for row in reference("ncu_ex04").loop_log(steps)}


def number(value: float) -> str:
    """A counter in a table."""
    if value >= 1e6:
        return f"{value / 1e6:,.0f} million"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def line(name: str, capture: str = LOOP) -> str:
    """A row of the log as text: before, after, gain, verdict."""
    row = rows(capture)[name]
    return (
        f"{row['against']} | {number(row['before'])} → {number(row['after'])} | "
        f"{row['gain_ratio']:.2f} | {'kept' if row['kept'] else '**taken back**'}"
    )


def verdict(capture: str = LOOP) -> Any:
    """The Finding at the end of the loop."""
    return reference("ncu_ex04").next_move(capture)


# -- plots --------------------------------------------------------------------------------------------


def loop_plot() -> Figure:
    """The speed of every step, and what share of its time each unit was needed."""
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 4.0), sharey=True)
    figure.subplots_adjust(left=0.115, right=0.985, top=0.91, bottom=0.19, wspace=0.07)
    names = list(samples())
    log = rows()
    for place, name in enumerate(names):
        kept = place == 0 or log[name]["kept"]
        value = rate(time_ns(name))
        left.barh(place, value, height=0.62, color=KEPT if kept else VERMILION)
        inside = value > 40
        where = (value - 0.6, "right", PAPER) if inside else (value + 0.6, "left", INK)
        left.text(
            where[0], place, f"{value:.1f}", va="center", ha=where[1], color=where[2], fontsize=8.5
        )
        found = shares(name)
        right.plot([0, 100], [place, place], color=GRID, linewidth=0.8, zorder=0)
        for unit, (_, colour) in UNITS.items():
            right.plot([found[unit] * 100], [place], "o", color=colour, markersize=7)
    best = rate(cublas_ns())
    left.axvline(best, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    left.text(best - 0.5, -0.35, "cuBLAS", ha="right", va="center", fontsize=8.5)
    left.set(title="TFLOP/s, 4096³ in fp32", xlim=(0, best * 1.12), ylim=(len(names) - 0.4, -0.7))
    left.set_yticks(range(len(names)), names)
    right.set(title="Time that a unit needs, per cent of the launch", xlim=(-2, 103))
    for axes in (left, right):
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    bars = [Patch(color=KEPT, label="kept"), Patch(color=VERMILION, label="taken back")]
    dots = [
        Line2D([], [], marker="o", linestyle="", color=colour, label=words)
        for words, colour in UNITS.values()
    ]
    for handles, place in ((bars, 0.15), (dots, 0.63)):
        figure.legend(
            handles=handles,
            loc="lower center",
            bbox_to_anchor=(place, 0),
            ncols=len(handles),
            frameon=False,
            fontsize=9,
            handletextpad=0.4,
            columnspacing=1.0,
        )
    return figure


FIGURES: dict[str, Callable[[], Any]] = {"optimization_loop": loop_plot}
