"""Benchmarks that lie

The lesson is `README.md` in this folder, hints are in `hints.md`, and the benchmarks to judge and repair
are in `broken.py`. They run on the machine `profiling_lab.virtual_gpu`. A benchmark gets its `Gpu`, an
object with a few functions. All times of this machine are in ns.

These rules hold for all repaired benchmarks:

- `gpu` is a `Gpu`. Each benchmark makes its own inputs.
- `calls` is an integer. If it is below 1, raise ValueError with `calls` in the message. Measure at least that
  many calls.
- "A row of calls" means the following. The device has nothing else to do. Read the host's clock, issue the
  calls one after the other without waiting between them, and read the clock again when all of them are
  done. The time of a call is the time between the two readings divided by the number of calls. It includes
  one launch and one wait, which are small.
- All benchmarks return a float, in ns unless another unit is named. It must be within 2 % of what the machine really
  did.
"""

from __future__ import annotations

import statistics
from typing import Any

from profiling_lab.virtual_gpu import Gpu


def time_faults(log: dict[str, Any]) -> list[str]:
    """What is wrong with *when* a benchmark started and stopped its clock, according to its log.

    log: what `VirtualGpu.log()` returns: "regions" (what was measured, from "start_ns" to "end_ns") and
    "operations" in the order in which the host issued them. An operation has "kind", "region" (the number of the
    region in which the host issued it, or None), "start_ns" and "end_ns" (when it ran; None if it never did).

    The calls of a region are its operations of the kind "call". Returns the names of the faults found, each once, in
    this order; [] if there are none.

    "unfinished": a call of a region ran partly or wholly outside it: it started before the region's
    start or ended after its end.
    "foreign_work": an operation ran during a region in which it was not issued, even if only for 1 ns.
    "extra_work": an operation that was issued in a region is not a call.
    "not_run": a call of a region never ran.

    Example: a region from 100 to 200, a call of it from 150 to 220: ["unfinished"].
    """
    regions, found = log["regions"], set()
    for operation in log["operations"]:
        own, start, end = operation["region"], operation["start_ns"], operation["end_ns"]
        if own is not None and operation["kind"] != "call":
            found.add("extra_work")
        elif own is not None and start is None:
            found.add("not_run")
        elif own is not None and not _inside(regions[own], start, end):
            found.add("unfinished")
        for number, region in enumerate(regions):
            if number != own and _shared_ns(region, operation):
                found.add("foreign_work")
    names = ("unfinished", "foreign_work", "extra_work", "not_run")
    return [name for name in names if name in found]


def work_faults(log: dict[str, Any], latency: bool = False, cold: bool = False) -> list[str]:
    """What is wrong with *what* a benchmark measured, according to its log.

    log: as in `time_faults`; a call also has "input" (a number) and "data" ("random" or "zeros"). latency: the benchmark
    is meant to measure each call's launch and wait too. cold: it is meant to measure calls whose input is not in
    the L2 cache. Returns names in this order, each once.

    "idle" (not with latency): the parts of all operations inside a region, of any kind and wherever issued, add up to
    less than 0.9 of the region's length.
    "warm_cache" (only with cold): no "flush" was issued between a call of a region and an earlier call on the same
    input. Only the order of "operations" counts, not whether a call ran.
    "zeros": a call of a region had zeros as data, whether or not it ran.
    "not_steady": of the n calls that ran, of all regions, the first n // 4 have a median above 1.05 times that of the
    last n // 4. Only if n is at least 8.

    Example: a region from 0 to 100 with one call from 20 to 100: ["idle"], and with latency [].
    """
    operations, found = log["operations"], set()
    for region in log["regions"]:
        busy_ns = sum(_shared_ns(region, o) for o in operations)
        if not latency and busy_ns < 0.9 * (region["end_ns"] - region["start_ns"]):
            found.add("idle")
    in_cache, times = set(), []
    for operation in operations:
        if operation["kind"] == "flush":
            in_cache.clear()
        if operation["kind"] != "call":
            continue
        if operation["region"] is not None:
            if cold and operation["input"] in in_cache:
                found.add("warm_cache")
            if operation["data"] == "zeros":
                found.add("zeros")
            if operation["start_ns"] is not None:
                times.append(operation["end_ns"] - operation["start_ns"])
        in_cache.add(operation["input"])
    quarter = len(times) // 4
    if quarter >= 2:
        first, last = statistics.median(times[:quarter]), statistics.median(times[-quarter:])
        if first > 1.05 * last:
            found.add("not_steady")
    names = ("idle", "warm_cache", "zeros", "not_steady")
    return [name for name in names if name in found]


def verdicts() -> dict[str, dict[str, Any]]:
    """What is wrong with each benchmark in `broken.py`, and the number that shows it.

    Returns {"case_01": {"verdict", "measure", "value"}, …, "case_16": …}.
    verdict: the name of the task below that repairs it, or "honest" if it measures what it claims to measure. Every task
    repairs one case. Two cases are honest.
    measure: the one of `measures` (broken.py) that shows the fault. It has its correct value in every case without that
    fault. For an honest case, it is a measure that rules out the fault that the case seems to have.
    value: that measure of the recorded run, within 1 %.

    Example: {"verdict": "honest", "measure": "ran_share", "value": 1.0} says that a case looks as if calls were missing,
    but all of them ran.
    """
    found = {
        "case_01": ("compile_inside", "other_work_share", 0.9235),
        "case_02": ("honest", "outside_share", 0.0000),
        "case_03": ("warm_cache", "cold_share", 0.0000),
        "case_04": ("copy_inside", "other_work_share", 0.7111),
        "case_05": ("zeros", "zeros_share", 1.0000),
        "case_06": ("best_of_many", "reported_ratio", 0.6213),
        "case_07": ("no_sync", "outside_share", 1.0000),
        "case_08": ("one_after_the_other", "drift_ratio", 0.9321),
        "case_09": ("honest", "reported_ratio", 1.0000),
        "case_10": ("sync_every_call", "busy_share", 0.1667),
        "case_11": ("same_input", "ran_share", 0.0417),
        "case_12": ("side_stream", "outside_share", 0.9853),
        "case_13": ("no_warm_up", "drift_ratio", 1.0812),
        "case_14": ("wrong_unit", "reported_ratio", 0.9313),
        "case_15": ("lazy_result", "ran_share", 0.0417),
        "case_16": ("unchecked_result", "ran_share", 0.5833),
    }
    return {
        case: {"verdict": verdict, "measure": measure, "value": value}
        for case, (verdict, measure, value) in found.items()
    }


def no_sync(gpu: Gpu, calls: int) -> float:
    """Time of one call in a series of calls, all on one random input.

    When this is called, the device may still be busy with something else.
    """
    return _row_ns(gpu, [gpu.random()] * _counted(calls))


def compile_inside(gpu: Gpu, calls: int) -> float:
    """Time of one call in a series of calls, all on one random input, when the work is already compiled.

    The first call on this machine compiles, on the host, what it runs. Only then is the call issued.
    """
    x = gpu.random()
    gpu.call(x)
    return _row_ns(gpu, [x] * _counted(calls))


def copy_inside(gpu: Gpu, calls: int) -> float:
    """Time of one call in a series of calls on data that is already in the device's memory.

    The data comes from one `gpu.on_host()`, and the calls must use a copy of it.
    """
    x = gpu.to_device(gpu.on_host())
    return _row_ns(gpu, [x] * _counted(calls))


def zeros(gpu: Gpu, calls: int) -> float:
    """Time of one call in a series of calls on random data.

    On this simulated machine, zeros take less power, so the clocks stay higher.
    """
    return _row_ns(gpu, [gpu.random()] * _counted(calls))


def same_input(gpu: Gpu, calls: int) -> float:
    """Time of one call that is computed anew, in a series of calls.

    This machine remembers results: it answers a call on a known input from memory, and does not run it.
    Make the inputs before you read the clock.
    """
    return _row_ns(gpu, [gpu.random() for _ in range(_counted(calls))])


def lazy_result(gpu: Gpu, calls: int) -> float:
    """Time of one call in a series of calls on one random input, whose results are really computed.

    This machine is lazy: `gpu.call` only notes what is to be done, and `gpu.evaluate(output)` issues
    it. A call whose output is not evaluated never runs.
    """
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    for _ in range(_counted(calls)):
        gpu.evaluate(gpu.call(x))
    gpu.sync()
    return (gpu.clock_ns() - start) / calls


def unchecked_result(gpu: Gpu, calls: int) -> float:
    """Time of one call that did its work, in a row of `calls` calls on one random input.

    This machine refuses some calls, at random, and raises nothing. `gpu.ok(output)` tells whether a call ran. A
    refused call takes almost no time and does not count: the result is the time of the row divided by the number
    of calls that ran. Here that number may be less than `calls`. Raise RuntimeError if none ran.
    """
    x = gpu.random()
    gpu.sync()
    start = gpu.clock_ns()
    outputs = [gpu.call(x) for _ in range(_counted(calls))]
    gpu.sync()
    took_ns = gpu.clock_ns() - start
    ran = sum(gpu.ok(output) for output in outputs)
    if not ran:
        raise RuntimeError(f"all of {calls} calls were refused: there is nothing to measure")
    return took_ns / ran


def wrong_unit(gpu: Gpu, calls: int, input_bytes: int) -> float:
    """Rate of memory traffic in a series of calls on one random input, in GB/s (10^9 bytes per second).

    A call reads its input of `input_bytes` bytes, and writes an output of the same size.
    """
    return 2 * input_bytes / _row_ns(gpu, [gpu.random()] * _counted(calls))


def side_stream(gpu: Gpu, calls: int, stream: int) -> float:
    """Time of one call in a series of calls on one random input, all of them in the stream `stream`.

    Measure it with two events (`gpu.record`) in that stream. The input is made in stream 0; it must be ready
    before the first call.
    """
    x = gpu.random()
    gpu.sync()
    start = gpu.record(stream=stream)
    for _ in range(_counted(calls)):
        gpu.call(x, stream=stream)
    end = gpu.record(stream=stream)
    gpu.sync()
    return gpu.elapsed_ns(start, end) / calls


def sync_every_call(gpu: Gpu, calls: int) -> float:
    """Time that the device needs for one call in a series of calls on one random input.

    Here the device runs a call faster than the host issues it, so the host's clock cannot show the device's
    time, even with only one wait at the end. Measure with two events, and keep the device busy with
    something else (`gpu.flush` takes 0.4 ms) until the whole row is issued. `calls` is at most 60, and
    issuing a call takes at most 6 µs. The contents of the L2 cache make no difference on this machine.
    """
    x = gpu.random()
    gpu.flush()
    start = gpu.record()
    for _ in range(_counted(calls)):
        gpu.call(x)
    end = gpu.record()
    gpu.sync()
    return gpu.elapsed_ns(start, end) / calls


def warm_cache(gpu: Gpu, calls: int) -> float:
    """Time of one call whose input is not in the L2 cache: the median of `calls` of them.

    Measure on the device: an event, the call, an event. `gpu.flush` empties the cache. It takes time on
    the device. This time is not part of the call, and is long enough for the host to issue the call.
    """
    x = gpu.random()
    times = []
    for _ in range(_counted(calls)):
        gpu.flush()
        start = gpu.record()
        gpu.call(x)
        end = gpu.record()
        gpu.sync()
        times.append(gpu.elapsed_ns(start, end))
    return float(statistics.median(times))


def best_of_many(gpu: Gpu, calls: int) -> float:
    """How long a user typically waits for the result of a single call: the median of `calls` waits.

    Use the host's clock, from before the call is issued until the wait for it is over. Before that, the
    device has nothing to do. On this machine some calls take several times as long as usual, and
    some take less.
    """
    x = gpu.random()
    return float(statistics.median(_row_ns(gpu, [x]) for _ in range(_counted(calls))))


def no_warm_up(gpu: Gpu, calls: int) -> float:
    """Time of one call in a row of `calls` calls on one random input, once calls no longer get faster.

    On this machine the first calls are slower, each a little less than the one before, until the clocks
    are up. How many calls that takes is unknown. The clocks are up if a row is less than 1 % faster than the row
    before it. `calls` is at least 20 here. 50 rows are enough: measure no more.
    """
    inputs = [gpu.random()] * _counted(calls)
    before_ns, last_ns = _row_ns(gpu, inputs), _row_ns(gpu, inputs)
    while last_ns < 0.99 * before_ns:
        before_ns, last_ns = last_ns, _row_ns(gpu, inputs)
    return last_ns


def one_after_the_other(gpu: Gpu, calls: int) -> float:
    """How many times as long kernel 1 takes as kernel 0, from `calls` calls of each, on one input.

    `gpu.call(x, kernel=1)` issues kernel 1. With each call the device gets warmer and therefore
    slower, so a later measurement looks worse. The ratio must be within 2 % of the ratio of the two
    at the same temperature.
    """
    x = gpu.random()
    ratios = []
    for _ in range(_counted(calls)):
        first_ns, second_ns = (_row_ns(gpu, [x], kernel) for kernel in (0, 1))
        ratios.append(second_ns / first_ns)
    return statistics.median(ratios)


def on_a_real_gpu(gpu: Gpu, calls: int) -> dict[str, float]:
    """What the repaired benchmarks measure on a real GPU: {"row_ns", "cold_ns", "wait_ns"}, each in ns.

    gpu: a `Gpu` as in all tasks, with a real one behind it (`profiling_lab.real_gpu`). It may
    behave in all the ways that needed special care on the virtual one: for example, the first call
    is slower, and other work is in the queue. row_ns: time of one call in a row of `calls` calls,
    once calls no longer get faster. cold_ns: time of one call whose input is not in the L2 cache.
    wait_ns: how long a user typically waits for a single call.
    """
    return {
        "row_ns": no_warm_up(gpu, calls),
        "cold_ns": warm_cache(gpu, calls),
        "wait_ns": best_of_many(gpu, calls),
    }


def _counted(calls: int) -> int:
    if calls < 1:
        raise ValueError(f"calls is {calls!r}: at least one is needed")
    return calls


def _row_ns(gpu: Gpu, inputs: list[int], kernel: int = 0) -> float:
    """ns per call for a row of calls, one for each input."""
    gpu.sync()
    start = gpu.clock_ns()
    for x in inputs:
        gpu.call(x, kernel=kernel)
    gpu.sync()
    return (gpu.clock_ns() - start) / len(inputs)


def _inside(region: dict[str, int], start_ns: int, end_ns: int) -> bool:
    return region["start_ns"] <= start_ns and end_ns <= region["end_ns"]


def _shared_ns(region: dict[str, int], operation: dict[str, Any]) -> int:
    """The part of an operation that ran in a region."""
    start_ns, end_ns = operation["start_ns"], operation["end_ns"]
    if start_ns is None:
        return 0
    return max(0, min(end_ns, region["end_ns"]) - max(start_ns, region["start_ns"]))
