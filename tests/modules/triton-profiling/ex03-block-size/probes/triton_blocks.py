"""Runs `measure_rounds` beside the learner's code, on this machine's GPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

COMPILE_S = 0.2


def measured(module: ModuleType, rounds: int, samples: int) -> dict[str, Any]:
    """Copies of three sizes as configurations, one of them under two names.

    "b" stands still on the host for a while when it is called first, as if it were compiled. Returns what
    the function returned ("times"), the names in the order in which they were called ("log"), how often
    the device was waited for ("waits"), and medians of the same copies measured here ("own_ns").
    """
    import torch

    torch.manual_seed(torch.seed() % 2**31)
    x = torch.randn(1 << 27, device="cuda")
    y = torch.empty_like(x)
    counts = {"a": 1 << 25, "b": 1 << 26, "twin of b": 1 << 26, "c": 1 << 27}
    log: list[str] = []

    def configuration(name: str) -> Callable[[], object]:
        def call() -> object:
            if name == "b" and name not in log:
                time.sleep(COMPILE_S)
            log.append(name)
            return y[: counts[name]].copy_(x[: counts[name]])

        return call

    def own_ns(count: int) -> float:
        found = []
        for _ in range(9):
            torch.cuda._sleep(500_000)
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            y[:count].copy_(x[:count])
            end.record()
            found.append((start, end))
        torch.cuda.synchronize()
        return sorted(start.elapsed_time(end) * 1e6 for start, end in found)[4]

    own = {name: own_ns(count) for name, count in counts.items()}
    waits = 0
    wait = torch.cuda.synchronize

    def counted(*args: Any, **named: Any) -> Any:
        nonlocal waits
        waits += 1
        return wait(*args, **named)

    torch.cuda.synchronize = counted
    try:
        calls = {name: configuration(name) for name in counts}
        times = module.measure_rounds(calls, rounds, samples)
    finally:
        torch.cuda.synchronize = wait
    return {
        "times": times,
        "log": log,
        "waits": waits,
        "own_ns": own,
        "device": torch.cuda.get_device_name(),
    }
