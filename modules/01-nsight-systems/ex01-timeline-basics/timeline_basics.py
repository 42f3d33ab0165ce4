"""Timeline basics: busy, idle, and why

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import bisect
import statistics
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

from profiling_lab import captures
from profiling_lab.captures.dependencies import call_kind
from profiling_lab.errors import CaptureError, EmptyCapture
from profiling_lab.findings import Finding

HEALTHY_FLOOR_RATIO = 0.10  # of the window: a cause that costs less is not worth fixing
DISPATCH_LIMIT_NS = (
    100_000  # a gap up to this length, that no call opened, is the cost of issuing work
)


def work_per_range(capture: str) -> dict[str, dict[str, int]]:
    """For each NVTX range name, the device work that was launched inside such a range.

    Returns {name of the range: {"operations_count": number of device operations,
    "device_ns": sum of their durations}}. Operations are kernels, whole CUDA graphs, copies and
    memsets (`NsysCapture.device_operations`), of all devices.

    An operation belongs to the innermost range that was open on the launching thread when the
    launching call started. Candidates are the ranges of that process and thread with
    start <= start of the call < end. The innermost one is the one that starts last; if several start
    together, the deepest of them (`depth`). Operations and calls are joined on process and correlation.
    The key "" holds what was launched outside of every range, or by a call that was not recorded.
    Ranges without work are left out.
    """
    raise NotImplementedError


def first_iteration_cost(capture: str, nvtx_range: str) -> dict[str, float]:
    """How much longer the first iteration took than the others, measured on the device, in ns.

    nvtx_range: the name of the range that each iteration runs in. Iteration i is the i-th range of that name,
    ordered by start. Work belongs to an iteration if it is launched on the same thread while the iteration's
    range is open, also from inner ranges. An iteration is over when all its work and all work of earlier
    iterations has ended. Its time runs from the end of the previous iteration to its own end. The time of the
    first iteration runs from the start of its range on the host to the iteration's end. An iteration without work ends
    when the previous one ends (the first one: at the start of its range).

    Returns {"first_ns", "steady_ns": the median of all others, "excess_ns": first minus steady,
    "steady_start_ns": the time at which the first is over}.

    Raises CaptureError if no range has that name, with the name in the message. Raises ValueError if
    there are fewer than three iterations, with their number in the message.
    """
    raise NotImplementedError


def utilization_series(capture: str, period_ns: int) -> dict[int, list[dict[str, float]]]:
    """What a dashboard would have shown: utilization of each device, period by period.

    Each period is period_ns long. The first one begins with the first device operation of the capture (on
    any device). The last one ends with the last operation, and may be shorter. Returns, for each device
    that ran an operation, a list with one dict per period:
        "start_ns":          when the period begins.
        "utilization_ratio": "GPU utilization" as NVML defines it: the share of the period in which one or
                             more kernels were executing, 0.0 to 1.0. Whole CUDA graphs count as kernels;
                             copies and memsets do not count.
        "summed_ratio":      sum over all kernels and graphs of their time inside the period, divided by the
                             period's length: 2.0 if two streams each run a kernel all the time.
    (source of the definition: NVML API reference, nvmlUtilization_t)

    Raises ValueError, with period_ns in its message, unless period_ns is positive.
    """
    raise NotImplementedError


def idle_by_host(capture: str, device: int = 0, start_ns: int = 0) -> dict[str, Any]:
    """What the host did while a device was idle, and which call it was in when the idle gap began.

    Only the device's gaps that begin at start_ns or later are used (`gaps_of` finds them). If a gap is
    queued, the host did not cause it.

    Returns
        "idle_ns":   total length of the gaps.
        "queued_ns": total length of the queued gaps, which ended with work that was already queued; they
                     are in neither dict.
        "during":    {name of a CUDA call: ns of the other gaps that the thread spent in calls of that
                     name; "": ns outside of every call}.
        "opened_by": {name: total length of the other gaps that began while the thread was in a call of
                     that name; "" if it was in none}; a gap counts for one name, with its whole length.
    Names with 0 ns are left out. The values of each dict add up to idle_ns - queued_ns.

    Example: a gap lasts 10 µs. When it begins, the thread is in a cudaMemcpy, for 1 µs more. Later it
    spends 4 µs in cudaMalloc. Then during is {"cudaMalloc": 4000, "cudaMemcpy": 1000, "": 5000}, and
    opened_by is {"cudaMemcpy": 10000}.
    """
    raise NotImplementedError


def read_timeline(capture: str, nvtx_range: str) -> Finding:
    """The main reason why device 0 is idle once the first iteration is over.

    The window begins when the first iteration of nvtx_range is over (`first_iteration_cost`), and ends
    with the last operation of device 0. Take the gaps that begin in it (`idle_by_host`), without the
    queued ones. Each nanosecond of them belongs to one category.
    `profiling_lab.captures.dependencies.call_kind` gives the kind of a call:
        "allocation_bound": the time spent in calls of kind "allocation" in any gap, plus the rest of a gap that
                            such a call opened. (Such calls take time themselves, and many of them wait for the
                            device.)
        "sync_bound":       the rest of a gap that a call of kind "synchronize" or "copy_call" opened: the
                            host waited, and went on when the device had no work left.
        "launch_bound":     the rest of any other gap of at most DISPATCH_LIMIT_NS.
        "host_bound":       the rest of any other, longer gap.
    The finding is the category with the most time; if several are equal, the first in this order. It is
    "healthy" if that time is less than HEALTHY_FLOOR_RATIO of the window.

    subject: "device:0".
    evidence:
        "recoverable_ns":            the time of the largest category, also for "healthy": removing it
                                     could save at most this much.
        "window_ns":                 length of the window.
        "recoverable_ratio":         recoverable_ns / window_ns.
        "idle_ns":                   all gaps in the window, also the queued ones.
        "first_iteration_excess_ns": excess_ns of first_iteration_cost.
    recommendation: one sentence; "none" if healthy.
    """
    raise NotImplementedError


@dataclass
class Gap:
    """A gap of a device, and what the thread that ended it did during the gap."""

    length_ns: int
    queued: bool  # the operation that ends the gap was launched by a call that was over when the gap began
    calls: list[tuple[str, int]]  # calls of that thread: name, ns inside the gap
    opener: str  # the call that the thread was in when the gap began; "" if it was in none


def launched(capture: str) -> list[tuple[dict, dict | None]]:
    """Every device operation with the call that launched it, or with None if the call was not recorded."""
    recording = captures.open(capture)
    calls: dict[tuple[int, int], dict] = {}
    for call in recording.api_calls.rows(named=True):
        calls.setdefault((call["process"], call["correlation"]), call)
    operations = recording.device_operations.rows(named=True)
    return [(o, calls.get((o["process"], o["correlation"]))) for o in operations]


def gaps_of(capture: str, device: int, start_ns: int) -> list[Gap]:
    """The gaps of a device that begin at start_ns or later, in order.

    A gap is the time between two operations of the device (kernels, graphs, copies, memsets, of all streams)
    in which no operation ran. It ends when an operation starts; if several start together, use the one with
    the smallest correlation. The calls in a `Gap` are those of the thread that launched this operation. Of
    nested calls, only the outermost is in `calls`. A gap whose launching call was not recorded is not queued
    and has no calls.

    Raises EmptyCapture, with the device's number in its message, if no operation ran on the device.
    """
    work = [(o, call) for o, call in launched(capture) if o["device"] == device]
    if not work:
        raise EmptyCapture(f"{capture}: nothing ran on device {device}")
    work.sort(key=lambda pair: (pair[0]["start_ns"], pair[0]["correlation"]))
    calls = by_thread(captures.open(capture).api_calls.rows(named=True))
    top = {thread: outermost(found) for thread, found in calls.items()}
    gaps = []
    reached = work[0][0]["start_ns"]
    for operation, call in work:
        start, end = reached, operation["start_ns"]
        reached = max(reached, operation["end_ns"])
        if start < start_ns or end <= start:
            continue
        found = []
        if call is not None:
            own = top[thread_of(call)]
            first = bisect.bisect_right(own, start, key=lambda c: c["end_ns"])
            last = bisect.bisect_left(own, end, key=lambda c: c["start_ns"])
            found = own[first:last]
        gaps.append(
            Gap(
                end - start,
                call is not None and call["end_ns"] <= start,
                [(c["name"], min(end, c["end_ns"]) - max(start, c["start_ns"])) for c in found],
                found[0]["name"] if found and found[0]["start_ns"] <= start else "",
            )
        )
    return gaps


def outermost(calls: list[dict]) -> list[dict]:
    """The calls of one thread, in order, without calls that are inside another call."""
    out: list[dict] = []
    for call in calls:
        if not out or call["start_ns"] >= out[-1]["end_ns"]:
            out.append(call)
    return out


def by_thread(rows: list[dict]) -> dict[tuple[int, int], list[dict]]:
    """Rows of calls or ranges, grouped by thread (`thread_of`). Each group keeps the order of `rows`."""
    out: dict[tuple[int, int], list[dict]] = {}
    for row in rows:
        out.setdefault(thread_of(row), []).append(row)
    return out


def thread_of(row: dict) -> tuple[int, int]:
    """Process and thread of a call or a range."""
    return row["process"], row["thread"]


def holds(interval: dict, moment: int) -> bool:
    """Whether a moment lies in an interval. The interval's start belongs to it, its end does not."""
    return interval["start_ns"] <= moment < interval["end_ns"]
