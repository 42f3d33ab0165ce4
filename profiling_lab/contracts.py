"""The functions that `lab diagnose`, `lab demo` and the reports call, as protocols.

They are the learner's: the library finds them in the exercises (or, with `--against solutions`, in
the reference), calls them, and prints what they return.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from profiling_lab.findings import Finding


@runtime_checkable
class TimelineFunctions(Protocol):
    """What `ex_30` gives for a Nsight Systems capture (all times in ns)."""

    def find_window(self, capture: str, nvtx_range: str | None = None) -> tuple[int, int]:
        """Start and end of the window under examination."""
        ...

    def busy_time(self, capture: str, nvtx_range: str | None = None) -> dict[int, int]:
        """Per device: time in which at least one operation ran."""
        ...

    def idle_gaps(
        self, capture: str, nvtx_range: str | None = None, min_gap_ns: int = 0
    ) -> list[dict[str, int]]:
        """Stretches in which a device did nothing."""
        ...

    def blocking_time(self, capture: str, nvtx_range: str | None = None) -> dict[str, int]:
        """Per CUDA call: host time spent in it waiting."""
        ...

    def missed_overlap(
        self, capture: str, nvtx_range: str | None = None
    ) -> dict[int, dict[str, int]]:
        """Per device: copies that could run beside kernels and do not."""
        ...

    def profiler_overhead(self, capture: str, nvtx_range: str | None = None) -> int:
        """Time in which the profiler itself was at work."""
        ...

    def busy_against_active(
        self, capture: str, nvtx_range: str | None = None
    ) -> dict[int, dict[str, float]]:
        """Per device: shares of the window with a kernel, with SMs active, and of DRAM's rate."""
        ...

    def recoverable_time(self, capture: str, nvtx_range: str | None = None) -> dict[str, int]:
        """Per cause: how much earlier the window would have ended without it."""
        ...

    def name_bottleneck(self, capture: str, nvtx_range: str | None = None) -> Finding:
        """The main finding."""
        ...


@runtime_checkable
class KernelFunctions(Protocol):
    """What `ex_31` gives for a Nsight Compute capture (the raw page as CSV)."""

    def classify_kernels(self, capture: str) -> list[Finding]:
        """A finding a kernel, in the file's order."""
        ...


@runtime_checkable
class TraceFunctions(Protocol):
    """What `ex_32` gives for a Kineto trace, alone or with a memory snapshot beside it."""

    def name_trace_bottleneck(self, capture: str) -> Finding:
        """The main finding."""
        ...


@runtime_checkable
class CounterFunctions(Protocol):
    """What `ex_33` gives for a capture of chosen counters."""

    def roofline_points(self, capture: str) -> list[dict]:
        """A row a kernel, with "name", "intensity" (FLOP/byte), "rate_flops_per_s", "flops_source"."""
        ...
