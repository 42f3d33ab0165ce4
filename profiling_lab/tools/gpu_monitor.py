"""What the GPUs did while some code ran: use, memory, power, energy and clocks, asked of NVML.

    with GPUMonitor() as monitor:
        train()
    print(monitor.get_summary())

Needs nvidia-ml-py and nothing else. Where there is no GPU it says so and still measures the time.
What each figure can tell and what it cannot: docs/metrics-cheat-sheet.md.
"""

from __future__ import annotations

import itertools
import os
import statistics
import threading
import time
from collections.abc import Sequence
from typing import Any

from profiling_lab.tools.gpu_summary import LIMITS, DeviceSummary, Sample, Summary

PATIENCE_S = 10.0  # how long a driver that does not answer is waited for


class GPUMonitor:
    """Reads GPUs in a thread while a block of code runs.

    interval_s: time between readings. devices: NVML indices or UUIDs; by default those that
    CUDA_VISIBLE_DEVICES names, else all. NVML counts GPUs in the order of the PCI bus, CUDA does so
    under CUDA_DEVICE_ORDER=PCI_BUS_ID only.

    Each reading of a GPU is kept, in some 0.2 kB: at the default rate that is 10 MB an hour. For
    days take a longer interval.

    Raises ValueError for an interval that is not positive. Whatever goes wrong with NVML is told in
    the summary and never stops the code that is monitored.
    """

    def __init__(self, interval_s: float = 0.1, devices: Sequence[int | str] | None = None) -> None:
        if not interval_s > 0:
            raise ValueError(f"interval_s must be above 0, not {interval_s!r}")
        self.interval_s = interval_s
        self.message = ""
        self._wanted = devices
        self._devices: list[_Device] = []
        self._end = threading.Event()
        self._thread: threading.Thread | None = None
        self._start_s = self._duration_s = 0.0

    def __enter__(self) -> GPUMonitor:
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin; what an earlier run of this monitor saw is forgotten.

        Raises RuntimeError while it runs.
        """
        if self._thread is not None:
            raise RuntimeError(
                "this GPUMonitor is running already: stop() it, or make a second one"
            )
        self.message = ""
        self._devices = []
        self._end, ready = threading.Event(), threading.Event()
        self._start_s = time.perf_counter()
        self._thread = threading.Thread(
            target=self._watch, args=(self._end, ready), name="GPUMonitor", daemon=True
        )
        self._thread.start()
        if not ready.wait(PATIENCE_S):
            self._end.set()
            self._start_s = time.perf_counter()
            self.message = (
                f"No GPU was read: the driver did not answer within {PATIENCE_S:g} s."
                " Does nvidia-smi answer?"
            )

    def stop(self) -> None:
        """Take a last reading and end the thread; a second call does nothing.

        A driver that does not answer is waited for PATIENCE_S at most; what was read is kept.
        """
        if self._thread is None:
            return
        given_up = self._end.is_set()
        duration_s = time.perf_counter() - self._start_s
        self._end.set()
        self._thread.join(0.0 if given_up else PATIENCE_S)
        if not self._thread.is_alive():
            duration_s = time.perf_counter() - self._start_s
        elif not given_up:
            self.message = (
                f"The driver stopped answering: it was waited for {PATIENCE_S:g} s, and readings"
                " are missing. Does nvidia-smi answer?"
            )
        self._thread = None
        self._duration_s = duration_s

    @property
    def samples(self) -> dict[int, list[Sample]]:
        """The readings so far, by the index of the GPU."""
        return {device.index: list(device.samples) for device in self._devices}

    def get_summary(self) -> Summary:
        """What was seen from start to stop, or so far; the energy so far is that of the samples."""
        running = self._thread is not None
        duration_s = time.perf_counter() - self._start_s if running else self._duration_s
        devices = tuple(device.summary() for device in self._devices)
        return Summary(duration_s, self.interval_s, devices, self.message)

    def _watch(self, end: threading.Event, ready: threading.Event) -> None:
        """All that asks the driver, in its own thread: a driver that hangs stops nobody else."""
        try:
            nvml, devices, message = _open(self._wanted)
            start_s = time.perf_counter()
            for device in devices:
                device.begin(0.0)
            if end.is_set():  # too late: nobody waits any more
                return
            self._devices, self.message, self._start_s = devices, message, start_s
        finally:
            ready.set()
        next_s = self.interval_s
        while not end.wait(max(0.0, start_s + next_s - time.perf_counter())):
            for device in devices:
                device.read(time.perf_counter() - start_s)
            # A reading that took long is not made up for by readings in a hurry.
            next_s = max(next_s, time.perf_counter() - start_s) + self.interval_s
        for device in devices:
            device.finish(time.perf_counter() - start_s)
        if nvml is not None:
            nvml.nvmlShutdown()


def _open(wanted: Sequence[int | str] | None) -> tuple[Any, list[_Device], str]:
    """NVML where it could be opened, the GPUs, and what went wrong."""
    try:
        import pynvml
    except ImportError:
        return None, [], "No GPU was read: the package nvidia-ml-py is not installed."
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return None, [], f"No GPU was read: {error}. Is there an NVIDIA GPU and its driver?"
    found, messages = [], []
    try:
        if wanted is None:
            wanted = _visible()
        if wanted is None:
            wanted = list(range(pynvml.nvmlDeviceGetCount()))
        for each in wanted:
            try:
                found.append(_Device(pynvml, each))
            except (pynvml.NVMLError, ValueError) as error:
                messages.append(f"GPU {each} was not read: {error}.")
        if not wanted:
            messages.append("No GPU was read: none is visible (CUDA_VISIBLE_DEVICES).")
    except pynvml.NVMLError as error:
        messages.append(f"No GPU was read: {error}.")
    return pynvml, found, " ".join(messages)


def _visible() -> list[int | str] | None:
    """What CUDA_VISIBLE_DEVICES names; None where it is not set. Like CUDA, stops at a wrong one."""
    value = os.environ.get("CUDA_VISIBLE_DEVICES")
    if value is None:
        return None
    names: list[int | str] = []
    for part in (part.strip() for part in value.split(",")):
        if part.isascii() and part.isdigit():
            names.append(int(part))
        elif part.startswith(("GPU-", "MIG-")):
            names.append(part)
        else:
            break
    return names


class _Device:
    """One GPU, and what has been read of it."""

    def __init__(self, nvml: Any, wanted: int | str) -> None:
        self._nvml = nvml
        if isinstance(wanted, str):
            self._handle = nvml.nvmlDeviceGetHandleByUUID(wanted)
        else:
            self._handle = nvml.nvmlDeviceGetHandleByIndex(wanted)
        self.index = nvml.nvmlDeviceGetIndex(self._handle)
        self.name = nvml.nvmlDeviceGetName(self._handle)
        self.samples: list[Sample] = []
        self.refused: dict[str, str] = {}
        self._memory_total_bytes: int | None = None
        self._energy_start_mj: int | None = None
        self._energy_end_mj: int | None = None

    def begin(self, time_s: float) -> None:
        memory = self._ask("memory", "nvmlDeviceGetMemoryInfo")
        self._memory_total_bytes = memory.total if memory else None
        self.read(time_s)
        self._energy_start_mj = self._energy_mj()

    def finish(self, time_s: float) -> None:
        self._energy_end_mj = self._energy_mj()
        self.read(time_s)

    def read(self, time_s: float) -> None:
        nvml = self._nvml
        use = self._ask("utilization", "nvmlDeviceGetUtilizationRates")
        memory = self._ask("memory", "nvmlDeviceGetMemoryInfo")
        power_mw = self._ask("power", "nvmlDeviceGetPowerUsage")
        self.samples.append(
            Sample(
                time_s,
                use.gpu if use else None,
                memory.used if memory else None,
                None if power_mw is None else power_mw / 1e3,
                self._ask("temperature", "nvmlDeviceGetTemperature", nvml.NVML_TEMPERATURE_GPU),
                self._ask("SM clock", "nvmlDeviceGetClockInfo", nvml.NVML_CLOCK_SM),
                self._ask("clock limits", "nvmlDeviceGetCurrentClocksEventReasons"),
            )
        )

    def _ask(self, what: str, query: str, *arguments: Any) -> Any:
        """The answer of a function of NVML, or None; what was refused once is not asked again."""
        if what in self.refused:
            return None
        try:
            return getattr(self._nvml, query)(self._handle, *arguments)
        except AttributeError:
            self.refused[what] = f"nvidia-ml-py is too old: it has no {query}"
        except self._nvml.NVMLError as error:
            self.refused[what] = str(error)
        return None

    def _energy_mj(self) -> int | None:
        return self._ask("energy counter", "nvmlDeviceGetTotalEnergyConsumption")

    def _energy(self) -> tuple[float | None, str | None]:
        """Joules so far and where they come from."""
        start, end = self._energy_start_mj, self._energy_end_mj
        if start is not None and end is not None and end > start:
            return (end - start) / 1e3, "counter"
        points = [(s.time_s, s.power_w) for s in self.samples if s.power_w is not None]
        if len(points) < 2:
            return None, None
        pairs = itertools.pairwise(points)
        return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in pairs), "power"

    def summary(self) -> DeviceSummary:
        def values(name: str) -> list[Any]:
            read = (getattr(sample, name) for sample in self.samples)
            return [value for value in read if value is not None]

        def mean(name: str) -> float | None:
            return statistics.fmean(values(name)) if values(name) else None

        limits = values("limits")
        shares = {
            reason: 100 * sum(1 for bits in limits if bits & bit) / len(limits)
            for bit, reason in LIMITS.items()
            if any(bits & bit for bits in limits)
        }
        memory = values("memory_used_bytes")
        energy_j, source = self._energy()
        return DeviceSummary(
            index=self.index,
            name=self.name,
            sample_count=len(self.samples),
            utilization_mean_pct=mean("utilization_pct"),
            utilization_max_pct=max(values("utilization_pct"), default=None),
            memory_start_bytes=memory[0] if memory else None,
            memory_max_bytes=max(memory, default=None),
            memory_total_bytes=self._memory_total_bytes,
            power_mean_w=mean("power_w"),
            power_max_w=max(values("power_w"), default=None),
            energy_j=energy_j,
            energy_source=source,
            temperature_max_c=max(values("temperature_c"), default=None),
            sm_clock_mean_mhz=mean("sm_clock_mhz"),
            limited_pct=shares,
            refused=dict(self.refused),
        )
