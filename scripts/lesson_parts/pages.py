"""The pages: lessons, chapters and guides, each written from its source in `scripts/lesson_sources/`.

In a source an expression stands between double braces, and its value in the page:

    The device was busy for {{ms(ex_30.busy_time("decode_eager")[0])}}.

An expression may use the references (`ex_30.…`), the functions of the `lesson.py` beside it (`lesson.…`)
or of another place (`source("labs/docs").…`), `told`, `captures`, `dependencies`, `needs`, `np`, and the formatters
and `installs` below. Two opening braces as text are `{{"{{"}}`. A page without expressions needs no source.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from profiling_lab import captures, needs
from profiling_lab.captures import dependencies
from profiling_lab.course import manifest as course
from profiling_lab.errors import LabError
from scripts.lesson_sources import SOURCES, source
from scripts.lesson_sources.drawing import ROOT, reference, told

EXPRESSION = re.compile(r"\{\{(.+?)\}\}", re.DOTALL)
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


def number_word(number: int) -> str:
    """4 → "four"; above twenty in digits."""
    words = [
        "no",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ]
    return words[number] if number < len(words) else str(number)


def place(capture: str, start_ns: float, end_ns: float) -> str:
    """Where on a capture's clock something is, as a figure's title names it (profiling_lab/book/pages.py)."""
    with captures.open(capture) as recording:
        origin_ns = recording.span_ns[0]
    return f"{capture} timeline {round(start_ns - origin_ns)} {round(end_ns - origin_ns)}"


SAID = {
    "torch": "PyTorch",
    "triton": "Triton (on Linux)",
    "jax": "JAX",
    "nvcc": "the CUDA compiler (on Linux)",
}


def installs(identifier: str) -> str:
    """What tasks of an exercise need that only a group brings, and the command for it, in words."""
    tasks = [task for task in course.load(ROOT).exercise(identifier).tasks if not task.live]
    groups: dict[str, set[str]] = {}
    for need in {need for task in tasks for need in task.needs if need in SAID}:
        groups.setdefault(needs.GROUPS[need], set()).add(need)
    sentences = []
    for group, asked in sorted(groups.items()):
        needing = [task for task in tasks if task.needs & asked]
        of, kind = tasks, "tasks"
        if all(task.further for task in needing):
            of, kind = [task for task in tasks if task.further], "further tasks"
        some = len(needing)
        part = "" if some == len(of) else f"{number_word(some)} of "
        number = f"{part}the {number_word(len(of))} {kind} here".capitalize()
        named = " or ".join(SAID[need] for need in SAID if need in asked)
        with_cxx = any("cxx" in task.needs for task in needing)
        sentences.append(
            f"{number} need{'s' * (some == 1)} {named}, installed by `{needs.install([group])}`"
            + (", and a C++ compiler." if with_cxx else ".")
        )
    return " ".join(sentences)


@cache
def _common_names() -> dict[str, Any]:
    functions = (us, ms, pct, mb, times, count, number_word, place, told, source, installs)
    names: dict[str, Any] = {f.__name__: f for f in functions}
    names |= {
        "captures": captures,
        "exercise": course.load(ROOT).exercise,
        "dependencies": dependencies,
        "needs": needs,
        "np": np,
    }
    return names | {each.id: _Reference(each.id) for each in course.load(ROOT).exercises}


def namespace(place: str) -> dict[str, Any]:
    """What the expressions of a page or notebook in a folder ("labs/docs") may use."""
    there = (SOURCES / place / "lesson.py").is_file()
    return _common_names() | ({"lesson": source(place)} if there else {})


class _Reference:
    """The reference of an exercise, loaded when an expression asks for it."""

    def __init__(self, identifier: str) -> None:
        self._identifier = identifier

    def __getattr__(self, name: str) -> Any:
        return getattr(reference(self._identifier), name)


def made() -> list[Path]:
    """The pages that have a source, in the tree of the course."""
    return sorted(ROOT / file.relative_to(SOURCES) for file in SOURCES.rglob("*.md"))


def source_of(page: Path) -> Path:
    """Where the source of a page lies, or would lie."""
    return SOURCES / page.relative_to(ROOT)


def render(text: str, names: dict[str, Any], where: str = "") -> str:
    """A source's text with the values of its expressions.

    Raises LabError that names the file (`where`), the line and the expression, if one fails.
    """

    def value(match: re.Match[str]) -> str:
        try:
            return str(eval(match[1].strip(), dict(names)))  # noqa: S307 - our own texts
        except Exception as error:
            line = text.count("\n", 0, match.start()) + 1
            raise LabError(
                f"{where}, line {line}: {match[0]}: {type(error).__name__}: {error}"
            ) from error

    return EXPRESSION.sub(value, text)


def content(page: Path) -> str:
    """What the source of a page gives."""
    file, place = source_of(page), page.parent.relative_to(ROOT).as_posix()
    where = file.relative_to(ROOT).as_posix()
    return render(file.read_text(encoding="utf-8"), namespace(place), where)


def different_lines(have: str, want: str) -> Iterator[str]:
    """Each line of a page that is not what its source gives, in words."""
    lines = zip_longest(have.splitlines(), want.splitlines())
    for number, (stands, right) in enumerate(lines, 1):
        if stands != right:
            yield f"line {number} is {stands!r}, its source gives {right!r}"


def difference(page: Path) -> str:
    """What of a page is not what its source gives, in words; "" if all is."""
    if not page.is_file():
        return "is missing"
    lines = list(different_lines(page.read_text(encoding="utf-8"), content(page)))
    more = f"; so are {len(lines) - 3} more lines" if len(lines) > 3 else ""
    return "; ".join(lines[:3]) + more


def write(pages: Iterable[Path]) -> None:
    """Write pages from their sources."""
    for page in pages:
        page.write_text(content(page), encoding="utf-8", newline="\n")


def texts() -> list[Path]:
    """The texts that teach: lessons, the week's README, hints, the front page, and docs."""
    folders = [ROOT / name for name in ("week07", "labs", "modules", "docs", "captures")]
    return sorted([ROOT / "README.md", *(p for folder in folders for p in folder.rglob("*.md"))])


def typed(page: Path) -> str:
    """What an author typed of a page: the text of its source, if it has one."""
    file = source_of(page)
    return (file if file.is_file() else page).read_text(encoding="utf-8")


def loose_numbers(text: str) -> list[str]:
    """Measured numbers that stand in a typed text without a source: not computed, code, or a citation.

    A paragraph that names its source in square brackets or parentheses with "source:" is cited.
    """
    text = re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.DOTALL | re.MULTILINE)
    text = EXPRESSION.sub("", text)
    text = re.sub(r"`[^`\n]*`", "", text)
    loose = []
    for paragraph in re.split(r"\n\s*\n", text):
        if re.search(r"[Ss]ource:", paragraph):
            continue
        loose += [match[0].strip() for match in MEASURED.finditer(paragraph)]
    return loose
