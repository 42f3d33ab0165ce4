"""Draw the figures of the lessons from the captures.

Every bar is a recorded interval, every number in a figure is computed from a recording or a table
of the course (`scripts/lesson_sources/`); a test draws them again and compares
(`tests/harness/test_lesson_plots.py`).

    uv run python scripts/lesson_plots.py [--write] [--png FOLDER] [NAME…]

Without --write it says which files differ. SVG with real text, no date, fixed ids: the same
captures give the same file.
"""

from __future__ import annotations

import argparse
import importlib
import io
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from scripts.lesson_sources import LESSONS  # noqa: E402
from scripts.lesson_sources.drawing import STYLE  # noqa: E402

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SOURCES = {name: importlib.import_module(f"scripts.lesson_sources.{name}") for name in LESSONS}
FIGURES: dict[str, Callable[[], Figure]] = {
    name: figure for source in SOURCES.values() for name, figure in source.FIGURES.items()
}


def file_of(name: str) -> Path:
    """Where a figure lies: `figures/` of its lesson's folder."""
    lesson = next(lesson for lesson, source in SOURCES.items() if name in source.FIGURES)
    return ROOT / LESSONS[lesson] / "figures" / f"{name}.svg"


def draw(name: str, image_format: str = "svg") -> bytes:
    """One figure as a file's content."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    with matplotlib.rc_context({"figure.dpi": 100, **STYLE}):
        figure = FIGURES[name]()
        out = io.BytesIO()
        none = {"Date": None, "Creator": None} if image_format == "svg" else None
        figure.savefig(out, format=image_format, metadata=none)
        plt.close(figure)
    content = out.getvalue()
    if image_format != "svg":
        return content
    text = content.decode("utf-8").replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    return re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE).encode("utf-8")


def same(first: bytes, second: bytes) -> bool:
    """Whether two SVGs are equal but for the last digits of coordinates."""
    number = re.compile(rb"-?\d+\.\d+")
    if number.sub(b"#", first) != number.sub(b"#", second):
        return False
    pairs = zip(number.findall(first), number.findall(second), strict=True)
    return all(abs(float(a) - float(b)) <= 0.02 for a, b in pairs)


def main() -> int:
    """Compare, or write, the figures."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="write the SVG files")
    parser.add_argument("--png", type=Path, metavar="FOLDER", help="also draw them as PNG, to look")
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(FIGURES))
    arguments = parser.parse_args()
    differ = 0
    for name in arguments.names or FIGURES:
        content = draw(name)
        file = file_of(name)
        if arguments.png:
            arguments.png.mkdir(parents=True, exist_ok=True)
            (arguments.png / f"{name}.png").write_bytes(draw(name, "png"))
        if file.is_file() and same(file.read_bytes(), content):
            continue
        if arguments.write:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            print(f"{file.name}: written, {len(content):,} bytes")
        else:
            differ += 1
            print(f"{file.name}: differs from what the captures say; write it with --write")
    return 1 if differ else 0


if __name__ == "__main__":
    sys.exit(main())
