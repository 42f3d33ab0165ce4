"""Sixteen benchmarks. Each says what it claims to measure. Two of them are honest.

    uv run python labs/lab05_profiling/benchmarks_that_lie/broken.py

runs each on a machine of `profiling_lab.virtual_gpu` and prints what it reports. What really happened
is in the machine's log:

    machine = machine_for("case_01", seed=1)
    reported = case_01(machine.gpu, 20)
    machine.log()

This file is complete: read it, run it, and write the repaired ones in `repaired.py`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

from profiling_lab.virtual_gpu import Gpu, VirtualGpu


def case_01(gpu: Gpu, calls: int) -> float:
    """Time of one call in a row of calls, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_02(gpu: Gpu, calls: int) -> float:
    """Time of one call as the device sees it, without what the host adds, in ns."""
    x = gpu.random()
    start = gpu.record()
    for _ in range(calls):
        gpu.call(x)
    end = gpu.record()
    gpu.sync()
    return gpu.elapsed_ns(start, end) / calls


def case_03(gpu: Gpu, calls: int) -> float:
    """Time of one call whose input is not in the L2 cache, in ns."""
    x = gpu.random()
    times = []
    for _ in range(calls):
        gpu.call(x)  # keeps the device busy while the host issues the next three
        start = gpu.record()
        gpu.call(x)
        end = gpu.record()
        gpu.sync()
        times.append(gpu.elapsed_ns(start, end))
    return statistics.median(times)


def case_04(gpu: Gpu, calls: int) -> float:
    """Time of one call of a row, on data that is in the device's memory, in ns."""
    x = gpu.on_host()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(gpu.to_device(x))
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_05(gpu: Gpu, calls: int) -> float:
    """Time of one call on random data, in a row of calls, in ns."""
    x = gpu.zeros()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_06(gpu: Gpu, calls: int) -> float:
    """What somebody typically waits for the result of a single call, in ns."""
    x = gpu.random()
    gpu.sync()
    times = []
    for _ in range(calls):
        start = gpu.clock_ns()
        gpu.call(x)
        gpu.sync()
        times.append(gpu.clock_ns() - start)
    return min(times)


def case_07(gpu: Gpu, calls: int) -> float:
    """Time of one call in a row of calls, in ns."""
    x = gpu.random()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    return (gpu.clock_ns() - start) / calls


def case_08(gpu: Gpu, calls: int) -> float:
    """Kernel 1 takes so many times as long as kernel 0 (a ratio)."""
    x = gpu.random()
    medians: list[float] = []
    for kernel in (0, 1):
        times = []
        for _ in range(calls):
            gpu.sync()
            start = gpu.clock_ns()
            gpu.call(x, kernel=kernel)
            gpu.sync()
            times.append(gpu.clock_ns() - start)
        medians.append(statistics.median(times))
    return medians[1] / medians[0]


def case_09(gpu: Gpu, calls: int) -> float:
    """What somebody typically waits for the result of a single call, in ns."""
    x = gpu.random()
    times = []
    for _ in range(calls):
        gpu.sync()
        start = gpu.clock_ns()
        gpu.call(x)
        gpu.sync()
        times.append(gpu.clock_ns() - start)
    return statistics.median(times)


def case_10(gpu: Gpu, calls: int) -> float:
    """Time that the device needs for one call in a row of calls, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
        gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_11(gpu: Gpu, calls: int) -> float:
    """Time of one call that is worked out anew, in a row of calls, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_12(gpu: Gpu, calls: int, stream: int = 1) -> float:
    """Time of one call in a row of calls in a stream of its own, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.record()
    for _ in range(calls):
        gpu.call(x, stream=stream)
    end = gpu.record()
    gpu.sync()
    return gpu.elapsed_ns(start, end) / calls


def case_13(gpu: Gpu, calls: int) -> float:
    """Time of one call once calls no longer get faster, in a row of calls, in ns."""
    x = gpu.random()
    gpu.call(x)
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_14(gpu: Gpu, calls: int, input_bytes: int = 64 * 2**20) -> float:
    """Rate at which a call reads its input and writes an output of the same size, in GB/s."""
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    seconds = (gpu.clock_ns() - start) / 1e9
    return 2 * input_bytes * calls / seconds / 2**30


def case_15(gpu: Gpu, calls: int) -> float:
    """Time of one call in a row of calls, its result worked out, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    outputs = [gpu.call(x) for _ in range(calls)]
    gpu.evaluate(outputs[-1])
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_16(gpu: Gpu, calls: int) -> float:
    """Time of one call that did its work, in a row of calls, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


# What is special about the machine that each of them runs on; see VirtualGpu.
MACHINES: dict[str, dict[str, Any]] = {
    "case_01": {"call_ns": 310_000, "compile_ns": 90_000_000},
    "case_02": {"call_ns": 240_000, "queued_ns": 7_000_000},
    "case_03": {"call_ns": 150_000, "cold_ratio": 1.9},
    "case_04": {"call_ns": 280_000, "copy_ns": 700_000},
    "case_05": {"call_ns": 450_000, "zeros_ratio": 0.87},
    "case_06": {"call_ns": 220_000, "uneven": True},
    "case_07": {"call_ns": 380_000, "queued_ns": 3_000_000},
    "case_08": {"call_ns": (900_000, 810_000), "drift_ratio": 0.004},
    "case_09": {"call_ns": 14_000, "sync_ns": 11_000},
    "case_10": {"call_ns": 3_000, "sync_ns": 11_000},
    "case_11": {"call_ns": 350_000, "remembers": True},
    "case_12": {"call_ns": 260_000},
    "case_13": {"call_ns": 300_000, "slow_calls": 60},
    "case_14": {"call_ns": 40_000},
    "case_15": {"call_ns": 500_000, "lazy": True},
    "case_16": {"call_ns": 410_000, "failing": 0.45},
}
CASES: dict[str, Callable[..., float]] = {name: globals()[name] for name in MACHINES}


def machine_for(case: str, seed: int) -> VirtualGpu:
    """A machine of the kind that a case runs on."""
    return VirtualGpu(seed, **MACHINES[case])


if __name__ == "__main__":
    for name, benchmark in CASES.items():
        claim = (benchmark.__doc__ or "").removesuffix(".")
        print(f"{name}  {benchmark(machine_for(name, seed=1).gpu, 40):>12,.2f}  {claim}")
