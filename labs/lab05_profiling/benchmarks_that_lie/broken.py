"""Sixteen benchmarks. Each says what it claims to measure. Two of them are honest.

Each ran once on a machine of `profiling_lab.virtual_gpu`, which may have a property that misleads it. `runs.json` has
what it reported, and the log of what really happened:

    uv run python labs/lab05_profiling/benchmarks_that_lie/broken.py            # what each reported, and its claim
    uv run python labs/lab05_profiling/benchmarks_that_lie/broken.py case_07    # with eight numbers of its log

    recorded("case_07")["log"]      # the log itself, which your two functions read

This file is complete: read it, and write the repaired ones in `repaired.py`.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from profiling_lab.virtual_gpu import Gpu


def case_01(gpu: Gpu, calls: int) -> float:
    """Time of one call in a series of calls, in ns."""
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
    """Time of one call on random data, in a series of calls, in ns."""
    x = gpu.zeros()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_06(gpu: Gpu, calls: int) -> float:
    """How long a user typically waits for the result of a single call, in ns."""
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
    """Time of one call in a series of calls, in ns."""
    x = gpu.random()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    return (gpu.clock_ns() - start) / calls


def case_08(gpu: Gpu, calls: int) -> float:
    """How many times as long kernel 1 takes as kernel 0 (a ratio)."""
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
    """How long a user typically waits for the result of a single call, in ns."""
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
    """Time that the device needs for one call in a series of calls, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
        gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_11(gpu: Gpu, calls: int) -> float:
    """Time of one call that is computed anew, in a series of calls, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_12(gpu: Gpu, calls: int, stream: int = 1) -> float:
    """Time of one call in a series of calls in a stream of its own, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.record()
    for _ in range(calls):
        gpu.call(x, stream=stream)
    end = gpu.record()
    gpu.sync()
    return gpu.elapsed_ns(start, end) / calls


def case_13(gpu: Gpu, calls: int) -> float:
    """Time of one call once calls no longer get faster, in a series of calls, in ns."""
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
    """Time of one call in a series of calls, with its result computed, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    outputs = [gpu.call(x) for _ in range(calls)]
    gpu.evaluate(outputs[-1])
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


def case_16(gpu: Gpu, calls: int) -> float:
    """Time of one call that did its work, in a series of calls, in ns."""
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(calls):
        gpu.call(x)
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


CASES: dict[str, Callable[..., float]] = {
    name: function for name, function in list(globals().items()) if name.startswith("case_")
}
RUNS = Path(__file__).with_name("runs.json")


def recorded(case: str) -> dict[str, Any]:
    """The recorded run of a case: the "calls" that it had to make, what it "reported", and its machine's "log"."""
    document = json.loads(RUNS.read_text(encoding="utf-8"))
    run = document["runs"][case]
    operations = [dict(zip(document["columns"], row, strict=True)) for row in run["operations"]]
    regions = [{"start_ns": start, "end_ns": end} for start, end in run["regions"]]
    log = {"regions": regions, "operations": operations}
    return {"calls": document["calls"], "reported": run["reported"], "log": log}


def measures(case: str) -> dict[str, float]:
    """Eight numbers of the recorded run of a case.

    outside_share: the share of its calls' running time that is outside their own region.
    other_work_share: the share of the regions' time in which something ran that is not a call of that region.
    busy_share: the share of the regions' time in which anything ran.
    ran_share: the share of the calls issued in a region that ran.
    drift_ratio: take the first half of these calls; median of its first quarter over median of its last quarter.
    cold_share: the share of the calls of a region whose input is new, or has been flushed since its last use.
    zeros_share: the share of the calls of a region whose data is zeros.
    reported_ratio: the reported value over the claimed one, computed from the regions' lengths as if they were right.
    """
    run = recorded(case)
    regions, operations = run["log"]["regions"], run["log"]["operations"]
    whole = sum(region["end_ns"] - region["start_ns"] for region in regions)
    calls = [it for it in operations if it["kind"] == "call" and it["region"] is not None]
    ran = [it for it in calls if it["start_ns"] is not None]
    times = [it["end_ns"] - it["start_ns"] for it in ran]
    own = sum(_shared_ns(regions[it["region"]], it) for it in ran)
    busy = sum(_shared_ns(region, it) for region in regions for it in operations)
    half = times[: len(times) // 2]
    some = max(len(half) // 4, 1)
    return {
        "outside_share": 1 - own / max(sum(times), 1),
        "other_work_share": (busy - own) / whole,
        "busy_share": busy / whole,
        "ran_share": len(ran) / len(calls),
        "drift_ratio": statistics.median(half[:some]) / statistics.median(half[-some:]) if half else 1.0,
        "cold_share": _cold(operations) / len(calls),
        "zeros_share": sum(it["data"] == "zeros" for it in calls) / len(calls),
        "reported_ratio": run["reported"] / _from_regions(case, regions, run["calls"]),
    }  # fmt: skip


def _shared_ns(region: dict[str, int], operation: dict[str, Any]) -> int:
    if operation["start_ns"] is None:
        return 0
    first = max(region["start_ns"], operation["start_ns"])
    return max(min(region["end_ns"], operation["end_ns"]) - first, 0)


def _cold(operations: list[dict[str, Any]]) -> int:
    """How many calls of a region had an input that was new, or that a flush had removed from the cache."""
    cached: set[int] = set()
    found = 0
    for operation in operations:
        if operation["kind"] == "flush":
            cached.clear()
        elif operation["kind"] == "call":
            found += operation["region"] is not None and operation["input"] not in cached
            cached.add(operation["input"])
    return found


def _from_regions(case: str, regions: list[dict[str, int]], calls: int) -> float:
    """The value that a case claims to measure, from the lengths of the regions."""
    lengths = [region["end_ns"] - region["start_ns"] for region in regions]
    if len(lengths) == 1:
        call_ns = lengths[0] / calls
        return 2 * 64 * 2**20 / call_ns if "GB/s" in (CASES[case].__doc__ or "") else call_ns
    if len(lengths) == 2 * calls:  # two kernels
        return statistics.median(lengths[calls:]) / statistics.median(lengths[:calls])
    return float(statistics.median(lengths))


if __name__ == "__main__":
    for name in sys.argv[1:] or CASES:
        claim = (CASES[name].__doc__ or "").removesuffix(".")
        print(f"{name}  {recorded(name)['reported']:>12,.2f}  {claim}")
        if sys.argv[1:]:
            for measure, value in measures(name).items():
                print(f"    {measure:<18}{value:>9.4f}")
