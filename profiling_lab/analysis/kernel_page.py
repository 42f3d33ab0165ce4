"""What a page of Nsight Compute says of a kernel: how busy its units were, and what its warps waited for.

What the page lacks is None, never 0, or Missing where it is needed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from profiling_lab import devices, kernel_causes
from profiling_lab.captures import kernels
from profiling_lab.captures.kernels import UNITS

# Multiply-adds in fp32 that an SM does in a cycle (source: CUDA C++ Programming Guide, arithmetic instructions).
FMA_LANES = {"7.0": 64, "7.5": 64, "8.0": 64}
MOST_FMA_LANES = 128
_STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


@dataclass
class Kernel(kernel_causes.Kernel):
    """One profiled launch, as `captures.kernels.read` gives it."""

    name: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    cc: str
    metrics: dict[str, Any]

    @property
    def duration_ns(self) -> float | None:
        """How long it took under the profiler."""
        return self.get("gpu__time_duration.sum")

    @property
    def device(self) -> str:
        """The device's name, "" if the page lacks it."""
        return str(self.metrics.get("device__attribute_display_name") or "")

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

    @cached_property
    def stalls(self) -> list[tuple[str, float]]:
        """What warps wait for: (reason, share of a warp's life), most first, without the issue itself."""
        found = {
            match[1]: value
            for name in self.metrics
            if (match := _STALL.fullmatch(name)) and (value := self.get(name)) is not None
        }
        total = sum(found.values())
        if not total:
            return []
        rows = sorted(found.items(), key=lambda row: (-row[1], row[0]))
        return [(reason, value / total) for reason, value in rows if reason != "selected"]


def read(place: Path | str) -> list[Kernel]:
    """The launches of a page, in its order. Raises CaptureError for what is no whole raw page."""
    return [Kernel(**launch) for launch in kernels.read(place)]
