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
    raise NotImplementedError


def stream_overlap(capture: str, device: int = 0) -> list[tuple[int, int, int]]:
    """For each pair of streams, how long kernels of both ran at the same time.

    Returns (stream, greater stream, ns) for every pair of streams that had a kernel on the device, also
    for pairs with 0 ns, ordered by the streams. Time counts once, however many kernels of a stream run.
    Kernels and whole CUDA graphs are used as in `concurrency`. With only one stream the list is empty.

    Raises EmptyCapture if no kernel ran on the device.
    """
    raise NotImplementedError


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
    raise NotImplementedError


def start_delays(capture: str, device: int = 0) -> dict[int, dict[str, float]]:
    """For each stream, how long its kernels waited although they were ready.

    A kernel is ready when its launching call has ended and every operation that was issued earlier to
    its stream has ended (as in `default_stream_waits`). Its delay is the time from then to its start. A
    kernel may start before its call returns; its delay is then 0.

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
    raise NotImplementedError


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
    raise NotImplementedError


def union(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Disjoint spans that cover the same time, in order. Given."""
    out: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return out
