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
    """What it costs to all-reduce a model's gradients in these buckets, one after the other.

    fit: latency_ns and bus_bytes_per_s as `fit_all_reduce` returns them; each bucket costs what that model says.
    Returns {"time_ns": of all buckets, "latency_ratio": the share of it that is latency,
    "half_bytes": the size of a message of which latency and transfer cost the same: from it on, more
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
