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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError
