"""Lab 05, bonus 2: the same function in PyTorch and in JAX, compared fairly.

A fair comparison means: both give the same numbers, nothing is compiled during the measurement, the
program waits for every result, both take turns, and a difference counts only if it is larger than the
difference between two runs of the same function.

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

# If the errors of two results against float64 differ by more than this factor, they are not results of the same function.
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

    In float32 the result is within 2e-5 of that in float64, relative to the largest result. To achieve this,
    use all defaults of `torch.nn.functional.layer_norm` and `gelu`. Compute mean and variance of bfloat16 rows
    in float32. Compute products of float32 in full float32 (precision "highest") on every device, because JAX
    on a GPU otherwise rounds their inputs to TF32.
    """
    raise NotImplementedError


def time_in_turns(
    candidates: dict[str, tuple[Callable[[], Any], Callable[[Any], Any]]],
    clock: Callable[[], int],
    rounds: int,
    count: int = 1,
    warmup: int = 2,
) -> dict[str, list[float]]:
    """Samples of several functions that take turns, in ns per call.

    candidates: by name, (issue, wait). issue() asks for a result and may return before it is complete;
    wait(result) returns when it is. (In PyTorch: torch.cuda.synchronize; in JAX:
    jax.block_until_ready.) clock: the time in ns.

    First, in the order given, issue each candidate and wait for it `warmup` times. Then come the rounds.
    In each round every candidate gives one sample: issue it `count` times, then wait for each of these
    results. A sample is the time from before the first issue to after the last wait, over `count`. Rounds
    0, 2, … go through the candidates in the order given, rounds 1, 3, … backwards. So drift (of clocks
    or heat) favours none of them.

    Returns the samples by name, in the order of the rounds. Raises ValueError if there are fewer than two
    candidates, if rounds or count is below 1, or if warmup is below 1 (a first call compiles).
    """
    raise NotImplementedError


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and an interval that contains the true median in at least 95 of 100 cases.

    Only the order of the values is used. The ends are the k-th smallest and the k-th largest value. k is
    the largest number for which fewer than k heads in one toss of a fair coin for each value have a
    probability of at most 2.5 %. For fewer than six values the interval contains everything: (median, 0.0, inf).
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

    The README of `captures/frameworks_bf16` says what a row holds. Raises CaptureError if the recording does
    not have that size.
    """
    cases = json.loads(captures.text(capture, "frameworks.json"))["cases"]
    for case in cases:
        if case["name"] == size:
            return {row["name"]: row for row in case["variants"]}
    raise CaptureError(f"no size {size!r}; there are {', '.join(case['name'] for case in cases)}")


def framework_verdict(capture: str, size: str, first: str, second: str) -> dict[str, Any]:
    """Which of two recorded variants is faster, if this can be decided.

    capture, size: as for `read_size`; first, second: names of variants. The times are the "done"
    samples. The variants took turns, so compare samples of the same round: the ratio of a round is
    first over second.

    Returns
        "speedup_ratio"  the median of the rounds' ratios: below 1 if the first is faster
        "low_ratio", "high_ratio"  its interval, by `median_interval`
        "noise_ratio"  how much two recordings of the same variant differ. If a variant has a second recording,
            called "<its name> again", its noise is the distance from 1 of the median ratio of the first
            recording to the second. noise_ratio is the largest of these
        "error_ratio"  the larger of the two variants' relative errors divided by the smaller
        "verdict"  "not comparable" if error_ratio is above ERROR_FACTOR. Otherwise "no difference" if 1 is
            in the interval (its ends included), or if speedup_ratio differs from 1 by no more than
            noise_ratio. Otherwise "first" or "second", the faster one

    Raises CaptureError if the recording does not have the variant or the size, or if nothing in it was
    measured twice: without noise no verdict is possible. Raises ValueError if the two variants were not
    measured in equally many rounds.
    """
    raise NotImplementedError
