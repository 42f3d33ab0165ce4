"""The ways in which a capture can be made, by the name they have in `captures.toml`."""

from __future__ import annotations

from profiling_lab.record.profilers.base import Profiler, Setting
from profiling_lab.record.profilers.ncu import NsightCompute
from profiling_lab.record.profilers.nsys import NsightSystems
from profiling_lab.record.profilers.program import Program

PROFILERS: dict[str, type[Profiler]] = {
    profiler.name: profiler for profiler in (NsightSystems, NsightCompute, Program)
}

__all__ = ["PROFILERS", "NsightCompute", "NsightSystems", "Profiler", "Program", "Setting"]
