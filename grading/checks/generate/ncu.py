"""Seeded Nsight Compute captures: the raw page as CSV, with values that nobody saw before.

    table = Raw(seed)                                  # or Raw(seed, units="base")
    table.add("copy(float *, int)", {"gpu__time_duration.sum": 81_920.0}, grid=(…), block=(…))
    truth = table.save(folder)                         # the values as written, in base units

With `--print-units auto` a column gets one unit for all kernels and six decimals; older versions wrote two,
and commas between thousands. The truth is what the file says, computed in exact arithmetic from the
written text, and not what was put in.
"""

from __future__ import annotations

import csv
import io
import random
import re
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

# What a metric counts, told by its name; the tool prints each kind in one of these units.
TIME = {"ns": 1, "us": 10**3, "ms": 10**6, "s": 10**9}
OLD_TIME = {"nsecond": 1, "usecond": 10**3, "msecond": 10**6, "second": 10**9}
SIZE = {"byte": 1, "Kbyte": 10**3, "Mbyte": 10**6, "Gbyte": 10**9, "Tbyte": 10**12}
FREQUENCY = {"hz": 1, "Khz": 10**3, "Mhz": 10**6, "Ghz": 10**9}
CLOCK = {"cycle/second": 1, "cycle/usecond": 10**6, "cycle/nsecond": 10**9}

IDENTITY = (
    *("ID", "Process ID", "Process Name", "Host Name", "Kernel Name", "Context", "Stream"),
    *("Block Size", "Grid Size", "Device", "CC"),
)


def kind(name: str) -> str:
    """time, size, rate, frequency, percent, or the word that the tool prints for a plain count."""
    if name.startswith("launch__shared_mem") or "__bytes" in name:
        return "rate" if name.endswith("per_second") else "size"
    if "time_duration" in name:
        return "time"
    if "cycles_elapsed" in name and name.endswith("per_second"):
        return "frequency"
    if name.endswith("pct") or "pct_of_peak" in name:
        return "%"
    for part, word in (
        ("t_sectors", "sector"),
        ("t_requests", "request"),
        ("bytes_per_sector", "byte/sector"),
        ("occupancy_limit", "block"),
        ("registers", "register/thread"),
        ("cycles", "cycle"),
        ("inst_executed", "inst"),
    ):
        if part in name:
            return word
    return ""


class Raw:
    """A raw page in the making.

    units: "auto" as ncu prints by default, "base", or "old" (auto, with the long names of older
    versions). preamble: whether the tool's own lines stand before the table.
    """

    def __init__(self, seed: int, units: str = "auto", *, preamble: bool = True) -> None:
        self._random = random.Random(seed)
        self._units = units
        self._preamble = preamble
        self._separators = units == "old"  # of thousands
        self._kernels: list[dict[str, Any]] = []

    def add(
        self,
        name: str,
        metrics: dict[str, float | str | None],
        *,
        grid: tuple[int, int, int] = (1024, 1, 1),
        block: tuple[int, int, int] = (256, 1, 1),
        cc: str = "9.0",
    ) -> None:
        """A profiled launch. Metrics in base units; None is written as "n/a" or left empty."""
        self._kernels.append(
            {"name": name, "metrics": metrics, "grid": grid, "block": block, "cc": cc}
        )

    def columns(self) -> list[str]:
        """The metrics of all kernels, in the order of the file."""
        names = dict.fromkeys(name for kernel in self._kernels for name in kernel["metrics"])
        return sorted(names)

    def text(self) -> tuple[str, list[dict[str, Any]]]:
        """The file's text, and the kernels as it tells them."""
        columns = self.columns()
        units = {name: self._unit(name) for name in columns}
        out = io.StringIO()
        writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\n")
        if self._preamble:
            out.write("==PROF== Connected to process 4711\n")
            for i, kernel in enumerate(self._kernels):
                out.write(f'==PROF== Profiling "{kernel["name"]}" - {i}: 0%....50%....100%\n')
        writer.writerow((*IDENTITY, *columns))
        writer.writerow((*("" for _ in IDENTITY), *(units[name][0] for name in columns)))
        truth = []
        for i, kernel in enumerate(self._kernels):
            cells, told = [], {}
            for name in columns:
                cell, value = self._cell(kernel["metrics"].get(name), *units[name])
                cells.append(cell)
                told[name] = value
            x, y, z = kernel["block"]
            a, b, c = kernel["grid"]
            writer.writerow(
                (i, 4711, "app", "host", kernel["name"], 1, 7)
                + (f"({x}, {y}, {z})", f"({a}, {b}, {c})", 0, kernel["cc"], *cells)
            )
            truth.append({**kernel, "id": i, "metrics": told})
        return out.getvalue(), truth

    def save(self, folder: Path) -> list[dict[str, Any]]:
        """Write kernels.csv into a folder; returns the kernels as the file tells them."""
        text, truth = self.text()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "kernels.csv").write_text(text, encoding="utf-8")
        return truth

    def _unit(self, name: str) -> tuple[str, int]:
        """The unit of a column and what it is worth in the base unit."""
        what = kind(name)
        times = OLD_TIME if self._units == "old" else TIME
        steps = {"time": times, "size": SIZE, "rate": SIZE, "frequency": FREQUENCY}.get(what)
        if steps is None:
            return what, 1
        if what == "frequency" and self._units == "old":
            steps = CLOCK
        values = [
            abs(value)
            for kernel in self._kernels
            if isinstance(value := kernel["metrics"].get(name), (int, float))
        ]
        # One unit serves the whole column: the largest one that some value fills.
        most = max(values, default=0.0)
        fitting = [unit for unit, worth in steps.items() if worth <= most]
        unit = fitting[-1] if fitting and self._units != "base" else next(iter(steps))
        worth = steps[unit]
        if what == "rate":
            unit += "/second" if self._units == "old" else "/s"
        elif what == "size" and name.startswith("launch__"):
            unit += "/block"
        return unit, worth

    def _cell(self, value: float | str | None, unit: str, worth: int) -> tuple[str, Any]:
        if value is None:
            return self._random.choice(("", "n/a", "nan")), None
        if isinstance(value, str):
            return value, value
        if isinstance(value, int) and worth == 1:
            return (f"{value:,}" if self._separators else str(value)), value
        decimals = {"auto": ".6f", "old": ".2f", "base": ""}[self._units]
        written = f"{value / worth:{',' * self._separators}{decimals}}"
        exact = Fraction(Decimal(written.replace(",", ""))) * worth
        return written, float(exact)


def short(name: str) -> str:
    """A kernel's function name without template arguments and parameters."""
    return re.sub(r"[<(].*", "", name).split(" ")[-1]
