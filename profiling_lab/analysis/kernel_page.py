"""The raw page of Nsight Compute, `ncu --page raw --csv`: a kernel a row, a counter a column.

Columns move between versions of the tool, so they are read by name; values are in base units (ns, bytes, Hz,
counts; per cent stay per cent). What a page lacks is None, never 0.
"""

from __future__ import annotations

import csv
import io
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError

WARP_LANES = 32
# Multiply-adds in fp32 that an SM does in a cycle (source: CUDA C++ Programming Guide, arithmetic instructions).
FMA_LANES = {"7.0": 64, "7.5": 64, "8.0": 64}
MOST_FMA_LANES = 128
_IDENTITY = ("Kernel Name", "Block Size", "Grid Size", "CC")
_TIMES = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1.0}
_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_MISSING = ("", "n/a", "nan", "inf", "infinity")
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")
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


@dataclass
class Kernel:
    """One profiled launch.

    cells: the text of each counter's cell. factors: what its unit multiplies a value with. Both by name.
    """

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cc: str
    cells: dict[str, str]
    factors: dict[str, float] = field(repr=False)

    def get(self, name: str) -> float | None:
        """A counter in base units; None where the page lacks it or it is no number."""
        text = self.cells.get(name, "").strip()
        if text.lower().lstrip("+-") in _MISSING:
            return None
        try:
            return float(text.replace(",", "")) * self.factors[name]
        except ValueError:
            return None

    def need(self, name: str) -> float:
        """A counter in base units. Raises Missing where the page lacks it."""
        value = self.get(name)
        if value is None:
            raise Missing(name)
        return value

    def either(self, *names: str) -> float:
        """The first of some counters that the page has. Raises Missing where it has none of them."""
        for name in names:
            if (value := self.get(name)) is not None:
                return value
        raise Missing(names[0])

    @property
    def duration_ns(self) -> float | None:
        """How long it took under the profiler."""
        return self.get("gpu__time_duration.sum")

    @property
    def device(self) -> str:
        """The device's name, "" if the page lacks it."""
        return self.cells.get("device__attribute_display_name", "").strip()

    @cached_property
    def cycles(self) -> float | None:
        """Cycles of the SMs' clock from its first to its last."""
        for name in ("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max"):
            if value := self.get(name):
                return value
        hz = self.get("sm__cycles_elapsed.avg.per_second")
        return None if hz is None or self.duration_ns is None else self.duration_ns * hz / 1e9

    @cached_property
    def busy_sm_ratio(self) -> float:
        """The mean share of the duration in which an SM had any warp; 1.0 where it is not known."""
        active = self.get("sm__cycles_active.avg")
        return min(1.0, active / self.cycles) if active and self.cycles else 1.0

    @cached_property
    def use(self) -> dict[str, float]:
        """The units whose use is known, as shares of the whole duration."""
        out = {}
        for unit, names in UNITS.items():
            known = [
                value / 100 * (self.busy_sm_ratio if name.endswith("_active") else 1.0)
                for name in names
                if (value := self.get(name)) is not None
            ]
            if known:
                out[unit] = max(known)
        out = self._from_counts() | out
        if "issue" in out:
            out.pop("sm", None)  # the largest of its units, which are known one by one
        return out

    def _from_counts(self) -> dict[str, float]:
        """What raw counts say of units, for pages without the tool's own shares of a peak."""
        out: dict[str, float] = {}
        if (value := self.get("sm__throughput.avg.pct_of_peak_sustained_elapsed")) is not None:
            out["sm"] = value / 100
        if (value := self.get("smsp__issue_active.avg.per_cycle_active")) is not None:
            out["issue"] = value * self.busy_sm_ratio
        sms, cycles = self.get("launch__sm_count"), self.cycles
        if not sms or not cycles:
            return out
        if wavefronts := self.get("l1tex__data_pipe_lsu_wavefronts.sum"):
            out["l1"] = wavefronts / sms / cycles
        if multiply_adds := self.get("smsp__sass_thread_inst_executed_op_ffma_pred_on.sum"):
            out["fma"] = multiply_adds / (sms * FMA_LANES.get(self.cc, MOST_FMA_LANES) * cycles)
        moved = self.get("dram__bytes.sum")
        if moved is not None and self.duration_ns and self.device:
            try:
                peak = devices.get(self.device).memory_bandwidth_bytes_per_s
            except devices.DeviceError:
                return out
            out["dram"] = moved / self.duration_ns * 1e9 / peak
        return out

    @property
    def pipe(self) -> float:
        """The use of the fullest arithmetic pipe."""
        return max((self.use[name] for name in PIPES if name in self.use), default=0.0)

    @cached_property
    def stalls(self) -> list[tuple[str, float]]:
        """What warps wait for: (reason, share of a warp's life), most first, without the issue itself."""
        found = {
            match[1]: value
            for name in self.cells
            if (match := _STALL.fullmatch(name)) and (value := self.get(name)) is not None
        }
        total = sum(found.values())
        if not total:
            return []
        rows = sorted(found.items(), key=lambda row: (-row[1], row[0]))
        return [(reason, value / total) for reason, value in rows if reason != "selected"]


class Missing(CaptureError):
    """A page lacks a counter; the message is its name."""


def read(place: Path | str) -> list[Kernel]:
    """The launches of a page, in its order. Raises CaptureError for what is no whole raw page."""
    file = captures.file(place, captures.MAIN_FILES[captures.Kind.KERNELS])
    text = captures.text(file, file.name)
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
    factors = {
        name: _factor(unit) for name, unit in zip(header[first:], units[first:], strict=True)
    }
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
        cells = dict(zip(header[first:], row[first:], strict=True))
        out.append(Kernel(row[at["Kernel Name"]], grid, block, row[at["CC"]], cells, factors))
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
