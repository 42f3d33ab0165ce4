"""I/O and DataLoader: does the GPU wait for data?

You divide the steps of a training loop into parts, predict how much time workers and prefetching save, and
write an iterator that copies ahead. The lesson is `README.md` in this folder, hints are in `hints.md`.

In the recordings each iteration of the loop is an NVTX range `step`. Inside it, the range `next_batch` is the
time in which the loop asks its DataLoader for a batch. Open a capture by its name or path:

    with captures.open(capture) as recording:
        recording.nvtx_ranges        # a polars DataFrame; see `help(captures.NsysCapture)`
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding


def step_split(capture: str) -> dict[str, int]:
    """How the time of the steps is spent.

    Returns, all for the time inside ranges named `step`:
    - "step_count": the number of these ranges;
    - "step_ns": their time;
    - "data_wait_ns": the part of it inside ranges named `next_batch`;
    - "device_busy_ns": the part in which at least one kernel, graph launch, copy or memset runs on the
      device;
    - "starved_ns": the part inside `next_batch` in which none of these runs.

    capture: name or path of a timeline of one device. Ranges with the same name may be on several threads;
    time in which several run counts once.
    Raises EmptyCapture, with the name in its message, if there is no range `step` or `next_batch`.
    """
    split = _split(capture)
    return {key: split[key] for key in _SPLIT}


_SPLIT = ("step_count", "step_ns", "data_wait_ns", "device_busy_ns", "starved_ns")


def _split(capture: str) -> dict[str, int]:
    with captures.open(capture) as recording:
        ranges = recording.nvtx_ranges
        named = {}
        for name in ("step", "next_batch"):
            rows = ranges.filter(ranges["name"] == name)
            if rows.is_empty():
                raise EmptyCapture(f"{capture}: has no NVTX range named {name!r}")
            named[name] = list(rows.select("start_ns", "end_ns").iter_rows())
        copies = recording.copies
        tables = {
            "kernels": [recording.kernels, recording.graph_launches, recording.memsets],
            "inputs": [copies.filter(copies["kind"] == "H2D")],
            "others": [copies.filter(copies["kind"] != "H2D")],
        }
        on_device = {
            key: [row for frame in frames for row in frame.select("start_ns", "end_ns").iter_rows()]
            for key, frames in tables.items()
        }
    steps = _merged(named["step"])
    waits = _common(_merged(named["next_batch"]), steps)
    busy = _common(_merged([row for rows in on_device.values() for row in rows]), steps)
    inputs = _common(_merged(on_device["inputs"]), steps)
    beside = _common(inputs, _merged(on_device["kernels"]))
    return {
        "step_count": len(named["step"]),
        "step_ns": _length(steps),
        "data_wait_ns": _length(waits),
        "device_busy_ns": _length(busy),
        "starved_ns": _length(waits) - _length(_common(waits, busy)),
        "exposed_copy_ns": _length(inputs) - _length(beside),
        "window_ns": steps[-1][1] - steps[0][0],
    }


def _merged(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Intervals in order, those that touch or overlap joined."""
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _common(some: list[tuple[int, int]], others: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """What two lists of merged intervals have in common."""
    pairs = [(max(a, c), min(b, d)) for a, b in some for c, d in others]
    return _merged([(start, end) for start, end in pairs if start < end])


def _length(intervals: Iterable[tuple[int, int]]) -> int:
    return sum(end - start for start, end in intervals)


def sample_costs(
    read_ns: Sequence[float], decode_ns: Sequence[float], stored_bytes: int
) -> dict[str, float | str]:
    """How long one sample takes, and which part of it should be made faster first.

    read_ns, decode_ns: the times to read from storage and to decode, of the same samples in the same order.
    stored_bytes: size of one sample in storage.
    Returns
        "sample_ns":  the median over samples of read plus decode time.
        "read_ratio": median read / (median read + median decode).
        "read_gb_s":  `stored_bytes` / median read (1 byte per ns = 1 GB/s).
        "larger":     the part with the larger median, "read" or "decode" ("decode" if equal).
    Use medians, because the first reads of a file may come from the disk and the others from memory.
    Raises ValueError if there are no samples, if the lists differ in length, or if a time or size is not above 0.
    """
    if not read_ns or len(read_ns) != len(decode_ns):
        raise ValueError("read_ns and decode_ns must hold the same samples, at least one")
    if min(*read_ns, *decode_ns, stored_bytes) <= 0:
        raise ValueError("times and sizes must be above 0")
    read, decode = statistics.median(read_ns), statistics.median(decode_ns)
    return {
        "sample_ns": statistics.median(map(sum, zip(read_ns, decode_ns, strict=True))),
        "read_ratio": read / (read + decode),
        "read_gb_s": stored_bytes / read,
        "larger": "read" if read > decode else "decode",
    }


def workers_needed(compute_ns: float, batch_ns: float, cpu_count: int) -> dict[str, float]:
    """How many worker processes a loop needs, and how long its steps then are.

    compute_ns: time of a step, without the wait for data.
    batch_ns: time that one worker needs for a batch.
    cpu_count: processors that workers may use. Never return more workers than this.
    The model has no noise: w workers deliver a batch every batch_ns / w, and a step takes as long as the
    slower of the two sides (Little's law: batches in work = rate x time of one batch).
    Returns "workers_count", the smallest number, from 1, with which the step is as short as possible, and
    "step_ns", the step time that the model predicts for it.
    Raises ValueError unless both times are above 0 and cpu_count is at least 1.
    """
    if compute_ns <= 0 or batch_ns <= 0 or cpu_count < 1:
        raise ValueError("times must be above 0, and there must be a processor")
    workers = min(cpu_count, math.ceil(batch_ns / compute_ns))
    return {"workers_count": workers, "step_ns": max(compute_ns, batch_ns / workers)}


def prefetch_waits(
    batch_ns: Sequence[float], compute_ns: float, workers: int, prefetch_factor: int
) -> list[float]:
    """How long the loop waits for each batch, by the rules of PyTorch's DataLoader.

    batch_ns: for each batch, the time that a worker needs to make it. compute_ns: time of each step.
    - Worker i % workers makes batch i. A worker makes its batches one after the other.
    - At time 0 the first workers * prefetch_factor batches are assigned to the workers. From then on, whenever
      the loop takes a batch, the next batch that is not yet assigned is assigned.
    - The loop takes batches in order, as soon as it is free (at first: at time 0) and the batch is
      ready, and then computes for compute_ns.
    Returns, for each batch, the time from the moment the loop is free until it has the batch.
    Source: torch/utils/data/dataloader.py, `_MultiProcessingDataLoaderIter`.
    Raises ValueError unless workers and prefetch_factor are at least 1 and no time is negative.
    """
    if workers < 1 or prefetch_factor < 1 or compute_ns < 0 or min(batch_ns, default=0) < 0:
        raise ValueError("workers and prefetch_factor must be at least 1, times not negative")
    worker_free = [0.0] * workers
    taken: list[float] = []
    waits: list[float] = []
    free = 0.0
    for number, cost in enumerate(batch_ns):
        before = number - workers * prefetch_factor
        handed_out = taken[before] if before >= 0 else 0.0
        worker = number % workers
        worker_free[worker] = max(worker_free[worker], handed_out) + cost
        taken.append(max(free, worker_free[worker]))
        waits.append(taken[-1] - free)
        free = taken[-1] + compute_ns
    return waits


def prefetched(
    batches: Iterable[Any], copy_in: Callable[[Any], Any], depth: int = 1
) -> Iterator[Any]:
    """Yield `copy_in(batch)` for each batch, after starting the copies of the next `depth` batches.

    copy_in starts the copy to the device and returns at once, as `.to(device, non_blocking=True)` does on a
    separate stream. When item k (from 0) is yielded, copy_in has been called, in order, for items 0 … k + depth
    (or for all, if there are fewer). No more items than these have been taken from `batches`. With depth 0
    each copy starts when its batch is requested.
    An exception from `batches` or `copy_in` is raised only after all items before it were yielded.
    Raises ValueError, when called or at the first item, if depth is negative.
    """
    if depth < 0:
        raise ValueError("depth must not be negative")
    source = iter(batches)
    begun: deque[Any] = deque()
    error: Exception | None = None
    ended = False
    while True:
        while not ended and len(begun) <= depth:
            try:
                begun.append(copy_in(next(source)))
            except StopIteration:
                ended = True
            except Exception as raised:  # noqa: BLE001 - kept, and raised in its turn
                ended, error = True, raised
        if not begun:
            break
        yield begun.popleft()
    if error:
        raise error


def data_verdict(capture: str, floor_ratio: float = 0.05) -> Finding:
    """How much time the device loses because of its input in a recording, as a Finding.

    Two causes are compared. The window is from the start of the first `step` to the end of the last.
    - `host_bound`, subject "range:next_batch": it saves the starved time of `step_split`;
    - `transfer_bound`, subject "range:step": it saves the time inside steps while a copy from host to device
      runs, but no kernel, graph launch or memset.
    The category is the cause that saves more (`host_bound` if equal). If its saving is less than floor_ratio of
    the window, the category is `healthy`, subject "range:step".
    Evidence: "recoverable_ns" (the larger of the two, also if healthy), "window_ns", "starved_ns",
    "exposed_copy_ns", "starved_ratio" (starved_ns / window_ns). The recommendation is "none" only if healthy.
    Raises the errors of `step_split`, and ValueError unless floor_ratio is above 0 and below 1.
    """
    if not 0 < floor_ratio < 1:
        raise ValueError("floor_ratio must lie above 0 and below 1")
    split = _split(capture)
    starved, exposed, window = (
        split[key] for key in ("starved_ns", "exposed_copy_ns", "window_ns")
    )
    category, subject = "healthy", "range:step"
    recommendation = "none"
    if max(starved, exposed) >= floor_ratio * window:
        if starved >= exposed:
            category, subject = "host_bound", "range:next_batch"
            recommendation = "more workers, or a cheaper sample: see workers_needed"
        else:
            category = "transfer_bound"
            recommendation = "pin the batches and copy the next one on a stream of its own"
    return Finding(
        category,
        subject,
        {
            "recoverable_ns": max(starved, exposed),
            "window_ns": window,
            "starved_ns": starved,
            "exposed_copy_ns": exposed,
            "starved_ratio": starved / window,
        },
        recommendation,
    )
