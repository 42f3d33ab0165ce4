"""Lab 05, bonus 4: a dashboard. It is one page that opens anywhere and says where the time went.

Names of kernels come from the profiled program, so on a page they are untrusted text.

On the page, times are in µs, and shares are shares of the components' sum in percent. Both have one decimal, and
so have operations per byte. A *label* begins with a component's name. A long name may be shortened, but to no fewer than
16 characters.

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import math
import re
from html import escape
from pathlib import Path
from typing import Any

from profiling_lab import devices, roofline

_LONG = re.compile(r"^(.{23}).{2,}$", re.DOTALL)  # what is longer than 24 characters
# The bars, in pixels: width of the plot, height of a strip and of the bar in it, and the distances from
# the top of the strip to the label's baseline and to the bar.
WIDTH, ROW, BAR, LABEL, BELOW = 480, 42, 16, 15, 20
NS_PER_S = 1e9


def dashboard(results: dict[str, Any], path: str | None = None) -> str:
    """The page as text. If a path is given, the page also replaces the content of that file (UTF-8).

    results: {"title": text, "device": a name of `profiling_lab.devices`, "dtype": a data type,
    "shapes": {name: value}, "components": [{"name", "time_ns", "flops", "bytes"}, …], "whole_ns": the
    time measured for all components together}.

    The page is one file. It begins with <!doctype html>, <html> has a lang, and every element that is opened is
    closed. It has, with components always in the order given:

    - a <title> and an <h1> that both name title, device and dtype; and every shape with its value in the text;
    - <p class="longest">: the component that took longest, and its share;
    - <table class="components">: in the body, a row for each component with the cells name (a
      <th scope="row">), time, share, and operations per byte. The foot has two
      rows: "sum" (the sum of the times, 100.0 %) and "whole" (whole_ns, its share);
    - <svg class="bars">: for each component, a <rect class="bar"> that contains a <title> with the name.
      Widths are proportional to the times. Nothing overlaps or leaves the viewBox; x, y, width and height are
      plain attributes in its units, without transforms. Each bar has a <text> that is closer to it than to any
      other bar: a label with the time;
    - a second <svg>: the roofline of device and dtype (`roofline.svg`) with a point and a label for each component
      that has operations; the <figcaption> says in digits how many components have none;
    - for each <svg> a viewBox and role="img"; it is in a <figure> with a <figcaption>, and the
      table says the same in numbers;
    - <meta charset="utf-8"> and, for phones, a viewport of width=device-width;
    - colours for light and for dark schemes (@media (prefers-color-scheme: dark)).

    The page loads nothing from elsewhere. It has no <script>, <link>, <img>, <iframe>, <base> or <form>, no src or
    href, no attribute on…, no @import or url(…). Every text of `results` is escaped, so every name is
    shown as it is. The same results give the same page.

    Raises, before anything is written, an error whose message names what is wrong (for example "flops" and the component):
    - ValueError if there are no components, or two of one name;
    - ValueError if a time (or whole_ns) is not a finite number above 0;
    - ValueError if flops is not an integer of at least 0, or bytes not an integer of at least 1;
    - DeviceError for an unknown device or data type.
    """
    components = results["components"]
    _check(components, results["whole_ns"])
    total = sum(component["time_ns"] for component in components)
    heading = f"{results['title']}: {devices.get(results['device']).name}, {results['dtype']}"
    shapes = ", ".join(f"{name} {value}" for name, value in results["shapes"].items())
    longest = max(components, key=lambda component: component["time_ns"])
    without = sum(component["flops"] == 0 for component in components)
    page = _PAGE.format(
        style=_STYLE,
        heading=escape(heading),
        shapes=escape(shapes),
        longest=escape(f"{longest['name']}, {longest['time_ns'] / total:.1%} of the sum of all"),
        bars=_bars(components),
        roofline=_roofline(results),
        without=f"{without} of {len(components)} components have no operations and no point.",
        rows="\n".join(_row(component, total) for component in components),
        total=_cells("sum", total, total),
        whole=_cells("whole", results["whole_ns"], total),
    )
    if path is not None:
        Path(path).write_text(page, encoding="utf-8")
    return page


def _check(components: list[dict[str, Any]], whole_ns: float) -> None:
    names = [component["name"] for component in components]
    if not names:
        raise ValueError("no components: there is nothing to show")
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        raise ValueError(f"two components are called {twice!r}: whose time is whose?")
    for what, value in (
        ("whole_ns", whole_ns),
        *((component["name"], component["time_ns"]) for component in components),
    ):
        if type(value) not in (int, float) or not 0 < value < math.inf:
            raise ValueError(f"{what} took {value!r} ns: a finite number above 0 is needed")
    for component in components:
        for key, least in (("flops", 0), ("bytes", 1)):
            if type(component[key]) is not int or component[key] < least:
                raise ValueError(
                    f"{component['name']}: {key} is {component[key]!r}, not a whole number from {least}"
                )


def _short(name: str) -> str:
    return _LONG.sub(r"\1…", name)


def _cells(name: str, time_ns: float, total: float) -> str:
    return (
        f'<th scope="row">{escape(name)}</th><td>{time_ns / 1e3:,.1f}</td>'
        f"<td>{time_ns / total * 100:.1f} %</td>"
    )


def _row(component: dict[str, Any], total: float) -> str:
    intensity = component["flops"] / component["bytes"]
    cells = _cells(component["name"], component["time_ns"], total)
    return f"<tr>{cells}<td>{intensity:,.1f}</td></tr>"


def _bars(components: list[dict[str, Any]]) -> str:
    longest = max(component["time_ns"] for component in components)
    rows = []
    for place, component in enumerate(components):
        top = ROW * place
        name, time_us = component["name"], component["time_ns"] / 1e3
        words = f"{_short(name)}: {time_us:,.1f} µs"
        rows.append(
            f'<text x="0" y="{top + LABEL}">{escape(words)}</text>'
            f'<rect class="bar" x="0" y="{top + BELOW}" height="{BAR}" rx="2"'
            f' width="{WIDTH * component["time_ns"] / longest:.3f}">'
            f"<title>{escape(name)}</title></rect>"
        )
    return (
        f'<svg class="bars" role="img" aria-label="Time of each component in µs"'
        f' viewBox="0 0 {WIDTH} {ROW * len(components)}">{"".join(rows)}</svg>'
    )


def _roofline(results: dict[str, Any]) -> str:
    points = [
        roofline.Point(
            _short(component["name"]),
            component["flops"] / component["bytes"],
            component["flops"] / component["time_ns"] * NS_PER_S,
        )
        for component in results["components"]
        if component["flops"]
    ]
    return roofline.svg([roofline.roof(results["device"], results["dtype"])], points)


_STYLE = """
:root { color-scheme: light dark; --page: #fcfcfb; --card: #ffffff; --ink: #1b1f24; --dim: #5b6470;
  --line: #d8dbdf; --bar: #2f72b3; }
@media (prefers-color-scheme: dark) {
  :root { --page: #14171a; --card: #1a1e22; --ink: #e6e8eb; --dim: #9ba4ae; --line: #333a42;
    --bar: #5b9fdc; }
}
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 52rem; padding: 1rem; background: var(--page); color: var(--ink);
  font: 16px/1.5 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.4rem; line-height: 1.25; }
h2 { font-size: 1.1rem; margin: 0 0 .6rem; }
figure, section { margin: 1rem 0; padding: 1rem; background: var(--card);
  border: 1px solid var(--line); border-radius: 8px; }
figcaption, .dim { color: var(--dim); font-size: .9rem; }
.scroll { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; }
svg.bars { max-width: 40rem; font: 14px system-ui, sans-serif; fill: var(--ink); }
svg.bars .bar { fill: var(--bar); }
svg.roofline { min-width: 34rem; }
svg.roofline text[fill="#0072B2"], svg.roofline circle[fill="#0072B2"] { fill: var(--bar); }
svg.roofline [stroke="#0072B2"] { stroke: var(--bar); }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .5rem; border-bottom: 1px solid var(--line); text-align: right; }
td { white-space: nowrap; }
th:first-child { text-align: left; font-weight: 400; min-width: 8rem; }
thead th, tfoot th { font-weight: 600; }
thead th { white-space: nowrap; }
@media (max-width: 30rem) {
  body, figure, section { padding: .6rem; }
  th, td { padding: .3rem .25rem; font-size: .85rem; }
  th:first-child { min-width: 6rem; }
}
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{heading}</title>
<style>{style}</style>
</head>
<body>
<h1>{heading}</h1>
<p class="dim">Shapes: {shapes}</p>
<p class="longest">Longest component: {longest}.</p>
<figure>
<h2>Where the time goes</h2>
{bars}
<figcaption>Time of each component; the numbers stand in the table below.</figcaption>
</figure>
<figure>
<h2>How near the roof</h2>
<div class="scroll">{roofline}</div>
<figcaption>Each component under the roof of the device. {without}</figcaption>
</figure>
<section>
<h2>The numbers</h2>
<div class="scroll">
<table class="components">
<thead><tr><th scope="col">component</th><th scope="col">time (µs)</th><th scope="col">share</th>
<th scope="col">FLOP/B</th></tr></thead>
<tbody>
{rows}
</tbody>
<tfoot>
<tr>{total}<td></td></tr>
<tr>{whole}<td></td></tr>
</tfoot>
</table>
</div>
</section>
</body>
</html>
"""
