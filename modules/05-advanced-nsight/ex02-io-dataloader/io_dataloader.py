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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError
