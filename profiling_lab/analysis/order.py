"""The recorded order of dependencies in columns: what each operation waited for, with times.

`read` makes nodes and links of a `Recording`. A node is a host call together with the host code that leads to
it, the end of a wait, or a device operation. A link says that a node starts no earlier than another one's
end and some time more. Played again unchanged (`analysis.replay`), nodes get their recorded times.

What is read off the recording:

* A host thread does one thing after the other: its CUDA calls, and its own code between them.
* A device operation starts after the call that issued it (launch), after the one before it on its stream
  (stream order), after what an event makes its stream wait for (event) and, a copy, after the one before it of
  the same direction on its device (copy engine). The legacy default stream waits for what was issued before to
  blocking streams, and they wait for it (legacy), where the recording tells streams apart and none overtakes.
* A thread that pauses while another one's CUDA calls fill the pause waits for that thread, which in turn
  was started by it (hand-over).
* A call that blocks ends only after the device operations that it waits for (wait). So does a thread that asks
  again and again whether work is done, and one that a function of the host in a stream tells that it is.
* What a wait goes on for after memory was freed to a pool is the release of that memory; where there was nothing to wait
  for, all of a call that takes longer than a return is.
* A function of the host that was put into a stream is not recorded: what starts later than all this allows,
  right behind one, while the device does nothing else, waited for it.
* A kernel that touches managed memory which is not there stands still while it comes.
* Whatever else delayed a node is its `delay`.

Without a recording of events (--cuda-event-trace=true) events between streams are not seen; nor is a queue
between two threads.

Sources: CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; CUDA Runtime API, "API synchronization
behavior"; CUPTI's correlation of calls and device operations.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from profiling_lab.analysis.columns import Recording

# What a node is. Host nodes come first; WAIT is the moment at which a thread goes on after a wait.
(
    HOST_CODE,
    LAUNCH,
    COPY_CALL,
    SYNCHRONIZE,
    ALLOCATION,
    SETUP_CALL,
    WAIT,
    HOST_FUNCTION,
    DEVICE,
) = range(9)
NODE_KINDS = (
    "host code",
    "launch",
    "copy call",
    "synchronization",
    "allocation",
    "set-up",
    "wait",
    "host function",
    "device operation",
)
# What a host call does, by its name: the first pattern that matches wins.
CALL_KINDS = (
    (
        SYNCHRONIZE,
        r"(cuda(Stream|Device|Event|Thread)Synchronize|cu(Stream|Event|Ctx)Synchronize)$",
    ),
    (LAUNCH, r"cudaLaunch|cuLaunch|cu(da)?GraphLaunch"),
    (COPY_CALL, r"cu(da)?Memcpy|cu(da)?Memset"),
    (
        ALLOCATION,
        r"cuda(Malloc|Free|HostAlloc|HostRegister|HostUnregister)|cuMem(Host)?(Alloc|Free)"
        # Memory and addresses apart (Driver API, "Virtual Memory Management").
        r"|cuMem(Create|Release|Map|Unmap|SetAccess|AddressReserve|AddressFree|GetAllocationGranularity)",
    ),
    (
        SETUP_CALL,
        r"cu(Module|Library|Kernel|Link)(Load|GetFunction|Create|AddData|Complete)"
        r"|cuda(Module|Library)|cu(da)?(DevicePrimaryCtx|Ctx)(Retain|Create|Reset)|cuInit|cudaSetDevice"
        r"|cu(da)?GraphInstantiate|cudaFuncSetAttribute",
    ),
)
# Why a link holds.
PROGRAM_ORDER, HAND_OVER, ISSUED, STREAM_ORDER, EVENT, COPY_ENGINE, WAITED, LEGACY = range(8)
LINK_REASONS = (
    "program order",
    "hand-over",
    "launch",
    "stream order",
    "event",
    "copy engine",
    "wait",
    "legacy default stream",
)

# A thread that issues no call for this long, while one other thread's calls fill at least this share of
# the time, is taken to wait for that thread.
PAUSE_NS = 100_000
PAUSE_FILLED_RATIO = 0.5
# A pool of cudaMallocAsync gives memory back to the system in the next synchronizing call, unless it is told
# to keep it (cudaMemPoolAttrReleaseThreshold). Without that such calls return 1 to 39 µs after the operation
# ended that they wait for: what is longer is the release.
WAIT_RETURN_NS = 40_000
# Least time between two operations of a stream that is never empty (queued kernels on an H200).
BACK_TO_BACK_NS = 1_000
# Pauses behind a function of the host in a stream are waits to be told where they get longer by as much as
# what the device does: a slope nearer to 1 than to 0, two standard errors from the middle, of ten or more.
TOLD_SLOPE_ERROR = 0.25
TOLD_LEAST = 10
NOT_READY = 600  # what a call that asks whether work is done returns while it is not
# A kernel this long has not ended when an ordinary launching call returns.
LONG_KERNEL_NS = 50_000
LAUNCH_BLOCKING_RATIO = (
    0.95  # of the launches of such kernels, those that return after their kernel ended
)
NEVER = -(1 << 62)  # a lag that never decides


@dataclass
class Order:
    """Nodes in an order in which each depends on earlier ones only, and the links between them.

    kind: HOST_CODE … DEVICE. row: of the recording's calls (host) or operations (DEVICE), -1 for others.
    thread: of host nodes, -1 otherwise. for_thread: the one that slept meanwhile, else the node's own. start: recorded; the host code that leads to a call comes before it and takes
    `lead`; the node itself takes `own`, and ends at start + own. delay: what no link explains; held: what none but
    those of the legacy default stream explains. waits_in:
    for a WAIT the kind of the call that waits, else -1. resumes: with this the host goes on after a wait,
    up to and with the first call that issues work. links: `on`, `to`, `lag`, `why`, ordered by `to`.
    """

    recording: Recording
    kind: np.ndarray
    row: np.ndarray
    thread: np.ndarray
    for_thread: np.ndarray
    start: np.ndarray
    lead: np.ndarray
    own: np.ndarray
    delay: np.ndarray
    held: np.ndarray
    waits_in: np.ndarray
    resumes: np.ndarray
    on: np.ndarray
    to: np.ndarray
    lag: np.ndarray
    why: np.ndarray
    launches_block: bool

    @property
    def end(self) -> np.ndarray:
        """The recorded ends."""
        return self.start + self.own

    def __len__(self) -> int:
        return len(self.kind)


def read(
    recording: Recording,
    window_ns: tuple[int, int] | None = None,
    since_ns: int | None = None,
    pauses_tell: bool = True,
    watchdogs: bool = True,
) -> Order:
    """The order of a recording.

    window_ns: keep the host calls that start inside [start, end) and the device operations that these
    issued; without it, the host calls from since_ns on, or from the first one that issued device work.
    pauses_tell: whether a pause that another thread's calls fill is a hand-over to that thread. watchdogs: whether a
    thread that only asks may be one of the two; it gives nobody anything.
    Raises EmptyCapture if no device operation is left.
    """
    # Here: the phases make what this module defines.
    from profiling_lab.analysis.order_links import Builder

    made = Builder(recording, window_ns, since_ns, pauses_tell, watchdogs).build()
    # What the builder held is free again: a recording of ten million events has no room for both.
    made.delay, made.held = delays(made), delays(made, LEGACY)
    made.resumes = resumes(made)
    return made


def call_kinds(recording: Recording) -> np.ndarray:
    """Per name code the kind of a call of that name."""
    kinds = np.full(len(recording.names), HOST_CODE, dtype=np.int8)
    for place, name in enumerate(recording.names):
        kinds[place] = next(
            (kind for kind, pattern in CALL_KINDS if re.match(pattern, name)), HOST_CODE
        )
    return kinds


def last_by_key(keys: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """Per wanted key the last place that has it; -1 if none has."""
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    place = np.searchsorted(ordered, wanted, side="right") - 1
    found = place >= 0
    found[found] = ordered[place[found]] == wanted[found]
    out = np.full(len(wanted), -1, dtype=np.int64)
    out[found] = order[place[found]]
    return out


def median_low(values: np.ndarray) -> int:
    """The median, the lower one of two."""
    return int(np.partition(values, (len(values) - 1) // 2)[(len(values) - 1) // 2])


def median(values: np.ndarray) -> int:
    """The median as whole ns, towards zero."""
    return int(np.median(values))


def running_max(values: np.ndarray, first: np.ndarray) -> np.ndarray:
    """The running maximum within groups; `first` marks where a group begins."""
    if not len(values):
        return values
    low = int(values.min())
    span = int(values.max()) - low + 1
    group = np.cumsum(first) - 1
    raised = (values - low) + group * span
    return np.maximum.accumulate(raised) - group * span + low


def delays(order: Order, without: int = -1) -> np.ndarray:
    """By how much each node started later than its links allow; 0 for those without a link.

    without: leave out the links that hold for this reason.
    """
    delay = np.zeros(len(order), dtype=np.int64)
    kept = order.why != without
    kept = slice(None) if kept.all() else kept
    to = order.to[kept]
    if len(to):
        allowed = order.end[order.on[kept]]
        allowed += order.lag[kept]
        first = np.flatnonzero(np.append(True, to[1:] != to[:-1]))
        earliest = np.maximum.reduceat(allowed, first)
        nodes = to[first]
        delay[nodes] = order.start[nodes] - order.lead[nodes] - earliest
    return delay


def resumes(order: Order) -> np.ndarray:
    """Host nodes with which a thread goes on after a wait, up to and with the first that issues work."""
    host = np.flatnonzero(order.thread >= 0)
    by_thread = host[np.argsort(order.thread[host], kind="stable")]
    thread = order.thread[by_thread]
    first = np.ones(len(by_thread), dtype=bool)
    first[1:] = thread[1:] != thread[:-1]
    place = np.arange(len(by_thread))
    waited = np.where(order.kind[by_thread] == WAIT, place, -1)
    issued = np.where(np.isin(order.kind[by_thread], (LAUNCH, COPY_CALL)), place, -1)

    def last_before(marks: np.ndarray) -> np.ndarray:
        shifted = np.full(len(marks), -1, dtype=np.int64)
        shifted[1:] = marks[:-1]
        shifted[first] = -1
        begin = np.maximum.accumulate(np.where(first, place, 0)) if len(place) else place
        reached = np.maximum.accumulate(shifted) if len(shifted) else shifted
        return np.where(reached >= begin, reached, -1)

    out = np.zeros(len(order), dtype=bool)
    out[by_thread] = last_before(waited) > last_before(issued)
    return out
