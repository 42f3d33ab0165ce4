"""Single-GPU baseline: scaling from what? Turn the steps of one process into a claim that holds.

You compute a throughput with its interval and a utilization in model FLOPs, read a sweep of batch sizes
with its noise, find the knee, compare the conditions of two runs, and say whether a recorded baseline is
fit to scale from. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check scaling_ex01

tells what is right and wrong. A baseline is a `baseline.json` as `scaling_benchmark.py` (beside this
folder) writes it; its head says what each key means.
"""

from __future__ import annotations

import json
import math
import statistic
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from profiling_lab import captures, devices
from profiling_lab.errors import CaptureError, EmptyCapture
from profiling_lab.findings import Finding

# Half the width of a 95 % interval of a mean, in standard errors (normal distribution).
Z_95 = 1.96

# A saving below this share of a step is no reason to change the baseline.
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

    step_ns: the time of each step, in order. batch: samples in a step. The first warmup_count steps do
    not count. Returns {"samples_per_s", "low_per_s", "high_per_s"}: samples divided by the time that
    they took, and the same for the ends of the interval of the mean step, mean ± Z_95 * s / sqrt(n),
    where s is `statistics.stdev` and n the number of steps that count.

    Raises ValueError if fewer than two steps count, for a step that is not above 0, a batch below 1, a
    warmup_count below 0, and if the interval of the mean step reaches 0 or below.
    """
    mean_ns = statistics.mean(step_ns)
    spread_ns = statistics.stdev(step_ns)
    return {
        "samples_per_s": 1e9 * batch / mean_ns,
        "low_per_s": 1e9 * batch / (mean_ns + spread_ns),
        "high_per_s": 1e9 * batch / (mean_ns - spread_ns),
    }


def model_flops_utilization(
    layers: Sequence[Sequence[int]], samples_per_s: float, device: str, dtype: str
) -> dict[str, float]:
    """Which share of a device's peak the model's own arithmetic is.

    layers: [inputs, outputs] of each weight matrix, in the order of the forward pass. For a sample,
    a product with a matrix takes 2 * inputs * outputs operations (a multiplication and an addition
    each). A training step makes three for each matrix: the output, the gradient of the weights, and
    the gradient of the input, which the **first** matrix does not need: its input is data.
    device, dtype: as `profiling_lab.devices` knows them; the peak is `get(device).peak(dtype)`.

    Returns {"flops_per_sample_count", "utilization_ratio"}. What is computed twice, to save memory, or
    in activations and optimizer is not in it: it is the model's work, not the hardware's.

    Raises ValueError for no layers, a layer that is no pair, sizes below 1, or samples_per_s that is not
    above 0; what `devices` raises for an unknown device or type goes through.
    """
    raise NotImplementedError


def batch_sweep(capture: str | Path, warmup_count: int) -> list[dict[str, float]]:
    """Throughput by batch size, and how far runs of the very same thing differ.

    capture: name or path of a baseline. A step takes the sum of its phases; the first warmup_count
    steps of **each run** do not count. A run's level is the median of its steps. For each batch size,
    from small to large: {"batch", "step_ns": median of its runs' levels, "samples_per_s": of that
    step, "noise_ratio": (largest level - smallest) / step_ns, the A/A noise; 0.0 for one run alone}.

    Raises ValueError if no step of a run is left, and for a warmup_count below 0; CaptureError for what is
    no baseline of `format` 1 with the `unit` ns and for a run without its phases, EmptyCapture for a
    baseline without runs.
    """
    raise NotImplementedError


def knee_batch(rows: Sequence[Mapping[str, float]], share: float = 0.9) -> dict[str, Any]:
    """The smallest batch that is about as fast as the fastest, and which smaller ones may be, too.

    rows: as `batch_sweep` returns them, in any order. Returns {"knee": the smallest batch whose
    samples_per_s is at least share times the best of all rows, "best": the batch of that best
    (the smallest, if several have it), "undecided": the batches smaller than the knee that would reach
    it if they were faster by their own noise, samples_per_s * (1 + noise_ratio); in ascending order}.

    Raises ValueError for no rows and for a share outside of 0 < share <= 1.
    """
    raise NotImplementedError


def same_conditions(
    one: Mapping[str, Any], other: Mapping[str, Any], varied: Sequence[str] = ()
) -> dict[str, list[str]]:
    """What keeps two records from being compared.

    one, other: the `environment` of two records. varied: the keys that were changed on purpose.
    Returns {"missing": keys of REQUIRED that one of them lacks or holds as None or "", "different":
    keys of REQUIRED that both have, with different values, and that are not in varied}, each in the
    order of REQUIRED. A value is compared with its type: "4" is not 4, False is not 0. Lists and dicts
    are compared as a whole, by ==.

    Raises ValueError if varied names a key that is not in REQUIRED (the message names it): what nobody
    checks cannot be varied on purpose.
    """
    raise NotImplementedError


def baseline_verdict(capture: str | Path, warmup_count: int) -> Finding:
    """Whether a baseline is fit to scale from, at its largest batch.

    Looked at are the steps of all runs of the largest batch size, without the first warmup_count of each
    run; means, because means of phases add up to the mean step (the `window_ns`). Taking a cause away
    would save, a step:

    - host_bound: the mean of "load", in which the device waits for the host's data;
    - transfer_bound: the mean of "copy", which could run beside compute.

    The larger saving is `recoverable_ns` (transfer_bound if both are equal), its share of the window
    `recoverable_ratio`. The floor, `floor_ratio`, is FLOOR_RATIO or the noise_ratio of this batch in
    `batch_sweep`, whichever is larger: what is smaller than the noise cannot be seen to be gained. A
    share of at least the floor is a finding of its category, a smaller one is "healthy".

    subject "device:0"; evidence: recoverable_ns, window_ns, recoverable_ratio, floor_ratio,
    margin_ratio = recoverable_ratio - floor_ratio, and throughput_ratio: samples per second at this
    batch, by its step_ns in `batch_sweep`, over the best of the sweep.
    recommendation: a sentence; if |margin_ratio| <= BORDERLINE_RATIO it begins with "borderline"; "none"
    for a healthy baseline that is not borderline.

    The phases stand in the order of the file's `phase_names`. Raises what `batch_sweep` raises, and
    CaptureError if "load" or "copy" is not among the phases; its message names the two.
    """
    raise NotImplementedError
