"""I/O and DataLoader: does the GPU wait for data?

You take the steps of a training loop apart, predict what workers and prefetching save, and write an
iterator that copies ahead. The lesson is `README.md` in this folder, hints are in `hints.md`.

In the recordings each turn of the loop is an NVTX range `step`, and in it `next_batch` is the time in
which the loop asks its DataLoader for a batch. A capture is opened by its name or path:

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
    """Where the time of the steps goes.

    Returns, all over the time inside ranges named `step`:
    - "step_count": the number of these ranges;
    - "step_ns": their time;
    - "data_wait_ns": the part of it inside ranges named `next_batch`;
    - "device_busy_ns": the part in which at least one kernel, graph launch, copy or memset runs on the
      device;
    - "starved_ns": the part inside `next_batch` in which none does.

    capture: a name or path of a timeline of one device. Ranges of one name may lie on several threads;
    time in which several run counts once.
    Raises EmptyCapture, with the name in its message, where there is no range `step` or `next_batch`.
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
    """What one sample costs, and which part of it is worth working on.

    read_ns, decode_ns: the time of the same samples in the same order, to read from storage and to
    decode. stored_bytes: what one sample takes there.
    Returns "sample_ns", the median over samples of both together; "read_ratio", the median read over
    the sum of the median read and the median decode; "read_gb_s", `stored_bytes` over the median read
    (1 byte per ns = 1 GB/s); "larger": "read" or "decode", the part with the larger median ("decode"
    if equal).
    Medians, because the first reads of a file may come from the disk and the others from memory.
    Raises ValueError for no samples, lists of different length, a time or size not above 0.
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
    """How many worker processes a loop needs, and the step that it then has.

    compute_ns: of a step, without the wait for data. batch_ns: what one worker needs for a batch.
    cpu_count: processors that workers may use; more workers than these are never the answer.
    A model without noise: w workers deliver a batch every batch_ns / w, and a step takes as long as the
    slower of the two sides (Little's law: batches in work = rate x time of one).
    Returns "workers_count", the smallest number from 1 with which the step is as short as it gets, and
    "step_ns", the step that the model predicts for it.
    Raises ValueError unless both times are above 0 and cpu_count is at least 1.
    """
    if compute_ns <= 0 or batch_ns <= 0 or cpu_count < 1:
        raise ValueError("times must be above 0, and there must be a processor")
    workers = min(cpu_count, math.ceil(batch_ns / compute_ns))
    return {"workers_count": workers, "step_ns": max(compute_ns, batch_ns / workers)}


def prefetch_waits(
    batch_ns: Sequence[float], compute_ns: float, workers: int, prefetch_factor: int
) -> list[float]:
    """How long the loop waits for each batch, under the rules of PyTorch's DataLoader.

    batch_ns: what each batch costs the worker that makes it. compute_ns: of each step.
    - Batch i is made by worker i % workers; a worker makes its batches one after the other.
    - At time 0 the first workers * prefetch_factor batches are handed out to the workers. From then on,
      whenever the loop takes a batch, the next one that is not yet handed out is.
    - The loop takes batches in order, as soon as it is free (at first: at time 0) and the batch is
      ready, and then computes for compute_ns.
    Returns, for each batch, the time from when the loop is free until it has the batch.
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
    """Yield `copy_in(batch)` for each batch, with the copies of the next `depth` already begun.

    copy_in begins the copy to the device and returns at once, as `.to(device, non_blocking=True)` on a
    stream of its own does. When item k (from 0) is handed out, copy_in has been called, in order, for
    items 0 … k + depth, as far as there are so many, and `batches` has been asked for no more than
    these. With depth 0 each copy is begun when its batch is wanted.
    An exception from `batches` or `copy_in` comes out only after all items before it were handed out.
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
    """What feeding the device costs in a recording, as a Finding.

    Two causes are compared over the window, from the start of the first `step` to the end of the last:
    - `host_bound`, subject "range:next_batch": it saves the starved time of `step_split`;
    - `transfer_bound`, subject "range:step": it saves the time inside steps in which a copy from host to
      device runs and no kernel, graph launch or memset does.
    The category is the cause that saves more (`host_bound` if equal), or `healthy`, subject
    "range:step", where that is less than floor_ratio of the window.
    Evidence: "recoverable_ns" (the larger of the two, also where healthy), "window_ns", "starved_ns",
    "exposed_copy_ns", "starved_ratio" (of the window). The recommendation is "none" only if healthy.
    Raises as `step_split` does, and ValueError unless floor_ratio lies above 0 and below 1.
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
