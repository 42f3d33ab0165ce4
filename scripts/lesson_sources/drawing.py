"""What all lessons share: colours, style, legend and lanes of plots, the references, what programs told."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, devices
from profiling_lab.analysis import intervals as sets
from profiling_lab.course import manifest as course
from profiling_lab.mine.functions import load_once
from profiling_lab.palette import (  # noqa: F401 - lessons have their colours from here
    BESIDE,
    BLUE,
    CALL,
    COPY_IN,
    COPY_OUT,
    DARK,
    FAINT,
    GREEN,
    GREY,
    GRID,
    INK,
    KERNEL,
    LIGHT,
    NOTHING,
    ORANGE,
    PAPER,
    PURPLE,
    SKY,
    VERMILION,
    WAIT,
    YELLOW,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "lesson",
    "font.family": "DejaVu Sans",  # comes with matplotlib, so the layout is the same everywhere
    "font.size": 9.5,
    "axes.edgecolor": GRID,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.spines.left": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "ytick.left": False,
    "figure.facecolor": PAPER,
    "axes.facecolor": PAPER,
    "hatch.linewidth": 0.6,
}


@cache
def reference(identifier: str) -> ModuleType:
    """The reference of an exercise ("ex_30") as a module, loaded once."""
    known = course.load(ROOT)
    return load_once(known.solution(known.exercise(identifier).stub), f"reference_{identifier}")


def compared() -> list[str]:
    """The devices that lessons put side by side, in the order of the table (by architecture)."""
    return [name for name in devices.names() if devices.get(name).compared]


def told(capture: str, key: str) -> Any:
    """What the recorded program reported about itself (provenance.json)."""
    return captures.provenance(capture)["reported_by_program"][key]


def legend(figure: Figure, entries: dict[str, str], columns: int) -> None:
    """A legend of colours below the panels."""
    from matplotlib.patches import Patch

    figure.legend(
        handles=[Patch(color=colour, label=name) for name, colour in entries.items()],
        loc="lower center",
        ncols=columns,
        frameon=False,
        fontsize=9,
        handlelength=1.2,
        columnspacing=1.2,
    )


def bars(
    axes: Axes,
    lane: float,
    intervals: Iterable[tuple[int, int]],
    window: tuple[float, float],
    *,
    height: float = 0.7,
    unit: float = 1e6,
    join_ns: float = 0,
    **style: Any,
) -> None:
    """Draw intervals (start, end in ns) in a lane, as the time since the window's start."""
    start, end = round(window[0]), round(window[1])
    # Bars that would touch at this scale become one: fewer shapes, the same picture.
    joined = sets.union(sets.clip(sets.of(intervals), start, end), join_ns)
    style.setdefault("linewidth", 0)
    axes.broken_barh(
        [((a - start) / unit, (b - a) / unit) for a, b in joined.pairs()],
        (lane - height / 2, height),
        **style,
    )


def lanes(axes: Axes, names: list[str], window: tuple[float, float], unit: float, label: str):
    """Lanes from top to bottom, named, over the time of a window."""
    axes.set_yticks(range(len(names), 0, -1), names)
    axes.set_ylim(0.45, len(names) + 0.55)
    axes.set_xlim(0, (window[1] - window[0]) / unit)
    axes.set_xlabel(label)
    axes.grid(axis="x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def intervals(rows: Iterable[dict]) -> list[tuple[int, int]]:
    """(start, end) of rows."""
    return [(row["start_ns"], row["end_ns"]) for row in rows]
