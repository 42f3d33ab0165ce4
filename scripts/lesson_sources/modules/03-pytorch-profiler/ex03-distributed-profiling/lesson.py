"""Figures and figures' sources of ex03-distributed-profiling."""

from __future__ import annotations

import gzip
import json
import math
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import (
    BLUE,
    GREY,
    GRID,
    INK,
    ORANGE,
    ROOT,
    VERMILION,
    legend,
    reference,
    told,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LATE, ONE, SHORT = "ddp_traces_straggler", "ddp_traces_one_bucket", "ddp_traces_overlap"


def ex() -> Any:
    """The reference of this exercise."""
    return reference("torch_ex03")


@cache
def overlap(capture: str) -> dict[int, dict[str, float]]:
    """Communication that overlaps computation, by rank."""
    return ex().communication_overlap(capture)


@cache
def split(capture: str) -> dict[int, dict[str, int]]:
    """Waiting and transfer, by rank."""
    return ex().split_by_duration(capture)


def collectives(capture: str, rank: int) -> list[tuple[int, int]]:
    """A rank's communication kernels, on its own clock."""
    return ex()._spans(ex().read_ranks(capture)[rank], "communication")


def ends_apart(capture: str) -> str:
    """How far two ranks' ends of the same collectives are apart on the wall clock, as text."""
    bases = []
    for rank in (0, 1):
        with gzip.open(captures.file(capture, f"trace_rank{rank}.json.gz")) as trace:
            bases.append(json.load(trace)["baseTimeNanoseconds"])
    pairs = zip(collectives(capture, 0), collectives(capture, 1), strict=True)
    apart_ns = [abs(one[1] + bases[0] - other[1] - bases[1]) for one, other in pairs]
    return f"{min(apart_ns) / 1e3:.0f} to {max(apart_ns) / 1e3:.0f} µs"


def float_step_ns(capture: str) -> float:
    """How far two neighbouring floats are apart, where this trace's times in µs lie."""
    return math.ulp(collectives(capture, 0)[0][0] / 1e3) * 1e3


def mean_ns(capture: str, rank: int) -> float:
    """How long a rank is in a collective, on average."""
    return statistics.fmean(end - start for start, end in collectives(capture, rank))


def step_ns(capture: str) -> float:
    """A step as the program timed it without a profiler."""
    return told(capture, "step_ms_unwatched") * 1e6


def watched_step_ns(capture: str) -> float:
    """A step under the profiler: the longest window of a rank, over its steps."""
    window = ex().name_distributed_bottleneck(capture).evidence["window_ns"]
    return window / told(capture, "watched_steps")


@cache
def hta() -> dict[str, Any]:
    """What HolisticTraceAnalysis said (benchmarks/hta_oracle.py)."""
    file = ROOT / "benchmarks" / "results" / "hta_oracle.json"
    return json.loads(file.read_text(encoding="utf-8"))


def hta_pct(capture: str, rank: int, whole_us: bool = False) -> float:
    """HTA's percentage of one rank."""
    key = "comp_comm_overlap_pctg" + "_in_whole_us" * whole_us
    return hta()["captures"][capture][key][str(rank)]


# -- the sweep over sizes of buckets ------------------------------------------------------------------


@cache
def sweep() -> dict[str, Any]:
    """The recorded sweep."""
    return json.loads(captures.text("ddp_bucket_sweep", "sweep.json"))


def row(cap_mib: float | None) -> dict[str, Any]:
    """The steps of one size of bucket; None: without any exchange."""
    return next(row for row in sweep()["sweep"] if row["bucket_cap_mib"] == cap_mib)


def buckets(cap_mib: float) -> int:
    """How many buckets that makes."""
    return len(row(cap_mib)["bucket_bytes"])


def median_ns(cap_mib: float | None) -> float:
    """The median of the steps."""
    return statistics.median(row(cap_mib)["step_ns"])


def costs_ns(cap_mib: float) -> float:
    """What the exchange adds to a step."""
    return median_ns(cap_mib) - median_ns(None)


# -- plots --------------------------------------------------------------------------------------------


def durations_plot() -> Figure:
    """The same collectives on both ranks, one after the other: how long each rank was in them."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(9.2, 3.3), width_ratios=(3, 1))
    figure.subplots_adjust(left=0.06, right=0.985, top=0.9, bottom=0.29, wspace=0.16)
    for axes, (capture, title) in zip(
        panels,
        ((LATE, "twice the work on rank 1: ms in each collective"), (ONE, "one bucket")),
        strict=True,
    ):
        lengths = [
            [(end - start) / 1e6 for start, end in collectives(capture, rank)] for rank in (0, 1)
        ]
        for rank, colour in ((0, BLUE), (1, ORANGE)):
            places = [place + 0.2 * (2 * rank - 1) for place in range(len(lengths[rank]))]
            axes.bar(places, lengths[rank], width=0.38, color=colour)
        axes.set(title=title, xlabel="collective", ylim=(0, 1.9))
        axes.set_xticks(range(0, len(lengths[0]), 6 if len(lengths[0]) > 6 else 1))
        axes.grid(axis="y", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    legend(figure, {"rank 0": BLUE, "rank 1": ORANGE}, columns=2)
    return figure


def buckets_plot() -> Figure:
    """Steps by size of bucket, and the step without an exchange."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9.2, 3.4))
    figure.subplots_adjust(left=0.06, right=0.985, top=0.9, bottom=0.3)
    caps = [r["bucket_cap_mib"] for r in sweep()["sweep"] if r["exchange"]]
    low, middle, high = statistics.quantiles(row(None)["step_ns"], n=4)
    axes.axhspan(low / 1e6, high / 1e6, color=GREY, alpha=0.5, linewidth=0)
    axes.axhline(middle / 1e6, color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    for place, cap in enumerate(caps):
        low, middle, high = (x / 1e6 for x in statistics.quantiles(row(cap)["step_ns"], n=4))
        axes.plot([place, place], [low, high], color=VERMILION, linewidth=6, alpha=0.45)
        axes.plot([place], [middle], "o", color=VERMILION, markersize=6)
        axes.text(place + 0.12, middle, f"{middle:.1f}", va="center")
    axes.set_xticks(
        range(len(caps)),
        [f"{cap:g} MiB\n{buckets(cap)} bucket{'s' * (buckets(cap) > 1)}" for cap in caps],
    )
    axes.set(title="A step, ms: median and quartiles", ylim=(0, None), xlim=(-0.5, len(caps) - 0.3))
    axes.grid(axis="y", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    legend(figure, {"with an exchange": VERMILION, "without": GREY}, columns=2)
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "ranks_in_collectives": durations_plot,
    "bucket_sizes": buckets_plot,
}
