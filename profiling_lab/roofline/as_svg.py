"""A roofline as SVG text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from profiling_lab.roofline.layout import (
    DIM,
    DOT,
    FONT,
    HEIGHT,
    INK,
    LINE,
    MARGIN_TOP,
    MARKERS,
    PAPER,
    SMALL,
    WIDTH,
    X_LABEL,
    Plan,
    Scale,
    plan,
    ticks,
)
from profiling_lab.roofline.model import Point, Roof, format_flops_per_s
from profiling_lab.units import format_bytes_per_s


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
    scale = Scale(drawn.x_range, drawn.y_range, width, height)
    ink, dim, line = f"var(--ink, {INK})", f"var(--dim, {DIM})", f"var(--line, {LINE})"
    out = [
        f'<svg class="roofline" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"'
        f' role="img" font-family="system-ui, sans-serif" font-size="{SMALL}" fill="{ink}">',
        f"<title>{escape(drawn.title)}</title>",
        f"<desc>{escape(_description(roofs, drawn))}</desc>",
        f'<text x="{scale.left}" y="{MARGIN_TOP - 14}" font-size="{FONT}" font-weight="600">'
        f"{escape(drawn.title)}</text>",
    ]
    for tick in ticks(*drawn.x_range):
        x, _ = scale.at(tick, drawn.y_range[0])
        out.append(_line(x, scale.top, x, scale.bottom, line))
        out.append(_text(x, scale.bottom + 16, f"{tick:,g}", "middle", dim))
    for tick in ticks(*drawn.y_range):
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
        # Mixed with ink, the name of a line is readable on a light page and on a dark one.
        mixed = f"color-mix(in srgb, {text.colour} 60%, {ink})"
        colour = {INK: ink, DIM: dim}.get(text.colour, mixed)
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
