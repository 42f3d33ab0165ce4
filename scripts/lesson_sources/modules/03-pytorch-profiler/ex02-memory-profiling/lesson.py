"""Figures and figures' sources of ex02-memory-profiling."""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from scripts.lesson_sources.drawing import BLUE, GREEN, GREY, GRID, ORANGE, PAPER, legend, reference

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HELD = "memory_fragments_held"
LEAK = "memory_leak_history"
MIB = 1 << 20


@cache
def snapshot(capture: str) -> dict[str, Any]:
    """A snapshot."""
    return json.loads(captures.text(capture, "snapshot.json"))


def measured(capture: str, key: str) -> Any:
    """What the program measured."""
    return snapshot(capture)["measured"][key]


def mib(value: float) -> str:
    """Bytes as MiB."""
    return f"{value / MIB:,.0f} MiB"


@cache
def reserved(capture: str = HELD) -> dict[str, dict[str, int]]:
    """What is reserved, by pool."""
    return reference("torch_ex02").reserved_memory(capture)


def part(key: str, capture: str = HELD, pool: str = "large") -> str:
    """A part of what is reserved, as text."""
    return mib(reserved(capture)[pool][f"{key}_bytes"])


@cache
def explained(capture: str = HELD) -> dict[str, Any]:
    """What happens to the last request."""
    return reference("torch_ex02").explain_request(
        capture, measured(capture, "asked_bytes"), measured(capture, "limit_bytes")
    )


def fits(capture: str) -> str:
    """Whether the last request got its memory, as recorded."""
    return "got it" if measured(capture, "fits") else "failed"


def request_ms(capture: str) -> float:
    """The median time of a request after the first, in ns."""
    return statistics.median(measured(capture, "request_ns")[1:])


@cache
def lines(capture: str = LEAK) -> list[dict[str, Any]]:
    """Who asks and who holds."""
    return reference("torch_ex02").requests_by_line(capture)


def line(place: int, key: str, capture: str = LEAK) -> Any:
    """One entry of who asks, as text."""
    value = lines(capture)[place][key]
    return mib(value) if key.endswith("bytes") else value


def where(place: int, capture: str = LEAK) -> str:
    """The line of an entry, as text."""
    return f"`{lines(capture)[place]['where']}`"


def holder(key: str, capture: str = LEAK) -> str:
    """The line that holds most, or what it has, as text."""
    most = max(lines(capture), key=lambda row: row["held_bytes"])
    return f"`{most['where']}`" if key == "where" else mib(most[key])


@cache
def lives(capture: str = "memory_leak_clean") -> list[dict[str, Any]]:
    """Births and deaths."""
    return reference("torch_ex02").lifetimes(capture)


def life(born: str, died: str | None, later: int | None, capture: str = "memory_leak_clean") -> str:
    """Bytes and count of a combination, as text."""
    for row in lives(capture):
        if (row["born"], row["died"], row["steps_later"]) == (born, died, later):
            return f"{row['count']}, {mib(row['bytes'])}"
    return "none"


@cache
def growing(capture: str) -> list[dict[str, Any]]:
    """Lines that grow."""
    return reference("torch_ex02").growing_lines(capture)


def growth(capture: str) -> str:
    """The growing lines, as text."""
    rows = growing(capture)
    return "; ".join(f"`{r['where']}`, {mib(r['growth_bytes'])} a step" for r in rows) or "none"


def verdict(capture: str) -> str:
    """The category of a capture."""
    return f"`{reference('torch_ex02').memory_verdict(capture).category}`"


def first_steps(capture: str) -> str:
    """What was allocated after each of the first steps and the last, as text."""
    after = measured(capture, "allocated_after_step_bytes")
    return ", ".join(f"{value / MIB:,.0f}" for value in after) + " MiB"


# -- plots --------------------------------------------------------------------------------------------


def segments_plot() -> Figure:
    """The segments of three recordings, each a bar, with the parts in use."""
    import matplotlib.pyplot as plt

    names = {
        HELD: "as it comes",
        "memory_fragments_emptied": "empty_cache before each result",
        "memory_fragments_expandable": "segments that grow",
    }
    figure, panels = plt.subplots(1, 3, figsize=(9.2, 3.6), sharex=True, sharey=True)
    figure.subplots_adjust(left=0.035, right=0.985, top=0.9, bottom=0.27, wspace=0.08)
    for axes, (capture, title) in zip(panels, names.items(), strict=True):
        large = [s for s in snapshot(capture)["segments"] if s["segment_type"] == "large"]
        for place, segment in enumerate(sorted(large, key=lambda s: s["address"])):
            left = 0.0
            for block in segment["blocks"]:
                used = block["state"] != "inactive"
                axes.barh(
                    place,
                    block["size"] / MIB,
                    left=left,
                    height=0.7,
                    color=BLUE if used else GREY,
                    edgecolor=PAPER,
                    linewidth=0.8,
                )
                left += block["size"] / MIB
        axes.set(title=title, xlabel="MiB")
        axes.set_yticks([])
        axes.grid(axis="x", color=GRID, linewidth=0.6)
        axes.set_axisbelow(True)
    panels[0].invert_yaxis()
    legend(figure, {"in use": BLUE, "free, reserved": GREY}, columns=2)
    return figure


def steps_plot() -> Figure:
    """What is allocated after each step, in three recordings."""
    import matplotlib.pyplot as plt

    shown = {
        LEAK: ("history", ORANGE),
        "memory_leak_bounded": ("bounded", BLUE),
        "memory_leak_clean": ("clean (another model)", GREEN),
    }
    figure, axes = plt.subplots(figsize=(9.2, 3.4))
    figure.subplots_adjust(left=0.065, right=0.985, top=0.9, bottom=0.28)
    for capture, (_, colour) in shown.items():
        after = [v / MIB for v in measured(capture, "allocated_after_step_bytes")]
        axes.plot(range(len(after)), after, "o-", color=colour, markersize=4)
    axes.set(title="Allocated after each step, MiB", xlabel="step", ylim=(0, None))
    axes.grid(color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    legend(figure, dict(shown.values()), columns=3)
    return figure


FIGURES: dict[str, Callable[[], Any]] = {
    "memory_segments": segments_plot,
    "memory_steps": steps_plot,
}
