"""Whether work on different streams of a device runs one after the other though nothing orders it.

A kernel waits without reason from when all it waits for is done (`analysis.order`) until it starts, while kernels of
other streams run and leave it room. The room is counted in blocks: a kernel's share of the device is its blocks
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
    import polars as pl

    from profiling_lab.captures import NsysCapture

Answer = tuple[str, int, int, dict[str, float]]

START_COST_NS = 5_000  # from ready to start without a reason but the start itself: about 1 to 3 µs
# What an SM of compute capability 9.0 holds (CUDA C++ Programming Guide, technical specifications).
WARP_THREADS, WARPS_PER_SM, BLOCKS_PER_SM = 32, 64, 32
SM_PARTITIONS, PARTITION_REGISTERS, WARP_REGISTER_UNIT = 4, 16_384, 256
SHARED_PER_SM_BYTES, SHARED_UNIT_BYTES, RESERVED_SHARED_BYTES = 228 * 1024, 128, 1024


def judge(capture: NsysCapture, made: Order) -> list[Answer]:
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
        if len(np.unique(streams)) < 2 or (made.delay[nodes[own]] <= START_COST_NS).all():
            continue
        shares = _shares(capture, device, made, rows[own])
        saved = _saved(made, nodes[own], streams, shares)
        if saved > 0:
            count = float(len(np.unique(streams)))
            out.append(("serialized_streams", device, saved, {"streams_count": count}))
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
    late = made.delay[nodes] > START_COST_NS
    waiting = Intervals(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    for share in np.unique(shares[late]).tolist():
        room = (running > 0) & (taken + share <= 1 + 1e-9)
        fits = Intervals(moments[:-1][room], moments[1:][room])
        own = np.flatnonzero(late & (shares == share))
        waits = Intervals(starts[own] - made.delay[nodes[own]] + START_COST_NS, starts[own])
        both = intervals.intersection(fits, waits)
        waiting = Intervals(
            np.concatenate([waiting.starts_ns, both.starts_ns]),
            np.concatenate([waiting.ends_ns, both.ends_ns]),
        )
    return min(packing, intervals.total_ns(waiting))


def _shares(capture: NsysCapture, device: int, made: Order, rows: np.ndarray) -> np.ndarray:
    """Per operation the share of the device that a launch takes; 1 for a graph."""
    import polars as pl

    info = capture.devices.filter(pl.col("device") == device)["sm_count"].to_list()
    sms = (info[0] if info else None) or 1
    kernels = capture.kernels.filter(pl.col("device") == device).with_columns(
        share=_share(sms, "grid_", "block_")
    )
    work = made.recording.operations
    asked = pl.DataFrame(
        {
            "start_ns": work.start[rows],
            "end_ns": work.end[rows],
            "stream": [made.recording.streams[s][2] for s in work.stream[rows].tolist()],
        }
    )
    found = asked.join(
        kernels.select("start_ns", "end_ns", "stream", "share").unique(
            ["start_ns", "end_ns", "stream"]
        ),
        on=["start_ns", "end_ns", "stream"],
        how="left",
        maintain_order="left",
    )
    return found["share"].fill_null(1.0).to_numpy()


def _share(sms: int, grid: str, block: str) -> pl.Expr:
    import polars as pl

    def up(value: pl.Expr, unit: int) -> pl.Expr:
        return (value + (unit - 1)) // unit * unit

    def times(prefix: str) -> pl.Expr:
        return pl.col(f"{prefix}x") * pl.col(f"{prefix}y") * pl.col(f"{prefix}z")

    warps = (times(block) + (WARP_THREADS - 1)) // WARP_THREADS
    registers = up(pl.col("registers_per_thread").fill_null(0) * WARP_THREADS, WARP_REGISTER_UNIT)
    held = pl.when(registers > 0).then(
        SM_PARTITIONS * (PARTITION_REGISTERS // pl.max_horizontal(registers, pl.lit(1)))
    )
    warps_held = pl.min_horizontal(pl.lit(WARPS_PER_SM), held.otherwise(WARPS_PER_SM))
    shared = pl.col("static_shared_bytes").fill_null(0) + pl.col("dynamic_shared_bytes").fill_null(
        0
    )
    block_bytes = up(shared + RESERVED_SHARED_BYTES, SHARED_UNIT_BYTES)
    blocks = pl.min_horizontal(
        pl.lit(BLOCKS_PER_SM),
        warps_held // pl.max_horizontal(warps, pl.lit(1)),
        SHARED_PER_SM_BYTES // block_bytes,
    )
    return times(grid) / (sms * pl.max_horizontal(blocks, pl.lit(1)))
