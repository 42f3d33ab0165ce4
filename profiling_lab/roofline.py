"""Draw a roofline: the roofs of devices and data types, and where measured work stands under them.

    >>> from profiling_lab import roofline
    >>> roofs = [roofline.roof("H200", "float32"), roofline.roof("H200", "bfloat16")]
    >>> points = [roofline.Point("copy", intensity=0.25, flops_per_s=1.1e12)]
    >>> text = roofline.svg(roofs, points)            # for a page or a report: no further library
    >>> picture = roofline.figure(roofs, points)      # the same with matplotlib

Both axes are logarithmic: operations per byte to the right, operations per second upwards. The
slanted part of a roof is the device's memory, the flat part its peak for the data type; they meet at
the ridge. The peaks come from `profiling_lab.devices`, so a roof is a ceiling, and nobody reaches it.

Source of the plot: Williams, Waterman, Patterson, "Roofline: An Insightful Visual Performance Model",
CACM 52 (4), 2009.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from profiling_lab import devices, needs
from profiling_lab.units import format_bytes_per_s

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, HEIGHT = 720, 430
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 82, 30, 34, 46
FONT, SMALL = 12, 11
LETTER = 0.56  # mean width of a letter, as a part of the font's size
DOT = 4.5
FAR = 16  # pixels up or down from which on a text needs a line to its point
POINT_WEIGHT = 8  # a text that hides a point is so many times worse than one that crosses a line
# Okabe and Ito: apart for colour-blind readers too.
ROOF_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
MARKERS = ("o", "D", "s", "^")
INK, DIM, LINE, PAPER = "#1b1f24", "#5b6470", "#d8dbdf", "#ffffff"


@dataclass(frozen=True)
class Roof:
    """What one device can reach in one data type."""

    device: str
    dtype: str
    bytes_per_s: float
    flops_per_s: float

    @property
    def corner(self) -> float:
        """Where its two parts meet, in operations per byte."""
        return self.flops_per_s / self.bytes_per_s


@dataclass(frozen=True)
class Point:
    """Work that was measured or predicted.

    intensity: operations per byte; flops_per_s: operations per second. kind: points of one kind look
    alike, and a legend names the kinds if there are several.
    """

    name: str
    intensity: float
    flops_per_s: float
    kind: str = "measured"


def roof(device: str, dtype: object) -> Roof:
    """The roof of a device for a data type. Raises DeviceError for what the table does not know."""
    found = devices.get(device)
    name = devices.dtype(dtype).name
    return Roof(found.name, name, found.memory_bandwidth_bytes_per_s, found.peak(name))


_RATES = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


def format_flops_per_s(value: float) -> str:
    """A rate as text: `format_flops_per_s(66.9e12)` is "66.9 TFLOP/s"."""
    scale, unit = next(
        (step for step in _RATES if value >= step[0]),
        (1.0, ""),
    )
    return f"{value / scale:.3g} {unit}FLOP/s"


# -- where everything stands ------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """A piece of text: x and y in data, moved by dx and dy in pixels (dy downwards).

    led: a thin line leads from the place in data to the text, which lies too far away to belong to it
    at a glance.
    """

    x: float
    y: float
    text: str
    dx: float = 0.0
    dy: float = 0.0
    anchor: str = "start"
    angle: float = 0.0
    colour: str = INK
    led: bool = False


@dataclass(frozen=True)
class Plan:
    """All that both ways of drawing share, in the units of the axes."""

    title: str
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    lines: list[tuple[list[tuple[float, float]], str]]
    corners: list[tuple[float, float, str]]
    points: list[tuple[Point, str]]
    texts: list[Text]
    kinds: list[str]


Box = tuple[float, float, float, float]


def plan(
    roofs: Sequence[Roof],
    points: Iterable[Point] = (),
    title: str | None = None,
    *,
    width: int = WIDTH,
    height: int = HEIGHT,
) -> Plan:
    """Ranges, lines and texts of a plot that is width × height pixels large.

    Raises ValueError without roofs, and for a point without a positive finite intensity and rate:
    such a point has no place on logarithmic axes, and leaving it out would hide it.
    """
    if not roofs:
        raise ValueError("a roofline needs at least one roof: roofline.roof(device, dtype)")
    points = list(points)
    for point in points:
        for what in ("intensity", "flops_per_s"):
            value = getattr(point, what)
            if not isinstance(value, (int, float)) or not 0 < value < math.inf:
                raise ValueError(
                    f"{point.name}: {what} is {value!r}; logarithmic axes have a place for positive"
                    " numbers only (work that no counter saw has no intensity: leave it out and say so)"
                )
    x_range, y_range = _ranges(roofs, points)
    scale = _Scale(x_range, y_range, width, height)
    colours = {r: ROOF_COLOURS[i % len(ROOF_COLOURS)] for i, r in enumerate(dict.fromkeys(roofs))}

    lines = [
        (
            [
                (x_range[0], x_range[0] * r.bytes_per_s),
                (r.corner, r.flops_per_s),
                (x_range[1], r.flops_per_s),
            ],
            colour,
        )
        for r, colour in colours.items()
    ]
    corners = [(r.corner, r.flops_per_s, colour) for r, colour in colours.items()]
    taken = [box for line, _ in lines for box in _line_boxes(line, scale)]
    marks = [_around(*scale.at(p.intensity, p.flops_per_s), DOT + 1) for p in points]
    taken += POINT_WEIGHT * marks

    texts = [
        *_bandwidth_texts(colours, scale, taken),
        *_peak_texts(colours, scale, taken),
        *_corner_texts(colours, scale, taken),
        *_point_texts(points, scale, taken),
    ]
    kinds = list(dict.fromkeys(p.kind for p in points))
    marked = [(p, MARKERS[kinds.index(p.kind) % len(MARKERS)]) for p in points]
    return Plan(title or _title(roofs), x_range, y_range, lines, corners, marked, texts, kinds)


class _Scale:
    """From data to pixels, y downwards from the top of the picture."""

    def __init__(self, x_range, y_range, width: int, height: int) -> None:
        self.left, self.right = MARGIN_LEFT, width - MARGIN_RIGHT
        self.top, self.bottom = MARGIN_TOP, height - MARGIN_BOTTOM
        self.x0, self.x1 = (math.log10(x) for x in x_range)
        self.y0, self.y1 = (math.log10(y) for y in y_range)
        self.x_range, self.y_range = x_range, y_range

    def at(self, x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - self.x0) / (self.x1 - self.x0)
        up = (math.log10(y) - self.y0) / (self.y1 - self.y0)
        return (
            self.left + across * (self.right - self.left),
            self.bottom - up * (self.bottom - self.top),
        )

    @property
    def slope_degrees(self) -> float:
        """How steep a line of slope 1 is in the picture."""
        across = (self.right - self.left) / (self.x1 - self.x0)
        return math.degrees(math.atan2((self.bottom - self.top) / (self.y1 - self.y0), across))


def _ranges(roofs: Sequence[Roof], points: Sequence[Point]):
    xs = [r.corner for r in roofs] + [p.intensity for p in points]
    x_low = 10 ** math.floor(math.log10(min(*xs, min(r.corner for r in roofs) / 30)))
    x_high = 10 ** math.ceil(math.log10(max(*xs, max(r.corner for r in roofs) * 8)))
    slowest = min(r.bytes_per_s for r in roofs) * x_low
    y_low = min([slowest, *(p.flops_per_s / 2 for p in points)])
    y_high = max([*(r.flops_per_s for r in roofs), *(p.flops_per_s for p in points)]) * 3
    return (x_low, x_high), (y_low, y_high)


def _title(roofs: Sequence[Roof]) -> str:
    named = ", ".join(dict.fromkeys(r.device for r in roofs))
    return f"Roofline: {named} ({', '.join(dict.fromkeys(r.dtype for r in roofs))})"


def _around(x: float, y: float, reach: float) -> Box:
    return (x - reach, y - reach, x + reach, y + reach)


def _line_boxes(line: list[tuple[float, float]], scale: _Scale) -> list[Box]:
    """Small boxes along a line, for texts to keep off it."""
    boxes = []
    for (ax, ay), (bx, by) in itertools.pairwise(line):
        (x, y), (to_x, to_y) = scale.at(ax, ay), scale.at(bx, by)
        steps = max(1, round(math.hypot(to_x - x, to_y - y) / 6))
        for step in range(steps + 1):
            part = step / steps
            boxes.append(_around(x + part * (to_x - x), y + part * (to_y - y), 1.5))
    return boxes


def _text_box(x: float, y: float, text: str, size: float, anchor: str) -> Box:
    """The box of a text whose baseline is at (x, y)."""
    length = len(text) * size * LETTER
    left = {"start": x, "end": x - length, "middle": x - length / 2}[anchor]
    return (left, y - 0.8 * size, left + length, y + 0.2 * size)


def _overlap(box: Box, boxes: Iterable[Box]) -> float:
    """How much of a box others cover, in pixels squared."""
    total = 0.0
    for other in boxes:
        across = min(box[2], other[2]) - max(box[0], other[0])
        down = min(box[3], other[3]) - max(box[1], other[1])
        if across > 0 and down > 0:
            total += across * down
    return total


def _best(
    places: Iterable[tuple[float, float, str]],
    at: tuple[float, float],
    text: str,
    scale: _Scale,
    taken: list[Box],
) -> tuple[float, float, str]:
    """The first of the places (dx, dy, anchor) that is free, or the one least covered."""
    chosen, least = None, math.inf
    for rank, (dx, dy, anchor) in enumerate(places):
        box = _text_box(at[0] + dx, at[1] + dy, text, SMALL, anchor)
        outside = (
            max(0, scale.left - box[0])
            + max(0, box[2] - scale.right)
            + max(0, scale.top - box[1])
            + max(0, box[3] - scale.bottom)
        )
        cost = _overlap(box, taken) + 100 * outside + 0.01 * rank
        if cost < least:
            chosen, least = ((dx, dy, anchor), box), cost
    assert chosen is not None
    taken.append(chosen[1])
    return chosen[0]


def _bandwidth_texts(colours: dict[Roof, str], scale: _Scale, taken: list[Box]) -> list[Text]:
    """A text along each slanted line, at different heights so that close lines stay apart."""
    texts = []
    lines: dict[float, list[tuple[Roof, str]]] = {}
    for r, colour in colours.items():
        lines.setdefault(r.bytes_per_s, []).append((r, colour))
    # A text and its line, seen across the line, need about one and a half heights of a letter.
    per_decade = (scale.bottom - scale.top) / (scale.y1 - scale.y0)
    across = per_decade * math.cos(math.radians(scale.slope_degrees))
    decades = (scale.x1 - scale.x0) / (scale.right - scale.left)
    ordered = sorted(lines.items(), reverse=True)
    for rank, (bandwidth, members) in enumerate(ordered):
        named = ", ".join(dict.fromkeys(r.device for r, _ in members))
        text = f"{format_bytes_per_s(bandwidth)} ({named})"
        low = scale.x_range[0]
        start = 10 ** (math.log10(low) + (8 + 125 * (rank % 2)) * decades)
        above = math.log10(ordered[rank - 1][0] / bandwidth) * across if rank else math.inf
        dy = -6 if above > 1.5 * SMALL else 1.3 * SMALL
        angle = scale.slope_degrees
        colour = members[0][1] if len({c for _, c in members}) == 1 else DIM
        texts.append(Text(start, start * bandwidth, text, -2, dy, "start", angle, colour))
        x, y = scale.at(start, start * bandwidth)
        turn = math.radians(angle)
        for step in range(0, round(len(text) * SMALL * LETTER), 6):
            place = (x - 2 + step * math.cos(turn), y + dy - 4 - step * math.sin(turn))
            taken.append(_around(*place, 6))
    return texts


def _peak_texts(colours: dict[Roof, str], scale: _Scale, taken: list[Box]) -> list[Text]:
    """A text at the right end of each flat line; devices with the same peak share one."""
    texts = []
    several_devices = len({r.device for r in colours}) > 1
    several_dtypes = len({r.dtype for r in colours}) > 1
    flats: dict[float, list[tuple[Roof, str]]] = {}
    for r, colour in colours.items():
        flats.setdefault(r.flops_per_s, []).append((r, colour))
    right = scale.x_range[1]
    for peak, members in sorted(flats.items(), reverse=True):
        who = [
            " ".join(
                [r.device] * several_devices + [r.dtype] * (several_dtypes or not several_devices)
            )
            for r, _ in members
        ]
        text = f"{', '.join(dict.fromkeys(who))}: {format_flops_per_s(peak)}"
        at = scale.at(right, peak)
        places = [(-4, -5, "end"), (-4, SMALL + 3, "end")]
        places += [(-shift, dy, "end") for shift in (130, 220) for dy in (-5, SMALL + 3)]
        dx, dy, anchor = _best(places, at, text, scale, taken)
        texts.append(Text(right, peak, text, dx, dy, anchor, 0.0, members[0][1]))
    return texts


def _corner_texts(colours: dict[Roof, str], scale: _Scale, taken: list[Box]) -> list[Text]:
    """What the ridge is, above the axis."""
    texts = []
    bottom = scale.y_range[0]
    corners: dict[float, str] = {}
    for r, colour in colours.items():
        corners.setdefault(r.corner, colour)
    for corner, colour in sorted(corners.items()):
        text = f"ridge {corner:.3g} FLOP/B"
        at = scale.at(corner, bottom)
        places = [(4, -5 - 14 * row, "start") for row in range(6)]
        places += [(-4, -5 - 14 * row, "end") for row in range(6)]
        dx, dy, anchor = _best(places, at, text, scale, taken)
        texts.append(Text(corner, bottom, text, dx, dy, anchor, 0.0, colour))
    return texts


def _point_texts(points: Sequence[Point], scale: _Scale, taken: list[Box]) -> list[Text]:
    texts = []
    near = DOT + 4
    for point in points:
        at = scale.at(point.intensity, point.flops_per_s)
        places = [
            (near, 4, "start"),
            (-near, 4, "end"),
            (0, -near, "middle"),
            (0, near + SMALL - 2, "middle"),
        ]
        for far in (10, FAR, 24, 34):
            places += [
                (near, far + 4, "start"),
                (near, 4 - far, "start"),
                (-near, far + 4, "end"),
                (-near, 4 - far, "end"),
            ]
        dx, dy, anchor = _best(places, at, point.name, scale, taken)
        led = abs(dy - 4) >= FAR
        texts.append(Text(point.intensity, point.flops_per_s, point.name, dx, dy, anchor, led=led))
    return texts


def _ticks(low: float, high: float) -> list[float]:
    """The powers of ten inside a range."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


X_LABEL, Y_LABEL = "arithmetic intensity (operations per byte)", "operations per second"


# -- drawing ----------------------------------------------------------------------------------------


def svg(
    roofs: Sequence[Roof],
    points: Iterable[Point] = (),
    title: str | None = None,
    *,
    width: int = WIDTH,
    height: int = HEIGHT,
    ids: Sequence[str] = (),
) -> str:
    """The plot as SVG text that stands alone or inside a page.

    Inside a report of the course it takes the report's colours, light or dark. Hovering over a point
    shows its figures. ids: beside each point the id of its element, for links to it. Raises
    ValueError as `plan`.
    """
    drawn = plan(roofs, points, title, width=width, height=height)
    scale = _Scale(drawn.x_range, drawn.y_range, width, height)
    ink, dim, line = f"var(--ink, {INK})", f"var(--dim, {DIM})", f"var(--line, {LINE})"
    out = [
        f'<svg class="roofline" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' role="img" font-family="system-ui, sans-serif" font-size="{SMALL}" fill="{ink}">',
        f"<title>{escape(drawn.title)}</title>",
        f"<desc>{escape(_description(roofs, drawn))}</desc>",
        f'<text x="{scale.left}" y="{MARGIN_TOP - 14}" font-size="{FONT}" font-weight="600">'
        f"{escape(drawn.title)}</text>",
    ]
    for tick in _ticks(*drawn.x_range):
        x, _ = scale.at(tick, drawn.y_range[0])
        out.append(_line(x, scale.top, x, scale.bottom, line))
        out.append(_text(x, scale.bottom + 16, f"{tick:,g}", "middle", dim))
    for tick in _ticks(*drawn.y_range):
        _, y = scale.at(drawn.x_range[0], tick)
        out.append(_line(scale.left, y, scale.right, y, line))
        out.append(_text(scale.left - 6, y + 4, format_flops_per_s(tick), "end", dim))
    middle = (scale.left + scale.right) / 2
    out.append(_text(middle, height - 10, X_LABEL, "middle", dim))

    for corner, peak, colour in drawn.corners:
        x, y = scale.at(corner, peak)
        out.append(_line(x, y, x, scale.bottom, colour, ' stroke-dasharray="2 3"'))
    for path, colour in drawn.lines:
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in (scale.at(*place) for place in path))
        out.append(f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="2"/>')
    for corner, peak, colour in drawn.corners:
        x, y = scale.at(corner, peak)
        out.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
    for index, (point, marker) in enumerate(drawn.points):
        x, y = scale.at(point.intensity, point.flops_per_s)
        words = (
            f"{point.name} ({point.kind}): {point.intensity:.3g} operations per byte,"
            f" {format_flops_per_s(point.flops_per_s)}"
        )
        named = f' id="{escape(ids[index])}"' if index < len(ids) else ""
        out.append(f"<g{named}>{_marker(marker, x, y, ink)}<title>{escape(words)}</title></g>")
    for text in drawn.texts:
        x, y = scale.at(text.x, text.y)
        colour = ink if text.colour == INK else text.colour
        if text.led:
            out.append(_line(x, y, x + text.dx, y + text.dy - 4, dim, ' stroke-width="0.8"'))
        out.append(_text(x + text.dx, y + text.dy, text.text, text.anchor, colour, text.angle))
    if len(drawn.kinds) > 1:
        for index, kind in enumerate(drawn.kinds):
            x, y = scale.left + 12, scale.top + 14 + 16 * index
            out.append(_marker(MARKERS[index % len(MARKERS)], x, y - 4, ink))
            out.append(_text(x + 10, y, kind, "start", ink))
    out.append("</svg>")
    return "\n".join(out) + "\n"


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
    axes.set_xticks(_ticks(*drawn.x_range), [f"{x:,g}" for x in _ticks(*drawn.x_range)])
    axes.set_yticks(_ticks(*drawn.y_range), [format_flops_per_s(y) for y in _ticks(*drawn.y_range)])
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


def _description(roofs: Sequence[Roof], drawn: Plan) -> str:
    parts = [
        f"{r.device}, {r.dtype}: memory {format_bytes_per_s(r.bytes_per_s)}, peak"
        f" {format_flops_per_s(r.flops_per_s)}, ridge at {r.corner:.3g} operations per byte."
        for r in dict.fromkeys(roofs)
    ]
    parts += [
        f"{p.name}: {p.intensity:.3g} operations per byte, {format_flops_per_s(p.flops_per_s)}."
        for p, _ in drawn.points
    ]
    return " ".join(parts)


def _line(x: float, y: float, to_x: float, to_y: float, colour: str, more: str = "") -> str:
    return (
        f'<line x1="{x:.1f}" y1="{y:.1f}" x2="{to_x:.1f}" y2="{to_y:.1f}" stroke="{colour}"{more}/>'
    )


def _text(x: float, y: float, text: str, anchor: str, colour: str, angle: float = 0.0) -> str:
    turned = f' transform="rotate({-angle:.1f} {x:.1f} {y:.1f})"' if angle else ""
    # A halo in the page's colour keeps a text readable where it crosses a line.
    halo = f'paint-order="stroke" stroke="var(--card, {PAPER})" stroke-width="3"'
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" {halo}{turned}>'
        f"{escape(text)}</text>"
    )


def _marker(marker: str, x: float, y: float, ink: str) -> str:
    """Filled for the first kind, hollow for the others, as matplotlib draws them."""
    if marker == "o":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{DOT}" fill="{ink}"/>'
    reach = {"D": ((0, -1), (1, 0), (0, 1), (-1, 0)), "^": ((0, -1), (1, 0.8), (-1, 0.8))}
    corners = reach.get(marker, ((-0.8, -0.8), (0.8, -0.8), (0.8, 0.8), (-0.8, 0.8)))
    places = " ".join(f"{x + DOT * dx:.1f},{y + DOT * dy:.1f}" for dx, dy in corners)
    fill = f"var(--card, {PAPER})"
    return f'<polygon points="{places}" fill="{fill}" stroke="{ink}" stroke-width="1.3"/>'
