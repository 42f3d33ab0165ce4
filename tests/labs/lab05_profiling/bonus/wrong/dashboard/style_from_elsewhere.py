"""Lets the page fetch its style."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from profiling_lab import devices, roofline

CAUGHT_BY = "test_nothing_from_elsewhere"
SAYS = "shall need nothing"


def dashboard(results: dict[str, Any], path: str | None = None) -> str:
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
    page = page.replace(
        "</head>", '<link rel="stylesheet" href="https://example.org/x.css"></head>'
    )
    if path is not None:
        Path(path).write_text(page, encoding="utf-8")
    return page
