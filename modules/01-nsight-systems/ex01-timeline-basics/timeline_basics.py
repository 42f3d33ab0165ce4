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

HEALTHY_FLOOR_RATIO = 0.10  # of the window: causes that cost less are not worth anybody's afternoon
DISPATCH_LIMIT_NS = (
    100_000  # a gap up to this length, that no call opened, is the cost of issuing work
)


def work_per_range(capture: str) -> dict[str, dict[str, int]]:
    """Per NVTX range, the device's work that was launched from within it.

    Returns {name of the range: {"operations_count": how many operations of the device,
    "device_ns": their durations added}}. Operations are kernels, whole CUDA graphs, copies and
    memsets (`NsysCapture.device_operations`), of all devices.

    An operation belongs to the innermost range that was open, on the thread that launched it, when
    the launching call started: of the ranges of that process and thread with start <= start of the
    call < end, the one that starts last, and of several that start together the deepest (`depth`).
    Call and operation are joined on process and correlation. What was launched outside of every
    range, or by a call that was not recorded, is under "". Ranges without work are left out.
    """
    raise NotImplementedError


def first_iteration_cost(capture: str, nvtx_range: str) -> dict[str, float]:
    """What the first iteration took beyond the others, as the device saw it, in ns.

    nvtx_range: the name of the range that each iteration runs in; iteration i is the i-th range of
    that name by start. An iteration launches what is launched while its range is open on the same
    thread, inner ranges included, and it is over when all that it and the iterations before it
    launched is over. It takes from the end of the one before it to its own end; the first, from the
    start of its range on the host to its end. One that launches nothing ends with the one before it
    (the first of all: at the start of its range).

    Returns {"first_ns", "steady_ns": the median of all others, "excess_ns": first minus steady,
    "steady_start_ns": the time at which the first is over}.

    Raises CaptureError if no range has that name, ValueError if there are fewer than three. The message
    holds the name, or how many there are.
    """
    raise NotImplementedError


def utilization_series(capture: str, period_ns: int) -> dict[int, list[dict[str, float]]]:
    """What a dashboard would have shown: per device, utilization of one period after the other.

    The periods are period_ns long and begin with the start of the first device operation of the
    capture (on any device); the last one ends with the last operation and may be shorter. Per device
    that an operation ran on, a list of one dict a period:
        "start_ns"           when it begins
        "utilization_ratio"  as NVML defines "GPU utilization": the share of the period in which one or
                             more kernels were executing. Whole CUDA graphs count, copies and memsets
                             do not. 0.0 to 1.0
        "summed_ratio"       the parts of all kernels and graphs inside the period added, over its
                             length: 2.0 if two streams run a kernel each all the time
    (source of the definition: NVML API reference, nvmlUtilization_t)

    Raises ValueError, with period_ns in its message, unless it is positive.
    """
    raise NotImplementedError


def idle_by_host(capture: str, device: int = 0, start_ns: int = 0) -> dict[str, Any]:
    """What the host did while a device stood still, and what it was doing when that began.

    A gap is a stretch between operations of the device (kernels, graphs, copies, memsets, of all
    streams) in which none ran; those that begin at start_ns or later count. A gap ends with an
    operation; the thread that launched it is the one to look at. If several operations start at the
    same time, the one with the smallest correlation counts. If the launching call of that operation
    had ended when the gap began, or just then, the work was queued and the host is not to blame.

    Returns
        "idle_ns"    the lengths of the gaps, added
        "queued_ns"  those of gaps that ended with work that was queued; they are in neither dict
        "during"     {name of a CUDA call: ns of the other gaps that the thread spent in calls of that
                     name; "": ns outside of every call}
        "opened_by"  {name: ns of the other gaps at whose start the thread was in a call of that name;
                     "" if it was in none}; each gap counts with its whole length, for one name
    A call holds the moments from its start_ns up to, but not including, its end_ns. Of calls inside
    calls the outermost counts. Where the launching call was not recorded, the whole gap goes to "" in
    both. Names with 0 ns are left out; the values of each dict add up to idle_ns - queued_ns.

    Raises EmptyCapture, with the device's number in its message, if no operation ran on it.
    """
    raise NotImplementedError


def read_timeline(capture: str, nvtx_range: str) -> Finding:
    """The main reason for which device 0 stands still, once the first iteration is over.

    The window begins when the first iteration of nvtx_range is over (`first_iteration_cost`) and ends
    with the last operation of device 0. Of the gaps that begin in it (`idle_by_host`), without those
    that ended with queued work, each nanosecond belongs to one category. Calls are sorted by
    `profiling_lab.captures.dependencies.call_kind`:
        "allocation_bound"  spent in a call of kind "allocation", in whatever gap (such calls cost by
                            themselves, and many wait for the device by themselves); and the rest of a
                            gap that such a call opened
        "sync_bound"        the rest of a gap that a call of kind "synchronize" or "copy_call" opened:
                            the host waited, and went on when the device had nothing left
        "launch_bound"      the rest of any other gap of at most DISPATCH_LIMIT_NS
        "host_bound"        the rest of any other, longer gap
    The category with the most time is the finding, the first in this order if equal; "healthy" if that
    time is less than HEALTHY_FLOOR_RATIO of the window.

    subject: "device:0". evidence: "recoverable_ns" (the time of that category: what could be saved at
    most by taking it away), "window_ns", "recoverable_ratio" (their quotient), "idle_ns" (of all gaps
    in the window, queued ones too), "first_iteration_excess_ns" (as first_iteration_cost). For
    "healthy", recoverable_ns is that of the largest category.
    recommendation: one sentence; "none" if healthy.
    """
    raise NotImplementedError
