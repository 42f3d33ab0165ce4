"""What the lesson on block sizes computes and draws."""

from __future__ import annotations

import itertools
import json
import random
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import (
    BLUE,
    FAINT,
    GREY,
    GRID,
    INK,
    ORANGE,
    VERMILION,
    reference,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SWEEPS = {
    "add": "triton_blocks_add",
    "rowsum": "triton_blocks_rowsum",
    "matmul": "triton_blocks_matmul",
}
SIZES = [64, 128, 256, 512, 1024]
CAPABILITIES = ("7.0", "7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "12.0")


@cache
def table(sweep: str) -> dict[str, Any]:
    """The file of a sweep: "add", "rowsum" or "matmul"."""
    return json.loads(captures.text(SWEEPS[sweep], "measurements.json"))


@cache
def rows(sweep: str) -> dict[str, dict[str, Any]]:
    """The configurations of a sweep by name, with resources and times."""
    resources = reference("triton_ex03").kernel_resources(SWEEPS[sweep])
    found = {}
    for row, about in zip(table(sweep)["configurations"], resources, strict=True):
        samples = row["device_time"]
        found[row["name"]] = {
            **about,
            "median_ns": statistics.median(itertools.chain(*samples)),
            "halves_ns": [statistics.median(itertools.chain(*samples[i::2])) for i in (0, 1)],
            "noise_ratio": reference("triton_ex03").noise_ratio(samples),
        }
    return found


def row(sweep: str, name: str) -> dict[str, Any]:
    """One configuration."""
    return rows(sweep)[name]


def slower(sweep: str, name: str, digits: int = 1) -> str:
    """How much longer than the fastest a configuration took: "1.3×"."""
    return f"{row(sweep, name)['median_ns'] / best(sweep)['best_ns']:.{digits}f}×"


@cache
def best(sweep: str) -> dict[str, Any]:
    """What the reference says about a sweep."""
    return reference("triton_ex03").best_block_size(SWEEPS[sweep])


def gain(sweep: str) -> float:
    """The time that the fastest saves, as a share of the default's."""
    return 1 - best(sweep)["best_ns"] / best(sweep)["default_ns"]


def names(listed: list[str]) -> str:
    """Names of configurations as a list in text."""
    return ", ".join(f"`{name}`" for name in listed)


def occupancy(
    capability: str, threads: int, registers: int = 32, shared: int = 0
) -> dict[str, Any]:
    """One row of the occupancy table."""
    (found,) = reference("triton_ex03").occupancy_table(capability, [threads], registers, shared)
    return found


def quarter_of(sweep: str) -> dict[str, Any]:
    """What is pruned of a sweep when a quarter of an SM's warps is asked for."""
    configs = table(sweep)["configurations"]
    return reference("triton_ex03").prune_configs(configs, "9.0", 0.25)


@cache
def replayed(budget_count: int = 480) -> dict[str, Any]:
    """A search over the sweep of the vector add, with samples drawn from the recorded ones."""
    recorded = {
        row["name"]: list(itertools.chain(*row["device_time"]))
        for row in table("add")["configurations"]
    }
    pick = random.Random(4)

    def bench(name: str, count: int) -> list[float]:
        return pick.choices(recorded[name], k=count)

    return reference("triton_ex03").search(list(recorded), bench, budget_count)


# -- plots ----------------------------------------------------------------------------------------


def occupancy_by_device() -> Figure:
    """Occupancy with 32 registers a thread, by compute capability and block size."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 3.9))
    figure.subplots_adjust(left=0.16, right=0.98, top=0.9, bottom=0.13)
    for y, capability in enumerate(reversed(CAPABILITIES)):
        for x, threads in enumerate(SIZES):
            found = occupancy(capability, threads)
            full = found["occupancy_ratio"] == 1
            axes.barh(
                y,
                0.94,
                left=x - 0.47,
                height=0.86,
                color=FAINT if full else ORANGE,
                linewidth=0,
            )
            blocks = found["blocks_count"]
            text = f"{found['occupancy_ratio']:.0%}   {blocks} block{'s' * (blocks != 1)}"
            axes.text(x, y, text, ha="center", va="center", fontsize=9)
    axes.set_yticks(range(len(CAPABILITIES)), [f"cc {c}" for c in reversed(CAPABILITIES)])
    axes.set_xticks(range(len(SIZES)), [f"{size} threads" for size in SIZES])
    axes.tick_params(length=0)
    axes.spines["bottom"].set_visible(False)
    axes.set_xlim(-0.5, len(SIZES) - 0.5)
    axes.set_title("Theoretical occupancy with 32 registers a thread and no shared memory")
    return figure


def occupancy_and_time() -> Figure:
    """Time over the fastest against occupancy, for the three sweeps."""
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(8, 3.4), sharey=True)
    figure.subplots_adjust(left=0.08, right=0.98, top=0.88, bottom=0.16, wspace=0.08)
    titles = {"add": "vector add", "rowsum": "sums of rows", "matmul": "product of matrices"}
    for axes, (sweep, title) in zip(panels, titles.items(), strict=True):
        fastest = best(sweep)["best_ns"]
        for found in rows(sweep).values():
            spilled = found["spilled_bytes"] > 0
            axes.plot(
                100 * found["occupancy_ratio"],
                found["median_ns"] / fastest,
                "X" if spilled else "o",
                color=VERMILION if spilled else BLUE,
                markersize=6 if spilled else 5,
                markerfacecolor=VERMILION if spilled else "none",
            )
        axes.set_yscale("log")
        axes.set_ylim(0.93, 10)
        axes.set_yticks([1, 2, 4, 8], ["1×", "2×", "4×", "8×"])
        axes.minorticks_off()
        axes.set_xlim(0, 106)
        axes.set_xticks([0, 25, 50, 75, 100])
        axes.grid(color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_title(title)
    panels[0].set_ylabel("time over the fastest")
    panels[1].set_xlabel("theoretical occupancy (%);  ✕ spills registers")
    return figure


def ties_of_row_sums() -> Figure:
    """The two halves of the fastest configurations of the row sums, and the limit of a tie."""
    import matplotlib.pyplot as plt

    found = best("rowsum")
    fastest = sorted(rows("rowsum").values(), key=lambda entry: entry["median_ns"])[:12]
    figure, axes = plt.subplots(figsize=(8, 3.9))
    figure.subplots_adjust(left=0.16, right=0.96, top=0.9, bottom=0.14)
    limit = found["best_ns"] * (1 + found["noise_ratio"]) / 1e3
    axes.axvspan(found["best_ns"] / 1e3, limit, color=FAINT, linewidth=0)
    for place, entry in enumerate(reversed(fastest)):
        halves = [half / 1e3 for half in entry["halves_ns"]]
        tie = entry["name"] in found["ties"]
        colour = BLUE if tie else GREY
        axes.plot(halves, [place, place], "-", color=colour, linewidth=2)
        axes.plot(halves, [place, place], "|", color=colour, markersize=9, markeredgewidth=2)
        axes.plot(entry["median_ns"] / 1e3, place, "o", color=INK if tie else GREY, markersize=5)
    labels = [
        f"{entry['name']}{' (default)' * (entry['name'] == found['default'])}"
        for entry in reversed(fastest)
    ]
    axes.set_yticks(range(len(fastest)), labels)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel("µs: median (dot), and the medians of the two halves (bars)")
    axes.set_title("triton_blocks_rowsum: the twelve fastest; shaded: within the noise floor")
    return figure


FIGURES: dict[str, Callable[[], Figure]] = {
    "occupancy_by_device": occupancy_by_device,
    "occupancy_and_time": occupancy_and_time,
    "ties_of_row_sums": ties_of_row_sums,
}
