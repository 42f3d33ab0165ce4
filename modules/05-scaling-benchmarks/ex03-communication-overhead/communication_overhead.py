"""Communication overhead: what does an all-reduce cost? A model of it, and what of it a step feels.

You turn times of collectives into bandwidths that can be compared, fit latency and bandwidth to sizes from
a kilobyte to hundreds of megabytes, compute what the gradients of a model cost in buckets, predict what of
that a backward pass leaves exposed, measure it from steps with and without the exchange, and judge. The
lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check scaling_ex03

tells what is right and wrong. A recording is a `communication.json` as `scaling_benchmark.py` (beside this
folder) writes it; its head says what each key means. **n** is the number of processes, the world size.
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

    Algorithm bandwidth is size over time. Bus bandwidth is that times a factor, such that it can be held
    against the speed of a link, whatever n is: 2 (n - 1) / n for "all_reduce"; (n - 1) / n for
    "all_gather", "reduce_scatter" and "all_to_all"; 1 for "broadcast" and "reduce". size_bytes is, for
    all_gather and reduce_scatter, that of the whole, of all n parts together.
    (Source: doc/PERFORMANCE.md of github.com/NVIDIA/nccl-tests; where a switch adds the numbers up, as NVLS does, the
    factor of all_reduce is another one: here that is off.)

    Returns {"algorithm_bytes_per_s", "bus_bytes_per_s"}. Raises ValueError for another operation, a size or
    a time that is not above 0, and a world size below 2.
    """
    raise NotImplementedError


def fit_all_reduce(capture: str | Path, world_size: int) -> dict[str, float]:
    """Latency and bandwidth of an all-reduce, from its times over sizes.

    The model is t = latency + x / bandwidth, with x = 2 (n - 1) / n * bytes, so the bandwidth is bus bandwidth.
    From the rows of `all_reduce` with this world size; the time of a row is the median of its `samples_ns`.
    Fitted are both numbers, by least squares of **relative** errors: the sum of ((model - t) / t)² is
    least. Without that the largest sizes, in whose times the latency is nothing, would decide alone.

    Returns {"latency_ns": as it comes out, also below 0, "bus_bytes_per_s", "worst_ratio": the largest
    |model / t - 1| of the rows}.

    Raises ValueError if fewer than two different sizes were measured with this world size (the message
    names the world sizes that were), and if times do not grow with size, so that there is no bandwidth;
    CaptureError for what is no communication.json of `format` 1 with the `unit` ns and the lists
    `all_reduce`, `copy` and `training`.
    """
    raise NotImplementedError


def gradient_cost(
    bucket_bytes: Sequence[int], fit: Mapping[str, float], world_size: int
) -> dict[str, float]:
    """What it costs to all-reduce a model's gradients in these buckets, one after the other.

    fit: latency_ns and bus_bytes_per_s as `fit_all_reduce` returns them; each bucket costs what that model says.
    Returns {"time_ns": of all buckets, "latency_ratio": the share of it that is latency,
    "half_bytes": the size of a message of which latency and transfer cost the same: from it on, more
    buckets cost little}.

    Raises ValueError for no buckets, a bucket that is not above 0, and a world size below 2.
    """
    raise NotImplementedError


def predict_exposed(
    bucket_bytes: Sequence[int], backward_ns: float, fit: Mapping[str, float], world_size: int
) -> dict[str, float]:
    """What of the exchange a backward pass does not cover.

    bucket_bytes: in the order in which they are sent. A bucket is ready when the backward pass has
    made its last gradient; the pass makes gradients evenly, so bucket i is ready at backward_ns times the share
    that buckets 0 … i have of all bytes. One all-reduce runs at a time, in order: it starts when its bucket
    is ready and the one before has ended, and lasts as the model of `fit_all_reduce` says. Nothing
    slows down anything else.

    Returns {"exposed_ns": from the end of the backward pass to the end of the last all-reduce, "hidden_ns": the
    rest of the all-reduces' time}. The last bucket is ready when the pass ends, so at least that one is exposed.

    Raises what `gradient_cost` raises, and ValueError for a backward_ns below 0.
    """
    raise NotImplementedError


def exposed_by_bucket(capture: str | Path, world_size: int) -> list[dict[str, Any]]:
    """What the exchange adds to a step, by work and bucket size, measured.

    For each row of `training` with this world size: `step_ns`, a list a rank, are steps with the exchange;
    `alone_phases_ns`, a list a rank, are forward, backward and optimizer of steps of the same work without it.
    A step lasts as long as its slowest rank: take the largest of the ranks at each place, then the median
    over the places. For steps alone that is done with the sums of their phases, and for the backward
    pass with the second phase.

    Returns a dict for each row, ordered by samples, then by bucket cap: {"samples_count": samples of rank 0
    in a step, "bucket_cap_mib", "bucket_bytes": the list of buckets that DDP made, "step_ns", "alone_ns",
    "backward_ns", "exposed_ns": step_ns - alone_ns, or 0 if that is negative, "exposed_ratio": of step_ns}.

    Raises ValueError if nothing was measured at this world size; CaptureError as `fit_all_reduce` does, and
    for a row in which a rank is missing, has no steps, or not as many as the others.
    """
    raise NotImplementedError


def communication_verdict(
    capture: str | Path, world_size: int, samples_count: int, bucket_cap_mib: int
) -> Finding:
    """Whether the exchange of gradients holds a training up, and what a model of it says.

    Of the row of `exposed_by_bucket` with these samples and this cap: recoverable_ns is its exposed_ns,
    window_ns its step_ns, recoverable_ratio their ratio, margin_ratio = recoverable_ratio - FLOOR_RATIO. At
    or above the floor the category is "communication_bound", below it "healthy". subject "range:step".

    More evidence: serial_ns, the time_ns of `gradient_cost` for the row's buckets, by the fit of
    the same file and world size: what the exchange would take without any overlap; predicted_ns, the
    exposed_ns of `predict_exposed` for them and the row's backward_ns; bus_ratio, the fitted bus
    bandwidth over that of the best row of `copy`, bytes over the median of its samples_ns (from one device to
    another; on a CPU from one process to another). If the list `copy` is empty the key is left out.
    recommendation: a sentence; if |margin_ratio| <= BORDERLINE_RATIO it begins with "borderline"; "none" if
    healthy and not borderline.

    Raises what the functions it is made of raise, and ValueError if there is no such row; the message
    says which there are.
    """
    raise NotImplementedError


def measure_all_reduce(sizes_bytes: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """Times of an all-reduce over sizes, on this machine's GPUs.

    Called by every process of a started process group (`torch.distributed`, backend NCCL), each of
    which has its own current CUDA device. For each size, in the order given: float32 numbers of that many bytes
    on the device; an all-reduce that does not count; then `repeats` times: a barrier, a wait for the device,
    and CALLS_COUNT all-reduces in a row between two CUDA events. A process's sample is the time between them
    over CALLS_COUNT, in ns; a sample is the largest of all processes' samples at its place.

    Returns, in every process the same, a list of {"bytes", "samples_ns": list of repeats floats}: what
    `fit_all_reduce` reads, without the world size.

    Raises ValueError for repeats below 1 and for a size that is not above 0 and a multiple of 4, in
    every process, before anything is sent: a process that raises alone leaves the others waiting.
    """
    raise NotImplementedError
