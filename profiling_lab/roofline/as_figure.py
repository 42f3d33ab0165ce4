"""A roofline with matplotlib."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from profiling_lab import needs
from profiling_lab.roofline.layout import (
    DIM,
    FONT,
    HEIGHT,
    INK,
    LINE,
    MARGIN_BOTTOM,
    MARGIN_LEFT,
    MARGIN_RIGHT,
    MARGIN_TOP,
    MARKERS,
    PAPER,
    SMALL,
    WIDTH,
    X_LABEL,
    plan,
    ticks,
)
from profiling_lab.roofline.model import Point, Roof, format_flops_per_s

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure(
    roofs: Sequence[Roof],
    points: Iterable[Point] = (),
    title: str | None = None,
    *,
    width: int = WIDTH,
    height: int = HEIGHT,
) -> Figure:
    """The plot with matplotlib, width × height at 90 dots an inch.

    Raises ValueError as `plan`, and LabError where matplotlib is not installed.
    """
    plt = needs.module("matplotlib.pyplot")
    drawn = plan(roofs, points, title, width=width, height=height)
    pixel = 72 / 90  # points a pixel
    picture, axes = plt.subplots(figsize=(width / 90, height / 90))
    picture.subplots_adjust(
        left=MARGIN_LEFT / width,
        right=1 - MARGIN_RIGHT / width,
        top=1 - MARGIN_TOP / height,
        bottom=MARGIN_BOTTOM / height,
    )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(drawn.x_range)
    axes.set_ylim(drawn.y_range)
    axes.set_xticks(ticks(*drawn.x_range), [f"{x:,g}" for x in ticks(*drawn.x_range)])
    axes.set_yticks(ticks(*drawn.y_range), [format_flops_per_s(y) for y in ticks(*drawn.y_range)])
    axes.minorticks_off()
    axes.tick_params(labelsize=SMALL * pixel, labelcolor=DIM)
    axes.grid(color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(X_LABEL, fontsize=SMALL * pixel, color=DIM)
    axes.set_title(drawn.title, fontsize=FONT * pixel, fontweight="bold", loc="left")
    for corner, peak, colour in drawn.corners:
        axes.vlines(
            corner, drawn.y_range[0], peak, color=colour, linestyle=(0, (2, 3)), linewidth=1
        )
        axes.plot(corner, peak, "o", color=colour, markersize=4)
    for path, colour in drawn.lines:
        axes.plot(*zip(*path, strict=True), color=colour, linewidth=1.8)
    for index, kind in enumerate(drawn.kinds):
        mine = [p for p, _ in drawn.points if p.kind == kind]
        axes.plot(
            [p.intensity for p in mine],
            [p.flops_per_s for p in mine],
            MARKERS[index % len(MARKERS)],
            color=INK,
            markerfacecolor=PAPER if index else INK,
            markersize=6,
            linestyle="none",
            label=kind,
        )
    if len(drawn.kinds) > 1:
        axes.legend(loc="upper left", frameon=False, fontsize=SMALL * pixel)
    paper = {"facecolor": PAPER, "edgecolor": "none", "pad": 0.4, "alpha": 0.85}
    align = {"start": "left", "end": "right", "middle": "center"}
    for text in drawn.texts:
        axes.annotate(
            text.text,
            (text.x, text.y),
            (text.dx * pixel, -text.dy * pixel),
            textcoords="offset points",
            ha=align[text.anchor],
            va="baseline",
            rotation=text.angle,
            rotation_mode="anchor",
            color=text.colour,
            fontsize=SMALL * pixel,
            annotation_clip=False,
            bbox=None if text.angle else paper,
            arrowprops={"arrowstyle": "-", "color": DIM, "linewidth": 0.6} if text.led else None,
        )
    return picture
