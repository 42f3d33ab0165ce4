"""What one run says about itself, as named numbers that can be set beside another run's.

A timeline gives window, busy and idle time, gaps, calls, copies, NVTX ranges and kernels; a trace what
of these it holds, and operators (`analysis.measured_runs`); a page of kernels each kernel's duration and main
counters.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling_lab import captures
from profiling_lab.captures import Kind

if TYPE_CHECKING:
    from profiling_lab.findings import Finding

WINDOW = "Window"
STEP = "A step, mean"
# Groups whose entries are named by the program: one that a run lacks took no time there.
NAMED = ("gaps", "calls", "stages", "operators", "kernels")
# Counters of a kernel besides its duration: what people call them, and their units.
COUNTERS = {
    "sm__throughput.avg.pct_of_peak_sustained_elapsed": ("SM throughput", "pct"),
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed": (
        "Memory throughput",
        "pct",
    ),
    "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": ("DRAM throughput", "pct"),
    "lts__t_sector_hit_rate.pct": ("L2 hit rate", "pct"),
    "sm__warps_active.avg.pct_of_peak_sustained_active": ("Warps active", "pct"),
    "launch__registers_per_thread": ("Registers a thread", "count"),
    "dram__bytes_read.sum": ("DRAM read", "bytes"),
    "dram__bytes_write.sum": ("DRAM written", "bytes"),
    "gpc__cycles_elapsed.avg.per_second": ("SM clock", "hz"),
}
DURATION = "gpu__time_duration.sum"
# Options of a recording that change what it measures, and how they are spelled.
DECISIVE_OPTIONS = ("--clock-control", "--cache-control", "--replay-mode", "--cuda-graph-trace")

Key = tuple[str, str, str]  # group, what, unit


def device_label(device: int) -> str:
    """What follows the name of a measure of one device."""
    return f" (device {device})"


@dataclass
class Launches:
    """How often a kernel ran, and in which shapes ("(132, 1, 1) × (256, 1, 1)")."""

    count: int = 0
    shapes: frozenset[str] = frozenset()


@dataclass
class Run:
    """The numbers of one capture.

    measures: by group, name and unit; None where the run could not tell.
    launches: by kernel. conditions: what has to be equal for runs to be compared, by name.
    work: how much was done, by name: where it differs, times tell little. findings: by subject, or
    one by "" for the whole. unanswered: sentences on functions that gave no answer. devices: those
    that have measures of their own.
    """

    name: str
    kind: Kind
    measures: dict[Key, float | None] = field(default_factory=dict)
    launches: dict[str, Launches] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)
    work: dict[str, float] = field(default_factory=dict)
    findings: dict[str, Finding] = field(default_factory=dict)
    claim: str = ""
    devices: tuple[int, ...] = ()

    def put(self, group: str, what: str, value: float | None, unit: str = "ns") -> None:
        """Note a number."""
        self.measures[group, what, unit] = value

    def get(self, group: str, what: str, unit: str = "ns") -> float | None:
        """A number, None if there is none."""
        return self.measures.get((group, what, unit))

    def add_provenance(self, place: Path) -> None:
        """What the capture's provenance says of the machine and the tool, if it has one."""
        told: Mapping[str, Any] = captures.provenance_beside(
            place / "_" if place.is_dir() else place
        )
        if gpus := told.get("gpu"):
            names = {str(gpu.get("name", "")) for gpu in gpus if isinstance(gpu, dict)}
            self.conditions.setdefault("device", ", ".join(sorted(names - {""})))
        if driver := told.get("driver"):
            self.conditions["driver"] = str(driver)
        tool = told.get("tool")
        if isinstance(tool, dict) and tool.get("version"):
            self.conditions["profiler"] = f"{tool.get('name', '')} {tool['version']}".strip()
        clocks = told.get("clocks")
        after = clocks.get("after") if isinstance(clocks, dict) else None
        if after and isinstance(after[0], dict) and after[0].get("max_sm_mhz"):
            self.conditions["highest clock"] = f"{after[0]['max_sm_mhz']} MHz"
        command = str(told.get("command", ""))
        for option in DECISIVE_OPTIONS:
            found = re.search(rf"{option}[ =](\S+)", command)
            self.conditions[option] = found[1] if found else "default" if command else ""
