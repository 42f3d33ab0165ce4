"""How the roofline programs time one call: on the device, and the host's part of it.

On the device: an event, the call, an event, queued behind other work so that the host's launching is
hidden. "cold": that work read a large buffer, so the L2 cache holds nothing of the call, and nothing
that must be written back. "warm": the device waited, and the same call ran just before.

On the host: the time to issue a call, without waiting for it, while the device is kept waiting.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

FLUSH_BYTES = 512 * 2**20  # several times the L2 cache of any GPU of today
SLEEP_CYCLES = 6_000_000  # about three milliseconds: longer than two calls take to issue
SAMPLES, HOST_SAMPLES, HOST_CALLS = 21, 11, 10
LONG_NS, LONG_SAMPLES, LONG_CALLS = 5_000_000, 9, 3

Call = Callable[[], object]


class Timer:
    """Keeps the buffer that flushes the cache."""

    def __init__(self) -> None:
        self.buffer = torch.ones(FLUSH_BYTES // 4, device="cuda")
        self.sink = torch.zeros((), device="cuda")

    def device_ns(self, call: Call, cache: str) -> list[int]:
        """Samples of one call, in ns. cache: "cold" or "warm"."""
        for _ in range(3):
            call()
        is_long = min(self._samples(call, cache, 2)) > LONG_NS
        return self._samples(call, cache, LONG_SAMPLES if is_long else SAMPLES)

    def _samples(self, call: Call, cache: str, count: int) -> list[int]:
        pairs = [_events() for _ in range(count)]
        for start, end in pairs:
            if cache == "cold":
                torch.sum(self.buffer, dim=0, out=self.sink)
            else:
                torch.cuda._sleep(SLEEP_CYCLES)
                call()
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [elapsed_ns(start, end) for start, end in pairs]

    def host_ns(self, call: Call) -> list[int]:
        """Samples of the time to issue one call, in ns: means over a few calls in a row."""
        calls = LONG_CALLS if min(self._samples(call, "warm", 2)) > 1_000_000 else HOST_CALLS
        found = []
        for _ in range(HOST_SAMPLES):
            torch.cuda.synchronize()
            torch.cuda._sleep(SLEEP_CYCLES)
            start = time.perf_counter_ns()
            for _ in range(calls):
                call()
            found.append(round((time.perf_counter_ns() - start) / calls))
        torch.cuda.synchronize()
        return found


def captured(call: Call) -> torch.cuda.CUDAGraph:
    """A CUDA graph of one call."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def _events() -> tuple[torch.cuda.Event, torch.cuda.Event]:
    return torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)


def elapsed_ns(start: torch.cuda.Event, end: torch.cuda.Event) -> int:
    return round(start.elapsed_time(end) * 1e6)


def write_table(table: dict[str, Any], file: str = "measurements.json") -> None:
    """Write a table as JSON, a line a measurement, so that it stays readable and small."""
    lists = {key: value for key, value in table.items() if isinstance(value, list)}
    parts = [f'"{key}": {json.dumps(value)}' for key, value in table.items() if key not in lists]
    parts += [
        f'"{key}": [\n  ' + ",\n  ".join(json.dumps(row) for row in rows) + "\n ]"
        for key, rows in lists.items()
    ]
    Path(file).write_text("{" + ",\n ".join(parts) + "}\n", encoding="utf-8")
