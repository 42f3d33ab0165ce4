"""What calls took: host time, and device time where torch has a GPU in use."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from profiling_lab import units


@dataclass(frozen=True)
class CallSummary:
    """The measured calls of a function, or passes through a block. Printed, it is one line or two.

    host_ns, device_ns: a duration a call, in order; device_ns is empty where no GPU was used.
    skipped_count: calls before them, left out as warm-up. failed_count: calls that raised.
    """

    name: str
    host_ns: tuple[int, ...]
    device_ns: tuple[int, ...] = ()
    skipped_count: int = 0
    failed_count: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The fields as plain values, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        if not self.host_ns:
            seen = f"{self.skipped_count} warm-up calls, " if self.skipped_count else ""
            return f"{self.name}: no call measured yet ({seen}{self.failed_count} failed)"
        lines = [f"{self.name}: host {_spread(self.host_ns)}"]
        if self.device_ns:
            lines.append(f"{' ' * len(self.name)}  device {_spread(self.device_ns)}")
        notes = [f"{len(self.host_ns)} measured"]
        if self.skipped_count:
            notes.append(f"{self.skipped_count} before them left out")
        if self.failed_count:
            notes.append(f"{self.failed_count} failed")
        lines[0] += f" ({', '.join(notes)})"
        return "\n".join(lines)


def _spread(samples_ns: tuple[int, ...]) -> str:
    median = units.format_ns(statistics.median(samples_ns))
    if len(samples_ns) < 2:
        return median
    low, _, high = statistics.quantiles(samples_ns, n=4, method="inclusive")
    return f"{median} (middle half {units.format_ns(low)} to {units.format_ns(high)})"


class Interval:
    """Host and device time from here to `end`; the device's is known once it has got there."""

    def __init__(self, name: str) -> None:
        cuda = _cuda()
        self._events = None
        self._nvtx = None
        if cuda:
            self._nvtx = cuda.nvtx
            cuda.nvtx.range_push(name)
            if not cuda.is_current_stream_capturing():
                self._stream = cuda.current_stream()
                self._events = [cuda.Event(enable_timing=True) for _ in range(2)]
                self._events[0].record(self._stream)
        self._start_ns = time.perf_counter_ns()
        self.host_ns = 0

    def end(self) -> None:
        """Note the end, without waiting for the device."""
        self.host_ns = time.perf_counter_ns() - self._start_ns
        if self._events:
            self._events[1].record(self._stream)
        if self._nvtx:
            self._nvtx.range_pop()

    @property
    def device_ns(self) -> int | None:
        """None where no GPU was in use. Waits for the device."""
        if not self._events:
            return None
        start, end = self._events
        end.synchronize()
        return round(start.elapsed_time(end) * 1e6)


def summary_of(
    name: str, intervals: Sequence[Interval], skipped_count: int = 0, failed_count: int = 0
) -> CallSummary:
    """What these intervals took. Waits until the device has done them."""
    device = [interval.device_ns for interval in intervals]
    return CallSummary(
        name,
        tuple(interval.host_ns for interval in intervals),
        tuple(each for each in device if each is not None),
        skipped_count,
        failed_count,
    )


def _cuda() -> Any:
    """torch.cuda where the program already uses a GPU through it; nothing is imported or begun."""
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    return cuda if cuda is not None and cuda.is_initialized() else None


def wait_for(result: Any) -> None:
    """Wait for arrays that a framework computes later, at any depth of the usual containers."""
    if (jax := sys.modules.get("jax")) is not None:
        jax.block_until_ready(result)
