"""The functions of the exercises that the library calls, as protocols, one an exercise.

They are the learner's: the library finds them in the exercises (or, with `--against solutions`, in
the reference), calls them, and prints what they return. Which of them can speak about a capture of which
kind is in `profiling_lab.mine.questions`. `capture` is the path of a capture's folder or file.
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
class StreamFunctions(Protocol):
    """What `nsys_ex02` gives for a timeline in which a device worked on several streams."""

    def judge_streams(self, capture: str, device: int = 0) -> Finding:
        """Whether streams of a device could have run side by side."""
        ...


@runtime_checkable
class RankFunctions(Protocol):
    """What `nsys_ex04` gives for a timeline of several ranks."""

    def name_multi_gpu_bottleneck(self, capture: str) -> Finding:
        """Collectives that nothing hides, or a rank that the others wait for."""
        ...


@runtime_checkable
class ClockFunctions(Protocol):
    """What `energy_ex01` gives for a timeline with GPU metrics."""

    def clock_verdict(self, capture: str, device: int = 0) -> Finding:
        """Whether a device's clock was held down while it worked."""
        ...


@runtime_checkable
class KernelFunctions(Protocol):
    """What `ex_31` gives for a kernel: a launch as `captures.kernels.read` gives it."""

    def unit_use(self, kernel: dict) -> dict[str, float | None]:
        """How near each unit is to its ceiling."""
        ...

    def estimate_gain(self, kernel: dict, cause: str) -> float | None:
        """The speed-up without a cause."""
        ...

    def classify_kernel(self, kernel: dict) -> str:
        """The category that limits it."""
        ...


@runtime_checkable
class TraceFunctions(Protocol):
    """What `ex_32` gives for a Kineto trace, alone or with a memory snapshot beside it."""

    def step_breakdown(self, capture: str) -> list[dict]:
        """A row a step and device, times in ns."""
        ...

    def recoverable_time(self, capture: str) -> dict[str, int]:
        """Per cause: how much earlier the steps would have ended without it, in ns."""
        ...

    def name_trace_bottleneck(self, capture: str) -> Finding:
        """The main finding."""
        ...


@runtime_checkable
class RankTraceFunctions(Protocol):
    """What `torch_ex03` gives for a folder with a trace of each rank."""

    def name_distributed_bottleneck(self, capture: str) -> Finding:
        """Collectives that nothing hides, or a rank that the others wait for."""
        ...


@runtime_checkable
class CounterFunctions(Protocol):
    """What `ex_33` gives for a capture of chosen counters."""

    def roofline_points(self, capture: str) -> list[dict]:
        """A row a kernel, with "name", "intensity" (FLOP/byte), "rate_flops_per_s", "flops_source"."""
        ...


@runtime_checkable
class RunFunctions(Protocol):
    """What `case_files` gives for everything that was said of one run."""

    def diagnose_run(
        self,
        said: list[Finding],
        kernels: list[Finding],
        kernel_time_ns: dict[str, int],
        window_ns: int | None,
    ) -> list[Finding]:
        """The findings to tell, the main one first."""
        ...
