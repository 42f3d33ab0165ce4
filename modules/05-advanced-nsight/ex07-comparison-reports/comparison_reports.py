"""Comparison reports: did it get faster, and where?

You compare two recordings of the same work. You take the times of its steps, and compute an interval for
their difference. You match kernels by name, and divide the change into pieces that add up to the whole. You
write a gate that a repository's CI can run. The lesson is `README.md` in this folder, hints are in
`hints.md`, and

    uv run lab check advanced_ex07

checks your solution. Times are ns. Captures are given by name or path, as to `captures.open`.
"""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

import polars as pl

from profiling_lab import captures
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding

# Half the width of a 95 % interval of a normal distribution, in standard deviations.
Z_95 = 1.96

# Calls of the CUDA API. If a step makes more of them than before, this is the category.
CALLS = {
    "allocation_bound": r"^cu(da)?(Malloc|Free|MemAlloc|MemFree|HostAlloc|HostRegister)",
    "sync_bound": r"^cu(da)?\w*Synchronize",
    "launch_bound": r"^cu(da)?\w*Launch",
}

# A step makes more calls of a kind if their number a step grew by more than this.
MORE_COUNT = 0.5

# Spellings of an unnamed namespace. They are part of a name, although they have brackets.
UNNAMED = ("(anonymous namespace)", "<unnamed>")


def step_times(capture: str, step: str) -> list[int]:
    """How long each step of a loop took on the device: the samples for the comparison.

    step: the name of NVTX ranges, one for each step. A device operation belongs to a step if the call that
    issued it (same correlation id and process) starts and ends in the range, limits included, on the
    range's thread. A step is done when its operations and those of all steps before it have ended. Steps
    are ordered by the start of their range. A step that issued nothing is left out.

    Returns the times from the moment each step is done to the moment the next one is done, in ns: one time fewer
    than there are steps. Do not use host ranges: if the host runs ahead, its range of a step ends long before the
    device has finished the step.

    Raises EmptyCapture, with the range's name in its message, if fewer than two steps issued device operations.
    """
    raise NotImplementedError


def shift(before_ns: Sequence[float], after_ns: Sequence[float]) -> dict[str, float]:
    """By how much samples changed, and the 95 % interval of the change, without assuming a distribution.

    Compute all differences of one sample after minus one sample before, and sort them. Returns

        "shift_ns": their median (`statistics.median`): negative if it got faster.
        "low_ns":   the k-th smallest of them.
        "high_ns":  the k-th largest of them.

    Here k = floor(m·n / 2 − Z_95 · sqrt(m·n·(m + n + 1) / 12)) for m samples before and n after. (Source:
    Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, the estimator of Hodges and Lehmann and
    the interval of Moses, in the normal approximation.)

    Raises ValueError if k is below 1: there are too few samples for an interval of 95 %.
    """
    raise NotImplementedError


def match_kernels(before: Mapping[str, float], after: Mapping[str, float]) -> list[dict[str, Any]]:
    """Which kernel after the change corresponds to which kernel before it, even if names changed.

    before, after: time in ns by demangled name. Names that are on both sides match. Group the other names by base name. If a base name occurs on both sides, all its names form one match. A base name is the part before
    template arguments and parameters, without a return type "void ". A text of UNNAMED is part of a name:
    `void at::<unnamed>::copy<4>(int)` has the base name `at::<unnamed>::copy`. All remaining kernels were
    added or removed.

    Returns a dict for each match:

        "how":                  "same", "renamed", "added" or "removed".
        "name":                 the name, or the base name if it was renamed.
        "before", "after":      the names on each side, sorted; an empty list if there are none.
        "before_ns", "after_ns": sum of their times.
        "change_ns":            after_ns minus before_ns.

    Matches are ordered by the size of the change, largest first, equal changes by name. Each added or removed
    kernel has its own entry.
    """
    raise NotImplementedError


def decompose(before: str, after: str, device: int = 0) -> list[dict[str, Any]]:
    """The change between two captures, in pieces that add up to it exactly.

    The time of a capture is from the first start to the last end of the device's operations. Each ns of it
    belongs to one piece. Go through the operations by start (if equal, by end, then name). Assign to each
    operation the time by which it extends beyond the latest end so far. Time that no operation covers is idle. So
    work that runs entirely during longer work adds nothing, and time in which kernels overlap counts once.

    Pieces: kernels by demangled name, matched as by `match_kernels`; "CUDA graphs", "copies" and "memsets",
    each as one piece; "idle". Returns a dict for each piece with time before or after: "piece" (a kernel's
    name as `match_kernels` gives it), "before_ns", "after_ns", "change_ns". Pieces are ordered by the size of
    the change, largest first, equal changes by piece. The changes add up to the change of the whole.

    Raises EmptyCapture if the device did nothing in one of the two.
    """
    raise NotImplementedError


def gate(
    before: str,
    after: str,
    step: str,
    budget_ratio: float,
    equal_runs: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Whether a change may be merged: what a repository's CI asks of two recordings.

    step: the range of a step.
    budget_ratio: how much slower a step may get, as a share of the median of the samples before (0.05 for 5 %).
    equal_runs: pairs of captures of runs in which nothing changed.

    "shift_ratio", "low_ratio" and "high_ratio" are the results of `shift` on the `step_times` of before and
    after, divided by the median of the samples before. "floor_ratio" is the largest shift_ratio, in absolute
    value, among equal_runs (each relative to the median of its first capture; 0.0 if there are none): a
    smaller difference is noise. A step may get slower by the larger of budget and floor: "allowed_ratio".
    "verdict" is one of these:

        "regression": the whole interval is above allowed_ratio: low_ratio > allowed_ratio.
        "unclear":    only a part of the interval is above it: high_ratio > allowed_ratio.
        "passed":     otherwise.

    "exit_code" is 1 for a regression, else 0. An unclear result must not fail the check: more steps must
    be measured. "pieces" is `decompose(before, after)`.

    "finding" shows what to look at first. Unless the verdict is a regression, it is "healthy" with the
    recommendation "none". For a regression, compare the growth of three pieces of `decompose`: copies, idle,
    and kernels (all kernels, graphs and memsets, added). The one that grew most decides:
        copies:  "transfer_bound".
        kernels: "slower_kernels".
        idle:    the first of CALLS that a step makes more often than before, by more than MORE_COUNT (calls of
                 the whole capture / number of steps with device work); if there is none, "host_bound".
    subject: "range:" and the step.
    evidence: "recoverable_ns" (the shift times the number of samples after, rounded, at least 0), "window_ns"
    (the sum of the samples after), "shift_ratio", "low_ratio", "high_ratio", "allowed_ratio".

    Raises the errors of `step_times` and `shift`. Raises ValueError for a budget below 0. Raises ValueError, with
    both numbers in its message, if the two captures have different numbers of steps: they did not do the same
    work.
    """
    raise NotImplementedError


def report(result: Mapping[str, Any], before: str, after: str, most: int = 10) -> str:
    """The result of `gate` as Markdown, for a comment on a change.

    Its lines, each ended by a newline:

        ## `<step>`: regression          (or: unclear, or: no regression shown)

        A step takes <shift> (95 % interval <low> … <high>); allowed <allowed>, equal runs differ by <floor>.

        | piece | `<before>` | `<after>` | change |
        |---|---:|---:|---:|
        | `<piece>` | <ms> ms | <ms> ms | <change> ms |
        | all | <ms> ms | <ms> ms | <change> ms |

    step: the finding's subject without "range:".
    Write ratios as percentages with a sign and one decimal (`+4.3 %`), allowed and floor without a sign.
    Write times in ms with three decimals and commas between thousands, changes also with a sign. The table
    has the first `most` pieces. If there are more pieces, a row `others` (no backticks) with their sum
    follows. Cut a name to its first 60 characters, and write a "|" in it as "\\|", because it would end the
    cell. The last row is the sum of all pieces.
    """
    raise NotImplementedError
