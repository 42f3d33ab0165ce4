"""Kernel overlap: what really runs at the same time?

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, pairwise
from typing import Any

from profiling_lab import captures
from profiling_lab.captures.dependencies import read as read_dependencies
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding

HEALTHY_FLOOR_RATIO = 0.10  # of the window: a cause that costs less is not worth fixing
BORDERLINE_RATIO = 0.02  # a share this close to the floor, on either side, is borderline
START_COST_NS = (
    5_000  # from ready to start, without any reason but the start itself: about 1 to 3 µs
)
WARP_THREADS = 32

# What an SM of compute capability 9.0 holds (source: CUDA C++ Programming Guide, technical specifications
# per compute capability; CUDA Occupancy Calculator for the units in which registers and memory are given).
WARPS_PER_SM, BLOCKS_PER_SM = 64, 32
SM_PARTITIONS, PARTITION_REGISTERS, WARP_REGISTER_UNIT = 4, 16_384, 256
SHARED_PER_SM_BYTES, SHARED_UNIT_BYTES = 228 * 1024, 128
RESERVED_SHARED_BYTES = 1024  # of each block, for the system


def concurrency(capture: str, device: int = 0) -> dict[str, Any]:
    """How many kernels ran at the same time.

    All kernels of the device are used, on all streams. A whole CUDA graph counts as one kernel. A kernel
    runs from its start up to, but not including, its end.

    Returns
        "kernel_ns":     sum of the durations of all kernels.
        "busy_ns":       time in which at least one kernel ran.
        "average_count": kernel_ns / busy_ns: the average number of running kernels while any ran.
        "peak_count":    the largest number of kernels that ran at once.
        "ns_at_count":   {number of running kernels: ns}, from 1 on, without numbers that never occurred.

    Raises EmptyCapture, with the device's number in its message, if no kernel ran on the device.
    """
    return _concurrency(_kernels(capture, device))


def _concurrency(kernels: list[_Kernel]) -> dict[str, Any]:
    ns_at_count: dict[int, int] = {}
    changes = sorted([(k.start_ns, 1) for k in kernels] + [(k.end_ns, -1) for k in kernels])
    running = 0
    for (moment, change), (following, _) in pairwise(changes):
        running += change
        if running and following > moment:
            ns_at_count[running] = ns_at_count.get(running, 0) + following - moment
    kernel_ns = sum(k.end_ns - k.start_ns for k in kernels)
    busy_ns = sum(ns_at_count.values())
    return {
        "kernel_ns": kernel_ns,
        "busy_ns": busy_ns,
        "average_count": kernel_ns / busy_ns,
        "peak_count": max(ns_at_count),
        "ns_at_count": ns_at_count,
    }


def stream_overlap(capture: str, device: int = 0) -> list[tuple[int, int, int]]:
    """For each pair of streams, how long kernels of both ran at the same time.

    Returns (stream, greater stream, ns) for every pair of streams that had a kernel on the device, also
    for pairs with 0 ns, ordered by the streams. Time counts once, however many kernels of a stream run.
    Kernels and whole CUDA graphs are used as in `concurrency`. With only one stream the list is empty.

    Raises EmptyCapture if no kernel ran on the device.
    """
    streams: dict[int, list[tuple[int, int]]] = {}
    for kernel in _kernels(capture, device):
        streams.setdefault(kernel.stream, []).append((kernel.start_ns, kernel.end_ns))
    merged = {stream: union(spans) for stream, spans in streams.items()}
    return [
        (
            one,
            other,
            sum(max(0, min(b, d) - max(a, c)) for a, b in merged[one] for c, d in merged[other]),
        )
        for one, other in combinations(sorted(merged), 2)
    ]


def default_stream_waits(capture: str, default_stream: int = 7, device: int = 0) -> dict[str, int]:
    """Whether operations wait for the legacy default stream, and whether it waits for them.

    default_stream: the number of that stream in the recording (TARGET_INFO_CUDA_CONTEXT_INFO, nullStreamId; 7 in a
    process with one context).

    All operations of the device are used (`device_operations`), each with its launching call, joined on
    process and correlation. Operations without a call are left out. An operation was issued earlier than
    another if its call started earlier.
    - An operation is *ready* when its call has ended, and every operation that was issued earlier to its
      own stream has ended.
    - For an operation of the default stream, the *other side* is everything that was issued earlier to any
      other stream. For an operation of another stream, it is everything that was issued earlier to the
      default stream.
    - Consider an operation that is ready before all of its other side has ended. It is *held* if it starts
      when all of the other side has ended, or later. It is *crossing* if it starts before that, which the
      rule of the legacy default stream forbids for blocking streams.
    (source of the rule: CUDA Runtime API, stream synchronization behavior)

    Returns {"held_count", "held_ns": sum over the held operations of the time from ready to the last end
    of the other side, "crossing_count"}. All are 0 if nothing ran on the default stream.
    """
    held_count = held_ns = crossing_count = 0
    ends: dict[bool, int] = {}  # the latest end so far: on the default stream, on all others
    for operation in _issued(capture, device):
        is_default = operation.stream == default_stream
        other = ends.get(not is_default)
        if other is not None and other > operation.ready_ns:
            if operation.start_ns >= other:
                held_count += 1
                held_ns += other - operation.ready_ns
            else:
                crossing_count += 1
        ends[is_default] = max(ends.get(is_default, operation.end_ns), operation.end_ns)
    return {"held_count": held_count, "held_ns": held_ns, "crossing_count": crossing_count}


def start_delays(capture: str, device: int = 0) -> dict[int, dict[str, float]]:
    """For each stream, how long its kernels waited although they were ready.

    A kernel is ready when its launching call has ended and every operation that was issued earlier to
    its stream has ended (as in `default_stream_waits`). Its delay is the time from then to its start. A
    kernel may start before its call returns; its delay is then 0.

    Returns {stream: {"kernels_count", "median_ns", "worst_ns"}} for every stream with kernels or whole
    graphs on the device whose call was recorded.
    """
    delays: dict[int, list[int]] = {}
    for operation in _issued(capture, device):
        if operation.is_kernel:
            delay = max(0, operation.start_ns - operation.ready_ns)
            delays.setdefault(operation.stream, []).append(delay)
    return {
        stream: {
            "kernels_count": len(found),
            "median_ns": statistics.median(found),
            "worst_ns": max(found),
        }
        for stream, found in delays.items()
    }


def device_share(
    capture: str,
    device: int = 0,
    warps_per_sm: int = WARPS_PER_SM,
    blocks_per_sm: int = BLOCKS_PER_SM,
) -> dict[str, float]:
    """For each kernel name, the share of the device that one launch asks for.

    The share is the number of blocks divided by the number of blocks that the device can hold at once.
    With 0.25, four such kernels can run side by side. With 2.0, the kernel needs two waves, and leaves no
    room for another kernel. An SM holds as many blocks as all of these limits allow, and at least one:
        warps:     warps_per_sm; a block of 33 threads has two warps.
        blocks:    blocks_per_sm.
        registers: each warp takes registers_per_thread x WARP_THREADS registers, rounded up to
                   WARP_REGISTER_UNIT. An SM has SM_PARTITIONS partitions with PARTITION_REGISTERS each; a
                   warp takes all its registers from one partition.
        shared:    SHARED_PER_SM_BYTES; each block takes its static and dynamic bytes and
                   RESERVED_SHARED_BYTES, rounded up to SHARED_UNIT_BYTES.
    `NsysCapture.kernels` has registers_per_thread, static_shared_bytes and dynamic_shared_bytes.
    `NsysCapture.devices` has the number of SMs of the device (sm_count; use 1 if the device is not
    listed). Constants and defaults are those of compute capability 9.0.

    Returns {short name: the largest share of its launches}. Whole graphs have no grid and are left out.
    """
    shares: dict[str, float] = {}
    kernels = _kernels(capture, device)
    for kernel, exact in zip(
        kernels, _shares(capture, device, kernels, warps_per_sm, blocks_per_sm), strict=True
    ):
        if kernel.name:
            share = float(exact)
            shares[kernel.name] = max(shares.get(kernel.name, share), share)
    return shares


def judge_streams(capture: str, device: int = 0) -> Finding:
    """Whether kernels of different streams run one after the other although they could overlap.

    window: from the first start to the last end of the kernels of the device (graphs included).

    Two upper bounds on the saving are computed; the smaller one is used.
    - *waiting*: the time in which at least one kernel is late and could run. A kernel is late from
      START_COST_NS after it was ready (`start_delays`) until it starts. It could run if kernels of other
      streams run, none of its own stream runs, and its share and the shares of all running kernels add up
      to at most 1. The share is that of the single launch, with the definition and the defaults of
      `device_share`, and 1.0 for a graph. If an event makes the kernel's stream wait for
      operations, the kernel is ready only after these have ended. These operations are the kernel's
      dependencies whose `why` is "event", from `read_dependencies(recording)` (its
      `where` and `start_ns` identify the kernel).
    - *packing*: the time in which any kernel runs (`concurrency`, busy_ns) minus the least time that these
      kernels need. This is the larger of two numbers: the largest total duration of any one stream, and the
      sum over all kernels of duration times share (at most 1.0 each).

    "recoverable_ns" is the smaller bound, or 0 if that is negative. Returns "serialized_streams" if
    recoverable_ns is at least HEALTHY_FLOOR_RATIO of the window, else "healthy".
    subject: "device:<n>".
    evidence: "recoverable_ns", "window_ns", "recoverable_ratio" (recoverable_ns / window_ns),
    "margin_ratio" (recoverable_ratio minus HEALTHY_FLOOR_RATIO), "average_count" (from `concurrency`),
    "streams_count" (streams with kernels).
    recommendation: one sentence; "none" if healthy. If |margin_ratio| <= BORDERLINE_RATIO it begins with
    "borderline", for a healthy capture too.
    """
    kernels = _kernels(capture, device)
    found = _concurrency(kernels)
    window = max(k.end_ns for k in kernels) - min(k.start_ns for k in kernels)
    shares = _shares(capture, device, kernels)
    lengths: dict[int, int] = {}
    ns_at_share: dict[Fraction, int] = {}
    for kernel, share in zip(kernels, shares, strict=True):
        duration = kernel.end_ns - kernel.start_ns
        lengths[kernel.stream] = lengths.get(kernel.stream, 0) + duration
        ns_at_share[share] = ns_at_share.get(share, 0) + duration
    area = sum(total_ns * min(share, _WHOLE) for share, total_ns in ns_at_share.items())
    packing = found["busy_ns"] - max(*lengths.values(), area)
    recoverable = float(max(0, min(packing, _waiting_ns(capture, device, kernels, shares))))
    ratio = recoverable / window
    margin = ratio - HEALTHY_FLOOR_RATIO
    evidence = {
        "recoverable_ns": recoverable,
        "window_ns": window,
        "recoverable_ratio": ratio,
        "margin_ratio": margin,
        "average_count": found["average_count"],
        "streams_count": len(lengths),
    }
    category, advice = "healthy", "none"
    if margin >= 0:
        category = "serialized_streams"
        advice = (
            "take the work off the legacy default stream, or create the streams as non-blocking"
        )
    if abs(margin) <= BORDERLINE_RATIO:
        advice = f"borderline: {advice}"
    return Finding(category, f"device:{device}", evidence, advice)


_WHOLE = Fraction(1)


@dataclass(slots=True)
class _Kernel:
    """A kernel or a whole graph. name: "" for a graph. launch: its row; None for a graph."""

    start_ns: int
    end_ns: int
    stream: int
    name: str
    key: tuple[int, int]  # process and correlation
    launch: dict[str, Any] | None


@dataclass(slots=True)
class _Issued:
    start_ns: int
    end_ns: int
    stream: int
    is_kernel: bool
    call_start_ns: int
    ready_ns: int
    key: tuple[int, int]


_SHAPE = (
    *(f"{what}_{axis}" for what in ("grid", "block") for axis in "xyz"),
    "registers_per_thread",
    "static_shared_bytes",
    "dynamic_shared_bytes",
)


def _kernels(capture: str, device: int) -> list[_Kernel]:
    """Kernels and graphs of a device, ordered by start."""
    recording = captures.open(capture)
    out = []
    for row in recording.kernels.iter_rows(named=True):
        if row["device"] == device:
            key = row["process"], row["correlation"]
            span = row["start_ns"], row["end_ns"], row["stream"]
            out.append(_Kernel(*span, row["name"], key, row))
    for row in recording.graph_launches.iter_rows(named=True):
        if row["device"] == device:
            key = row["process"], row["correlation"]
            out.append(_Kernel(row["start_ns"], row["end_ns"], row["stream"], "", key, None))
    if not out:
        raise EmptyCapture(f"{capture}: no kernel ran on device {device}")
    return sorted(out, key=lambda k: (k.start_ns, k.end_ns))


def _shares(
    capture: str,
    device: int,
    kernels: list[_Kernel],
    warps_per_sm: int = WARPS_PER_SM,
    blocks_per_sm: int = BLOCKS_PER_SM,
) -> list[Fraction]:
    """The share of the device that each kernel asks for; 1 for a graph."""
    devices = captures.open(capture).devices.rows(named=True)
    sms = {row["device"]: row["sm_count"] for row in devices}.get(device, 1)
    shares: dict[tuple[int, ...], Fraction] = {}  # launches repeat
    out = []
    for kernel in kernels:
        row = kernel.launch
        if row is None:
            out.append(_WHOLE)
            continue
        shape = tuple(row[column] for column in _SHAPE)
        if shape not in shares:
            blocks = row["grid_x"] * row["grid_y"] * row["grid_z"]
            room = sms * _blocks_per_sm(row, warps_per_sm, blocks_per_sm)
            shares[shape] = Fraction(blocks, room)
        out.append(shares[shape])
    return out


def _blocks_per_sm(launch: dict[str, Any], warps_per_sm: int, blocks_per_sm: int) -> int:
    """How many blocks of a launch one SM holds."""
    warps = -(-launch["block_x"] * launch["block_y"] * launch["block_z"] // WARP_THREADS)
    warp_registers = _rounded_up(launch["registers_per_thread"] * WARP_THREADS, WARP_REGISTER_UNIT)
    if warp_registers:
        held = SM_PARTITIONS * (PARTITION_REGISTERS // warp_registers)
        warps_per_sm = min(warps_per_sm, held)
    asked = launch["static_shared_bytes"] + launch["dynamic_shared_bytes"]
    block_bytes = _rounded_up(asked + RESERVED_SHARED_BYTES, SHARED_UNIT_BYTES)
    return max(1, min(blocks_per_sm, warps_per_sm // warps, SHARED_PER_SM_BYTES // block_bytes))


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _issued(capture: str, device: int) -> list[_Issued]:
    """The device's operations that have a call, in the order in which they were issued."""
    recording = captures.open(capture)
    calls: dict[tuple[int, int], tuple[int, int]] = {}
    columns = "process", "correlation", "start_ns", "end_ns"
    for process, correlation, *span in recording.api_calls.select(columns).iter_rows():
        calls.setdefault((process, correlation), tuple(span))
    out = []
    for row in recording.device_operations.iter_rows(named=True):
        key = row["process"], row["correlation"]
        if row["device"] == device and key in calls:
            is_kernel = row["kind"] in ("kernel", "graph")
            span = row["start_ns"], row["end_ns"], row["stream"], is_kernel
            out.append(_Issued(*span, *calls[key], key))
    out.sort(key=lambda o: o.call_start_ns)
    ends: dict[int, int] = {}
    for operation in out:
        before = ends.get(operation.stream, operation.ready_ns)
        operation.ready_ns = max(operation.ready_ns, before)
        ends[operation.stream] = max(before, operation.end_ns)
    return out


def _waiting_ns(capture: str, device: int, kernels: list[_Kernel], shares: list[Fraction]) -> int:
    """Time in which some kernel is ready, waits, and would fit beside those that run."""
    late = {o.key: o.ready_ns + START_COST_NS for o in _issued(capture, device)}
    held = _held_by_events(capture, device)
    changes: list[tuple[int, str, int]] = []  # when a kernel is late, starts, and stops
    for i, kernel in enumerate(kernels):
        start = kernel.start_ns
        late_ns = late.get(kernel.key, start)
        waits_from = max(late_ns, held.get((kernel.stream, start), late_ns))
        changes += [(start, "starts", i), (kernel.end_ns, "stops", i)]
        if waits_from < start:
            changes.append((waits_from, "is late", i))
    waiting: set[int] = set()
    running: set[int] = set()
    taken = Fraction(0)
    waiting_ns = 0
    for (moment, what, i), (following, _, _) in pairwise(sorted(changes)):
        if what == "is late":
            waiting.add(i)
        elif what == "starts":
            waiting.discard(i)
            running.add(i)
            taken += shares[i]
        else:
            running.discard(i)
            taken -= shares[i]
        if following > moment and running and waiting:
            streams = {kernels[k].stream for k in running}
            if any(
                kernels[k].stream not in streams and taken + shares[k] <= _WHOLE for k in waiting
            ):
                waiting_ns += following - moment
    return waiting_ns


def _held_by_events(capture: str, device: int) -> dict[tuple[int, int], int]:
    """By stream and start, when a kernel is late that events held back."""
    operations = read_dependencies(captures.open(capture))
    held = {}
    for operation in operations:
        ends = [operations[d.on].end_ns for d in operation.after if d.why == "event"]
        if operation.device == device and ends:
            stream = int(operation.where.rpartition(":")[2])
            held[stream, operation.start_ns] = max(ends) + START_COST_NS
    return held


def union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Disjoint spans that cover the same time, in order. Given."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return out
