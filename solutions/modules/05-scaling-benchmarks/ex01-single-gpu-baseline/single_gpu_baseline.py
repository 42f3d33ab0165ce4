"""Single-GPU baseline: scaling from what? Turn the step times of one process into a claim that can be checked.

You compute a throughput with its interval and a utilization in model FLOPs. You read a sweep of batch sizes
with its noise, find the knee, compare the conditions of two runs, and decide whether a recorded baseline
can be used for scaling. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check scaling_ex01

checks your solution. A baseline is a `baseline.json` that `scaling_benchmark.py` (in the folder above)
writes; the head of that program says what each key means.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError, EmptyCapture
from profiling_lab.findings import Finding

# Half the width of a 95 % interval of a mean, in standard errors (normal distribution).
Z_95 = 1.96

# A saving below this share of a step is not a reason to change the baseline.
FLOOR_RATIO = 0.05
# A share this close to the floor, on either side, is borderline, and the finding must say so.
BORDERLINE_RATIO = 0.02

# What a record must say so that somebody else can repeat it and compare.
REQUIRED = (
    "device",
    "dtype",
    "layers",
    "optimizer",
    "torch",
    "python",
    "tf32",
    "threads_per_process_count",
    "clock",
    "variables",
)


def throughput(step_ns: Sequence[float], batch: int, warmup_count: int) -> dict[str, float]:
    """Samples per second of a run, with a 95 % interval.

    step_ns: the time of each step, in order.
    batch: number of samples in a step.
    warmup_count: the first warmup_count steps are not used.
    Returns {"samples_per_s", "low_per_s", "high_per_s"}. samples_per_s is the number of samples divided by the
    time that they took. The other two are the rates at the ends of the interval of the mean step. The interval is
    mean ± Z_95 * s / sqrt(n), where s is `statistics.stdev` and n the number of steps used.

    Raises ValueError if fewer than two steps remain, or if the interval of the mean step reaches 0 or below. Also
    raises it for a step that is not above 0, warm-up included, a batch below 1, and a warmup_count below 0.
    """
    if batch < 1 or warmup_count < 0:
        raise ValueError(f"batch {batch}, warmup_count {warmup_count}: at least 1 and 0 are needed")
    steady = step_ns[warmup_count:]
    if len(steady) < 2 or not all(step > 0 for step in step_ns):
        raise ValueError(f"{len(steady)} steps count: at least 2 are needed, and all above 0 ns")
    mean = statistics.fmean(steady)
    half_width = Z_95 * statistics.stdev(steady) / math.sqrt(len(steady))
    if half_width >= mean:
        raise ValueError("the interval of the mean step reaches 0: take more steps")
    return {
        "samples_per_s": 1e9 * batch / mean,
        "low_per_s": 1e9 * batch / (mean + half_width),
        "high_per_s": 1e9 * batch / (mean - half_width),
    }


def model_flops_utilization(
    layers: Sequence[Sequence[int]], samples_per_s: float, device: str, dtype: str
) -> dict[str, float]:
    """The model's own arithmetic as a share of a device's peak.

    layers: [inputs, outputs] of each weight matrix, in the order of the forward pass. For one sample, a product
        with a matrix takes 2 * inputs * outputs operations (a multiplication and an addition each). A training
        step computes three products for each matrix: the output, the gradient of the weights, and the gradient
        of the input. The **first** matrix does not need the gradient of the input, because its input is data.
    device, dtype: as `profiling_lab.devices` knows them; the peak is `get(device).peak(dtype)`.

    Returns {"flops_per_sample_count", "utilization_ratio"}. Do not count operations that are repeated to save
    memory, nor those of activations and optimizer: the result is the model's work, not the hardware's.

    Raises ValueError for no layers, a layer that is not a pair, sizes below 1, or samples_per_s that is not
    above 0. Errors of `devices` for an unknown device or type are passed on.
    """
    if not layers or not all(len(shape) == 2 and min(shape) >= 1 for shape in layers):
        raise ValueError(
            "layers must be pairs of inputs and outputs, each at least 1, at least one"
        )
    if not samples_per_s > 0:
        raise ValueError(f"samples_per_s is {samples_per_s}: it must be above 0")
    products = [2 * inputs * outputs for inputs, outputs in layers]
    flops = 3 * sum(products) - products[0]
    peak = devices.get(device).peak(dtype)
    return {"flops_per_sample_count": flops, "utilization_ratio": flops * samples_per_s / peak}


def _read(capture: str | Path) -> dict[str, Any]:
    """The content of a baseline, with runs in it."""
    try:
        content = json.loads(captures.text(capture, "baseline.json"))
        if content["format"] != 1 or content["unit"] != "ns":
            raise CaptureError(
                f"{capture}: is of another format; record it with this course's program"
            )
        runs = [(run["batch"], run["round"], run["phases"]) for run in content["runs"]]
    except (ValueError, LookupError, TypeError) as error:
        raise CaptureError(f"{capture}: is no baseline ({error})") from None
    if not runs:
        raise EmptyCapture(f"{capture}: holds no runs; let the program finish")
    return content


def _steady(run: Mapping[str, Any], warmup_count: int) -> list[list[int]]:
    """The phases of the steps that count."""
    if warmup_count < 0 or len(run["phases"]) <= warmup_count:
        raise ValueError(
            f"warmup_count {warmup_count} of {len(run['phases'])} steps: at least one step must count"
        )
    return run["phases"][warmup_count:]


def batch_sweep(capture: str | Path, warmup_count: int) -> list[dict[str, float]]:
    """Throughput by batch size, and how much repeated runs of the same batch size differ.

    capture: name or path of a baseline. The time of a step is the sum of its phases. The first warmup_count
    steps of **each run** are not used. A run's level is the median of its steps. Returns for each batch size,
    from small to large: {"batch", "step_ns": median of its runs' levels, "samples_per_s": batch / step_ns, in
    samples per second, "noise_ratio": (largest level - smallest) / step_ns, the A/A noise; 0.0 for a single run}.

    Raises ValueError if no step of a run remains, and for a warmup_count below 0. Raises CaptureError if the file
    is not a baseline with `format` 1 and `unit` ns, or if a run has no phases. Raises EmptyCapture for a baseline
    without runs.
    """
    levels: dict[int, list[float]] = {}
    for run in _read(capture)["runs"]:
        steps = [sum(phases) for phases in _steady(run, warmup_count)]
        levels.setdefault(run["batch"], []).append(statistics.median(steps))
    rows = []
    for batch, found in sorted(levels.items()):
        step = statistics.median(found)
        rows.append(
            {
                "batch": batch,
                "step_ns": step,
                "samples_per_s": 1e9 * batch / step,
                "noise_ratio": (max(found) - min(found)) / step,
            }
        )
    return rows


def knee_batch(rows: Sequence[Mapping[str, float]], share: float = 0.9) -> dict[str, Any]:
    """The smallest batch that is about as fast as the fastest, and smaller batches that may be as fast.

    rows: as `batch_sweep` returns them, in any order. Returns
        "knee":      the smallest batch whose samples_per_s is at least share times the best of all rows.
        "best":      the batch with the best samples_per_s (the smallest, if several have it).
        "undecided": the batches smaller than the knee that would reach share times the best if they were
                     faster by their own noise, samples_per_s * (1 + noise_ratio); in ascending order.

    Raises ValueError for no rows and for a share outside of 0 < share <= 1.
    """
    if not rows or not 0 < share <= 1:
        raise ValueError(
            f"{len(rows)} rows, share {share}: rows and a share above 0, up to 1, needed"
        )
    ordered = sorted(rows, key=lambda row: row["batch"])
    best = max(ordered, key=lambda row: row["samples_per_s"])
    enough = share * best["samples_per_s"]
    knee = next(row["batch"] for row in ordered if row["samples_per_s"] >= enough)
    near = [
        row["batch"]
        for row in ordered
        if row["batch"] < knee and row["samples_per_s"] * (1 + row["noise_ratio"]) >= enough
    ]
    return {"knee": knee, "best": best["batch"], "undecided": near}


def same_conditions(
    one: Mapping[str, Any], other: Mapping[str, Any], varied: Sequence[str] = ()
) -> dict[str, list[str]]:
    """The conditions that prevent the comparison of two records.

    one, other: the `environment` of two records.
    varied: the keys that were changed on purpose.
    Returns
        "missing":   keys of REQUIRED that at least one of the records lacks or holds as None or "".
        "different": keys of REQUIRED that both have, with different values, and that are not in varied.
    Both lists are in the order of REQUIRED. Values must have the same type: "4" is not 4, and False is not 0.
    Lists and dicts are compared as a whole, by ==.

    Raises ValueError if the argument `varied` contains a key that is not in REQUIRED; the message names the
    key. A key that is not checked need not be declared as varied.
    """
    unknown = [key for key in varied if key not in REQUIRED]
    if unknown:
        raise ValueError(f"varied: {', '.join(unknown)} is not among {', '.join(REQUIRED)}")

    def absent(key: str) -> bool:
        return any(side.get(key) in (None, "") for side in (one, other))

    def same(key: str) -> bool:
        return type(one[key]) is type(other[key]) and one[key] == other[key]

    return {
        "missing": [key for key in REQUIRED if absent(key)],
        "different": [
            key for key in REQUIRED if not absent(key) and key not in varied and not same(key)
        ],
    }


def baseline_verdict(capture: str | Path, warmup_count: int) -> Finding:
    """Whether a baseline can be used for scaling, at its largest batch.

    Use the steps of all runs of the largest batch size, without the first warmup_count of each run. Use means,
    because the means of the phases add up to the mean step (the `window_ns`). Removing a cause would save, per
    step:

    - host_bound: the mean of "load", in which the device waits for the host's data;
    - transfer_bound: the mean of "copy", which could run at the same time as compute.

    `recoverable_ns` is the larger saving (transfer_bound if both are equal), and `recoverable_ratio` its share of
    the window. The floor, `floor_ratio`, is the larger of FLOOR_RATIO and the noise_ratio of this batch in
    `batch_sweep`, because a gain smaller than the noise cannot be seen. If the share is at least the floor, the
    category is the cause, else "healthy".

    subject "device:0"; evidence: recoverable_ns, window_ns, recoverable_ratio, floor_ratio,
    margin_ratio = recoverable_ratio - floor_ratio, and throughput_ratio: samples per second at this
    batch, by its step_ns in `batch_sweep`, divided by the best of the sweep.
    recommendation: a sentence. If |margin_ratio| <= BORDERLINE_RATIO it begins with "borderline". It is
    "none" for a healthy baseline that is not borderline.

    The phases are in the order of the file's `phase_names`. Raises the errors of `batch_sweep`, and
    CaptureError if "load" or "copy" is not among the phases; its message names the two.
    """
    content = _read(capture)
    rows = batch_sweep(capture, warmup_count)
    names, last = content.get("phase_names", []), rows[-1]
    if not {"load", "copy"} <= set(names):
        raise CaptureError(f"{capture}: its phases are {names}; load and copy must be among them")
    steps = [
        step
        for run in content["runs"]
        if run["batch"] == last["batch"]
        for step in _steady(run, warmup_count)
    ]
    window = statistics.fmean(sum(step) for step in steps)
    savings = {
        "transfer_bound": statistics.fmean(step[names.index("copy")] for step in steps),
        "host_bound": statistics.fmean(step[names.index("load")] for step in steps),
    }
    cause = max(savings, key=lambda name: savings[name])
    share = savings[cause] / window
    floor = max(FLOOR_RATIO, last["noise_ratio"])
    advice = {
        "transfer_bound": "copy the next batch beside the compute of this one, from pinned memory",
        "host_bound": "prepare the next batch while the device works, in other processes",
        "healthy": "none",
    }
    category = cause if share >= floor else "healthy"
    text = advice[category]
    if abs(share - floor) <= BORDERLINE_RATIO:
        text = f"borderline: measure again, longer, before you scale from it ({cause})"
    return Finding(
        category,
        "device:0",
        {
            "recoverable_ns": savings[cause],
            "window_ns": window,
            "recoverable_ratio": share,
            "floor_ratio": floor,
            "margin_ratio": share - floor,
            "throughput_ratio": last["samples_per_s"] / max(row["samples_per_s"] for row in rows),
        },
        text,
    )
