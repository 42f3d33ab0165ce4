"""A device with a clock of its own, beside the learner's code: what was asked of it, and in which order."""

from __future__ import annotations

from types import ModuleType
from typing import Any


class Event:
    """A mark on the device's time line."""

    def __init__(self, device: Device) -> None:
        self.device = device
        self.at_ns: float | None = None

    def record(self, *_: Any) -> None:
        """Reached when all that was issued before is done."""
        self.device.log.append("event")
        self.at_ns = max(self.device.host_ns, self.device.done_ns)

    def synchronize(self) -> None:
        """The host waits for this mark."""
        self.device.synchronize()

    def elapsed_time(self, later: Event) -> float:
        """In ms, as CUDA's."""
        self.device.log.append("read")
        for event in (self, later):
            if event.at_ns is None:
                raise RuntimeError("elapsed_time of an event that was never recorded")
            if event.at_ns > self.device.waited_ns:
                raise RuntimeError(
                    "device not ready: elapsed_time before the host has waited for the event"
                )
        assert self.at_ns is not None and later.at_ns is not None
        return (later.at_ns - self.at_ns) / 1e6


class Device:
    """Works behind the host. durations: of the calls, by their number, warm and cold, in ns."""

    def __init__(
        self, launch_ns: int, flush_ns: int, warm_ns: list[int], cold_ns: list[int]
    ) -> None:
        self.launch_ns, self.flush_ns = launch_ns, flush_ns
        self.warm_ns, self.cold_ns = warm_ns, cold_ns
        self.host_ns = self.done_ns = self.waited_ns = 0.0
        self.calls = 0
        self.is_cold = False
        self.log: list[str] = []

    def event(self) -> Event:
        """A new mark."""
        return Event(self)

    def synchronize(self) -> None:
        """The host waits for all that was issued."""
        self.log.append("wait")
        self.host_ns = max(self.host_ns, self.done_ns)
        self.waited_ns = self.host_ns

    def work(self, ns: float) -> None:
        """Start work of this length."""
        self.host_ns += self.launch_ns
        self.done_ns = max(self.host_ns, self.done_ns) + ns

    def call(self) -> None:
        """The call that is timed."""
        self.log.append("call")
        times = self.cold_ns if self.is_cold else self.warm_ns
        self.work(times[min(self.calls, len(times) - 1)])
        self.calls += 1
        self.is_cold = False

    def flush(self) -> None:
        """Empty the cache."""
        self.log.append("flush")
        self.work(self.flush_ns)
        self.is_cold = True


def timed(
    module: ModuleType,
    times: dict[str, Any],
    flush: bool,
    warmup: int | None,
    repeats: int | None,
) -> dict[str, Any]:
    """Let `time_kernel` time calls on such a device; what it returned, and what it asked for."""
    device = Device(**times)
    named: dict[str, Any] = {"flush": device.flush} if flush else {}
    if warmup is not None:
        named |= {"warmup": warmup, "repeats": repeats}
    result = module.time_kernel(device.call, device, **named)
    return {"result": result, "log": device.log}


def refused(module: ModuleType, call: Any, flush: Any, warmup: int, repeats: int) -> Any:
    """Call it with what cannot be timed ("call" and "flush" stand for something that can be called)."""
    device = Device(1, 1, [1], [1])
    return module.time_kernel(
        device.call if call == "call" else call,
        device,
        warmup,
        repeats,
        device.flush if flush == "flush" else flush,
    )


def benchmark(
    module: ModuleType, exponents: list[int], providers: dict[str, str], once: bool
) -> dict[str, Any]:
    """What a benchmark asks its function for, in the order of `perf_report`, and how it is drawn.

    once: give the exponents as an iterator.
    """
    from triton.testing import Benchmark

    bench = module.size_benchmark(iter(exponents) if once else exponents, providers)
    if not isinstance(bench, Benchmark):
        return {"kind": type(bench).__name__}
    calls = []
    for value in bench.x_vals:
        values = value if isinstance(value, (list, tuple)) else [value] * len(bench.x_names)
        for line in bench.line_vals:
            named = dict(zip(bench.x_names, values, strict=True))
            calls.append({**named, bench.line_arg: line, **bench.args})
    look = {name: getattr(bench, name) for name in ("x_log", "y_log", "ylabel", "plot_name")}
    # perf_report goes through the names, so a tuple or a dict's values do as well as a list.
    names = list(bench.line_names)
    return {"kind": "Benchmark", "calls": calls, **look, "line_names": names}
