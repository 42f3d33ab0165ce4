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

HEALTHY_FLOOR_RATIO = 0.10  # of the window: what costs less is not worth anybody's afternoon
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

    Kernels are those of the device, on all streams; a whole CUDA graph counts as one. A kernel runs
    from its start up to, but not including, its end.

    Returns
        "kernel_ns"      the durations of all kernels, added
        "busy_ns"        time in which at least one ran
        "average_count"  kernel_ns / busy_ns: how many ran on average while any ran
        "peak_count"     the most that ran at once
        "ns_at_count"    {how many ran: ns}, from 1 on, counts that never occurred left out

    Raises EmptyCapture, with the device's number in its message, if no kernel ran on it.
    """
    raise NotImplementedError


def stream_overlap(capture: str, device: int = 0) -> list[tuple[int, int, int]]:
    """For each two streams, for how long kernels of both ran at the same time.

    Returns (stream, greater stream, ns) for every pair of streams that had a kernel on the device, 0 ns
    included, ordered by the streams. Time counts once, however many kernels of a stream run. What a
    kernel and a whole CUDA graph are: as in `concurrency`. One stream alone makes an empty list.

    Raises EmptyCapture if no kernel ran on the device.
    """
    raise NotImplementedError


def default_stream_waits(capture: str, default_stream: int = 7, device: int = 0) -> dict[str, int]:
    """Whether operations wait for the legacy default stream, and it for them.

    default_stream: the number that the recording has for it (TARGET_INFO_CUDA_CONTEXT_INFO,
    nullStreamId; 7 in a process with one context).

    All operations of the device count (`device_operations`), each with its launching call, joined on
    process and correlation; those without one are left out. An operation is *ready* when its call has
    ended and every operation that was issued earlier to its own stream has ended. Issued earlier: its
    call started earlier. The *other side* of an operation of the default stream is all that was
    issued earlier to any other stream; of an operation of another stream, all that was issued earlier
    to the default stream. If something of the other side is still to end when the operation is ready,
    then it is *held* if it starts when all of that has ended, or later; it is *crossing* if it starts
    before, which the rule of the legacy default stream forbids for blocking streams.
    (source of the rule: CUDA Runtime API, stream synchronization behavior)

    Returns {"held_count", "held_ns": for the held ones, from ready to the last end of the other side,
    added, "crossing_count"}. All 0 if nothing ran on the default stream.
    """
    raise NotImplementedError


def start_delays(capture: str, device: int = 0) -> dict[int, dict[str, float]]:
    """Per stream, how long its kernels waited though they were ready.

    A kernel is ready when its launching call has ended and every operation that was issued earlier to
    its stream has ended (as in `default_stream_waits`). Its delay is the time from then to its start,
    and never negative: a kernel may start before its call returns.

    Returns {stream: {"kernels_count", "median_ns", "worst_ns"}} for every stream with kernels or whole
    graphs on the device whose call was recorded.
    """
    raise NotImplementedError


def device_share(
    capture: str,
    device: int = 0,
    warps_per_sm: int = WARPS_PER_SM,
    blocks_per_sm: int = BLOCKS_PER_SM,
) -> dict[str, float]:
    """Per kernel name, the share of the device that one launch asks for.

    It is the number of blocks over the number of blocks that the device can hold at once; 0.25: four
    such kernels fit side by side, 2.0: the kernel has two waves, and no room beside it. An SM holds as
    many blocks as all of these allow, and at least the one that ran:
        warps      warps_per_sm; a block of 33 threads has two
        blocks     blocks_per_sm
        registers  each warp takes registers_per_thread x WARP_THREADS, rounded up to WARP_REGISTER_UNIT, from
                   one of the SM_PARTITIONS, of which each has PARTITION_REGISTERS: whole warps a partition
        shared     SHARED_PER_SM_BYTES; each block takes its static and dynamic bytes and
                   RESERVED_SHARED_BYTES, rounded up to SHARED_UNIT_BYTES
    (`NsysCapture.kernels`: registers_per_thread, static_shared_bytes, dynamic_shared_bytes.) The number of
    SMs is the device's (`NsysCapture.devices`, sm_count; 1 if it is not in there). Constants and defaults
    are those of compute capability 9.0.

    Returns {short name: the largest share of its launches}. Whole graphs have no grid and are left out.
    """
    raise NotImplementedError


def judge_streams(capture: str, device: int = 0) -> Finding:
    """Whether kernels of different streams run one after the other though they need not.

    window: from the first start to the last end of the kernels of the device (graphs included).

    Two bounds, the smaller one counts:
    - *waiting*: the time in which at least one kernel has been ready (`start_delays`) for START_COST_NS or
      longer, has not started, and could: kernels of other streams run, none of its own does, and the
      shares of all that run and its own add up to at most 1. The share is that of the single launch, by
      the definition and the defaults of `device_share`; 1.0 for a graph. What an event makes a kernel's
      stream wait for must have ended too before it is ready: these are the dependencies of why "event"
      that `read_dependencies(recording)` gives for the kernel (its `where` and `start_ns` tell which);
    - *packing*: the time in which any kernel runs (`concurrency`, busy_ns) minus the least that these
      kernels need: the larger of the longest stream (its durations added) and all durations times their
      shares (at most 1.0 each), added.

    "recoverable_ns" is the smaller bound, 0 if that is negative. Returns "serialized_streams" if it is at
    least HEALTHY_FLOOR_RATIO of the window, else "healthy". subject: "device:<n>". evidence:
    "recoverable_ns", "window_ns", "recoverable_ratio" (their quotient), "average_count" (as `concurrency`),
    "margin_ratio" (recoverable_ratio minus HEALTHY_FLOOR_RATIO), "streams_count" (with kernels).
    recommendation: one sentence; "none" if healthy. If |margin_ratio| <= BORDERLINE_RATIO it begins with
    "borderline", for a healthy capture too.
    """
    raise NotImplementedError
