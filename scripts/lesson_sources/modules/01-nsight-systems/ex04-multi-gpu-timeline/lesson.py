"""Figures and figures' sources of ex04-multi-gpu-timeline."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.analysis import intervals
from scripts.lesson_sources.drawing import (
    BLUE,
    GREY,
    GRID,
    INK,
    ORANGE,
    PAPER,
    SKY,
    VERMILION,
    bars,
    legend,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LATE, ONE = "ddp_timeline_straggler", "ddp_timeline_one_bucket"


def ex() -> Any:
    """The reference of this exercise."""
    return reference("nsys_ex04")


@cache
def shares(capture: str) -> dict[int, dict[str, int]]:
    """Where the window of each rank went."""
    return ex().device_time(capture)


def own_times(capture: str) -> list[int]:
    """Of each rank, the time of its work and its idle time."""
    return [row["work_ns"] + row["idle_ns"] for row in shares(capture).values()]


def even_ns(capture: str) -> float:
    """What sharing evenly would save."""
    own, rows = own_times(capture), shares(capture).values()
    turns = sum(row["exposed_wait_ns"] for row in rows) / len(rows)
    return max(max(own) - sum(own) / len(own), turns)


def window_ns(capture: str) -> int:
    """The window, the same for all ranks."""
    row = shares(capture)[0]
    return sum(row.values()) - row["hidden_ns"]


def share(capture: str, rank: int, key: str) -> float:
    """A part of the window of a rank."""
    return shares(capture)[rank][key] / window_ns(capture)


def busy(capture: str, rank: int) -> float:
    """What a utilization counter calls busy: everything but idle."""
    return 1 - share(capture, rank, "idle_ns")


@cache
def matched(capture: str) -> list[dict[str, Any]]:
    """The collectives, side by side."""
    return ex().match_collectives(capture)


def longest(capture: str, rank: int) -> int:
    """The place of the collective that took the rank longest."""
    rows = matched(capture)
    return max(range(len(rows)), key=lambda i: rows[i]["end_ns"][rank] - rows[i]["start_ns"][rank])


def duration_ns(capture: str, rank: int, place: int) -> int:
    """How long a rank was in a collective."""
    row = matched(capture)[place]
    return row["end_ns"][rank] - row["start_ns"][rank]


def leaves_apart_ns(capture: str) -> int:
    """The largest difference between the ends of the same collective on two ranks."""
    return max(max(r["end_ns"].values()) - min(r["end_ns"].values()) for r in matched(capture))


def step_ns(capture: str) -> float:
    """A step as the program timed it without a profiler."""
    return told(capture, "step_ms_unwatched") * 1e6


def exposed_a_step_ns(capture: str) -> float:
    """Exposed transfer of a step, on the rank that has least."""
    least = min(row["exposed_transfer_ns"] for row in shares(capture).values())
    return least / told(capture, "watched_steps")


def blocks(capture: str) -> int:
    """How many blocks the kernel of a collective has; all have the same."""
    with captures.open(capture) as recording:
        grids = {
            row["grid_x"]
            for row in recording.kernels.rows(named=True)
            if row["name"].startswith("nccl")
        }
    (only,) = grids
    return only


def spans(capture: str, rank: int) -> dict[str, list[tuple[int, int]]]:
    """Work, waiting and transfer of a rank's device."""
    import polars as pl

    place = ex().find_ranks(capture)[rank]
    with captures.open(capture) as recording:
        own = recording.device_operations.filter(
            (pl.col("process") == place["process"]) & ~pl.col("name").str.starts_with("nccl")
        )
    found = [ex()._parts(row)[rank] for row in matched(capture)]
    return {
        "work": list(own.select("start_ns", "end_ns").iter_rows()),
        "wait": [(start, arrived) for start, arrived, _ in found],
        "transfer": [(arrived, end) for _, arrived, end in found],
    }


def middle_step(capture: str) -> tuple[int, int]:
    """Start of rank 0's second step on its device and of the third: first work to first work."""
    place = ex().find_ranks(capture)[0]
    ends = sorted(row["end_ns"][0] for row in matched(capture))
    per_step = len(ends) // told(capture, "watched_steps")
    assert place["start_ns"] < ends[per_step - 1]
    return ends[per_step - 1], ends[2 * per_step - 1]


COLOURS = {"work": BLUE, "wait": ORANGE, "transfer": VERMILION}


def step_plot() -> Figure:
    """One step of both ranks, in both recordings."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(2, 1, figsize=(9.2, 4.9))
    figure.subplots_adjust(left=0.135, right=0.985, top=0.93, bottom=0.17, hspace=0.5)
    titles = {LATE: "rank 1 has twice the work", ONE: "one bucket for all gradients"}
    for axes, (capture, title) in zip(panels, titles.items(), strict=True):
        start, end = middle_step(capture)
        lane = 0
        names = []
        for rank in ex().find_ranks(capture):
            for kinds, name in ((("work",), "work"), (("wait", "transfer"), "NCCL")):
                for kind in kinds:
                    pieces = intervals.of(spans(capture, rank)[kind]).pairs()
                    bars(
                        axes,
                        lane,
                        pieces,
                        (start, end),
                        height=0.76,
                        join_ns=3_000,  # gaps that nobody could see are closed
                        color=COLOURS[kind],
                    )
                names.append(f"rank {rank}, {name}")
                lane += 1
        axes.set_yticks(range(lane), names)
        axes.set(title=f"{title}: one step, ms", ylim=(lane - 0.4, -0.6))
        axes.set_xlim(0, (end - start) / 1e6)
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(
        figure,
        {"work": BLUE, "waits for the other rank": ORANGE, "transfer": VERMILION},
        columns=3,
    )
    return figure


def shares_plot() -> Figure:
    """Where the time of each rank went."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9.2, 2.9))
    figure.subplots_adjust(left=0.21, right=0.985, top=0.9, bottom=0.29)
    rows = [
        (capture, rank, f"{name}, rank {rank}")
        for capture, name in ((LATE, "twice the work"), (ONE, "one bucket"))
        for rank in shares(capture)
    ]
    keys = {
        "hidden_ns": ("work beside a collective", SKY),
        "alone": ("work alone", BLUE),
        "exposed_transfer_ns": ("exposed transfer", VERMILION),
        "exposed_wait_ns": ("exposed waiting", ORANGE),
        "idle_ns": ("idle", GREY),
    }
    for lane, (capture, rank, _) in enumerate(rows):
        row = shares(capture)[rank]
        row = row | {"alone": row["work_ns"] - row["hidden_ns"]}
        left = 0.0
        for key, (_, colour) in keys.items():
            width = 100 * row[key] / window_ns(capture)
            axes.barh(lane, width, left=left, color=colour, height=0.7)
            if width > 4:
                ink = PAPER if colour == BLUE else INK
                axes.text(
                    left + width / 2, lane, f"{width:.0f}", ha="center", va="center", color=ink
                )
            left += width
    axes.set_yticks(range(len(rows)), [name for _, _, name in rows])
    axes.set(title="Share of the window, %", xlim=(0, 100), ylim=(len(rows) - 0.5, -0.5))
    legend(figure, dict(keys.values()), columns=5)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "multi_gpu_step": step_plot,
    "multi_gpu_shares": shares_plot,
}
