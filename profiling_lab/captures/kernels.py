"""The raw page of Nsight Compute, `ncu --page raw --csv`: a kernel a row, a counter a column.

    >>> from profiling_lab.captures import kernels
    >>> kernels.read("ncu_memory")[0]["metrics"]["dram__bytes_read.sum"]

Columns move between versions of the tool, so they are read by name.
"""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

from profiling_lab.captures.kinds import MAIN_FILES, Kind
from profiling_lab.captures.opening import file as file_of
from profiling_lab.captures.opening import text as text_of
from profiling_lab.errors import CaptureError

_IDENTITY = ("Kernel Name", "Block Size", "Grid Size", "CC")
_TIMES = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_MISSING = ("", "n/a", "nan", "inf", "infinity")
TENSOR = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"
# Busy shares of each unit, in per cent; those that end in "_active" are of the time in which an SM had work.
UNITS: dict[str, tuple[str, ...]] = {
    "dram": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",),
    "l2": (
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
        "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed",
        "lts__lts2xbar_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed",
    ),
    "l1": ("l1tex__throughput.avg.pct_of_peak_sustained_active",),
    "issue": ("smsp__issue_active.avg.pct_of_peak_sustained_active",),
    "alu": ("sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",),
    "fma": ("sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",),
    "fp64": ("sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",),
    "xu": ("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",),
    "tensor": (
        TENSOR,
        "sm__pipe_tensor_type_hmma_hgmma_qgmma_imma_igmma_bmma_bgmma_cycles_active.avg"
        ".pct_of_peak_sustained_elapsed",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active",
    ),
    "atomics": ("lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed",),
    "adu": ("sm__inst_executed_pipe_adu.avg.pct_of_peak_sustained_active",),
}
PIPES = ("alu", "fma", "fp64", "xu", "tensor")
# Units of an SM: one that has no work cannot take over another's.
OF_AN_SM = ("l1", "issue", *PIPES, "adu", "sm")


def read(place: Path | str) -> list[dict[str, Any]]:
    """The launches of a page, in its order: "name", "grid", "block", "cc", and "metrics", each counter by its name.

    Values are in base units: ns, bytes, Hz, counts; per cent stay per cent. A counter that was not measured is None,
    never 0, and what is no number stays text. Raises CaptureError for what is no whole raw page.
    """
    file = file_of(place, MAIN_FILES[Kind.KERNELS])
    text = text_of(file, file.name)
    start = re.search(r'^"?ID"?,', text, re.MULTILINE)
    if start is None:
        raise CaptureError(
            f"{file.name}: no header that begins with ID; is it ncu --page raw --csv?"
        )
    rows = csv.reader(io.StringIO(text[start.start() :]))
    header = next(rows)
    if lacks := [name for name in _IDENTITY if name not in header]:
        raise CaptureError(f"{file.name}: the header lacks {', '.join(lacks)}")
    units = next(rows, [])
    if len(units) != len(header):
        raise CaptureError(f"{file.name}: no row of units below the header")
    at = {name: header.index(name) for name in _IDENTITY}
    first = at["CC"] + 1
    factors = [_factor(unit) for unit in units[first:]]
    out = []
    for row in rows:
        if not row or row[0].startswith("=="):  # what the tool says below its table
            continue
        if len(row) != len(header):
            raise CaptureError(
                f"{file.name}: a row of {len(row)} columns, the header {len(header)}"
            )
        grid, block = (
            tuple(int(number) for number in re.findall(r"\d+", row[at[name]]))
            for name in ("Grid Size", "Block Size")
        )
        values = map(_value, row[first:], factors)
        metrics = dict(zip(header[first:], values, strict=True))
        where = {"name": row[at["Kernel Name"]], "grid": grid, "block": block, "cc": row[at["CC"]]}
        out.append({**where, "metrics": metrics})
    if not out:
        raise CaptureError(f"{file.name}: no kernel was profiled")
    return out


def _factor(unit: str) -> float:
    """What a value in this unit is multiplied with to be in base units."""
    above, _, below = unit.strip().lower().replace("second", "s").partition("/")
    factor = _TIMES.get(above, 1.0)
    if found := re.fullmatch(r"([kmgt]?)(?:byte|hz)", above):
        factor = _PREFIXES[found[1]]
    return factor * 1e9 / _TIMES[below] if below in _TIMES else factor


def _value(cell: str, factor: float) -> float | str | None:
    text = cell.strip()
    if text.lower().lstrip("+-") in _MISSING:
        return None
    try:
        return float(text.replace(",", "")) * factor
    except ValueError:
        return text
