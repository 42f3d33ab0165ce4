"""Time the same calls in several ways, each of which is right for another question.

Writes timing.json. `rows`: for each call samples, in ns, of
    throughput   wall time per call, of many calls in a row with a wait before and after them
    latency      wall time of one call with a wait before and after it
    device       time between two CUDA events around one call, its launch hidden behind other work
    issue        wall time per call until the host has issued it, with nothing waited for
`cold_and_warm`: wall time of one call with waits around it: the first of all, later ones each after a
read of a buffer larger than the cache, and later ones each right after another call.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

ON_GPU = torch.cuda.is_available()
DEVICE = "cuda" if ON_GPU else "cpu"
SAMPLES, CALLS = 21, 50
FLUSH_BYTES = 512 * 2**20 if ON_GPU else 2**20

Call = Callable[[], object]


def wait() -> None:
    if ON_GPU:
        torch.cuda.synchronize()


def random(*shape: int) -> torch.Tensor:
    generator = torch.Generator(DEVICE).manual_seed(11)
    return torch.randn(*shape, generator=generator, device=DEVICE).to(torch.bfloat16)


def wall_ns(call: Call, calls: int, wait_at_end: bool = True) -> int:
    wait()
    start = time.perf_counter_ns()
    for _ in range(calls):
        call()
    if wait_at_end:
        wait()
    spent = time.perf_counter_ns() - start
    wait()
    return round(spent / calls)


def device_ns(call: Call) -> int | None:
    if not ON_GPU:
        return None
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(1_000_000)
    start.record()
    call()
    end.record()
    torch.cuda.synchronize()
    return round(start.elapsed_time(end) * 1e6)


def works() -> dict[str, Call]:
    one, a_million = random(1), random(2**20)
    made: dict[str, Call] = {
        "relu of 1 element": lambda: torch.relu(one),
        "relu of 2^20 elements": lambda: torch.relu(a_million),
    }
    for size in (256, 1024, 2048, 4096) if ON_GPU else (8, 16):
        a, b = random(size, size), random(size, size)
        made[f"product of two {size} x {size} matrices"] = lambda a=a, b=b: a @ b
    rows = random(4096, 4096) if ON_GPU else random(4, 4)
    made["softmax of 4096 x 4096"] = lambda: torch.softmax(rows, dim=-1)
    made["5 calls on 1 element"] = lambda: torch.relu(one).neg().exp().sin().abs()
    return made


def gelu_like(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1 + torch.tanh(0.8 * (x + 0.045 * x * x * x)))


def cold_and_warm(name: str, call: Call) -> dict[str, Any]:
    buffer = torch.ones(FLUSH_BYTES // 4, device=DEVICE)
    sink = torch.zeros((), device=DEVICE)
    first = wall_ns(call, 1)
    wall_ns(call, 1)
    warm = [wall_ns(call, 1) for _ in range(SAMPLES)]
    cold = []
    for _ in range(SAMPLES):
        torch.sum(buffer, dim=0, out=sink)
        cold.append(wall_ns(call, 1))
    return {"name": name, "first_ns": first, "cold_ns": cold, "warm_ns": warm}


def main() -> None:
    rows = []
    for name, call in works().items():
        for _ in range(3):
            call()
        found: dict[str, list[int]] = {"throughput": [], "latency": [], "device": [], "issue": []}
        for _ in range(SAMPLES):
            found["throughput"].append(wall_ns(call, CALLS))
            found["latency"].append(wall_ns(call, 1))
            found["issue"].append(wall_ns(call, CALLS, wait_at_end=False))
            if (on_device := device_ns(call)) is not None:
                found["device"].append(on_device)
        rows.append({"name": name, **found})
    x = random(8 * 2**20) if ON_GPU else random(64)
    small = random(2**20) if ON_GPU else random(16)
    compiled = torch.compile(gelu_like)
    table = {
        "format": 1,
        "unit": "ns",
        "device": torch.cuda.get_device_name() if ON_GPU else "cpu",
        "calls": CALLS,
        "flush_bytes": FLUSH_BYTES,
        "rows": rows,
        "cold_and_warm": [
            cold_and_warm("compiled chain of 2^23 elements", lambda: compiled(x)),
            cold_and_warm("chain of 2^23 elements", lambda: gelu_like(x)),
            cold_and_warm("relu of 2^23 elements", lambda: torch.relu(x)),
            cold_and_warm("relu of 2^20 elements", lambda: torch.relu(small)),
        ],
    }
    lists = ("rows", "cold_and_warm")
    parts = [f'"{key}": {json.dumps(table[key])}' for key in table if key not in lists]
    for key in lists:
        lines = ",\n  ".join(json.dumps(row) for row in table[key])
        parts.append(f'"{key}": [\n  {lines}\n ]')
    Path("timing.json").write_text("{" + ",\n ".join(parts) + "}\n", encoding="utf-8")
    medians = {
        row["name"]: {key: statistics.median(row[key]) for key in found if row[key]} for row in rows
    }
    print("RESULT", json.dumps({"median_ns": medians}))


if __name__ == "__main__":
    main()
