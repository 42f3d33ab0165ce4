"""What the lesson on vector add over sizes computes and draws."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, devices
from scripts.lesson_sources.drawing import (
    BLUE,
    GREEN,
    GREY,
    GRID,
    INK,
    ORANGE,
    VERMILION,
    legend,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

REGIME_COLOURS = {"launch": VERMILION, "mixed": GREY, "cache": GREEN, "dram": BLUE}


@cache
def regimes(dtype: str, way: str) -> dict[int, dict[str, Any]]:
    """The rows of a sweep with their regime, by the exponent of the size."""
    rows = reference("triton_ex01").regimes(f"triton_vector_add_{dtype}", way)
    return {row["n"].bit_length() - 1: row for row in rows}


def row(dtype: str, way: str, exponent: int) -> dict[str, Any]:
    """One size of a sweep ("fp32" or "bf16"; "eager" or "graph")."""
    return regimes(dtype, way)[exponent]


@cache
def sizes(dtype: str) -> dict[int, dict[str, Any]]:
    """The rows of a sweep as they were recorded, by the exponent of the size."""
    table = json.loads(captures.text(f"triton_vector_add_{dtype}", "measurements.json"))
    return {row["n"].bit_length() - 1: row for row in table["sizes"]}


def median_ns(dtype: str, way: str, exponent: int) -> float:
    """The median of the samples of a size, of any way."""
    return statistics.median(sizes(dtype)[exponent][way])


def share(dtype: str, exponent: int) -> float:
    """How near the add of a size came to a copy, cold."""
    rows = reference("triton_ex01").share_of_copy(f"triton_vector_add_{dtype}")
    return next(r["share_ratio"] for r in rows if r["n"] == 2**exponent)


def span(dtype: str, way: str, regime: str) -> str:
    """The sizes of a regime: "2^10 to 2^13"."""
    found = [e for e, r in regimes(dtype, way).items() if r["regime"] == regime]
    if not found:
        return "none"
    return f"2^{found[0]}" if found[0] == found[-1] else f"2^{found[0]} to 2^{found[-1]}"


@cache
def tails() -> dict[tuple[str, str, int], dict[str, Any]]:
    """The rows of `triton_tail`, by kernel, data type and elements beyond 2^27."""
    rows = json.loads(captures.text("triton_tail", "measurements.json"))["rows"]
    return {(row["kernel"], row["dtype"], row["n"] - 2**27): row for row in rows}


def tail_ns(kernel: str, dtype: str, beyond: int) -> float:
    """The median time of an add with so many elements beyond 2^27."""
    return statistics.median(tails()[kernel, dtype, beyond]["add"])


def tail_loads(kernel: str, dtype: str, beyond: int) -> str:
    """The kinds of loads in its PTX: "2 `ld.global.v4.b32`"."""
    loads = tails()[kernel, dtype, beyond]["loads"]
    return ", ".join(f"{count} `{kind}`" for kind, count in loads.items())


def gb_s(rate: float) -> str:
    """A rate in GB/s, as text."""
    return f"{rate:,.0f} GB/s"


def tib_slip() -> float:
    """How much a rate in GiB/s is below the same in GB/s."""
    return 1 - 1e9 / 2**30


def peak_gb_s() -> float:
    """The peak of the H200's memory."""
    return devices.get("H200").memory_bandwidth_bytes_per_s / 1e9


def l2_bytes() -> int:
    """The L2 cache of the H200."""
    found = devices.get("H200").l2_bytes
    assert found is not None
    return found


# -- plots --------------------------------------------------------------------------------------------


def sweep_plot() -> Figure:
    """Time of a call, and the rate that follows from it, over the size of the vectors."""
    import matplotlib.pyplot as plt

    figure, (left, right) = plt.subplots(1, 2, figsize=(9.2, 4.1))
    figure.subplots_adjust(left=0.075, right=0.985, top=0.9, bottom=0.27, wspace=0.24)
    ways = {"eager": ORANGE, "graph": BLUE}
    for way, colour in ways.items():
        rows = regimes("fp32", way)
        left.plot(
            [2**e for e in rows],
            [r["time_ns"] / 1e3 for r in rows.values()],
            color=colour,
            marker="o",
            markersize=3,
            linewidth=1.4,
        )
    left.set(xscale="log", yscale="log", title="Time of a call, µs", xlabel="elements of a vector")
    left.set_xscale("log", base=2)
    rows = regimes("fp32", "graph")
    right.plot(
        [2**e for e in rows],
        [r["gb_s"] for r in rows.values()],
        color=GRID,
        linewidth=1.4,
        zorder=1,
    )
    for regime, colour in REGIME_COLOURS.items():
        some = [r for r in rows.values() if r["regime"] == regime]
        right.scatter(
            [r["n"] for r in some], [r["gb_s"] for r in some], color=colour, s=26, zorder=2
        )
    right.axhline(peak_gb_s(), color=INK, linewidth=0.9, linestyle=(0, (4, 3)))
    right.text(2**10, peak_gb_s() * 1.03, "peak of the memory", fontsize=8.5)
    edge = l2_bytes() / 12
    right.axvline(edge, color=INK, linewidth=0.9, linestyle=(0, (1, 2)))
    right.text(edge * 1.15, 250, "three vectors\nno longer fit\ninto the L2\ncache", fontsize=8.5)
    right.set_xscale("log", base=2)
    right.set(title="Its rate in a CUDA graph, GB/s", xlabel="elements of a vector", ylim=(0, 7000))
    for axes in (left, right):
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    names = {"launch": "launch rules", "mixed": "no single limit", "cache": "cache", "dram": "DRAM"}
    legend(
        figure,
        {
            "issued one by one": ORANGE,
            "in a CUDA graph": BLUE,
            **{names[regime]: colour for regime, colour in REGIME_COLOURS.items()},
        },
        columns=6,
    )
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {"vector_add_sweep": sweep_plot}
