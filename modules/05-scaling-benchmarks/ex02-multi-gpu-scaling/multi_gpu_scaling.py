"""Multi-GPU scaling: how much faster, and why not more? From step times to a claim, a law and a cause.

You determine what a series kept constant, compute an efficiency with its interval, and fit the laws of Amdahl
and Gustafson with your own least squares. You predict the speed-up at the next size and how far to trust it,
find the largest size for which a bound holds, and name what the processes wait for. The lesson is `README.md`
in this folder, hints are in `hints.md`, and

    uv run lab check scaling_ex02

checks your solution. A recording is a `scaling.json` that `scaling_benchmark.py` (in the folder above) writes;
the head of that program says what each key means. **World size** is the number of processes.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding

# Half the width of a 95 % interval, in standard errors (normal distribution).
Z_95 = 1.96

# A saving below this share of a step is healthy; this close to the floor, a finding is borderline.
FLOOR_RATIO = 0.05
BORDERLINE_RATIO = 0.02

KINDS = ("strong", "weak")


def scaling_kind(capture: str | Path, series: str) -> dict[str, Any]:
    """What a series kept constant while the number of processes grew.

    Strong: all processes together compute the same number of samples per step at every world size. Weak: every
    process, at every world size, computes the same number.
    Returns {"kind": "strong" or "weak", "samples_count": that number, "world_sizes": ascending list}.

    Raises ValueError
    - if the series does not exist; the message names those that do;
    - if it was measured at only one world size, and so shows neither kind;
    - if it held neither of the two numbers constant.
    Raises CaptureError
    - if the file is not a scaling.json with `format` 1 and `unit` ns;
    - if a run of the series lacks `samples_per_rank`, `step_ns` or `alone_ns`, or one of these lacks a rank.
    """
    raise NotImplementedError


def scaling_efficiency(
    base_ns: Sequence[float], scaled_ns: Sequence[float], world_size: int, kind: str
) -> dict[str, float]:
    """Speed-up over one process and efficiency, with a 95 % interval.

    base_ns: steps of one process. scaled_ns: steps of world_size processes.
    Speed-up is the ratio of samples per second. It is the ratio of the mean steps, base / scaled, times the ratio
    of samples per step: 1 if kind is "strong", world_size if it is "weak". Efficiency is speed-up / world_size.

    The interval is a closed formula, without resampling. The logarithm of a ratio of two independent means
    has approximately the standard error e = sqrt(sb² / (nb mb²) + ss² / (ns ms²)). Here m are the means, s
    the standard deviations (`statistics.stdev`) and n the counts, of base (b) and scaled (s). The interval's
    ends are efficiency * exp(-Z_95 e) and efficiency * exp(Z_95 e). Steps of one run are not fully
    independent, so the true interval is wider.

    Returns {"speedup_ratio", "efficiency_ratio", "low_ratio", "high_ratio"}.

    Raises ValueError for fewer than two steps on either side, a step that is not above 0, a world size
    below 2, or any other kind.
    """
    raise NotImplementedError


def serial_share(
    kind: str, world_sizes: Sequence[int], speedups: Sequence[float]
) -> dict[str, float]:
    """The share of the work that more processes do not shorten, by least squares.

    kind "strong", Amdahl: s is the serial share of one process's time. n processes need s + (1 - s) / n of this
    time, so 1/S = s + (1 - s) / n for the speed-up S. Fit the **times**, 1/S: s is the number with the smallest
    sum of squared differences between measured and modelled 1/S.
    kind "weak", Gustafson: s is the serial share of the time of n processes, and S = s + (1 - s) n. Fit S itself.
    One process has S = 1 in both laws and gives no information about s.

    Returns, over the points of more than one process,
        "serial_ratio": s, without limits: below 0 if the speed-up is larger than the law allows, above 1 if more
                        processes are slower than one.
        "worst_ratio":  the largest |S of the law / S measured - 1|.
        "free_count":   number of points minus one, because s needs one point. With 0 the fit is exact whatever was
                        measured, and proves nothing.

    Raises ValueError for lists of different lengths, no world size above 1, a world size below 1, a speed-up that
    is not above 0, or any other kind.
    """
    raise NotImplementedError


def predict_speedup(
    kind: str, world_sizes: Sequence[int], speedups: Sequence[float], world_size: int
) -> dict[str, float | None]:
    """The speed-up that the law predicts at another world size, and how much a single point affects it.

    "speedup_ratio": the speed-up at world_size by the law of `serial_share`.
    "low_ratio", "high_ratio": repeat the fit without one of the points of more than one process, for each point in
    turn. These are the smallest and the largest speed-up that result. With only one such point nothing can be
    left out, and both are None.

    Raises the errors of `serial_share`, and ValueError for a world_size below 1.
    """
    raise NotImplementedError


def efficient_up_to(rows: Sequence[Mapping[str, float]], bound: float) -> dict[str, Any]:
    """Up to which world size an efficiency is proven, and from which one it is refuted.

    rows: {"world_size", "low_ratio", "high_ratio"} in any order; other keys are ignored.
    An efficiency of at least `bound` is proven if low_ratio >= bound, refuted if high_ratio < bound, and
    undecided otherwise. Returns
        "proven":    the largest world size such that it and every smaller one of the rows are proven, or None.
        "refuted":   the smallest world size that is refuted, or None.
        "undecided": list of the undecided world sizes, ascending.

    Raises ValueError for no rows, a world size that occurs twice, and a bound that is not above 0.
    """
    raise NotImplementedError


def scaling_verdict(capture: str | Path, series: str, world_size: int) -> Finding:
    """What the processes of a run wait for: each other, the exchange of gradients, or neither.

    `step_ns` are steps with the exchange, `alone_ns` steps of the same work without it. Both have a list for
    each rank. window_ns is the mean of all steps with the exchange, over ranks and steps. For the steps without
    the exchange, take the mean and the maximum over the ranks at each position in the lists, then average both
    over the positions.
    Removing a cause saves, per step:

    - rank_imbalance: maximum minus mean. A step lasts as long as its slowest rank; if the same work were evenly
      spread, it would last as long as the mean;
    - communication_bound: window minus maximum, or 0 if that is negative. This is what the exchange adds after the
      slowest rank has finished (`exposed_ns`).

    recoverable_ns is the larger saving (communication_bound if both are equal), recoverable_ratio its share
    of the window, margin_ratio = recoverable_ratio - FLOOR_RATIO. If recoverable_ratio is at least FLOOR_RATIO,
    the category is the cause, else "healthy".

    subject: for rank_imbalance "rank:<k>", the rank with the largest mean of its steps without the exchange (the
    first, if equal); otherwise "range:<series>". evidence: recoverable_ns, window_ns, recoverable_ratio,
    margin_ratio, waiting_ns (maximum minus mean) and exposed_ns.
    recommendation: a sentence. If |margin_ratio| <= BORDERLINE_RATIO it begins with "borderline". It is "none" if
    healthy and not borderline.

    It does not matter here what the series held constant, and at how many world sizes it was measured.
    Raises CaptureError
    - if the file is not a scaling.json with `format` 1 and `unit` ns;
    - if a run of the series lacks `samples_per_rank`, `step_ns` or `alone_ns`, or one of these lacks a rank.
    Raises ValueError
    - for a series that does not exist;
    - for world size 1, or one at which the series was not measured; the message lists the measured sizes;
    - if the ranks' lists of `step_ns`, or those of `alone_ns`, are empty or differ in length.
    """
    raise NotImplementedError
