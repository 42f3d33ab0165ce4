"""The figures of the lessons, `figures/NAME.svg`, drawn from the captures.

Every bar is a recorded interval, every number in a figure is computed from a recording or a table of the
course. What draws them is in FIGURES of the place's `lesson.py`. SVG with real text, no date, fixed
ids: the same captures give the same file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from scripts.lesson_sources import SOURCES, source
from scripts.lesson_sources.drawing import ROOT, STYLE

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@cache
def drawings() -> dict[Path, Callable[[], Figure]]:
    """The figures in the tree of the course, each with what draws it."""
    found = {}
    for file in sorted(SOURCES.rglob("lesson.py")):
        place = file.parent.relative_to(SOURCES)
        functions = source(place.as_posix()).FIGURES
        found |= {ROOT / place / "figures" / f"{name}.svg": functions[name] for name in functions}
    return found


def made() -> list[Path]:
    """The figures that are drawn, in the tree of the course."""
    return list(drawings())


def draw(file: Path, image_format: str = "svg") -> bytes:
    """One figure as a file's content."""
    return look(file, image_format)[0]


def look(file: Path, image_format: str = "svg") -> tuple[bytes, list[str]]:
    """One figure as a file's content, and what is cut off or unreadable in it, in words."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context({"figure.dpi": 100, **STYLE}):
        figure = drawings()[file]()
        out = io.BytesIO()
        none = {"Date": None, "Creator": None} if image_format == "svg" else None
        figure.savefig(out, format=image_format, metadata=none)
        from scripts.lesson_parts import (
            layout,
        )  # Imported late: Matplotlib is in the group notebooks.

        faults = layout.faults(figure)
        plt.close(figure)
    content = out.getvalue()
    if image_format != "svg":
        return content, faults
    text = content.decode("utf-8").replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).encode("utf-8"), faults


def same(first: bytes, second: bytes) -> bool:
    """Whether two SVGs are equal but for the last digits of coordinates."""
    number = re.compile(rb"-?\d+\.\d+")
    if number.sub(b"#", first) != number.sub(b"#", second):
        return False
    pairs = zip(number.findall(first), number.findall(second), strict=True)
    return all(abs(float(a) - float(b)) <= 0.02 for a, b in pairs)


def difference(file: Path) -> str:
    """What is wrong with a figure's file, in words; "" if it is what the captures give, and legible."""
    if not file.is_file():
        return "is missing"
    content, faults = look(file)
    if faults:
        return "; ".join(faults)
    return "" if same(file.read_bytes(), content) else "is not what the present captures give"


def write(files: Iterable[Path]) -> None:
    """Draw figures, and leave those alone that differ in the last digits of coordinates only."""
    for file in files:
        content = draw(file)
        if not (file.is_file() and same(file.read_bytes(), content)):
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
