"""Benchmarks that lie

The lesson is `README.md` in this folder, hints are in `hints.md`, the benchmarks to judge and repair
are in `broken.py`. The machine that they run on is `profiling_lab.virtual_gpu`: a benchmark gets its
`Gpu`, a handful of functions, and every time in it is in ns.

What the repaired benchmarks share:

- `gpu` is a `Gpu`. Each benchmark makes its own inputs.
- `calls` is a whole number. Below 1 it is a ValueError whose message says `calls`. At least so many calls
  must be measured.
- "A row of calls" means: the device has nothing else to do; the clock of the host is read; the calls are
  issued one after the other, without a wait between them; the clock is read again when all of them are
  done. The time of a call is that time over the number of calls; the one launch and the one wait that
  are left in it are small.
- All return a float. Unless something else is said it is ns, and has to be within 2 % of what the machine
  really did.
"""

from __future__ import annotations

import statistics
from typing import Any

from profiling_lab.virtual_gpu import Gpu


def time_faults(log: dict[str, Any]) -> list[str]:
    """What is wrong with *when* a benchmark started and stopped its clock, told by its log.

    log: what `VirtualGpu.log()` gives: "regions" (what was measured, from "start_ns" to "end_ns") and
    "operations" in the order in which the host issued them ("kind", "region": number of the region in
    which the host issued it or None, "start_ns", "end_ns": when it ran, None if it never did).

    The calls of a region are its operations of the kind "call". Returns the names of what is found, in
    this order, each once; [] if nothing is.

    "unfinished": a call of a region ran outside it, if only in part: it started before the region's
    start or ended after its end.
    "foreign_work": during a region an operation ran, if only for 1 ns, that was not issued in that one.
    "extra_work": an operation that was issued in a region is no call.
    "not_run": a call of a region never ran.

    Example: a region from 100 to 200, a call of it from 150 to 220: ["unfinished"].
    """
    raise NotImplementedError


def work_faults(log: dict[str, Any], latency: bool = False, cold: bool = False) -> list[str]:
    """What is wrong with *what* a benchmark measured, told by its log.

    log: as in `time_faults`; a call has an "input" (a number) and "data" ("random" or "zeros"). latency: the launch and
    the wait of each call are asked for. cold: calls are meant whose input is not in the L2 cache. Returns names in this
    order, each once.

    "idle" (not with latency): what ran during a region, of any kind, wherever issued, only the part inside it, adds up to
    less than 0.9 of its length.
    "warm_cache" (only with cold): no "flush" was issued between a call of a region and an earlier call on the same
    input. Only the order of "operations" counts, not whether a call ran.
    "zeros": a call of a region had zeros for data, run or not.
    "not_steady": of the n calls of all regions that ran, the first n // 4 took, in the median, more than 1.05 times as
    long as the last n // 4. Not asked with n < 8.

    Example: a region from 0 to 100 with one call from 20 to 100: ["idle"], and with latency [].
    """
    raise NotImplementedError


def verdicts() -> dict[str, dict[str, Any]]:
    """What is wrong with each benchmark in `broken.py`, and the number that shows it.

    Returns {"case_01": {"verdict", "measure", "value"}, …, "case_16": …}.
    verdict: the name of the task below that repairs it, or "honest" if it measures what it claims to. Every task repairs
    one case; two cases are honest.
    measure: the one of `measures` (broken.py) that shows the fault: it is as it should be wherever that fault is not. Of
    an honest case: one that clears it of the fault that it looks like.
    value: that measure of the recorded run, within 1 %.

    Example: {"verdict": "honest", "measure": "ran_share", "value": 1.0} says that a case looks as if calls were missing,
    and that all of them ran.
    """
    raise NotImplementedError


def no_sync(gpu: Gpu, calls: int) -> float:
    """Time of one call in a row of calls, all on one random input.

    When this is called, the device may still be at work on something else.
    """
    raise NotImplementedError


def compile_inside(gpu: Gpu, calls: int) -> float:
    """Time of one call in a row of calls, all on one random input, once the work is compiled.

    The first call on this machine compiles what it runs, on the host, before it is issued.
    """
    raise NotImplementedError


def copy_inside(gpu: Gpu, calls: int) -> float:
    """Time of one call in a row of calls on data that is in the device's memory already.

    The data begins its life as one `gpu.on_host()`, and the calls must be on a copy of that.
    """
    raise NotImplementedError


def zeros(gpu: Gpu, calls: int) -> float:
    """Time of one call in a row of calls on random data.

    On this machine, as on real ones, zeros draw less power, so that the clocks stay higher.
    """
    raise NotImplementedError


def same_input(gpu: Gpu, calls: int) -> float:
    """Time of one call that is worked out anew, in a row of calls.

    This machine remembers: a call on an input that it knows is answered from memory, and does not run.
    Inputs have to be there before the clock is read.
    """
    raise NotImplementedError


def lazy_result(gpu: Gpu, calls: int) -> float:
    """Time of one call in a row of calls on one random input, with the result of each worked out.

    This machine is lazy: `gpu.call` only notes down what is to be done, and `gpu.evaluate(output)` issues
    it. What nobody evaluates never runs.
    """
    raise NotImplementedError


def unchecked_result(gpu: Gpu, calls: int) -> float:
    """Time of one call that did its work, in a row of `calls` calls on one random input.

    This machine refuses some calls, at random, and raises nothing: `gpu.ok(output)` tells. What was
    refused takes next to no time and does not count: the result is the time of the row over the number
    of calls that did run, and here that number may be less than `calls`. RuntimeError if none did.
    """
    raise NotImplementedError


def wrong_unit(gpu: Gpu, calls: int, input_bytes: int) -> float:
    """Rate of memory traffic in a row of calls on one random input, in GB/s (10^9 bytes a second).

    A call reads its input, of `input_bytes` bytes, and writes an output of the same size.
    """
    raise NotImplementedError


def side_stream(gpu: Gpu, calls: int, stream: int) -> float:
    """Time of one call in a row of calls on one random input, all of them in the stream `stream`.

    Measured with two events (`gpu.record`) in that stream. The input is made in stream 0: let it be ready
    before the first call.
    """
    raise NotImplementedError


def sync_every_call(gpu: Gpu, calls: int) -> float:
    """Time that the device needs for one call in a row of calls on one random input.

    Here the device is quicker with a call than the host with issuing it, so the host's clock cannot
    tell, not even with a single wait at the end. Measure with two events, and let the device be busy
    with something else (`gpu.flush` takes 0.4 ms) until the whole row is issued: `calls` is at most 60,
    issuing one takes at most 6 µs. What the L2 cache holds makes no difference on this machine.
    """
    raise NotImplementedError


def warm_cache(gpu: Gpu, calls: int) -> float:
    """Time of one call whose input is not in the L2 cache: the median of `calls` of them.

    As the device sees it: an event, the call, an event. `gpu.flush` empties the cache; it takes time on
    the device, which is none of the call's, and which is long enough to issue a call meanwhile.
    """
    raise NotImplementedError


def best_of_many(gpu: Gpu, calls: int) -> float:
    """What somebody typically waits for the result of a single call: the median of `calls` waits.

    By the host's clock, from before the call is issued until the wait for it is over; the device has
    nothing to do before. On this machine some calls take several times as long as usual, and some less.
    """
    raise NotImplementedError


def no_warm_up(gpu: Gpu, calls: int) -> float:
    """Time of one call in a row of `calls` calls on one random input, once calls no longer get faster.

    On this machine the first calls are slower, each a little less than the one before, until the clocks
    are up; nobody says how many. Once a row is not by 1 % faster than the row before it, they are up.
    `calls` is at least 20 here, and 50 rows are enough: measure no more.
    """
    raise NotImplementedError


def one_after_the_other(gpu: Gpu, calls: int) -> float:
    """How many times as long kernel 1 takes as kernel 0, from `calls` calls of each, on one input.

    `gpu.call(x, kernel=1)` issues kernel 1. The device gets warmer and with that slower, from call to
    call, so what is measured later looks worse. The ratio has to be within 2 % of that of the two at
    the same temperature.
    """
    raise NotImplementedError


def on_a_real_gpu(gpu: Gpu, calls: int) -> dict[str, float]:
    """What the repaired benchmarks say of a real GPU: {"row_ns", "cold_ns", "wait_ns"}, each in ns.

    gpu: a `Gpu` as all of them get, with a real one behind it (`profiling_lab.real_gpu`). Nothing that
    the virtual one needed special care for can be ruled out here: the first call is slower, other work is
    in the queue. row_ns: time of one call in a row of `calls` calls, once calls no longer get faster.
    cold_ns: time of one call whose input is not in the L2 cache. wait_ns: what somebody typically waits
    for a single call.
    """
    raise NotImplementedError
