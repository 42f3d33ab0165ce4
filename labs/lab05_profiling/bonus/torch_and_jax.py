"""Lab 05, bonus 2: the same function in PyTorch and in JAX, compared fairly.

Fair is: the same numbers come out, nothing is compiled inside the measurement, every result is waited
for, both take turns, and a difference counts only above what two runs of the same thing differ by.

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import bisect
import itertools
import json
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError

# Results whose errors against float64 differ by more than this factor are not of the same function.
ERROR_FACTOR = 2.0


def torch_side(x: Any, weight: Any, bias: Any, up: Any, down: Any) -> Any:
    """The function in PyTorch: gelu(layer_norm(x) @ up) @ down, with PyTorch's defaults."""
    import torch.nn.functional as F

    hidden = F.layer_norm(x, (x.shape[-1],), weight, bias)
    return F.gelu(hidden @ up) @ down


def jax_twin(x: Any, weight: Any, bias: Any, up: Any, down: Any) -> Any:
    """What `torch_side` computes, in JAX, so that `jax.jit` can compile it.

    x: a jax array (…, width) in float32 or bfloat16; weight, bias: (width,); up: (width, inner); down:
    (inner, width); all of one type. Returns an array like x.

    The same numbers: in float32 within 2e-5 of float64, relative to the largest result. So all defaults
    of `torch.nn.functional.layer_norm` and `gelu` hold here, too; mean and variance of bfloat16 rows
    are computed in float32; and products of float32 are done in full float32 (precision "highest") on
    every device: on a GPU, JAX rounds their inputs to TF32 unless it is told not to.
    """
    raise NotImplementedError


def time_in_turns(
    candidates: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]],
    clock: Callable[[], int],
    rounds: int,
    count: int = 1,
    warmup: int = 2,
) -> dict[str, list[float]]:
    """Samples of several functions that take turns, in ns of one call.

    candidates: by name, (issue, wait). issue() asks for a result and may return before it is there;
    wait(result) returns when it is. (In PyTorch: torch.cuda.synchronize; in JAX:
    jax.block_until_ready.) clock: the time in ns.

    First each candidate, in the order given, is issued and waited for `warmup` times. Then come the
    rounds, in each of which every candidate gives one sample: `count` times issue, then wait for each
    of these results, from before the first to after the last; over count. Rounds number 0, 2, … go through
    the candidates in the order given, rounds 1, 3, … backwards, so that what drifts (clocks, heat)
    favours none of them.

    Returns the samples by name, in the order of the rounds. Raises ValueError for fewer than two
    candidates, for rounds or count below 1, and for warmup below 1: a first call compiles.
    """
    raise NotImplementedError


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and an interval that holds the true median in at least 95 of 100 cases.

    From the order of the values alone: the k-th smallest and the k-th largest, with the largest k for
    which a fair coin thrown as often shows fewer than k heads in at most 2.5 of 100 cases. For fewer
    than six values it is everything: (median, 0.0, inf).
    """
    ordered = sorted(values)
    count = len(ordered)
    fewer = list(itertools.accumulate(math.comb(count, heads) for heads in range(count)))
    k = bisect.bisect_right(fewer, 0.025 * 2**count)
    if k == 0:
        return statistics.median(ordered), 0.0, math.inf
    return statistics.median(ordered), ordered[k - 1], ordered[count - k]


def read_size(capture: str, size: str) -> dict[str, dict[str, Any]]:
    """The variants of one size ("large", "small") of a recording, by name.

    The README of `captures/frameworks_bf16` says what a row holds. Raises CaptureError for a size that
    the recording does not have.
    """
    cases = json.loads(captures.text(capture, "frameworks.json"))["cases"]
    for case in cases:
        if case["name"] == size:
            return {row["name"]: row for row in case["variants"]}
    raise CaptureError(f"no size {size!r}; there are {', '.join(case['name'] for case in cases)}")


def framework_verdict(capture: str, size: str, first: str, second: str) -> dict[str, Any]:
    """Which of two recorded variants is faster, if that can be said.

    capture, size: as for `read_size`; first, second: names of variants. The times are the "done"
    samples. The variants took turns, so samples of the same round belong together: the ratio of a
    round is first over second.

    Returns
        "speedup_ratio"  the median of the rounds' ratios: below 1 where the first is faster
        "low_ratio", "high_ratio"  its interval, by `median_interval`
        "noise_ratio"  how far two recordings of the same thing are apart: for each variant that has
            another one called "<its name> again", the distance from 1 of the median ratio of the two
            (variant over again); the largest of these
        "error_ratio"  the larger of the two relative errors over the smaller
        "verdict"  "not comparable" if error_ratio is above ERROR_FACTOR; else "no difference" if 1 lies
            in the interval (its ends included) or if speedup_ratio is no further from 1 than
            noise_ratio; else "first" or "second", the faster one

    Raises CaptureError for a variant or size that the recording does not have, and for a recording in
    which nothing was measured twice: without noise there is no verdict. Raises ValueError for two
    variants that were not measured in equally many rounds.
    """
    raise NotImplementedError
