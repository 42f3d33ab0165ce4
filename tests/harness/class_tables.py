"""What tests of the gradebook share: a policy, a table read back, a class list."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from grading.gradebook import policy
from profiling_lab.course import manifest
from profiling_lab.mine.functions import load_file

drawn = load_file(Path(__file__).with_name("drawn_class.py"), "drawn_class")
COURSE = manifest.load()
IDS = ("ex_30", "ncu_ex01")
SCALED = policy.loads(
    """
[score]
total = 100
[deadline]
at = 2025-11-30T12:00:00+01:00
per_day_pct = 10
[canvas]
total = "Week 7 (123)"
[canvas.exercises]
ex_30 = "Day 1 (124)"
""",
    COURSE,
)


def table(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(file.read_text(encoding="utf-8"), newline="")))


def cell(row: dict[str, str], start: str) -> str:
    return next(value for name, value in row.items() if name.startswith(start + " (of"))


def roster_file(tmp_path: Path, text: str | bytes) -> Path:
    file = tmp_path / "roster.csv"
    file.write_bytes(text.encode() if isinstance(text, str) else text)
    return file
