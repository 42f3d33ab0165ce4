"""Multi-GPU scaling: how much faster, and why not more? From step times to a claim, a law and a cause.

You recognise what a series kept constant, give an efficiency with its interval, fit the laws of Amdahl
and Gustafson with your own least squares, predict the next size and how far that can be trusted, say up
to which size a bound holds, and name what the processes wait for. The lesson is `README.md` in this
folder, hints are in `hints.md`, and

    uv run lab check scaling_ex02

tells what is right and wrong. A recording is a `scaling.json` as `scaling_benchmark.py` (beside this
folder) writes it; its head says what each key means. **World size** is the number of processes.
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

    Strong: all processes together do the same number of samples a step at every world size. Weak: every
    process, at every world size, does the same number.
    Returns {"kind": "strong" or "weak", "samples_count": that number, "world_sizes": ascending list}.

    Raises ValueError for a series that is not there (the message names those that are), one that was
    measured at a single world size (it shows neither), and one that kept neither number; CaptureError for
    what is no scaling.json of `format` 1 with the `unit` ns, and for a run of the series in which
    `samples_per_rank`, `step_ns` or `alone_ns` is missing or lacks a rank.
    """
    raise NotImplementedError


def scaling_efficiency(
    base_ns: Sequence[float], scaled_ns: Sequence[float], world_size: int, kind: str
) -> dict[str, float]:
    """Speed-up and efficiency against one process, with a 95 % interval.

    base_ns: steps of one process. scaled_ns: steps of world_size processes. Speed-up is how many times
    as many samples a second: the ratio of the mean steps, base over scaled, times how many times as
    many samples a step has: 1 if kind is "strong", world_size if it is "weak". Efficiency is speed-up
    over world_size.

    The interval is a closed formula, no resampling: the logarithm of a ratio of two independent means has
    about the standard error e = sqrt(sb² / (nb mb²) + ss² / (ns ms²)), with the means m, standard
    deviations s (`statistics.stdev`) and counts n of base and scaled. Its ends are
    efficiency * exp(-Z_95 e) and efficiency * exp(Z_95 e). Steps of one run are not quite independent,
    so the true one is rather wider.

    Returns {"speedup_ratio", "efficiency_ratio", "low_ratio", "high_ratio"}.

    Raises ValueError for fewer than two steps on either side, a step that is not above 0, a world size
    below 2, or another kind.
    """
    raise NotImplementedError


def serial_share(
    kind: str, world_sizes: Sequence[int], speedups: Sequence[float]
) -> dict[str, float]:
    """The share of work that more processes do not shorten, by least squares.

    kind "strong", Amdahl: with s the serial share of one process's time, n processes need
    s + (1 - s) / n of it, so 1/S = s + (1 - s) / n. Fitted are the **times**, 1/S: s is the number with
    the least sum of squared differences between measured and modelled 1/S.
    kind "weak", Gustafson: with s the serial share of the time of n processes, S = s + (1 - s) n. Fitted are
    the S themselves. One process has S = 1 in either law and says nothing about s.

    Returns {"serial_ratio": s, as it comes out, also below 0 where something gained more than it
    should, or above 1 where more processes are slower than one, "worst_ratio": the largest |S of the law / S measured - 1| over the points of more than one process,
    "free_count": how many points of more than one process there are beyond the one that s needs: with 0 the fit
    is exact whatever was measured, and proves nothing}.

    Raises ValueError for lists of different lengths, no world size above 1, one below 1, a speed-up that
    is not above 0, or another kind.
    """
    raise NotImplementedError


def predict_speedup(
    kind: str, world_sizes: Sequence[int], speedups: Sequence[float], world_size: int
) -> dict[str, float | None]:
    """What the law says of another world size, and how much a single point matters.

    "speedup_ratio": of the law of `serial_share` at world_size. "low_ratio", "high_ratio": the smallest and
    largest of the speed-ups that the law says if the fit is done again without one of the points of more than
    one process, each in turn. With only one such point nothing can be left out: both are None.

    Raises what `serial_share` raises, and ValueError for a world_size below 1.
    """
    raise NotImplementedError


def efficient_up_to(rows: Sequence[Mapping[str, float]], bound: float) -> dict[str, Any]:
    """Up to which world size an efficiency is proven, and from which one it is refuted.

    rows: {"world_size", "low_ratio", "high_ratio"} in any order; more keys do not matter. An efficiency of
    at least `bound` is proven where low_ratio >= bound, refuted where high_ratio < bound, and undecided
    otherwise. Returns {"proven": the largest world size such that it and every smaller one of the rows is
    proven, or None, "refuted": the smallest world size that is refuted, or None, "undecided": list of the
    undecided ones, ascending}.

    Raises ValueError for no rows, a world size twice, and a bound that is not above 0.
    """
    raise NotImplementedError


def scaling_verdict(capture: str | Path, series: str, world_size: int) -> Finding:
    """What the processes of a run wait for: each other, the exchange of gradients, or nothing much.

    `step_ns` are steps with the exchange, `alone_ns` steps of the same work without, both a list a
    rank. window_ns: the mean of all steps with the exchange, over ranks and steps. Of the steps alone, at
    each place in the lists, take the mean over the ranks and the largest; then average both over the places.
    Taking a cause away saves, a step:

    - rank_imbalance: largest minus mean: a step lasts as long as its slowest rank, and with the
      same work, evenly spread, as long as the mean;
    - communication_bound: window minus largest, or 0 if that is negative: what the exchange adds when
      even the slowest is done (`exposed_ns`).

    recoverable_ns is the larger one (communication_bound if both are equal), recoverable_ratio its share
    of the window, margin_ratio = recoverable_ratio - FLOOR_RATIO. At or above the floor it is
    the category, below it "healthy".

    subject: "rank:<k>", the rank with the largest mean of its steps alone (the first of several), for
    rank_imbalance; "range:<series>" otherwise. evidence: recoverable_ns, window_ns, recoverable_ratio, margin_ratio,
    waiting_ns (largest minus mean) and exposed_ns.
    recommendation: a sentence; if |margin_ratio| <= BORDERLINE_RATIO it begins with "borderline"; "none" if
    healthy and not borderline.

    What the series kept, and at how many world sizes it was measured, does not matter here. Raises
    CaptureError as `scaling_kind` does; ValueError for a series that is not there, for a world size at which
    it was not measured and for 1 (the message lists the sizes that were measured), and if the ranks' lists
    of `step_ns`, or those of `alone_ns`, are empty or not of one length.
    """
    raise NotImplementedError
