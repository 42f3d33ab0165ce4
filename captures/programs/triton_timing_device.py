"""How the Triton sweeps time one call on the device.

An event, the call, an event, queued behind other work so that the host's launching is hidden. "cold":
that work read a large buffer, so the L2 cache holds nothing of the call. "plain": it waited only, and
the cache holds what the call before left there.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

FLUSH_BYTES = 256 * 2**20  # four times the L2 cache of an H200
SLEEP_CYCLES = 200_000  # about a tenth of a millisecond: longer than one call takes to issue

Call = Callable[[], object]


class Timer:
    """Keeps the buffer that flushes the cache."""

    def __init__(self) -> None:
        self.buffer = torch.ones(FLUSH_BYTES // 4, device="cuda")
        self.sink = torch.zeros((), device="cuda")

    def samples_ns(self, call: Call, count: int, cache: str = "cold") -> list[int]:
        """So many samples of one call, in ns."""
        pairs = [
            (torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True))
            for _ in range(count)
        ]
        for start, end in pairs:
            if cache == "cold":
                torch.sum(self.buffer, dim=0, out=self.sink)
            torch.cuda._sleep(SLEEP_CYCLES)
            start.record()
            call()
            end.record()
        torch.cuda.synchronize()
        return [round(start.elapsed_time(end) * 1e6) for start, end in pairs]


def write_table(table: dict[str, Any], file: str = "measurements.json") -> None:
    """Write a table as JSON, a line a row, so that it stays readable and small."""
    lists = {
        key: value
        for key, value in table.items()
        if isinstance(value, list) and value and isinstance(value[0], dict)
    }
    parts = [f'"{key}": {json.dumps(value)}' for key, value in table.items() if key not in lists]
    parts += [
        f'"{key}": [\n  ' + ",\n  ".join(json.dumps(row) for row in rows) + "\n ]"
        for key, rows in lists.items()
    ]
    Path(file).write_text("{" + ",\n ".join(parts) + "}\n", encoding="utf-8")
