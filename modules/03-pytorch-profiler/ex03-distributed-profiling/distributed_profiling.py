"""Distributed profiling: what does the second GPU cost?

The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check torch_ex03

tells what is right and wrong. A capture of this exercise is a folder with one Kineto trace a rank,
`trace_rank<number>.json` or the same with `.gz`. Every function that takes `capture` takes its name
("ddp_traces_straggler") or the path of the folder:

    captures.place(capture)              # → the folder, as a Path
    captures.text(file, file.name)       # → the text of a file (a Path), decompressed if need be

All times are integers in ns. Instants of two ranks may be compared as exactly as their hosts' wall clocks
agree: on one host to about 20 µs. The exercise compares lengths of time, which need no common clock.
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

# Below this share of the window no cause is worth naming: the traces are healthy.
HEALTHY_FLOOR_RATIO = 0.10

# A share this close to the floor, on either side, is borderline, and the finding must say so.
BORDERLINE_RATIO = 0.02

MIB = 2**20

# DDP's sizes of buckets where `bucket_cap_mb` is not given: of the first one, and of all others.
# Source: torch.nn.parallel.DistributedDataParallel, and dist._DEFAULT_FIRST_BUCKET_BYTES.
FIRST_BUCKET_MIB, BUCKET_CAP_MIB = 1, 25


def profile_rank(step: Callable[[], object], folder: str, warmup: int = 2, active: int = 3) -> str:
    """Profile some steps of this rank and write its own trace; called on every rank alike.

    step: runs one training step; called exactly warmup + active times, each call followed by the
    profiler's own `step()`. The profiler is on from the first of them, and records the last `active`.
    folder: an existing folder, the same for all ranks. The trace is written there as
    `trace_rank<rank>.json`, <rank> being this process's rank in the default process group.

    Recorded are the host, and the GPU where there is one (`torch.cuda.is_available()`). Before the first
    step all ranks wait for each other (one `torch.distributed.barrier`), so that they record the same steps.
    If `step` raises while the profiler records, what it recorded until then is still written (the trace of
    a rank that failed is the one to look at), the profiler is off, and the exception is passed on.

    Returns the path of the trace. Raises RuntimeError if no process group is initialised, and ValueError
    if warmup is negative or active less than 1, before anything runs.
    """
    raise NotImplementedError


def read_ranks(capture: str) -> dict[int, list[dict[str, Any]]]:
    """What ran on each rank's device, from the traces of all ranks.

    Reads the files `trace_rank*.json` and `trace_rank*.json.gz` of the folder. "distributedInfo" in a trace
    says which rank it is of, and of how many ("rank", "world_size"); a file's name may be wrong.

    Returns {rank: operations}, in order of rank. Operations are the complete events ("ph" is "X") of the
    categories "kernel", "gpu_memcpy" and "gpu_memset", in order of start and then end, each a dict
        "name"                as recorded
        "kind"                "memory" for copies and memsets; a kernel is "communication" if its name
                              begins with "nccl" and has "Kernel" somewhere after that, else "compute"
                              (the rule of HolisticTraceAnalysis)
        "start_ns", "end_ns"  from "ts" and "dur", which are decimal numbers of µs; a float would lose ns

    Raises CaptureError, naming the file, for one that is cut off or not JSON (its rank may have died while
    writing) and for one without "distributedInfo"; if two traces are of the same rank, naming it ("rank 3");
    if they disagree on "world_size" (they are of different runs), naming the sizes; and if ranks are
    missing, naming them. Raises EmptyCapture, naming the rank, if one has no such operation, and
    CaptureError if the folder has no trace.
    """
    raise NotImplementedError


def communication_overlap(capture: str) -> dict[int, dict[str, float]]:
    """Per rank, how much of the communication overlaps with computation.

    Returns {rank: {"communication_ns", "overlap_ns", "overlap_pct"}}: the time with at least one
    communication kernel, the part of it with at least one compute kernel too, and the second as a
    percentage of the first (0.0 to 100.0). Copies and memsets count as neither. This is the definition of
    HolisticTraceAnalysis (`TraceAnalysis.get_comm_comp_overlap`), over all steps of the trace.
    Raises EmptyCapture, naming the rank, if one has no communication.
    """
    raise NotImplementedError


def plan_buckets(gradient_bytes: list[int], bucket_cap_mib: float | None = None) -> list[list[int]]:
    """Which gradients DistributedDataParallel sends together.

    gradient_bytes: the sizes of the gradients in the order in which they get ready (with a plain model,
    from the last parameter to the first). bucket_cap_mib: DDP's `bucket_cap_mb`, which counts in MiB of
    2**20 bytes; as bytes it is rounded down to a whole number. None: DDP's defaults, which are
    FIRST_BUCKET_MIB for the first bucket and BUCKET_CAP_MIB for all others.

    Gradients are put into the open bucket one after the other; as soon as its size is at least the limit
    it is closed, and the next gradient opens the next one. So a bucket may be larger than the limit, and
    a gradient is never split.

    Returns the buckets in that order, each a list of places in gradient_bytes; together they have every
    place once. Without gradients there are no buckets. Raises ValueError for a negative size or a limit that is not
    above 0.
    Source: `compute_bucket_assignment_by_size` in torch's reducer (torch/csrc/distributed/c10d/reducer.cpp).
    """
    raise NotImplementedError


def split_by_duration(capture: str) -> dict[int, dict[str, int]]:
    """Per rank, how much of its communication was waiting for other ranks; without a common clock.

    The n-th communication kernel of a rank (in order of start) and the n-th of each other rank are the
    same collective. All ranks leave it at nearly the same time, so the rank that is in it for the shortest time
    came last and did not wait: that shortest duration is the transfer. A rank that is in it for longer waited
    for the difference.

    Returns {rank: {"wait_ns", "transfer_ns"}}, summed over the collectives; transfer_ns is the same for all.
    Raises CaptureError if one rank has more communication kernels than another (the message holds how
    many each has: the traces are not of the same steps, or a rank died), EmptyCapture if they have none.
    """
    raise NotImplementedError


def name_distributed_bottleneck(capture: str) -> Finding:
    """The main finding of the traces of several ranks, without a common clock.

    On each rank, by its own clock: **work** is compute and memory operations. A communication kernel
    waits first and then transfers (`split_by_duration`). The part of both that no work covers is **exposed**;
    a moment with a wait and a transfer is transfer. **Hidden** is the time with work and
    communication. Remove two causes, one at a time:
        communication  per rank the smaller of its exposed transfer and its work that overlaps with no
                       communication yet; the saving is the smallest of the ranks
        waiting        spread the work evenly. Over the whole window: the largest of the ranks' own
                       times (from its first start to its last end, less its exposed transfer and
                       waiting) becomes their mean. From collective to collective, for ranks that
                       are late in turns: the saving is the mean of the exposed waiting over the ranks.
                       The larger of the two is the saving, rounded down
    The larger saving is the finding, "communication_bound" or "rank_imbalance" (the first if equal);
    "healthy" if it is less than HEALTHY_FLOOR_RATIO of the window. The window is, of all ranks, the
    longest time from the first start to the last end of its operations.

    subject: "rank:<number>", of rank_imbalance the rank with the smallest wait_ns, which is the late
    one; else the rank with the largest exposed transfer (both: the lowest number if equal).
    evidence: "recoverable_ns" (the larger saving), "window_ns", "recoverable_ratio" (their quotient) and
    "margin_ratio" (recoverable_ratio minus HEALTHY_FLOOR_RATIO).
    recommendation: "none" if healthy, else one sentence; if |margin_ratio| <= BORDERLINE_RATIO it begins
    with "borderline", for healthy traces too.
    """
    raise NotImplementedError
