"""What all lessons share: colours, style and legend of plots, the references, what programs told."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, course
from profiling_lab.functions import load_once

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROOT = Path(__file__).resolve().parents[2]

# Colours that stay apart for colour-blind readers (Okabe and Ito), and greys.
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
INK, GRID, PAPER, GREY = "#222222", "#DDDDDD", "#FFFFFF", "#BBBBBB"

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
