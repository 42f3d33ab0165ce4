"""Whether work on different streams of a device runs one after the other though nothing orders it.

A kernel waits without reason from when all it waits for is done (`analysis.order`, but for the order that the legacy
default stream imposes) until it starts, while kernels of other streams run and leave it room. The room is counted in blocks: a kernel's share of the device is its blocks
over those that fit. What side by side would save is bounded by the least time that these kernels need: the longest
stream, and all durations times their shares.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profiling_lab.analysis import intervals, order
from profiling_lab.analysis.intervals import Intervals
from profiling_lab.analysis.order import Order

if TYPE_CHECKING:
    from profiling_lab.analysis.nsys_columns import Export

Answer = tuple[str, int, int, dict[str, float]]

START_COST_NS = 5_000  # from ready to start without a reason but the start itself: about 1 to 3 µs
# What an SM of compute capability 9.0 holds (CUDA C++ Programming Guide, technical specifications).
WARP_THREADS, WARPS_PER_SM, BLOCKS_PER_SM = 32, 64, 32
SM_PARTITIONS, PARTITION_REGISTERS, WARP_REGISTER_UNIT = 4, 16_384, 256
SHARED_PER_SM_BYTES, SHARED_UNIT_BYTES, RESERVED_SHARED_BYTES = 228 * 1024, 128, 1024


def judge(export: Export, made: Order) -> list[Answer]:
    """("serialized_streams", device, ns, evidence) for each device on which a process used several streams."""
    work = made.recording.operations
    nodes = np.flatnonzero(made.kind == order.DEVICE)
    rows = made.row[nodes]
    runs = work.kind[rows] <= 1  # kernels and graphs
    nodes, rows = nodes[runs], rows[runs]
    out = []
    for device in np.unique(work.device[rows]).tolist():
        own = work.device[rows] == device
        streams = work.stream[rows[own]]
        if len(np.unique(streams)) < 2 or (made.held[nodes[own]] <= START_COST_NS).all():
            continue
        shares = _shares(export, device, rows[own])
        saved = _saved(made, nodes[own], streams, shares)
        if saved > 0:
            count = float(len(np.unique(streams)))
            evidence = {"streams_count": count}
            if made.recording.stream_types:
                late = nodes[own][made.held[nodes[own]] > START_COST_NS]
                told = 1 - float(made.delay[late].sum() / made.held[late].sum())
                evidence["by_default_stream_ratio"] = told
            out.append(("serialized_streams", device, saved, evidence))
    return out


def _saved(made: Order, nodes: np.ndarray, streams: np.ndarray, shares: np.ndarray) -> int:
    starts, ends = made.start[nodes], made.end[nodes]
    lengths = ends - starts
    busy = intervals.total_ns(Intervals(starts, ends))
    longest = int(np.bincount(streams, weights=lengths).max())
    packing = busy - max(longest, int((lengths * np.minimum(shares, 1)).sum()))
    if packing <= 0:
        return 0
    # What share of the device is taken, from moment to moment.
    times = np.concatenate([starts, ends])
    change = np.concatenate([shares, -shares])
    by_time = np.argsort(times, kind="stable")
    taken = np.cumsum(change[by_time])[:-1]
    running = np.cumsum(np.repeat([1, -1], len(nodes))[by_time])[:-1]
    moments = times[by_time]
    late = made.held[nodes] > START_COST_NS
    waiting = Intervals(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    for share in np.unique(shares[late]).tolist():
        room = (running > 0) & (taken + share <= 1 + 1e-9)
        fits = Intervals(moments[:-1][room], moments[1:][room])
        own = np.flatnonzero(late & (shares == share))
        waits = Intervals(starts[own] - made.held[nodes[own]] + START_COST_NS, starts[own])
        both = intervals.intersection(fits, waits)
        waiting = Intervals(
            np.concatenate([waiting.starts_ns, both.starts_ns]),
            np.concatenate([waiting.ends_ns, both.ends_ns]),
        )
    return min(packing, intervals.total_ns(waiting))


def _shares(export: Export, device: int, rows: np.ndarray) -> np.ndarray:
    """Per operation the share of the device that a launch takes; 1 for a graph."""
    launch = {name: column[rows] for name, column in export.launches.items()}

    def times(of: str) -> np.ndarray:
        return launch[f"{of}_x"] * launch[f"{of}_y"] * launch[f"{of}_z"]

    def up(value: np.ndarray, unit: int) -> np.ndarray:
        return (value + (unit - 1)) // unit * unit

    warps = (times("block") + (WARP_THREADS - 1)) // WARP_THREADS
    registers = up(launch["registers"] * WARP_THREADS, WARP_REGISTER_UNIT)
    held = SM_PARTITIONS * (PARTITION_REGISTERS // np.maximum(registers, 1))
    warps_held = np.minimum(WARPS_PER_SM, np.where(registers > 0, held, WARPS_PER_SM))
    shared = launch["static_shared"] + launch["dynamic_shared"]
    block_bytes = up(shared + RESERVED_SHARED_BYTES, SHARED_UNIT_BYTES)
    blocks = np.minimum(
        np.minimum(BLOCKS_PER_SM, warps_held // np.maximum(warps, 1)),
        SHARED_PER_SM_BYTES // block_bytes,
    )
    share = times("grid") / (export.sm_count(device) * np.maximum(blocks, 1))
    return np.where(times("block") > 0, share, 1.0)
