"""Where everything is in a plot of a roofline, so that texts keep off lines, points and each other."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from profiling_lab.palette import BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION
from profiling_lab.roofline.model import Point, Roof, format_flops_per_s
from profiling_lab.units import format_bytes_per_s

WIDTH, HEIGHT = 720, 430
MARGIN_LEFT, MARGIN_RIGHT, MARGIN_TOP, MARGIN_BOTTOM = 82, 30, 34, 46
FONT, SMALL = 12, 11
LETTER = 0.56  # mean width of a letter, as a part of the font's size
DOT = 4.5
FAR = 16  # pixels up or down from which on a text needs a line to its point
CROWD = 10  # points: of fewer, names find a place nearby
POINT_WEIGHT = 24  # a text that hides a point is so many times worse than one that crosses a line
TEXT_WEIGHT = 4  # the same of a text that lies on another
ROOF_COLOURS = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
MARKERS = ("o", "D", "s", "^")
INK, DIM, LINE, PAPER = "#1b1f24", "#5b6470", "#d8dbdf", "#ffffff"


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
    scale = Scale(x_range, y_range, width, height)
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


class Scale:
    """From data to pixels, y downwards from the top of the picture."""

    def __init__(self, x_range, y_range, width: int, height: int) -> None:
        self.left, self.right = MARGIN_LEFT, width - MARGIN_RIGHT
        self.top, self.bottom = MARGIN_TOP, height - MARGIN_BOTTOM
        self.x0, self.x1 = (math.log10(x) for x in x_range)
        self.y0, self.y1 = (math.log10(y) for y in y_range)
        self.x_range, self.y_range = x_range, y_range

    def at(self, x: float, y: float) -> tuple[float, float]:
        """Where a place in data lies, in pixels."""
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


def _line_boxes(line: list[tuple[float, float]], scale: Scale) -> list[Box]:
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
    scale: Scale,
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
    taken += TEXT_WEIGHT * [chosen[1]]
    return chosen[0]


def _bandwidth_texts(colours: dict[Roof, str], scale: Scale, taken: list[Box]) -> list[Text]:
    """A text along each slanted line, at different heights so that close lines stay apart."""
    texts = []
    lines: dict[float, list[tuple[Roof, str]]] = {}
    for r, colour in colours.items():
        # What is written alike is one line to a reader.
        lines.setdefault(float(f"{r.bytes_per_s:.3g}"), []).append((r, colour))
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


def _peak_texts(colours: dict[Roof, str], scale: Scale, taken: list[Box]) -> list[Text]:
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


def _corner_texts(colours: dict[Roof, str], scale: Scale, taken: list[Box]) -> list[Text]:
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


def _point_texts(points: Sequence[Point], scale: Scale, taken: list[Box]) -> list[Text]:
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
        # Many points crowd each other: their names go further off.
        further = (48, 64, 82, 102, 124, 148)[: None if len(points) > CROWD else 2]
        for far in (10, FAR, 24, 34, *further):
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


def ticks(low: float, high: float) -> list[float]:
    """The powers of ten inside a range."""
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    return [10.0**power for power in range(first, last + 1)]


X_LABEL, Y_LABEL = "arithmetic intensity (operations per byte)", "operations per second"
