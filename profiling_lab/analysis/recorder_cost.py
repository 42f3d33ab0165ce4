"""What the recorder itself cost the host: time that the same program does not take without it.

A recorder takes its time at each call, device operation and operator that it writes down, on the thread that makes
them, and around them. How much was measured: the same programs with it and without, in turns
(benchmarks/pairs/recorder_cost.py; figures in benchmarks/PAIRS.md). It differs from machine to machine by a factor of ten, and
the recording shows by how much: the recorder works inside of each launching call, which otherwise takes LAUNCH_ALONE_NS. No
recording says how long its program takes without it: never more than half of a stretch is taken for the recorder's, and
nothing on the way to a pause in which a thread may have waited for longer than that, where nobody recorded whether it did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiling_lab.analysis import host_time, order
from profiling_lab.analysis.host_time import HostTime
from profiling_lab.analysis.order import Order


@dataclass(frozen=True)
class Cost:
    """ns for each recorded call, for each device operation that one issued, and for each operator."""

    call_ns: int
    operation_ns: int
    operator_ns: int


# Where a launching call takes LAUNCH_ALONE_NS and DEAR_NS more. In loops that do one thing again and again (an H100's host) a call costs
# 1.5 µs with Nsight Systems and 0.7 with PyTorch's profiler, a device operation 2.6 and 2.7, an operator 1.2. Whole programs
# pay more: with Nsight Systems 1.7 times as much where it traces the operating system, too, and 1.1 times without that
# (medians of the same nine programs), with PyTorch's profiler 1.2 times (of ten). A thread's short calls of the system
# are not in the recording, but each is intercepted.
COSTS = {
    "nsys": Cost(1_650, 2_860, 0),
    "nsys and the operating system": Cost(2_550, 4_420, 0),
    "kineto": Cost(840, 3_240, 1_440),
}
# What the recorder takes grows with what a launching call takes beyond this, and is COSTS where it takes DEAR_NS more: the line
# (Theil-Sen) through eighteen runs of nine programs with Nsight Systems (results/recorder_cost.json) and nine recordings of
# both recorders with a time right before them. In a loop, and not recorded, a call that gives work takes 2.1 to 4.4 µs.
LAUNCH_ALONE_NS = 3_800
DEAR_NS = 2_000
MOST_RATIO = 0.5


def dearness(made: Order) -> float:
    """How many times COSTS the recorder takes here."""
    launch_ns = host_time.LAUNCH_NS * host_time.slowness(made)
    return max(0.0, launch_ns - LAUNCH_ALONE_NS) / DEAR_NS


def of_nodes(time: HostTime) -> tuple[np.ndarray, np.ndarray]:
    """Per node of an order, the part of its lead and of its own time that is the recorder's, in ns.

    What a call costs is paid in its whole stretch: before a launch a library makes calls that take less than their cost.
    """
    made = time.order
    recording = made.recording
    with_system = " and the operating system" if len(recording.os_calls) else ""
    cost = COSTS[recording.source + with_system]
    paid = np.zeros(len(made), dtype=np.int64)
    host = made.thread >= 0
    paid[host & (made.row >= 0) & (made.kind != order.WAIT)] = cost.call_ns
    issued = np.flatnonzero(made.why == order.ISSUED)
    # The nodes of a graph are written down by the device alone.
    issued = issued[~recording.operations.node[made.row[made.to[issued]]]]
    paid += cost.operation_ns * np.bincount(made.on[issued], minlength=len(made))
    operators = recording.operators
    if len(operators) and cost.operator_ns:
        nodes = np.flatnonzero(host)
        begun = np.sort(time.key(operators.thread, operators.start))
        first = time.key(made.thread[nodes], made.start[nodes] - made.lead[nodes])
        last = time.key(made.thread[nodes], made.start[nodes])
        count = np.searchsorted(begun, last) - np.searchsorted(begun, first)
        paid[nodes] += cost.operator_ns * count
    paid = paid * dearness(made)
    # A call that takes long for itself bears no more than its own cost.
    own = np.where(host, np.minimum(made.own, paid / MOST_RATIO), 0)
    lead = np.where(host, made.lead, 0)
    number = _stretches(time)
    length = np.bincount(number, lead + own)
    ratio = np.minimum(MOST_RATIO, np.bincount(number, paid) / np.maximum(1, length))[number]
    lead, own = (ratio * lead).astype(np.int64), (ratio * own).astype(np.int64)
    if recording.source == "nsys" and not len(recording.os_calls):
        kept = _before_pauses(time, lead + own)
        lead[kept] = own[kept] = 0
    return lead, own


def _stretches(time: HostTime) -> np.ndarray:
    """By node the number of its stretch: what a thread does up to a call that issues work, or to a wait.

    What takes longer than issuing does is a stretch of its own.
    """
    made = time.order
    host = np.flatnonzero(made.thread >= 0)
    by_thread = host[np.argsort(made.thread[host], kind="stable")]
    thread = made.thread[by_thread]
    alone = (made.lead[by_thread] + made.own[by_thread] > time.limit_ns) | (
        made.kind[by_thread] == order.WAIT
    )
    issues = np.zeros(len(made), dtype=bool)
    issues[made.on[made.why == order.ISSUED]] = True
    last = alone | issues[by_thread]
    begins = np.append(True, (thread[1:] != thread[:-1]) | last[:-1]) | alone
    out = np.zeros(len(made), dtype=np.int64)
    out[by_thread] = np.cumsum(begins[: len(by_thread)])
    return out


def _before_pauses(time: HostTime, cost: np.ndarray) -> np.ndarray:
    """Nodes that lead to a pause which lasts longer than their cost."""
    made = time.order
    pause = 2 * time.lead_input > np.maximum(made.lead, time.limit_ns)
    number = np.cumsum(
        np.append(False, pause[:-1])
    )  # of the stretch that ends with a pause, in order of time
    total = np.bincount(number, cost)
    ends = np.flatnonzero(pause)
    longer = np.zeros(len(total), dtype=bool)
    longer[: len(ends)] = time.lead_input[ends] >= total[: len(ends)]
    return longer[number]


def without(time: HostTime) -> tuple[np.ndarray, np.ndarray]:
    """Leads and own times of an order's nodes without the recorder's part."""
    lead, own = of_nodes(time)
    return time.order.lead - lead, time.order.own - own
