"""What the recorder itself cost the host: time that the same program does not take without it.

A recorder takes its time at each call, device operation and operator that it writes down, on the thread that makes
them. How much was measured: the same loops with it and without, in turns (benchmarks/pairs/recorder_cost.py; figures
in benchmarks/PAIRS.md). A slow host is slow in both, so the cost grows with what a launching call takes here. No
recording says how long its program takes without it: never more than half of a stretch is taken for the recorder's, and
nothing on the way to a pause in which a thread may have waited for longer than that, where nobody recorded whether it did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from profiling_lab.analysis import host_time, order
from profiling_lab.analysis.host_time import HostTime


@dataclass(frozen=True)
class Cost:
    """ns for each recorded call, for each device operation that one issued, and for each operator."""

    call_ns: int
    operation_ns: int
    operator_ns: int


# Where a launching call takes host_time.LAUNCH_NS. In loops that do one thing again and again (an H100's host) a call costs
# 1.5 µs with Nsight Systems and 0.7 with PyTorch's profiler, a device operation 2.6 and 2.7, an operator 1.2. Whole programs
# pay more: with Nsight Systems 1.7 times as much where it traces the operating system, too, and 1.1 times without that
# (medians of the same nine programs), with PyTorch's profiler 1.2 times (of ten). A thread's short calls of the system
# are not in the recording, but each is intercepted.
COSTS = {
    "nsys": Cost(1_650, 2_860, 0),
    "nsys and the operating system": Cost(2_550, 4_420, 0),
    "kineto": Cost(840, 3_240, 1_440),
}
MOST_RATIO = 0.5


def of_nodes(time: HostTime) -> np.ndarray:
    """Per node of an order, the part of its own time and its lead that is the recorder's, in ns."""
    made = time.order
    recording = made.recording
    with_system = " and the operating system" if len(recording.os_calls) else ""
    cost = COSTS[recording.source + with_system]
    out = np.zeros(len(made), dtype=np.int64)
    calls = np.flatnonzero((made.thread >= 0) & (made.row >= 0) & (made.kind != order.WAIT))
    out[calls] = cost.call_ns
    issued = np.flatnonzero(made.why == order.ISSUED)
    # The nodes of a graph are written down by the device alone.
    issued = issued[~recording.operations.node[made.row[made.to[issued]]]]
    out += cost.operation_ns * np.bincount(made.on[issued], minlength=len(made))
    operators = recording.operators
    host = np.flatnonzero(made.thread >= 0)
    if len(operators) and cost.operator_ns:
        begun = np.sort(time.key(operators.thread, operators.start))
        first = time.key(made.thread[host], made.start[host] - made.lead[host])
        last = time.key(made.thread[host], made.start[host])
        count = np.searchsorted(begun, last) - np.searchsorted(begun, first)
        out[host] += cost.operator_ns * count
    out = (out * host_time.slowness(made)).astype(np.int64)
    length = np.where(made.thread >= 0, made.lead + made.own, 0)
    out = np.minimum(out, (MOST_RATIO * length).astype(np.int64))
    if recording.source == "nsys" and not len(recording.os_calls):
        _keep_before_pauses(time, out)
    return out


def _keep_before_pauses(time: HostTime, cost: np.ndarray) -> None:
    """Nothing for what leads to a pause that lasts longer than its cost."""
    made = time.order
    pause = 2 * time.lead_input > np.maximum(made.lead, time.limit_ns)
    number = np.cumsum(
        np.append(False, pause[:-1])
    )  # of the stretch that ends with a pause, in order of time
    total = np.bincount(number, cost)
    ends = np.flatnonzero(pause)
    longer = np.zeros(len(total), dtype=bool)
    longer[: len(ends)] = time.lead_input[ends] >= total[: len(ends)]
    cost[longer[number]] = 0


def without(time: HostTime) -> tuple[np.ndarray, np.ndarray]:
    """Leads and own times of an order's nodes without the recorder's part, each less in proportion."""
    made = time.order
    part = of_nodes(time) / np.maximum(1, made.lead + made.own)
    return (
        made.lead - (part * made.lead).astype(np.int64),
        made.own - (part * made.own).astype(np.int64),
    )
