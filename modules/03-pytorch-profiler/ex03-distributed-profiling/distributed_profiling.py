"""Distributed profiling: what does the second GPU cost?

The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check torch_ex03

checks your solution. A capture of this exercise is a folder with one Kineto trace per rank,
`trace_rank<number>.json`, or the same name with `.gz`. Every function that takes `capture` takes its name
("ddp_traces_straggler") or the path of the folder:

    captures.place(capture)              # → the folder, as a Path
    captures.text(file, file.name)       # → the text of a file (a Path), decompressed if necessary

All times are integers in ns. Times of two ranks can be compared only as exactly as their hosts' wall clocks
agree: on one host to about 20 µs. The exercise compares durations, which need no common clock.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError, EmptyCapture
from profiling_lab.findings import Finding

# If no cause costs this share of the window, the traces are healthy.
HEALTHY_FLOOR_RATIO = 0.10

# A share this close to the floor, on either side, is borderline, and the finding must say so.
BORDERLINE_RATIO = 0.02

MIB = 2**20

# DDP's sizes of buckets where `bucket_cap_mb` is not given: of the first one, and of all others.
# Source: torch.nn.parallel.DistributedDataParallel, and dist._DEFAULT_FIRST_BUCKET_BYTES.
FIRST_BUCKET_MIB, BUCKET_CAP_MIB = 1, 25


def profile_rank(step: Callable[[], object], folder: str, warmup: int = 2, active: int = 3) -> str:
    """Profile some steps of this rank and write its own trace; every rank calls this function.

    step: runs one training step. It is called exactly warmup + active times, each call followed by the
    profiler's own `step()`. The profiler is on from the first call, and records the last `active` ones.
    folder: an existing folder, the same for all ranks. The trace is written there as
    `trace_rank<rank>.json`, where <rank> is this process's rank in the default process group.

    The trace records the host, and the GPU if there is one (`torch.cuda.is_available()`). Before the first
    step all ranks wait for each other (one `torch.distributed.barrier`), so that they record the same steps.
    If `step` raises while the profiler records, what was recorded until then is still written: the trace of a
    rank that failed is needed to see why it failed. The profiler is then off, and the exception is passed on.

    Returns the path of the trace. Raises RuntimeError if no process group is initialised, and ValueError
    if warmup is negative or active less than 1, before anything runs.
    """
    raise NotImplementedError


def read_ranks(capture: str) -> dict[int, list[dict[str, Any]]]:
    """What ran on each rank's device, from the traces of all ranks.

    Reads the files `trace_rank*.json` and `trace_rank*.json.gz` of the folder. "distributedInfo" in a trace has
    its rank ("rank") and the number of ranks ("world_size"). The file's name may be wrong.

    Returns {rank: operations}, in order of rank. Operations are the complete events ("ph" is "X") of the
    categories "kernel", "gpu_memcpy" and "gpu_memset", in order of start and then end, each a dict
        "name":               as recorded.
        "kind":               "memory" for copies and memsets; a kernel is "communication" if its name
                              begins with "nccl" and has "Kernel" somewhere after that, else "compute"
                              (the rule of HolisticTraceAnalysis).
        "start_ns", "end_ns": from "ts" and "dur", which are decimal numbers of µs; a float would lose ns.

    Raises CaptureError
    - for a file that is cut off or not JSON (its rank may have died while writing), and for a file without
      "distributedInfo"; the message names the file;
    - if two traces have the same rank; the message names it ("rank 3");
    - if traces have different values of "world_size" (they are of different runs); the message names the sizes;
    - if ranks are missing; the message names them;
    - if the folder has no trace.
    Raises EmptyCapture, with the rank in its message, if a rank has no such operation.
    """
    raise NotImplementedError


def communication_overlap(capture: str) -> dict[int, dict[str, float]]:
    """For each rank, how much of the communication overlaps with computation.

    Returns {rank: {"communication_ns": time with at least one communication kernel, "overlap_ns": the part of
    it in which at least one compute kernel runs, too, "overlap_pct": overlap_ns as a percentage of
    communication_ns, 0.0 to 100.0}}. Copies and memsets count as neither. This is the definition of
    HolisticTraceAnalysis (`TraceAnalysis.get_comm_comp_overlap`), over all steps of the trace.

    Raises EmptyCapture, with the rank in its message, if a rank has no communication.
    """
    raise NotImplementedError


def plan_buckets(gradient_bytes: list[int], bucket_cap_mib: float | None = None) -> list[list[int]]:
    """Which gradients DistributedDataParallel sends together.

    gradient_bytes: sizes of the gradients in the order in which they become ready (with a plain model, from the
        last parameter to the first).
    bucket_cap_mib: DDP's `bucket_cap_mb`, in MiB of 2**20 bytes. In bytes it is rounded down to an integer.
        None means DDP's defaults: FIRST_BUCKET_MIB for the first bucket, BUCKET_CAP_MIB for all others.

    Gradients are put into the open bucket one after the other. As soon as its size is at least the limit, the
    bucket is closed, and the next gradient opens a new one. So a bucket may be larger than the limit, and a
    gradient is never split.

    Returns the buckets in that order. Each is a list of positions in gradient_bytes, and each position is in
    exactly one bucket. Without gradients there are no buckets.

    Raises ValueError for a negative size or a limit that is not above 0.
    Source: `compute_bucket_assignment_by_size` in torch's reducer (torch/csrc/distributed/c10d/reducer.cpp).
    """
    raise NotImplementedError


def split_by_duration(capture: str) -> dict[int, dict[str, int]]:
    """For each rank, how much of its communication was waiting for other ranks, without a common clock.

    The n-th communication kernels of all ranks (in order of start) are the same collective. All ranks leave it
    at nearly the same time. So the rank with the shortest duration came last and did not wait: its duration is
    the transfer. Every other rank waited for the rest of its duration.

    Returns {rank: {"wait_ns", "transfer_ns"}}, summed over the collectives. transfer_ns is the same for all
    ranks.

    Raises CaptureError if the ranks have different numbers of communication kernels: the traces are not of the
    same steps, or a rank died. The message holds each rank's number. Raises EmptyCapture if they have none.
    """
    raise NotImplementedError


def name_distributed_bottleneck(capture: str) -> Finding:
    """The main finding of the traces of several ranks, without a common clock.

    These terms apply to each rank, on its own clock. **Work** is compute and memory operations. A communication
    kernel first waits and then transfers (`split_by_duration`). The parts of both during which no work runs are
    **exposed**; a moment with a wait and a transfer counts as transfer. **Hidden** is the time with work and
    communication. Remove two causes, one at a time:
        communication: a rank saves the smaller of its exposed transfer and its work that overlaps with no
                       communication yet. The saving is the smallest of these over the ranks.
        waiting:       spread the work evenly. There are two ways to do this; the saving is the larger of the
                       two results, rounded down. Over the whole window: the largest of the ranks' own times
                       is reduced to their mean (a rank's own time is from its first start to its last end,
                       minus its exposed transfer and waiting). From collective to collective, if different
                       ranks are alternately late: the mean of the exposed waiting over the ranks.
    The cause with the larger saving is the finding, "communication_bound" or "rank_imbalance" (the first if
    equal). It is "healthy" if this saving is less than HEALTHY_FLOOR_RATIO of the window. The window is the
    longest time, over all ranks, from the first start to the last end of a rank's operations.

    subject: "rank:<number>". For rank_imbalance this is the late rank, which has the smallest wait_ns; else the
    rank with the largest exposed transfer (in both cases the lowest number if equal).
    evidence: "recoverable_ns" (the larger saving), "window_ns", "recoverable_ratio" (recoverable_ns /
    window_ns) and "margin_ratio" (recoverable_ratio minus HEALTHY_FLOOR_RATIO).
    recommendation: "none" if healthy, else one sentence. If |margin_ratio| <= BORDERLINE_RATIO it begins
    with "borderline", for healthy traces too.
    """
    raise NotImplementedError
