"""Begins the bars at the shortest time instead of at zero."""

from __future__ import annotations

from html import escape
from typing import Any

CAUGHT_BY = "test_bars_in_proportion"
SAYS = "of the longest"


def _bars(components: list[dict[str, Any]]) -> str:
    longest = max(component["time_ns"] for component in components)
    rows = []
    shortest = min(component["time_ns"] for component in components)
    for place, component in enumerate(components):
        top = ROW * place
        name, time_us = component["name"], component["time_ns"] / 1e3
        words = f"{_short(name)}: {time_us:,.1f} µs"
        rows.append(
            f'<text x="0" y="{top + LABEL}">{escape(words)}</text>'
            f'<rect class="bar" x="0" y="{top + BELOW}" height="{BAR}" rx="2"'
            f' width="{WIDTH * (component["time_ns"] - shortest) / (longest - shortest):.3f}">'
            f"<title>{escape(name)}</title></rect>"
        )
    return (
        f'<svg class="bars" role="img" aria-label="Time of each component in µs"'
        f' viewBox="0 0 {WIDTH} {ROW * len(components)}">{"".join(rows)}</svg>'
    )
