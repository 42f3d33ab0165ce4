"""Communication overhead: what does an all-reduce cost? A model of this cost, and the part that lengthens a step.

You convert times of collectives into bandwidths that can be compared. You fit latency and bandwidth to sizes
from a kilobyte to hundreds of megabytes, and compute what the gradients of a model cost in buckets. You predict
which part of this cost a backward pass leaves exposed, measure it from steps with and without the exchange, and
give a verdict. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check scaling_ex03

checks your solution. A recording is a `communication.json` that `scaling_benchmark.py` (in the folder above)
writes; the head of that program says what each key means. **n** is the number of processes, the world size.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding

# A saving below this share of a step is healthy; this close to the floor, a finding is borderline.
FLOOR_RATIO = 0.05
BORDERLINE_RATIO = 0.02

# Calls in a row in a sample of `measure_all_reduce`.
CALLS_COUNT = 10


def bus_bandwidth(
    operation: str, size_bytes: int, time_ns: float, world_size: int
) -> dict[str, float]:
    """Algorithm bandwidth and bus bandwidth of a collective, as NCCL's own tests define them.

    Algorithm bandwidth is size / time. Bus bandwidth is algorithm bandwidth times a factor. Bus bandwidth can
    be compared with the speed of a link, whatever n is. The factor is 2 (n - 1) / n for "all_reduce";
    (n - 1) / n for "all_gather", "reduce_scatter" and "all_to_all"; 1 for "broadcast" and "reduce". For
    all_gather and reduce_scatter, size_bytes is the size of the whole, all n parts together.
    (Source: doc/PERFORMANCE.md of github.com/NVIDIA/nccl-tests. If a switch adds the numbers, as with NVLS,
    all_reduce has another factor; here NVLS is off.)

    Returns {"algorithm_bytes_per_s", "bus_bytes_per_s"}. Raises ValueError for any other operation, a size
    or a time that is not above 0, and a world size below 2.
    """
    factors = {"all_reduce": 2 * (world_size - 1) / world_size, "broadcast": 1.0, "reduce": 1.0}
    factors |= dict.fromkeys(
        ("all_gather", "reduce_scatter", "all_to_all"), (world_size - 1) / world_size
    )
    if operation not in factors:
        raise ValueError(f"operation {operation!r} is not one of {', '.join(factors)}")
    if not size_bytes > 0 or not time_ns > 0 or world_size < 2:
        raise ValueError(
            f"{size_bytes} bytes, {time_ns} ns, {world_size} processes: above 0, 0 and 1 are needed"
        )
    algorithm = 1e9 * size_bytes / time_ns
    return {
        "algorithm_bytes_per_s": algorithm,
        "bus_bytes_per_s": algorithm * factors[operation],
    }


def _content(capture: str | Path) -> dict[str, Any]:
    """What a recording holds."""
    try:
        content = json.loads(captures.text(capture, "communication.json"))
        if content["format"] != 1 or content["unit"] != "ns":
            raise CaptureError(
                f"{capture}: is of another format; record it with this course's program"
            )
        for table in ("all_reduce", "copy", "training"):
            if not isinstance(content[table], list):
                raise CaptureError(f"{capture}: its table {table} is no list")
    except (ValueError, LookupError, TypeError) as error:
        raise CaptureError(f"{capture}: is no recording of communication ({error})") from None
    return content


def fit_all_reduce(capture: str | Path, world_size: int) -> dict[str, float]:
    """Latency and bandwidth of an all-reduce, fitted to its times for several sizes.

    The model is t = latency + x / bandwidth, with x = 2 (n - 1) / n * bytes, so the bandwidth is bus bandwidth.
    Use the rows of `all_reduce` with this world size. The time of a row is the median of its `samples_ns`.
    Fit both numbers by least squares of **relative** errors: minimize the sum of ((model - t) / t)². With
    absolute errors only the largest sizes would matter, and their times contain almost no latency.

    Returns {"latency_ns": as fitted, it may be below 0, "bus_bytes_per_s", "worst_ratio": the largest
    |model / t - 1| of the rows}.

    Raises ValueError if fewer than two different sizes were measured with this world size; the message names the
    measured world sizes. Also raises it if times do not grow with size, so that there is no bandwidth. Raises
    CaptureError if the file is not a communication.json with `format` 1, `unit` ns and the lists `all_reduce`,
    `copy` and `training`.
    """
    table = _content(capture)["all_reduce"]
    rows = [row for row in table if row["world_size"] == world_size]
    if len({row["bytes"] for row in rows}) < 2:
        known = sorted({row["world_size"] for row in table})
        raise ValueError(f"{capture}: two sizes are needed; world sizes measured: {known}")
    factor = 2 * (world_size - 1) / world_size
    points = [(factor * row["bytes"], statistics.median(row["samples_ns"])) for row in rows]
    # Divided by t, each equation reads latency * (1/t) + slope * (x/t) = 1.
    one = sum(1 / t**2 for _, t in points)
    mixed = sum(x / t**2 for x, t in points)
    square = sum((x / t) ** 2 for x, t in points)
    right, right_x = sum(1 / t for _, t in points), sum(x / t for x, t in points)
    whole = one * square - mixed**2
    latency = (right * square - right_x * mixed) / whole
    slope = (one * right_x - mixed * right) / whole
    if not slope > 0:
        raise ValueError(f"{capture}: its times do not grow with size; measure larger ones")
    return {
        "latency_ns": latency,
        "bus_bytes_per_s": 1e9 / slope,
        "worst_ratio": max(abs((latency + slope * x) / t - 1) for x, t in points),
    }


def _reduce_ns(size_bytes: float, fit: Mapping[str, float], world_size: int) -> float:
    """One all-reduce by the model."""
    moved = 2 * (world_size - 1) / world_size * size_bytes
    return fit["latency_ns"] + 1e9 * moved / fit["bus_bytes_per_s"]


def _buckets(bucket_bytes: Sequence[int], world_size: int) -> None:
    if not bucket_bytes or min(bucket_bytes) <= 0 or world_size < 2:
        raise ValueError(f"{len(bucket_bytes)} buckets, {world_size} processes: 1 and 2 are needed")


def gradient_cost(
    bucket_bytes: Sequence[int], fit: Mapping[str, float], world_size: int
) -> dict[str, float]:
    """The time to all-reduce a model's gradients in these buckets, one after the other.

    fit: latency_ns and bus_bytes_per_s as `fit_all_reduce` returns them. That model gives the time of each
    bucket.
    Returns {"time_ns": total of all buckets, "latency_ratio": the share of it that is latency,
    "half_bytes": the message size for which latency and transfer take equally long. With larger messages, more
    buckets cost little}.

    Raises ValueError for no buckets, a bucket that is not above 0, and a world size below 2.
    """
    _buckets(bucket_bytes, world_size)
    time = sum(_reduce_ns(size, fit, world_size) for size in bucket_bytes)
    factor = 2 * (world_size - 1) / world_size
    return {
        "time_ns": time,
        "latency_ratio": len(bucket_bytes) * fit["latency_ns"] / time,
        "half_bytes": fit["latency_ns"] * fit["bus_bytes_per_s"] / 1e9 / factor,
    }


def predict_exposed(
    bucket_bytes: Sequence[int], backward_ns: float, fit: Mapping[str, float], world_size: int
) -> dict[str, float]:
    """The part of the exchange that a backward pass does not cover.

    bucket_bytes: sizes of the buckets, in the order in which they are sent.
    A bucket is ready when the backward pass has computed its last gradient. The pass computes gradients at a
    constant rate. So bucket i is ready at backward_ns times the share of buckets 0 … i in all bytes. One
    all-reduce runs at a time, in order. It starts when its bucket is ready and the previous all-reduce has
    ended. The model of `fit_all_reduce` gives its time. Assume that nothing slows down anything else.

    Returns {"exposed_ns": from the end of the backward pass to the end of the last all-reduce, "hidden_ns": the
    rest of the all-reduces' time}. The last bucket is ready when the pass ends, so at least that one is exposed.

    Raises ValueError for no buckets, a bucket that is not above 0, a world size below 2, and a backward_ns
    below 0.
    """
    _buckets(bucket_bytes, world_size)
    if backward_ns < 0:
        raise ValueError(f"backward_ns is {backward_ns}: a pass takes time")
    done = free = spent = 0.0
    for size in bucket_bytes:
        done += size
        time = _reduce_ns(size, fit, world_size)
        free = max(free, backward_ns * done / sum(bucket_bytes)) + time
        spent += time
    return {"exposed_ns": free - backward_ns, "hidden_ns": spent - free + backward_ns}


def exposed_by_bucket(capture: str | Path, world_size: int) -> list[dict[str, Any]]:
    """The time that the exchange adds to a step, measured, by work and bucket size.

    Use each row of `training` with this world size. `step_ns` has steps with the exchange, a list for each rank.
    `alone_phases_ns` has forward, backward and optimizer times of steps of the same work without the exchange,
    a list for each rank. A step lasts as long as its slowest rank: take the maximum over the ranks at each
    position, then the median over the positions. For steps without the exchange, do this with the sums of their
    phases, and for the backward pass with the second phase.

    Returns a dict for each row, ordered by samples, then by bucket cap:
        "samples_count":          samples of rank 0 in a step.
        "bucket_cap_mib",
        "bucket_bytes":           the list of buckets that DDP made.
        "step_ns", "alone_ns", "backward_ns",
        "exposed_ns":             step_ns - alone_ns, or 0 if that is negative.
        "exposed_ratio":          exposed_ns / step_ns.

    Raises ValueError if nothing was measured at this world size. Raises CaptureError as `fit_all_reduce`
    does, and for a row in which a rank is missing, has no steps, or has a different number of steps from the
    others.
    """
    found = []
    for row in _content(capture)["training"]:
        if row["world_size"] != world_size:
            continue
        if not world_size == len(row["step_ns"]) == len(row["alone_phases_ns"]):
            raise CaptureError(f"{capture}: a rank is missing; one may have died: record again")
        try:
            step = statistics.median(map(max, zip(*row["step_ns"], strict=True)))
            places = list(zip(*row["alone_phases_ns"], strict=True))
            alone = statistics.median(max(map(sum, place)) for place in places)
            backward = statistics.median(max(phases[1] for phases in place) for place in places)
        except (ValueError, LookupError, TypeError) as error:
            raise CaptureError(
                f"{capture}: ranks have no steps, or not as many ({error})"
            ) from None
        exposed = max(0, step - alone)
        found.append(
            {
                "samples_count": row["samples_per_rank"][0],
                "bucket_cap_mib": row["bucket_cap_mib"],
                "bucket_bytes": row["bucket_bytes"],
                "step_ns": step,
                "alone_ns": alone,
                "backward_ns": backward,
                "exposed_ns": exposed,
                "exposed_ratio": exposed / step,
            }
        )
    if not found:
        raise ValueError(f"{capture}: no training was measured with {world_size} processes")
    return sorted(found, key=lambda row: (row["samples_count"], row["bucket_cap_mib"]))


def communication_verdict(
    capture: str | Path, world_size: int, samples_count: int, bucket_cap_mib: int
) -> Finding:
    """Whether the exchange of gradients delays a training, and what a model of it predicts.

    Use the row of `exposed_by_bucket` with these samples and this cap. recoverable_ns is its exposed_ns,
    window_ns its step_ns, recoverable_ratio = recoverable_ns / window_ns, margin_ratio = recoverable_ratio -
    FLOOR_RATIO. The category is "communication_bound" if recoverable_ratio is at least FLOOR_RATIO, else
    "healthy". subject "range:step".

    More evidence:
        "serial_ns":    time_ns of `gradient_cost` for the row's buckets, with the fit of the same file and world
                        size: the time of the exchange without any overlap.
        "predicted_ns": exposed_ns of `predict_exposed` for these buckets and the row's backward_ns.
        "bus_ratio":    the fitted bus bandwidth divided by the bandwidth of the best row of `copy`: bytes / median of
                        its samples_ns (from one device to another; on a CPU from one process to another). If
                        the list `copy` is empty, this key is left out.
    recommendation: a sentence. If |margin_ratio| <= BORDERLINE_RATIO it begins with "borderline". It is "none" if
    healthy and not borderline.

    Raises the errors of the functions that it uses, and ValueError if there is no such row; the message lists the
    existing rows.
    """
    rows = exposed_by_bucket(capture, world_size)
    keys = [(row["samples_count"], row["bucket_cap_mib"]) for row in rows]
    if (samples_count, bucket_cap_mib) not in keys:
        raise ValueError(f"{capture}: samples and bucket caps measured: {keys}")
    row = rows[keys.index((samples_count, bucket_cap_mib))]
    fit = fit_all_reduce(capture, world_size)
    margin = row["exposed_ratio"] - FLOOR_RATIO
    evidence = {
        "recoverable_ns": row["exposed_ns"],
        "window_ns": row["step_ns"],
        "recoverable_ratio": row["exposed_ratio"],
        "margin_ratio": margin,
        "serial_ns": gradient_cost(row["bucket_bytes"], fit, world_size)["time_ns"],
        "predicted_ns": predict_exposed(row["bucket_bytes"], row["backward_ns"], fit, world_size)[
            "exposed_ns"
        ],
    }
    copies = _content(capture)["copy"]
    if copies:
        best = max(1e9 * copy["bytes"] / statistics.median(copy["samples_ns"]) for copy in copies)
        evidence["bus_ratio"] = fit["bus_bytes_per_s"] / best
    text = "do more work between exchanges, send fewer bytes, or overlap more of them"
    if margin < 0:
        text = "none"
    if abs(margin) <= BORDERLINE_RATIO:
        text = "borderline: measure again, longer"
    return Finding(
        "communication_bound" if margin >= 0 else "healthy", "range:step", evidence, text
    )


def measure_all_reduce(sizes_bytes: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """Times of an all-reduce for several sizes, on this machine's GPUs.

    Every process of a started process group (`torch.distributed`, backend NCCL) calls this function, and each has
    its own current CUDA device. For each size, in the given order:
    1. make float32 numbers of that many bytes on the device;
    2. call an all-reduce that is not timed;
    3. `repeats` times: a barrier, a wait for the device, and CALLS_COUNT all-reduces in a row between two CUDA
       events.
    A process's sample is the time between the two events divided by CALLS_COUNT, in ns. A sample of the
    result is the largest of all processes' samples at its position.

    Returns a list of {"bytes", "samples_ns": a list of `repeats` floats}, the same in every process.
    `fit_all_reduce` reads such rows; the world size is not in them.

    Raises ValueError for repeats below 1 and for a size that is not above 0 and a multiple of 4. It is raised in
    every process, before anything is sent: if only one process raised it, the others would wait forever.
    """
    import torch
    import torch.distributed as dist

    if repeats < 1 or any(size < 4 or size % 4 for size in sizes_bytes):
        raise ValueError(f"repeats {repeats}, sizes {list(sizes_bytes)}: 1, and multiples of 4")
    rows = []
    for size in sizes_bytes:
        data = torch.randn(size // 4, device="cuda")
        dist.all_reduce(data)
        own = []
        for _ in range(repeats):
            dist.barrier()
            torch.cuda.synchronize()
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            for _ in range(CALLS_COUNT):
                dist.all_reduce(data)
            end.record()
            torch.cuda.synchronize()
            own.append(start.elapsed_time(end) * 1e6 / CALLS_COUNT)
        slowest = torch.tensor(own, dtype=torch.float64, device="cuda")
        dist.all_reduce(slowest, op=dist.ReduceOp.MAX)
        rows.append({"bytes": size, "samples_ns": slowest.tolist()})
    return rows
