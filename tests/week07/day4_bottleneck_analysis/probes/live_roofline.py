"""Runs `measure_and_place` beside the learner's code, on this machine's GPU."""

from __future__ import annotations

from types import ModuleType
from typing import Any


def device_name(module: ModuleType) -> str:
    """What the driver calls the device."""
    import torch

    return torch.cuda.get_device_name(0)


def measured(module: ModuleType, kind: str, size: int, repeats: int, device: str) -> dict[str, Any]:
    """Measure a product ("product", size³) or a copy ("copy", of size elements) in bfloat16.

    Returns what the function returned ("result"), the order in which it called what it was given
    ("log"), how often it waited for the device ("waits"), and the median of the same work measured
    here, before and after ("own_ns").
    """
    import torch

    torch.manual_seed(0)
    log: list[str] = []
    if kind == "product":
        a, b = (torch.randn(size, size, device="cuda", dtype=torch.bfloat16) for _ in range(2))
        out = torch.empty_like(a)
        cost = {"flops": 2 * size**3, "bytes": 6 * size**2}

        def work() -> None:
            torch.mm(a, b, out=out)

    else:
        a = torch.randn(size, device="cuda", dtype=torch.bfloat16)
        out = torch.empty_like(a)
        cost = {"flops": 0, "bytes": 4 * size}

        def work() -> None:
            out.copy_(a)

    large = torch.zeros(128 * 1024 * 1024, device="cuda")  # 512 MB, more than any L2
    total = torch.zeros((), device="cuda")

    def empty() -> None:
        torch.sum(large, dim=0, out=total)
        torch.cuda._sleep(1_000_000)  # long enough for the host to issue what follows

    def operation() -> None:
        log.append("operation")
        work()

    def flush() -> None:
        log.append("flush")
        empty()

    def median_here() -> float:
        pairs = []
        for _ in range(9):
            empty()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            work()
            end.record()
            pairs.append((start, end))
        torch.cuda.synchronize()
        return sorted(start.elapsed_time(end) * 1e6 for start, end in pairs)[4]

    for _ in range(3):
        work()
        empty()
    before = median_here()
    waits = 0
    wait_for_device, wait_for_event = torch.cuda.synchronize, torch.cuda.Event.synchronize

    def counted_device(*args: Any, **named: Any) -> Any:
        nonlocal waits
        waits += 1
        return wait_for_device(*args, **named)

    def counted_event(self: Any) -> None:
        nonlocal waits
        waits += 1
        wait_for_event(self)

    torch.cuda.synchronize, torch.cuda.Event.synchronize = counted_device, counted_event
    try:
        result = module.measure_and_place(operation, flush, cost, "bf16", device, repeats)
    finally:
        torch.cuda.synchronize, torch.cuda.Event.synchronize = wait_for_device, wait_for_event
    own = [before, median_here()]
    return {"result": result, "log": log, "waits": waits, "own_ns": own, "cost": cost}
