"""Reading Nsight Compute captures for checks: plain, exact, and sharing nothing with the exercise."""

from __future__ import annotations

import csv
import functools
import gzip
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path
from typing import Any

from grading.runner.computed_once import kept
from profiling_lab import captures

# The tool's units, spelled out, with what one of them is in ns, bytes, Hz, per second.
TIME = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
UNITS: dict[str, Fraction] = {}
for _short, _ns in TIME.items():
    for _word in (_short, _short.replace("s", "") + "second"):
        UNITS[_word] = Fraction(_ns)
        for _counted in ("cycle", "inst", "sector", "request"):
            UNITS[f"{_counted}/{_word}"] = Fraction(10**9, _ns)
for _power, _prefix in enumerate(("", "k", "m", "g", "t")):
    _worth = Fraction(1000**_power)
    UNITS[f"{_prefix}hz"] = _worth
    for _word in ("byte", "byte/block", "byte/thread", "byte/sector", "byte/cycle"):
        UNITS[_prefix + _word] = _worth
    for _time, _ns in TIME.items():
        UNITS[f"{_prefix}byte/{_time}"] = _worth * Fraction(10**9, _ns)
        UNITS[f"{_prefix}byte/{_time.replace('s', '')}second"] = _worth * Fraction(10**9, _ns)

MISSING = {"", "n/a", "nan", "inf", "infinity", "+nan", "-nan", "+inf", "-inf", "(!) n/a"}


def file_of(capture: str, name: str) -> Path:
    """A file of a capture, compressed or not."""
    return captures.file(capture, name)


def _text(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8-sig")


@kept
def kernels(capture: str) -> tuple[dict[str, Any], ...]:
    """The kernels of a raw page: id, name, grid, block, cc, metrics in base units.

    Not for changing: one copy serves all checks.
    """
    lines = _text(file_of(capture, "kernels.csv")).splitlines()
    while not lines[0].startswith(('"ID"', "ID,")):
        lines.pop(0)
    table = csv.DictReader(lines)
    rows = list(table)
    units, launches = rows[0], rows[1:]
    names = list(table.fieldnames or [])
    names = names[names.index("CC") + 1 :]
    out = []
    for row in launches:
        metrics = {name: exact(row[name], units[name]) for name in names}
        out.append(
            {
                "id": int(row["ID"]),
                "name": row["Kernel Name"],
                "grid": tuple(int(n) for n in row["Grid Size"].strip("()").split(",")),
                "block": tuple(int(n) for n in row["Block Size"].strip("()").split(",")),
                "cc": row["CC"],
                "metrics": {
                    name: float(value) if isinstance(value, Fraction) else value
                    for name, value in metrics.items()
                },
            }
        )
    return tuple(out)


@functools.cache  # five of six cells say what an earlier one said
def exact(cell: str, unit: str) -> Fraction | str | None:
    """A cell in base units, without rounding; text that is no number as it is."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return None
    try:
        value = Decimal(cell.replace(",", ""))
    except InvalidOperation:
        return cell
    return Fraction(value) * UNITS.get(unit.strip().lower(), Fraction(1))


def kernel(capture: str, name: str) -> dict[str, Any]:
    """The first launch of a kernel, by its function name."""
    for entry in kernels(capture):
        if short(entry["name"]) == name:
            return entry
    known = ", ".join(short(entry["name"]) for entry in kernels(capture))
    raise LookupError(f"{capture} holds no kernel {name}; it has {known}")


def short(name: str) -> str:
    """A kernel's function name without template arguments and parameters."""
    return name.split("(")[0].split("<")[0].split(" ")[-1].split("::")[-1]


@kept
def listing(capture: str, function: str) -> tuple[dict[str, Any], ...]:
    """The instructions of a kernel on the source page, as read_source describes them."""
    out: dict[tuple[Any, ...], dict[str, Any]] = {}
    file = inside = ""
    head: dict[str, int] = {}
    line, text = 0, ""
    for row in csv.reader(_text(file_of(capture, "source.csv")).splitlines()):
        if row[0] in ("File Path", "Function Name"):
            file = row[1] if row[0] == "File Path" else file
            inside = short(row[1]) if row[0] == "Function Name" else inside
        elif row[0] == "Line No":
            head = {name: i for i, name in reversed(list(enumerate(row)))}
        elif row[0]:
            line, text = int(row[0]), row[1].strip()
        elif inside == function and row[2].startswith("0x"):
            samples, executed = row[head["# Samples"]], row[head["Instructions Executed"]]
            out[file, line, row[2]] = {
                "file": file,
                "line": line,
                "text": text,
                "address": row[2],
                "instruction": row[3].strip(),
                "samples": int(samples) if samples.isdigit() else None,
                "executed": int(executed) if executed.isdigit() else None,
            }
    return tuple(out.values())
