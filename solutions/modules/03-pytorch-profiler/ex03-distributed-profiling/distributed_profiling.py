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
    import torch
    import torch.distributed as dist
    from torch.profiler import ProfilerActivity, profile, schedule

    if warmup < 0 or active < 1:
        raise ValueError(f"warmup must be at least 0 and active at least 1: {warmup=}, {active=}")
    if not dist.is_initialized():
        raise RuntimeError("no process group: call torch.distributed.init_process_group first")
    file = Path(folder) / f"trace_rank{dist.get_rank()}.json"
    activities = [ProfilerActivity.CPU]
    if torch.cuda.is_available():
        activities.append(ProfilerActivity.CUDA)
    dist.barrier()
    with profile(
        activities=activities,
        schedule=schedule(wait=0, warmup=warmup, active=active, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(file)),
    ) as profiler:
        for _ in range(warmup + active):
            step()
            profiler.step()
    return str(file)


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
    out: dict[int, list[dict[str, Any]]] = {}
    sizes = set()
    for file in sorted(captures.place(capture).glob("trace_rank*.json*")):
        try:
            trace = json.loads(captures.text(file, file.name), parse_float=Decimal)
            info = trace["distributedInfo"]
            rank, events = info["rank"], trace["traceEvents"]
            sizes.add(info["world_size"])
        except ValueError:
            raise CaptureError(f"{file}: is cut off or not JSON; did its rank die?") from None
        except (LookupError, TypeError):
            raise CaptureError(f"{file}: has no distributedInfo or no traceEvents") from None
        if rank in out:
            raise CaptureError(f"{file}: a second trace of rank {rank}")
        out[rank] = sorted(
            (_operation(event) for event in events if _on_device(event)),
            key=lambda operation: (operation["start_ns"], operation["end_ns"]),
        )
        if not out[rank]:
            raise EmptyCapture(f"{file}: rank {rank} ran nothing on a GPU while it was recorded")
    if not out:
        raise CaptureError(f"{capture}: no trace_rank<number>.json here")
    if len(sizes) > 1:
        raise CaptureError(f"{capture}: traces of different runs: world sizes {sorted(sizes)}")
    missing = sorted(set(range(sizes.pop())) - set(out))
    if missing:
        raise CaptureError(f"{capture}: no trace of rank {', '.join(map(str, missing))}")
    return dict(sorted(out.items()))


def _on_device(event: dict[str, Any]) -> bool:
    return event.get("ph") == "X" and event.get("cat") in ("kernel", "gpu_memcpy", "gpu_memset")


def _operation(event: dict[str, Any]) -> dict[str, Any]:
    start_ns, duration_ns = round(event["ts"] * 1000), round(event["dur"] * 1000)
    kind = "compute" if event["cat"] == "kernel" else "memory"
    if kind == "compute" and re.match(r"nccl.*Kernel", event["name"]):
        kind = "communication"
    return {
        "name": event["name"],
        "kind": kind,
        "start_ns": start_ns,
        "end_ns": start_ns + duration_ns,
    }


def communication_overlap(capture: str) -> dict[int, dict[str, float]]:
    """For each rank, how much of the communication overlaps with computation.

    Returns {rank: {"communication_ns": time with at least one communication kernel, "overlap_ns": the part of
    it in which at least one compute kernel runs, too, "overlap_pct": overlap_ns as a percentage of
    communication_ns, 0.0 to 100.0}}. Copies and memsets count as neither. This is the definition of
    HolisticTraceAnalysis (`TraceAnalysis.get_comm_comp_overlap`), over all steps of the trace.

    Raises EmptyCapture, with the rank in its message, if a rank has no communication.
    """
    out: dict[int, dict[str, float]] = {}
    for rank, operations in read_ranks(capture).items():
        communication = _spans(operations, "communication")
        if not communication:
            raise EmptyCapture(f"{capture}: rank {rank} has no communication kernel")
        both = _length(communication + _spans(operations, "compute"))
        alone = both - _length(_spans(operations, "compute"))
        communication_ns = _length(communication)
        overlap_ns = communication_ns - alone
        out[rank] = {
            "communication_ns": communication_ns,
            "overlap_ns": overlap_ns,
            "overlap_pct": 100 * overlap_ns / communication_ns,
        }
    return out


def _spans(operations: list[dict[str, Any]], *kinds: str) -> list[tuple[int, int]]:
    return [(o["start_ns"], o["end_ns"]) for o in operations if o["kind"] in kinds]


def _length(spans: list[tuple[int, int]]) -> int:
    """The time in which at least one of the spans runs."""
    total, covered = 0, None
    for start, end in sorted(spans):
        if covered is None or start > covered:
            covered = start
        total += max(0, end - covered)
        covered = max(covered, end)
    return total


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
    if bucket_cap_mib is not None and not bucket_cap_mib > 0:
        raise ValueError(f"bucket_cap_mib must be above 0, got {bucket_cap_mib}")
    if any(size < 0 for size in gradient_bytes):
        raise ValueError("a gradient has a negative size")
    limit = int(MIB * (FIRST_BUCKET_MIB if bucket_cap_mib is None else bucket_cap_mib))
    buckets: list[list[int]] = []
    filled: int | None = None  # bytes in the open bucket; None: no bucket is open
    for place, size in enumerate(gradient_bytes):
        if filled is None:
            buckets.append([])
            filled = 0
        buckets[-1].append(place)
        filled += size
        if filled >= limit:
            filled = None
            limit = int(MIB * (BUCKET_CAP_MIB if bucket_cap_mib is None else bucket_cap_mib))
    return buckets


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
    ranks = read_ranks(capture)
    matched = _matched(capture, ranks)
    return {
        rank: {
            "wait_ns": sum(collective[rank][1] - collective[rank][0] for collective in matched),
            "transfer_ns": sum(collective[rank][2] - collective[rank][1] for collective in matched),
        }
        for rank in ranks
    }


def _matched(
    capture: str, ranks: dict[int, list[dict[str, Any]]]
) -> list[dict[int, tuple[int, int, int]]]:
    """Of each collective, by rank and on its own clock: start, end of the wait, end."""
    own = {rank: _spans(operations, "communication") for rank, operations in ranks.items()}
    counts = {rank: len(spans) for rank, spans in own.items()}
    if not any(counts.values()):
        raise EmptyCapture(f"{capture}: no communication kernel in these traces")
    if len(set(counts.values())) > 1:
        raise CaptureError(
            f"{capture}: communication kernels a rank {counts}: not the same steps, or a rank died"
        )
    out = []
    for together in zip(*own.values(), strict=True):
        transfer_ns = min(end - start for start, end in together)
        out.append(
            {
                rank: (start, end - transfer_ns, end)
                for rank, (start, end) in zip(own, together, strict=True)
            }
        )
    return out


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
    ranks = read_ranks(capture)
    matched = _matched(capture, ranks)
    wait_ns = {rank: row["wait_ns"] for rank, row in split_by_duration(capture).items()}
    transfers, waits, hideable, windows = {}, {}, [], []
    for rank, operations in ranks.items():
        work = _spans(operations, "compute", "memory")
        transfer = [(m[rank][1], m[rank][2]) for m in matched]
        wait = [(m[rank][0], m[rank][1]) for m in matched]
        work_ns, all_ns = _length(work), _length(work + transfer + wait)
        hidden_ns = work_ns + _length(transfer + wait) - all_ns
        transfers[rank] = _length(work + transfer) - work_ns
        waits[rank] = all_ns - _length(work + transfer)
        hideable.append(min(transfers[rank], work_ns - hidden_ns))
        windows.append(max(o["end_ns"] for o in operations) - operations[0]["start_ns"])
    own = [
        window - transfers[rank] - waits[rank] for rank, window in zip(ranks, windows, strict=True)
    ]
    savings = {
        "communication_bound": min(hideable),
        "rank_imbalance": max(
            (len(own) * max(own) - sum(own)) // len(own), sum(waits.values()) // len(waits)
        ),
    }
    category = max(savings, key=lambda name: savings[name])
    ratio = savings[category] / max(windows)
    margin = ratio - HEALTHY_FLOOR_RATIO
    recoverable_ns = savings[category]
    category = "healthy" if margin < 0 else category
    late = min(wait_ns, key=lambda rank: (wait_ns[rank], rank))
    subject = max(transfers, key=lambda rank: (transfers[rank], -rank))
    recommendation = {
        "communication_bound": "start collectives earlier and in smaller pieces, so that they run beside "
        "work (gradients: several buckets)",
        "rank_imbalance": f"look at what rank {late} does before each collective, and share it evenly",
        "healthy": "none",
    }[category]
    if abs(margin) <= BORDERLINE_RATIO:
        recommendation = f"borderline: {recommendation}"
    return Finding(
        category,
        f"rank:{late if category == 'rank_imbalance' else subject}",
        {
            "recoverable_ns": recoverable_ns,
            "window_ns": max(windows),
            "recoverable_ratio": ratio,
            "margin_ratio": margin,
        },
        recommendation,
    )
