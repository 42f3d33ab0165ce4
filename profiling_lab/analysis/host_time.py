"""What host threads do, in columns: the purpose of each stretch of a thread's time.

Each host node of an order has host code that leads to it (`lead`) and its own time (`own`). Here each gets a
purpose: issuing work, waiting, copying, allocation, input, compiling, set-up, or the program's own code.

What happened once is set-up (`analysis.once`): in each thread's calls, its own code, its waits for input, its
compilations, and allocations before one kernel. So is by how much the first launch of a kernel (its module is loaded
then) or the first copy takes longer than the next, and the program's own code before its first kernel that runs again.
Loading modules and making contexts always is.
"""

# Long because each purpose is told in a way of its own, of the same nodes.

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from profiling_lab import devices
from profiling_lab.analysis import asleep, columns, intervals, once, order
from profiling_lab.analysis.columns import LOADER, Recording
from profiling_lab.analysis.intervals import Intervals
from profiling_lab.analysis.order import Order

(
    ISSUING,
    WAITING,
    COPYING,
    ALLOCATING,
    INPUT,
    OWN_CODE,
    COMPILING,
    SETUP,
) = range(8)
PURPOSES = (
    "issuing",
    "waiting for results",
    "copy calls",
    "allocation",
    "input",
    "own host code",
    "compiling",
    "set-up",
)

# A host that issues work needs some microseconds, in a framework some tens, from one CUDA call to the next. A
# stretch of host code up to this length is the cost of issuing; a longer one is the program's own code. While
# PyTorch profiles itself, it takes up to some hundred microseconds where a backward pass or an optimizer begins.
# The smaller limit is so much where a launching call takes LAUNCH_NS: a slow host is slow in all that it does.
DISPATCH_LIMIT_NS = {"nsys": 100_000, "kineto": 1_000_000}
LAUNCH_NS = 5_300

# The range in which TorchDynamo compiles one piece of code.
COMPILATION = re.compile(r"_compile\.compile_inner")
# The range in which XLA compiles a module, with the module's name.
XLA_COMPILATION = r"XlaCompile:"
# Calls that load what was compiled; fewer modules that come again are no habit.
LOADS = r"cu(Module|Library)Load"
LOADED_LEAST = 3
# The range in which PyTorch's loader waits for its workers.
LOADED_ELSEWHERE = re.compile(r"_MultiProcessingDataLoaderIter")
# Of the link's peak, what large copies of pinned memory reach: the median of 321 in the course's recordings of an
# H200, 54 of 64 GB/s.
LINK_REACHED_RATIO = 0.85
LARGE_COPY_BYTES = 2**20  # from this size on, a copy's rate is the link's
# A core moves at least so many bytes a ns from one place in memory to another: 5.8 to 7.1 into memory in use, 3.4 to 4.4
# into memory that the system first has to give (benchmarks/pairs/host_moves.py: nine copies each of 64 MiB, the host of an
# H200). Code in front of a copy that takes no longer than its bytes need to be moved moves them.
HOST_BYTES_PER_NS = 3.4
# So many bytes a ns of new memory a host takes that is given to it in pages of 4 KiB: 1.7 in the median, 1.5 where it is slow
# (benchmarks/pairs/host_fetch.py). JAX takes as much as it fetches, 40 ms for 64 MiB, before it has a helper copy.
NEW_BYTES_PER_NS = 1.5
# So many bytes a ns of such memory it gives back: 14 in the median, 11 where it is slow (benchmarks/pairs/host_moves.py).
GIVEN_BACK_BYTES_PER_NS = 11
COPY_LATENCY_NS = (
    1_500  # of a copy of a few bytes (the least in recordings of an H200: 1.2 to 2 µs)
)
OS_WAIT_RATIO = (
    0.5  # of a stretch of host code: what the thread waited for then, it did not do itself
)
# Always set-up; the other calls of kind SETUP_CALL only the first time.
ALWAYS_SETUP = (
    r"cu(Module|Library|Kernel|Link)(Load|GetFunction|Create|AddData|Complete)|cuda(Module|Library)"
    r"|cu(da)?(DevicePrimaryCtx|Ctx)(Retain|Create|Reset)|cuInit"
)


Keyed = Callable[[np.ndarray, np.ndarray, np.ndarray], Intervals]


@dataclass
class LinkCopies:
    """The nodes that copy between host and device.

    link, upload, pageable: per node, whether it is such a copy, to the device, of pageable memory. bytes: of each, -1
    where unknown. rates: bytes per ns of pinned memory, for uploads (True) and downloads (False): the recording's own, else
    what its device's link reaches. few_bytes: copies
    whose bytes take less time on the link than its latency: who blocks in one waits for what comes before it.
    """

    link: np.ndarray
    upload: np.ndarray
    pageable: np.ndarray
    bytes: np.ndarray
    rates: dict[bool, float]
    few_bytes: np.ndarray


def link_copies(made: Order) -> LinkCopies:
    """The copies between host and device of an order."""
    work = made.recording.operations
    device = made.kind == order.DEVICE
    rows = np.where(device, made.row, 0)
    name = work.name[rows]
    directions = [made.recording.code("H2D"), made.recording.code("D2H")]
    link = device & (work.kind[rows] == columns.COPY) & np.isin(name, directions)
    upload = link & (name == directions[0])
    size = np.where(link, work.bytes[rows], 0)
    pageable = link & work.pageable[rows]
    names = made.recording.device_names
    peak = min(
        (devices.host_link_bytes_per_s(names.get(d, "")) for d in made.recording.devices),
        default=0.0,
    )
    rates = {}
    for to_device in (True, False):
        own = link & ~pageable & (upload == to_device) & (size >= LARGE_COPY_BYTES)
        spent = made.own[own].sum()
        rates[to_device] = float(
            size[own].sum() / spent if spent else LINK_REACHED_RATIO * peak / 1e9
        )
    rate = np.where(upload, rates[True], rates[False])
    few = link & (size >= 0) & (size / rate < COPY_LATENCY_NS)
    return LinkCopies(link, upload, pageable, size, rates, few)


@dataclass
class HostTime:
    """The purpose of host time, by the nodes of an order.

    own_setup, lead_setup, lead_input, lead_compiling: the parts of a node's own time and of its lead that have
    this purpose, in ns. own_code: whether the rest of the lead is the program's own code (else: issuing); staging: whether
    that code moves to pinned memory what is copied next, or takes or gives back room for what is fetched; own_is_code
    says so of the own time of calls that do nothing to the device. handed_input: per link, whether another thread
    hands over input; handed: per node, whether its lead is a wait for input that another thread or process makes.
    while_compiling: per node, whether a thread that compiles calls it, or the device does it for such a call: a compiler
    times variants. single_step: what happened once may happen in each step. pieces: all stretches of all threads
    by `key` (thread and time in one number), and the purpose of each.
    """

    order: Order
    limit_ns: int
    own_setup: np.ndarray
    lead_setup: np.ndarray
    lead_input: np.ndarray
    lead_compiling: np.ndarray
    own_code: np.ndarray
    staging: np.ndarray
    own_is_code: np.ndarray
    allocating_lead: np.ndarray
    pieces: Intervals
    purpose: np.ndarray
    origin_ns: int
    stride_ns: int
    names: dict[str, int]
    links: LinkCopies
    handed_input: np.ndarray
    handed: np.ndarray
    while_compiling: np.ndarray
    single_step: bool = False
    closing_thread: int | None = None

    def key(self, thread: np.ndarray, time_ns: np.ndarray) -> np.ndarray:
        """A thread and a time as one number, for all threads in one order."""
        return thread.astype(np.int64) * self.stride_ns + (time_ns - self.origin_ns)


def slowness(made: Order) -> float:
    """How many times LAUNCH_NS a launching call takes in this recording, 1.0 where there is none."""
    launches = made.own[(made.kind == order.LAUNCH) & (made.own > 0)]
    return order.median(launches) / LAUNCH_NS if len(launches) else 1.0


def read(made: Order, single_step: bool = False) -> HostTime:
    """The purposes of the host time of an order.

    single_step: one step of a program that had run others was recorded: what it does once, each may do.
    """
    recording = made.recording
    host = np.flatnonzero(made.thread >= 0)
    low = min(int((made.start - made.lead).min()), int(recording.ranges.start.min(initial=0)))
    high = int(made.end.max())
    for table in (recording.ranges, recording.operators, recording.os_calls):
        if len(table):
            low, high = min(low, int(table.start.min())), max(high, int(table.end.max()))
    stride = high - low + 2
    limit = DISPATCH_LIMIT_NS[recording.source]
    if recording.source == "nsys":
        limit = int(limit * max(1.0, slowness(made)))

    def keyed(thread: np.ndarray, start: np.ndarray, end: np.ndarray) -> Intervals:
        base = thread.astype(np.int64) * stride - low
        return Intervals(base + start, base + end)

    n = len(made)
    zeros = lambda: np.zeros(n, dtype=np.int64)  # noqa: E731
    leads = keyed(made.thread[host], made.start[host] - made.lead[host], made.start[host])
    compiling, loading = _named_ranges(recording, COMPILATION), _named_ranges(recording, LOADER)
    compiling = intervals.union(
        intervals.together(
            keyed(*compiling), keyed(*_traced_again(made)), keyed(*_compiled_again(made))
        )
    )
    loading = intervals.difference(keyed(*loading), compiling)
    first = nothing = Intervals(leads.starts_ns[:0], leads.ends_ns[:0])
    if not single_step:
        groups = _groups(made, len(recording.threads))
        parts = (once.of_stretches(spans, stride, groups) for spans in (compiling, loading))
        first = intervals.union(intervals.together(*parts))
        compiling = intervals.difference(compiling, first)
        loading = intervals.difference(loading, first)
    lead_compiling, lead_input = zeros(), zeros()
    lead_compiling[host] = intervals.covered(compiling, leads)
    lead_input[host] = intervals.covered(loading, leads)
    lead_setup = zeros()
    lead_setup[host] = intervals.covered(first, leads)
    rest = made.lead - lead_compiling - lead_input - lead_setup
    long = _longer(made, rest, limit)
    # What a thread does that only hands input over is input.
    feeding = np.zeros(int(made.thread.max(initial=0)) + 2, dtype=bool)
    feeding[made.thread[made.on[_handed_input(made, keyed, loading)]]] = True
    links = link_copies(made)
    staging = long & (rest <= _next_sent_bytes(made, links) / HOST_BYTES_PER_NS)
    staging |= long & (rest <= _fetched_by_helper_bytes(made, links) / NEW_BYTES_PER_NS)
    staging |= long & (rest <= _fetched_last_bytes(made, links) / GIVEN_BACK_BYTES_PER_NS)
    fed, waits = _fed(made, keyed, long)
    waits |= long & feeding[made.thread]
    waited = np.flatnonzero((fed | waits) & ~staging)
    elsewhere = intervals.union(keyed(*_named_ranges(recording, LOADED_ELSEWHERE)))
    handed = waits & ~staging
    handed[host] |= 2 * intervals.covered(elsewhere, leads) > made.lead[host]
    lead_input[waited] += rest[waited]
    spans = keyed(made.thread[waited], made.start[waited] - made.lead[waited], made.start[waited])
    loading = intervals.difference(intervals.union(intervals.together(loading, spans)), compiling)
    long[waited] = False
    own_setup = _first_times(made)
    before_loop = np.flatnonzero(long & (made.start <= _loop_begins(made)))
    lead_setup[before_loop] = np.maximum(lead_setup[before_loop], _beyond_usual(made, before_loop))
    code = np.isin(made.kind, (order.HOST_CODE, order.SETUP_CALL))
    own_is_code = code & (made.own > limit)
    allocating = _between_allocations(made) & ~long
    lead_setup = np.minimum(lead_setup, made.lead - lead_compiling - lead_input)
    if not single_step:
        other = lead_compiling + lead_input
        own_setup, lead_setup = _with_what_is_once(made, own_setup, lead_setup, other, long)
    out = HostTime(
        made,
        limit,
        own_setup,
        lead_setup,
        lead_input,
        lead_compiling,
        long,
        staging & long,
        own_is_code,
        allocating,
        nothing,
        np.zeros(0, dtype=np.int8),
        low,
        stride,
        _loader_names(recording),
        links,
        _handed_input(made, keyed, loading),
        handed,
        _while_compiling(made, keyed, compiling),
        single_step,
    )
    _paint(out, host, keyed, compiling, loading)
    return out


def _longer(made: Order, rest: np.ndarray, limit: int) -> np.ndarray:
    """Nodes whose lead is longer than issuing takes.

    Where two thirds of a thread's leads from half to twice the limit are below it, issuing takes about that long here. Then
    those a little above it vary with the host, and are no code of the program's own.
    """
    out = rest > limit
    about = np.flatnonzero((made.thread >= 0) & (2 * rest > limit) & (rest <= 2 * limit))
    above = np.bincount(made.thread[about], out[about], len(made.recording.threads))
    every = np.bincount(made.thread[about], minlength=len(made.recording.threads))
    out[about] &= (3 * above > every)[made.thread[about]]
    return out


def _groups(made: Order, count: int) -> np.ndarray:
    """By thread, the one that it works for: helpers of a pool take turns, and none has all of what recurs."""
    host = made.thread >= 0
    pairs, times = np.unique(
        np.stack([made.thread[host], made.for_thread[host]]), axis=1, return_counts=True
    )
    out = np.arange(count)
    by_times = np.argsort(times, kind="stable")
    out[pairs[0][by_times]] = pairs[1][by_times]
    return out


def _with_what_is_once(
    made: Order,
    own_setup: np.ndarray,
    lead_setup: np.ndarray,
    other: np.ndarray,
    long: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Set-up in a node's own time and lead, with what each thread did once and never again for that long."""
    own_setup, lead_setup = own_setup.copy(), lead_setup.copy()
    # Allocations have been asked kernel by kernel.
    rows = np.flatnonzero((made.thread >= 0) & ~np.isin(made.kind, (order.WAIT, order.ALLOCATION)))
    group, _ = columns.number_rows(made.for_thread[rows], made.kind[rows])
    own_setup[rows] += once.beyond_recurring(made.own[rows] - own_setup[rows], group)
    rows = np.flatnonzero(long)
    rest = made.lead[rows] - other[rows] - lead_setup[rows]
    lead_setup[rows] += once.beyond_recurring(rest, made.for_thread[rows].astype(np.int64))
    return own_setup, lead_setup


def _traced_again(made: Order) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thread, start and end of what XLA compiles again and again under one name, from the last call before it.

    Before it, the function is traced and lowered.
    """
    table = made.recording.ranges
    times = np.bincount(table.name.astype(np.int64), minlength=len(made.recording.names))
    again = made.recording.names_like(XLA_COMPILATION) & (times >= LOADED_LEAST)
    rows = np.flatnonzero(again[table.name])
    thread, start, end = table.thread[rows].astype(np.int64), table.start[rows], table.end[rows]
    begun = start.copy()
    for one in np.unique(thread).tolist():
        calls, own = np.flatnonzero(made.thread == one), thread == one
        last = np.searchsorted(made.end[calls], start[own], side="right") - 1
        begun[own] = np.where(last >= 0, made.end[calls][last], start[own])
    return thread, begun, end


def _compiled_again(made: Order) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thread, start and end of what leads to loading a module, where such modules come again and again.

    It begins when the thread last gave work to a device or waited for it. What is loaded is the same code compiled anew
    where most of the kernels that then run, up to the next module, ran under the same names before it; before a graph,
    whose kernels have no names, where such loads come before most graphs.
    """
    recording, work = made.recording, made.recording.operations
    empty = np.zeros(0, dtype=np.int64)
    host = np.flatnonzero((made.thread >= 0) & (made.row >= 0) & (made.kind != order.WAIT))
    loads = host[recording.names_like(LOADS)[recording.calls.name[made.row[host]]]]
    issued = np.flatnonzero(made.why == order.ISSUED)
    kind = work.kind[made.row[made.to[issued]]]
    issued, kind = issued[kind <= columns.GRAPH], kind[kind <= columns.GRAPH]
    by = np.argsort(made.on[issued], kind="stable")
    issued, kind = issued[by], kind[by]
    if len(loads) < LOADED_LEAST or not len(issued):
        return empty, empty, empty
    call = made.on[issued]
    # What a compiler appends to tell versions of one function apart (Numba does) is no other name.
    words = [name.partition("[abi:")[0] for name in recording.names]
    _, plain = np.unique(words, return_inverse=True)
    name = plain[work.name[made.row[made.to[issued]]]]
    _, first = np.unique(name, return_index=True)
    known = np.ones(len(name), dtype=bool)
    known[first] = False
    number = np.searchsorted(loads, call)  # of modules loaded before it
    known &= kind == columns.KERNEL
    known = np.bincount(number, known, len(loads) + 1)[1:]
    same = 2 * known > np.bincount(number, kind == columns.KERNEL, len(loads) + 1)[1:]
    # Loads before each graph that no kernel comes in between.
    following = np.minimum(np.searchsorted(call, loads), len(call) - 1)
    before = np.where((kind[following] == columns.GRAPH) & (call[following] > loads), following, -1)
    graphs, count = np.unique(before[before >= 0], return_counts=True)
    graphs = graphs[2 * count >= count.max(initial=0)]
    if 2 * len(graphs) > np.sum(kind == columns.GRAPH):
        same |= np.isin(before, graphs)
    again = loads[same]
    if len(again) < LOADED_LEAST:
        return empty, empty, empty
    # Per thread, when it was last busy with the device.
    own = np.flatnonzero(made.thread >= 0)
    own = own[np.argsort(made.thread[own], kind="stable")]
    busy = np.zeros(len(made), dtype=bool)
    busy[made.on[made.why == order.ISSUED]] = True
    busy |= made.kind == order.WAIT
    starts = np.append(True, made.thread[own][1:] != made.thread[own][:-1])
    begun = (made.start - made.lead)[own]
    ends = np.where(busy[own], made.end[own], begun.min())
    ends = order.running_max(np.where(starts, np.maximum(ends, begun), ends), starts)
    place = np.empty(len(made), dtype=np.int64)
    place[own] = np.arange(len(own))
    at = place[again]
    last = np.where(starts[at], begun[at], ends[np.maximum(at - 1, 0)])
    thread, last = made.thread[again], np.minimum(last, made.start[again])
    spans = [(thread, last, made.start[again])]
    # What others do for a thread that compiles is part of it.
    helps = own[made.for_thread[own] != made.thread[own]]
    pairs, place = np.unique(
        np.stack([made.for_thread[helps], made.thread[helps]]), axis=1, return_inverse=True
    )
    for number, (helped, helper) in enumerate(pairs.T.tolist()):
        rows = helps[place == number]
        leads = Intervals(made.start[rows] - made.lead[rows], made.start[rows])
        compiled = Intervals(last[thread == helped], made.start[again][thread == helped])
        starts, ends = intervals.intersection(compiled, leads)
        spans.append((np.full(len(starts), helper), starts, ends))
    first, second, third = (np.concatenate(part) for part in zip(*spans, strict=True))
    return first.astype(np.int64), second, third


def _while_compiling(made: Order, keyed: Keyed, compiling: Intervals) -> np.ndarray:
    """Nodes of threads that compile, or help to, and what these give the device to do."""
    out = np.zeros(len(made), dtype=bool)
    host = np.flatnonzero(made.thread >= 0)
    begun = made.start[host]
    out[host] = intervals.covered(compiling, keyed(made.for_thread[host], begun, begun + 1)) > 0
    issued = made.why == order.ISSUED
    out[made.to[issued]] |= out[made.on[issued]]
    return out


def _handed_input(made: Order, keyed: Keyed, loading: Intervals) -> np.ndarray:
    """Links by which a thread that gives the device nothing to do hands input to one that waits in its loader."""
    gives = np.zeros(int(made.thread.max(initial=0)) + 2, dtype=bool)
    gives[made.thread[made.on[made.why == order.ISSUED]]] = True
    out = (made.why == order.HAND_OVER) & ~gives[made.thread[made.on]]
    rows = np.flatnonzero(out)
    begun = made.start[made.on[rows]]
    out[rows] = intervals.covered(loading, keyed(made.thread[made.to[rows]], begun, begun + 1)) > 0
    return out


def _named_ranges(
    recording: Recording, pattern: re.Pattern[str]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Thread, start and end of the ranges and operators whose name holds a pattern."""
    wanted = np.array([bool(pattern.search(name)) for name in recording.names], dtype=bool)
    found = []
    for table in (recording.ranges, recording.operators):
        own = wanted[table.name.astype(np.int64)] if len(table) else np.zeros(0, dtype=bool)
        found.append((table.thread[own], table.start[own], table.end[own]))
    thread, start, end = (np.concatenate(part) for part in zip(*found, strict=True))
    return thread.astype(np.int64), start, end


def _loader_names(recording: Recording) -> dict[str, int]:
    """By name of a loader's ranges, the time in them."""
    out: dict[str, int] = {}
    for table in (recording.ranges, recording.operators):
        if not len(table):
            continue
        for code in np.unique(table.name).tolist():
            if LOADER.search(recording.names[code]):
                own = table.name == code
                total = int((table.end[own] - table.start[own]).sum())
                out[recording.names[code]] = out.get(recording.names[code], 0) + total
    return out


def _fed(made: Order, keyed: Keyed, long: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Long stretches of host code in which a thread waits for input, or makes it: what it does next is to send data.

    Of both kinds, and those in which it waits.

    Data, and not a few bytes. Nor does code count that began with results of the device: what is made of them is no
    input. A thread that waited in the operating system meanwhile did not do it itself, whatever it began with.
    """
    calls, links = made.recording.os_calls, link_copies(made)
    out, waiting = np.zeros(len(made), dtype=bool), np.zeros(len(made), dtype=bool)
    asked = np.flatnonzero(long & (made.thread >= 0))
    if not len(asked):
        return out, waiting
    sends = _next_issued_is_upload(made, links)[asked]
    fed = ~_after_results(made, links)[asked]
    if len(calls):
        waits = made.recording.names_like(asleep.OS_WAITS)[calls.name]
        spans = intervals.union(keyed(calls.thread[waits], calls.start[waits], calls.end[waits]))
        leads = keyed(made.thread[asked], made.start[asked] - made.lead[asked], made.start[asked])
        waited = intervals.covered(spans, leads) >= OS_WAIT_RATIO * made.lead[asked]
        waiting[asked[waited & sends]] = True
        fed |= waited
    out[asked[fed & sends]] = True
    return out, waiting


def _after_results(made: Order, links: LinkCopies) -> np.ndarray:
    """Host nodes of a thread that has got results from the device since it last issued work."""
    host = np.flatnonzero(made.thread >= 0)
    got = np.zeros(len(made), dtype=np.int8)
    waited = made.why == order.WAITED
    # A wait for a copy to the host, or for a stream in which one was the last to be done.
    results = (links.link & ~links.upload)[made.on]
    got[made.to[waited & results]] = 1
    issued = np.flatnonzero(made.why == order.ISSUED)
    got[made.on[issued[~(links.link & ~links.upload)[made.to[issued]]]]] = 2
    by_thread = host[np.argsort(made.thread[host], kind="stable")]
    marks = got[by_thread]
    place = np.maximum.accumulate(np.where(marks > 0, np.arange(len(marks)), -1))
    before = np.append(-1, place[:-1])
    same = (before >= 0) & (made.thread[by_thread[np.maximum(before, 0)]] == made.thread[by_thread])
    out = np.zeros(len(made), dtype=bool)
    out[by_thread] = same & (marks[np.maximum(before, 0)] == 1)
    return out


def _next_issued_is_upload(made: Order, links: LinkCopies) -> np.ndarray:
    """Per host node, whether what its thread issues next (itself included), or hands over, is data for the device."""
    issued = np.flatnonzero(made.why == order.ISSUED)
    upload = np.zeros(len(made), dtype=np.int8)
    sends = (links.upload & ~links.few_bytes)[made.to[issued]]
    upload[made.on[issued]] = np.where(sends, 1, 2)
    handed = np.flatnonzero((made.why == order.HAND_OVER) & (made.row[made.on] < 0))
    for asked in (True, False):
        out = _next_of_thread(made, upload) == 1
        if asked and len(handed):
            upload[made.on[handed[out[made.to[handed]]]]] = 1
    return out


def _next_of_thread(made: Order, marks: np.ndarray) -> np.ndarray:
    """Per host node, the mark of the next node of its thread that has one (itself included); 0 if none has."""
    host = np.flatnonzero(made.thread >= 0)
    by_thread = host[np.argsort(made.thread[host], kind="stable")][::-1]
    own = marks[by_thread]
    place = np.maximum.accumulate(np.where(own > 0, np.arange(len(own)), -1))
    same = (place >= 0) & (made.thread[by_thread[np.maximum(place, 0)]] == made.thread[by_thread])
    out = np.zeros(len(made), dtype=marks.dtype)
    out[by_thread] = np.where(same, own[np.maximum(place, 0)], 0)
    return out


def _next_sent_bytes(made: Order, links: LinkCopies) -> np.ndarray:
    """Per host node, the bytes that its thread sends from pinned memory next, before it issues anything else; else 0."""
    issued = np.flatnonzero(made.why == order.ISSUED)
    sent = np.zeros(len(made), dtype=np.int64)
    sends = (links.upload & ~links.few_bytes & ~links.pageable)[made.to[issued]]
    sent[made.on[issued]] = 1 + np.where(sends, links.bytes[made.to[issued]], 0)
    return np.maximum(0, _next_of_thread(made, sent) - 1)


def _fetched_last_bytes(made: Order, links: LinkCopies) -> np.ndarray:
    """Per host node, the bytes that its thread last fetched into pageable memory, if it issued nothing since; else 0.

    That memory was new, and what was fetched before is given back now: no core reads as many bytes in so little time.
    """
    issued = np.flatnonzero(made.why == order.ISSUED)
    fetches = (links.link & ~links.upload & ~links.few_bytes & links.pageable)[made.to[issued]]
    fetched = np.zeros(len(made), dtype=np.int64)
    fetched[made.on[issued]] = 1 + np.where(fetches, links.bytes[made.to[issued]], 0)
    out = np.zeros(len(made), dtype=np.int64)
    host = np.flatnonzero(made.thread >= 0)
    if not len(host):
        return out
    by_thread = host[np.argsort(made.thread[host], kind="stable")]
    marks, thread = fetched[by_thread], made.thread[by_thread]
    place = np.maximum.accumulate(np.where(marks > 0, np.arange(len(marks)), -1))
    before = np.append(-1, place[:-1])
    same = (before >= 0) & (thread[np.maximum(before, 0)] == thread)
    out[by_thread] = np.where(same, marks[np.maximum(before, 0)] - 1, 0)
    return np.maximum(0, out)


def _fetched_by_helper_bytes(made: Order, links: LinkCopies) -> np.ndarray:
    """Per host node, the bytes that helpers of its thread fetch during its lead, or that the helper fetches that it wakes.

    Of a helper's own node, what it fetches next.
    """
    issued = np.flatnonzero(made.why == order.ISSUED)
    fetches = (links.link & ~links.upload & ~links.few_bytes & ~links.pageable)[made.to[issued]]
    size = np.where(fetches, links.bytes[made.to[issued]], 0)
    fetched = np.zeros(len(made), dtype=np.int64)
    fetched[made.on[issued]] = 1 + size
    out = np.maximum(0, _next_of_thread(made, fetched) - 1)
    helps = made.for_thread != made.thread
    out[~helps] = 0
    handed = np.flatnonzero(made.why == order.HAND_OVER)
    np.maximum.at(out, made.on[handed], out[made.to[handed]])
    by = np.flatnonzero(fetches & helps[made.on[issued]])
    call, size = made.on[issued[by]], size[by]
    for thread in np.unique(made.for_thread[call]).tolist():
        own = np.flatnonzero(made.for_thread[call] == thread)
        own = own[np.argsort(made.start[call[own]], kind="stable")]
        times = made.start[call[own]]
        total = np.append(0, np.cumsum(size[own]))
        nodes = np.flatnonzero(made.thread == thread)
        first, last = (
            np.searchsorted(times, ends)
            for ends in ((made.start - made.lead)[nodes], made.start[nodes])
        )
        out[nodes] = np.maximum(out[nodes], total[last] - total[first])
    return out


def _first_times(made: Order) -> np.ndarray:
    """The part of each call's own time that is set-up."""
    recording = made.recording
    out = np.zeros(len(made), dtype=np.int64)
    always = recording.names_like(ALWAYS_SETUP)
    host = np.flatnonzero((made.thread >= 0) & (made.row >= 0) & (made.kind != order.WAIT))
    name = recording.calls.name[made.row[host]]
    kind = made.kind[host]
    own = made.own[host]
    out[host[always[name]]] = own[always[name]]
    # What a call issued first.
    target = np.full(len(made), -1, dtype=np.int64)
    issued = np.flatnonzero(made.why == order.ISSUED)[::-1]
    target[made.on[issued]] = recording.operations.name[made.row[made.to[issued]]]
    issuing = np.isin(kind, (order.LAUNCH, order.COPY_CALL, order.SETUP_CALL)) & ~always[name]
    rows = np.flatnonzero(issuing)
    group, _ = columns.number_rows(name[rows].astype(np.int64), target[host[rows]])
    out[host[rows]] = _excess_of_first(own[rows], group, kind[rows])
    rows = np.flatnonzero(kind == order.ALLOCATION)
    out[host[rows]] = _allocated_once(made, host[rows])
    return out


def _excess_of_first(own: np.ndarray, group: np.ndarray, kind: np.ndarray) -> np.ndarray:
    """By how much the first of a group took longer than the others do, or of one alone, others of its kind."""
    out = np.zeros(len(own), dtype=np.int64)
    if not len(own):
        return out
    by_group = np.lexsort((own, group))
    ordered = group[by_group]
    first = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    count = np.diff(np.append(first, len(ordered)))
    # The lower median of all but the longest: of one alone, its kind's.
    typical = own[by_group[first + np.maximum(0, (count - 2) // 2)]]
    for one in np.unique(kind).tolist():
        alone = (count == 1) & (kind[by_group[first]] == one)
        typical[alone] = int(np.sort(own[kind == one])[(np.sum(kind == one) - 1) // 2])
    _, begins = np.unique(group, return_index=True)
    out[begins] = np.maximum(0, own[begins] - typical)
    return out


def _allocated_once(made: Order, nodes: np.ndarray) -> np.ndarray:
    """Of the own time of allocations, what they do not take again before the same kernel: not part of a loop.

    Allocations of a thread between two kernels are one; it is for the kernel that comes next.
    """
    recording = made.recording
    own = made.own[nodes]
    issued = np.flatnonzero(made.why == order.ISSUED)
    kernels = issued[
        np.isin(
            recording.operations.kind[made.row[made.to[issued]]], (columns.KERNEL, columns.GRAPH)
        )
    ]
    if not len(nodes) or not len(kernels):
        return own
    call = made.on[kernels]
    name = recording.operations.name[made.row[made.to[kernels]]]
    ordered = np.argsort(call, kind="stable")
    call, name = call[ordered], name[ordered]
    place = np.searchsorted(call, nodes, side="left")
    following = np.where(place < len(call), name[np.minimum(place, len(call) - 1)], -1)
    bursts, rows = columns.number_rows(following.astype(np.int64), place)
    total = np.bincount(bursts, own, len(rows)).astype(np.int64)
    beyond = once.beyond_recurring(total, np.array([kernel for kernel, _ in rows]))
    return np.where(total[bursts] > 0, own * (beyond / np.maximum(total, 1))[bursts], 0).astype(
        np.int64
    )


def _beyond_usual(made: Order, nodes: np.ndarray) -> np.ndarray:
    """By how much longer the host code that leads to some calls took than it does before the same calls later."""
    recording = made.recording
    target = np.full(len(made), -1, dtype=np.int64)
    issued = np.flatnonzero(made.why == order.ISSUED)[::-1]
    target[made.on[issued]] = recording.operations.name[made.row[made.to[issued]]]
    host = np.flatnonzero((made.thread >= 0) & (made.row >= 0) & (made.kind != order.WAIT))
    name = recording.calls.name[made.row[host]]
    group, _ = columns.number_rows(name.astype(np.int64), target[host])
    place = np.searchsorted(host, nodes)
    out = np.zeros(len(nodes), dtype=np.int64)
    for number, at in enumerate(place.tolist()):
        if at == len(host) or host[at] != nodes[number]:
            continue
        later = host[(group == group[at]) & (host > nodes[number])]
        leads = np.sort(made.lead[later])
        usual = int(leads[(len(leads) - 1) // 2]) if len(leads) else 0
        longest = int(leads[-1]) if len(leads) else 0
        # A loop's own code comes again, though not before each of these calls.
        usual = max(usual, min(longest, int(made.lead[nodes[number]])))
        out[number] = max(0, int(made.lead[nodes[number]]) - usual)
    return out


def _loop_begins(made: Order) -> int:
    """When the host first issued a kernel that runs more than once; long before everything if none does."""
    recording, work = made.recording, made.recording.operations
    kernels = np.isin(work.kind, (columns.KERNEL, columns.GRAPH))
    times = np.bincount(work.name[kernels], minlength=len(recording.names))
    issued = made.why == order.ISSUED
    operation = made.row[made.to[issued]]
    again = kernels[operation] & (times[work.name[operation]] > 1)
    starts = made.start[made.on[issued]][again]
    return int(starts.min()) if len(starts) else order.NEVER


def _between_allocations(made: Order) -> np.ndarray:
    """Host code that leads from one allocation to the next."""
    out = np.zeros(len(made), dtype=bool)
    chained = np.flatnonzero(made.why == order.PROGRAM_ORDER)
    before, after = made.on[chained], made.to[chained]
    allocates = (made.kind == order.ALLOCATION) | (
        (made.kind == order.WAIT) & (made.waits_in == order.ALLOCATION)
    )
    out[after[allocates[before] & (made.kind[after] == order.ALLOCATION)]] = True
    return out


def _paint(
    out: HostTime, host: np.ndarray, keyed: Keyed, compiling: Intervals, loading: Intervals
) -> None:
    """All stretches of all threads with their purposes, in order of thread and time."""
    made = out.order
    thread, start = made.thread[host], made.start[host]
    lead_purpose = np.full(len(host), ISSUING, dtype=np.int8)
    lead_purpose[out.own_code[host]] = OWN_CODE
    lead_purpose[out.staging[host]] = COPYING
    lead_purpose[out.allocating_lead[host]] = ALLOCATING
    kinds = np.full(len(order.NODE_KINDS), ISSUING, dtype=np.int8)
    kinds[order.COPY_CALL], kinds[order.ALLOCATION] = COPYING, ALLOCATING
    kinds[order.SYNCHRONIZE] = kinds[order.WAIT] = WAITING
    kinds[order.HOST_FUNCTION] = OWN_CODE
    own_purpose = kinds[made.kind[host]]
    own_purpose[out.own_is_code[host]] = OWN_CODE
    # With this the host comes back from a wait: part of the round trip, as long as it is short.
    back = made.resumes[host]
    lead_purpose[back & (lead_purpose == ISSUING)] = WAITING
    own_purpose[back & (own_purpose == ISSUING)] = WAITING
    setup = out.own_setup[host]
    parts = [
        (keyed(thread, start, start + setup), np.full(len(host), SETUP, dtype=np.int8)),
        (keyed(thread, start + setup, start + made.own[host]), own_purpose),
    ]
    before = out.lead_setup[host]
    parts.append(
        (
            keyed(thread, start - made.lead[host], start - made.lead[host] + before),
            np.full(len(host), SETUP, dtype=np.int8),
        )
    )
    leads = keyed(thread, start - made.lead[host] + before, start)
    touched = (out.lead_input[host] > 0) | (out.lead_compiling[host] > 0)
    parts.append(
        (Intervals(leads.starts_ns[~touched], leads.ends_ns[~touched]), lead_purpose[~touched])
    )
    for purpose in np.unique(lead_purpose[touched]).tolist():
        own = touched & (lead_purpose == purpose)
        some = Intervals(leads.starts_ns[own], leads.ends_ns[own])
        for spans, painted in (
            (intervals.intersection(some, compiling), COMPILING),
            (intervals.intersection(some, loading), INPUT),
            (intervals.difference(intervals.difference(some, compiling), loading), purpose),
        ):
            parts.append((spans, np.full(len(spans.starts_ns), painted, dtype=np.int8)))
    starts = np.concatenate([spans.starts_ns for spans, _ in parts])
    ends = np.concatenate([spans.ends_ns for spans, _ in parts])
    purpose = np.concatenate([painted for _, painted in parts])
    some = np.flatnonzero(ends > starts)
    some = some[np.argsort(starts[some], kind="stable")]
    out.pieces, out.purpose = Intervals(starts[some], ends[some]), purpose[some]
