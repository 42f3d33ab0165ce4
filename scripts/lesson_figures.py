"""Keep every figure of the teaching texts equal to what its source says.

In a lesson a figure stands between two comments that a reader of the rendered page does not see:

    The device was busy for <!--= ms(ex_30.busy_time("decode_eager")[0]) -->12.3 ms<!--/-->.

The first comment is a Python expression over the captures, evaluated with the reference functions
(`ex_30.…`), what a lesson computes besides (`day1.…`, see `scripts/lesson_sources`), `captures.open`, and
the formatters below. This script says which figures differ and, with --write, puts the right ones in.

    uv run python scripts/lesson_figures.py [--write] [FILE…]
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402

from profiling_lab import captures, course, dependencies  # noqa: E402
from scripts.lesson_plots import SOURCES  # noqa: E402
from scripts.lesson_sources.drawing import reference  # noqa: E402

FIGURE = re.compile(r"<!--=(?P<expression>.*?)-->(?P<text>.*?)<!--/-->", re.DOTALL)
# A number with a unit of measurement: in a lesson it must be a figure, or stand in code.
MEASURED = re.compile(
    r"\d[\d.,  ]*\s?(?:ns|µs|us|ms|s|%|[kMGT]i?B(?:/s)?|[kMGT]?FLOP(?:/s)?|×|GHz|MHz|W)(?![\w/])"
)


def us(value_ns: float, digits: int = 1) -> str:
    """Nanoseconds as microseconds."""
    return f"{value_ns / 1e3:,.{digits}f} µs"


def ms(value_ns: float, digits: int = 1) -> str:
    """Nanoseconds as milliseconds."""
    return f"{value_ns / 1e6:,.{digits}f} ms"


def pct(ratio: float, digits: int = 0) -> str:
    """0.5 → "50 %"."""
    return f"{ratio * 100:.{digits}f} %"


def mb(value_bytes: float, digits: int = 1) -> str:
    """Bytes as megabytes (10^6)."""
    return f"{value_bytes / 1e6:,.{digits}f} MB"


def times(before: float, after: float, digits: int = 2) -> str:
    """A ratio: times(10, 4) → "2.50×"."""
    return f"{before / after:.{digits}f}×"


def count(value: float) -> str:
    """1234 → "1,234"."""
    return f"{round(value):,}"


def namespace() -> dict[str, Any]:
    """What the expressions of figures may use."""
    names: dict[str, Any] = {f.__name__: f for f in (us, ms, pct, mb, times, count)}
    names |= {"captures": captures, "dependencies": dependencies, "np": np, **SOURCES}
    for exercise in course.load(ROOT).exercises:
        names[exercise.id] = _Reference(exercise.id)
    return names


class _Reference:
    """The reference of an exercise, loaded when a figure asks for it."""

    def __init__(self, identifier: str) -> None:
        self._identifier = identifier

    def __getattr__(self, name: str) -> Any:
        return getattr(reference(self._identifier), name)


def texts() -> list[Path]:
    """The texts that teach: lessons, the week's README, hints, the front page, and docs."""
    folders = [ROOT / name for name in ("week07", "labs", "modules", "docs", "captures")]
    return sorted([ROOT / "README.md", *(p for folder in folders for p in folder.rglob("*.md"))])


def differences(file: Path, names: dict) -> list[tuple[str, str, str]]:
    """(expression, what stands there, what is right) for each figure that is not right."""
    out = []
    for match in FIGURE.finditer(file.read_text(encoding="utf-8")):
        expression = match["expression"].strip()
        right = str(eval(expression, dict(names)))  # noqa: S307 - our own texts
        if match["text"] != right:
            out.append((expression, match["text"], right))
    return out


def loose_numbers(file: Path) -> list[str]:
    """Measured numbers that stand in the text without a source: not a figure, code, or a citation.

    A paragraph that names its source in square brackets or parentheses with "source:" is cited.
    """
    text = file.read_text(encoding="utf-8")
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = FIGURE.sub("", text)
    text = re.sub(r"`[^`\n]*`", "", text)
    loose = []
    for paragraph in re.split(r"\n\s*\n", text):
        if re.search(r"[Ss]ource:", paragraph):
            continue
        loose += [match[0].strip() for match in MEASURED.finditer(paragraph)]
    return loose


def write(file: Path, names: dict) -> int:
    """Put the right figures into a text; returns how many changed."""
    changed = 0

    def right(match: re.Match[str]) -> str:
        nonlocal changed
        value = str(eval(match["expression"].strip(), dict(names)))  # noqa: S307 - our own texts
        changed += value != match["text"]
        return f"<!--={match['expression']}-->{value}<!--/-->"

    text = file.read_text(encoding="utf-8")
    file.write_text(FIGURE.sub(right, text), encoding="utf-8")
    return changed


def main() -> int:
    """Report, or write, the figures of the texts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the right figures in")
    parser.add_argument("files", nargs="*", type=Path)
    arguments = parser.parse_args()
    names = namespace()
    wrong = 0
    for file in arguments.files or texts():
        if arguments.write:
            if changed := write(file, names):
                print(f"{file}: {changed} figures changed")
            continue
        for expression, stands, right in differences(file, names):
            wrong += 1
            print(f"{file}: {expression} is {right!r}, the text says {stands!r}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
