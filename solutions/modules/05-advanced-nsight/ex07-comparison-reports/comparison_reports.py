"""Comparison reports: did it get faster, and where?

You compare two recordings of the same work: samples of its steps with an interval for their difference,
kernels matched by name, the change taken apart into pieces that add up to the whole, and a gate that a
repository's CI can run. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check advanced_ex07

tells what is right and wrong. Times are ns. Captures are taken by name or path, as `captures.open` does.
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

# Calls of the CUDA API, by what a step that makes more of them than before suffers from.
CALLS = {
    "allocation_bound": r"^cu(da)?(Malloc|Free|MemAlloc|MemFree|HostAlloc|HostRegister)",
    "sync_bound": r"^cu(da)?\w*Synchronize",
    "launch_bound": r"^cu(da)?\w*Launch",
}

# A step makes more calls of a kind if their number a step grew by more than this.
MORE_COUNT = 0.5

# How a template or a function without a namespace of its own is spelled: part of a name, no brackets.
UNNAMED = ("(anonymous namespace)", "<unnamed>")


def step_times(capture: str, step: str) -> list[int]:
    """How long each step of a loop took, on the device: the samples that a comparison rests on.

    step: the name of NVTX ranges, one for each step. A device operation belongs to a step if the call that
    issued it (same correlation id and process) starts and ends in the range, limits included, on the
    range's thread. A step is done when its operations and those of all steps before it have ended. Steps
    are ordered by the start of their range; one that issued nothing is left out.

    Returns the times from each step's done to the next step's, in ns: one less than there are steps. Host
    ranges will not do: a host that runs ahead is through with a step long before the device is.

    Raises EmptyCapture, naming the range, if fewer than two steps issued device operations.
    """
    with captures.open(capture) as recording:
        ranges = recording.nvtx_ranges.filter(pl.col("name") == step)
        calls = recording.api_calls.select("process", "thread", "correlation", "start_ns", "end_ns")
        ends = recording.device_operations.group_by("process", "correlation").agg(
            pl.col("end_ns").max().alias("done_ns")
        )
    issued = calls.join(ends, on=["process", "correlation"], how="inner")
    ends_of_steps: list[int] = []
    for one in ranges.sort("start_ns").iter_rows(named=True):
        inside = issued.filter(
            (pl.col("process") == one["process"])
            & (pl.col("thread") == one["thread"])
            & (pl.col("start_ns") >= one["start_ns"])
            & (pl.col("end_ns") <= one["end_ns"])
        )
        if inside.height:
            ends_of_steps.append(max(inside["done_ns"].to_list()))
    done = list(accumulate(ends_of_steps, max))
    if len(done) < 2:
        raise EmptyCapture(
            f"{capture}: {len(done)} ranges named {step!r} issued device operations; two are needed"
        )
    return [after - before for before, after in pairwise(done)]


def shift(before_ns: Sequence[float], after_ns: Sequence[float]) -> dict[str, float]:
    """By how much samples moved, and the 95 % interval of that, without assuming a distribution.

    All differences of one sample after and one before are sorted. Returns

        "shift_ns"  their median (`statistics.median`): negative if it got faster
        "low_ns"    the k-th smallest of them
        "high_ns"   the k-th largest of them

    with k = floor(m·n / 2 − Z_95 · sqrt(m·n·(m + n + 1) / 12)) for m samples before and n after. (Source:
    Hollander, Wolfe, Chicken: Nonparametric Statistical Methods, the estimator of Hodges and Lehmann and
    the interval of Moses, in the normal approximation.)

    Raises ValueError if k is below 1: so few samples carry no interval of 95 %.
    """
    m, n = len(before_ns), len(after_ns)
    k = math.floor(m * n / 2 - Z_95 * math.sqrt(m * n * (m + n + 1) / 12))
    if k < 1:
        raise ValueError(f"{m} samples before and {n} after are too few for an interval of 95 %")
    differences = sorted(after - before for before in before_ns for after in after_ns)
    return {
        "shift_ns": statistics.median(differences),
        "low_ns": differences[k - 1],
        "high_ns": differences[-k],
    }


def match_kernels(before: Mapping[str, float], after: Mapping[str, float]) -> list[dict[str, Any]]:
    """Which kernel after is which kernel before, where names changed.

    before, after: time in ns by demangled name. Names that are the same belong together. Of the others,
    those with the same base name belong together, all of them on one side and all on the other: a base
    name is what stands before template arguments and parameters, without a return type "void ".
    What is in UNNAMED is part of a name: `void at::<unnamed>::copy<4>(int)` has the base name
    `at::<unnamed>::copy`. What is left was added or removed.

    Returns a dict for each match:

        "how"                   "same", "renamed", "added" or "removed"
        "name"                  the name; of a renamed one the base name
        "before", "after"       the names on each side, sorted; empty lists for none
        "before_ns", "after_ns" their times added up
        "change_ns"             after_ns minus before_ns

    ordered by the size of the change, largest first, equal ones by name. Added and removed kernels have an
    entry each.
    """
    rows = [_match("same", name, [name], [name], before, after) for name in {*before} & {*after}]
    left: dict[str, tuple[list[str], list[str]]] = {}
    for side, (names, others) in enumerate(((before, after), (after, before))):
        for name in sorted({*names} - {*others}):
            left.setdefault(_base_name(name), ([], []))[side].append(name)
    for base, (old, new) in left.items():
        if old and new:
            rows.append(_match("renamed", base, old, new, before, after))
            continue
        rows += [_match("removed", name, [name], [], before, after) for name in old]
        rows += [_match("added", name, [], [name], before, after) for name in new]
    return sorted(rows, key=lambda row: (-abs(row["change_ns"]), row["name"]))


def _match(
    how: str, name: str, old: list[str], new: list[str], before: Mapping, after: Mapping
) -> dict[str, Any]:
    before_ns, after_ns = sum(before[one] for one in old), sum(after[one] for one in new)
    return {
        "how": how,
        "name": name,
        "before": old,
        "after": new,
        "before_ns": before_ns,
        "after_ns": after_ns,
        "change_ns": after_ns - before_ns,
    }


def _base_name(name: str) -> str:
    found = re.match(
        "(" + "|".join(map(re.escape, UNNAMED)) + "|[^<(])*", name.removeprefix("void ")
    )
    return found[0] if found else name


def decompose(before: str, after: str, device: int = 0) -> list[dict[str, Any]]:
    """The change between two captures, in pieces that add up to it exactly.

    The time of a capture is from the first start to the last end of the device's operations. Each ns of
    it goes to one piece: walk through the operations by start (equal ones by end, then name), and give
    each what it reaches beyond the latest end so far. What no operation reaches is idle. So work that runs
    beside longer work counts nothing, and kernels that overlap count once.

    Pieces: kernels by demangled name, matched as by `match_kernels`; "CUDA graphs", "copies" and "memsets",
    each as one; "idle". Returns a dict for each piece with time before or after: "piece" (a kernel's
    name as `match_kernels` gives it), "before_ns", "after_ns", "change_ns", ordered by the size of the
    change, largest first, equal ones by piece. The changes add up to the change of the whole.

    Raises EmptyCapture if the device did nothing in one of the two.
    """
    rows = [
        {"piece": match["name"]}
        | {key: match[key] for key in ("before_ns", "after_ns", "change_ns")}
        for match in match_kernels(_pieces(before, device), _pieces(after, device))
    ]
    return [row for row in rows if row["before_ns"] or row["after_ns"]]


def _pieces(capture: str, device: int) -> dict[str, int]:
    """Time by piece."""
    with captures.open(capture) as recording:
        kernels = recording.kernels.with_columns(pl.col("demangled_name").alias("name"))
        frames = [
            ("", kernels),
            ("CUDA graphs", recording.graph_launches),
            ("copies", recording.copies),
            ("memsets", recording.memsets),
        ]
        operations = pl.concat(
            frame.select(
                "start_ns",
                "end_ns",
                "device",
                (pl.lit(piece) if piece else pl.col("name")).alias("name"),
            )
            for piece, frame in frames
        ).filter(pl.col("device") == device)
    if operations.is_empty():
        raise EmptyCapture(f"{capture}: device {device} did nothing")
    pieces = {"idle": 0}
    until = None
    for start, end, _, name in operations.sort("start_ns", "end_ns", "name").iter_rows():
        until = start if until is None else until
        pieces["idle"] += max(0, start - until)
        pieces[name] = pieces.get(name, 0) + max(0, end - max(start, until))
        until = max(until, end)
    return pieces


def gate(
    before: str,
    after: str,
    step: str,
    budget_ratio: float,
    equal_runs: Sequence[tuple[str, str]] = (),
) -> dict[str, Any]:
    """Whether a change may be merged: what a repository's CI asks of two recordings.

    step: the range of a step. budget_ratio: by how much of its median before a step may get slower (0.05
    for 5 %). equal_runs: pairs of captures of runs in which nothing changed.

    With `shift` over `step_times` of both, divided by the median of those before: "shift_ratio",
    "low_ratio", "high_ratio". "floor_ratio" is the largest such shift, without its sign, among equal_runs
    (each against the median of its first; 0.0 for none): what differs by less differs by nothing. A step
    may get slower by the larger of budget and floor: "allowed_ratio". "verdict" is

        "regression"  all of the interval lies above what is allowed: low_ratio > allowed_ratio
        "unclear"     only a part of it: high_ratio > allowed_ratio
        "passed"      else

    and "exit_code" is 1 for a regression, else 0: what is unclear needs more steps, not a red mark.
    "pieces" is `decompose(before, after)`.

    "finding" says what to look at first. For anything but a regression it is "healthy", "none". For one:
    of kernels (all of them, added up), copies and idle, the piece of `decompose` that grew most decides.
    Copies: "transfer_bound". Kernels (with graphs and memsets): "slower_kernels". Idle: the first of
    CALLS of which a step makes more calls than before, by more than MORE_COUNT (calls of the whole
    capture over the steps with device work), else "host_bound". subject: "range:" and the step.
    evidence: "recoverable_ns", the shift times the number of samples after, rounded, 0 if negative;
    "window_ns", the sum of the samples after; "shift_ratio", "low_ratio", "high_ratio", "allowed_ratio".

    Raises what `step_times` and `shift` raise, and ValueError for a budget below 0, or if the two captures
    have different numbers of steps, naming both: they did not do the same work.
    """
    if budget_ratio < 0:
        raise ValueError(f"budget_ratio is {budget_ratio}: it must not be negative")
    old, new = step_times(before, step), step_times(after, step)
    if len(old) != len(new):
        raise ValueError(
            f"{before} has {len(old) + 1} steps and {after} {len(new) + 1}: not the same work"
        )
    moved = _ratios(old, new)
    floor = max(
        (
            abs(_ratios(step_times(a, step), step_times(b, step))["shift_ratio"])
            for a, b in equal_runs
        ),
        default=0.0,
    )
    allowed = max(budget_ratio, floor)
    if moved["low_ratio"] > allowed:
        verdict = "regression"
    else:
        verdict = "unclear" if moved["high_ratio"] > allowed else "passed"
    pieces = decompose(before, after)
    category = _category(before, after, step, pieces) if verdict == "regression" else "healthy"
    saved = max(0, round(moved["shift_ratio"] * statistics.median(old) * len(new)))
    return {
        "verdict": verdict,
        "exit_code": 1 if verdict == "regression" else 0,
        **moved,
        "floor_ratio": floor,
        "allowed_ratio": allowed,
        "pieces": pieces,
        "finding": Finding(
            category,
            f"range:{step}",
            {"recoverable_ns": saved, "window_ns": sum(new), **moved, "allowed_ratio": allowed},
            _RECOMMENDATIONS.get(category, "none"),
        ),
    }


_RECOMMENDATIONS = {
    "transfer_bound": "look at what is copied, from which memory, and what runs beside it",
    "slower_kernels": "profile the kernel that grew most, before and after, with Nsight Compute",
    "allocation_bound": "allocate once outside the loop, or use a caching allocator",
    "sync_bound": "take the new wait out of the step, or read the result a step later",
    "launch_bound": "issue less: fuse operations, or replay a CUDA graph",
    "host_bound": "look at what the host does between its calls",
}


def _ratios(old: Sequence[float], new: Sequence[float]) -> dict[str, float]:
    """`shift` over the median before."""
    level = statistics.median(old)
    return {name.replace("_ns", "_ratio"): value / level for name, value in shift(old, new).items()}


def _category(before: str, after: str, step: str, pieces: list[dict[str, Any]]) -> str:
    """What a regression suffers from."""
    grew: Counter[str] = Counter()
    for row in pieces:
        grew[row["piece"] if row["piece"] in ("copies", "idle") else "kernels"] += row["change_ns"]
    most = max(("copies", "idle", "kernels"), key=lambda piece: grew[piece])
    if most != "idle":
        return "transfer_bound" if most == "copies" else "slower_kernels"
    for category, pattern in CALLS.items():
        old, new = _calls_a_step(before, step, pattern), _calls_a_step(after, step, pattern)
        if new - old > MORE_COUNT:
            return category
    return "host_bound"


def _calls_a_step(capture: str, step: str, pattern: str) -> float:
    with captures.open(capture) as recording:
        calls = recording.api_calls.filter(pl.col("name").str.contains(pattern)).height
    return calls / (len(step_times(capture, step)) + 1)


def report(result: Mapping[str, Any], before: str, after: str, most: int = 10) -> str:
    """The result of `gate` as Markdown, for a comment on a change.

    Its lines, each ended by a newline:

        ## `<step>`: regression          (or: unclear, or: no regression shown)

        A step takes <shift> (95 % interval <low> … <high>); allowed <allowed>, equal runs differ by <floor>.

        | piece | `<before>` | `<after>` | change |
        |---|---:|---:|---:|
        | `<piece>` | <ms> ms | <ms> ms | <change> ms |
        | all | <ms> ms | <ms> ms | <change> ms |

    step: the finding's subject without "range:". Ratios stand as percent with a sign and one decimal
    (`+4.3 %`), allowed and floor without a sign; times in ms with three decimals and thousands separated by
    commas, changes with a sign. The table has the first `most` pieces; if there are more, a row `others` (no
    backticks) with the rest added up follows them. A name is cut to its first 60 characters, and a "|" in
    it is written "\\|": it would end the cell. The last row is the sum of all pieces.
    """
    step = result["finding"].subject.removeprefix("range:")
    title = "no regression shown" if result["verdict"] == "passed" else result["verdict"]
    moved, low, high = (
        f"{100 * result[key]:+.1f} %" for key in ("shift_ratio", "low_ratio", "high_ratio")
    )
    allowed, floor = (f"{100 * result[key]:.1f} %" for key in ("allowed_ratio", "floor_ratio"))
    pieces = list(result["pieces"])
    rows = [_cells(f"`{row['piece'][:60]}`".replace("|", "\\|"), [row]) for row in pieces[:most]]
    if pieces[most:]:
        rows.append(_cells("others", pieces[most:]))
    lines = [
        f"## `{step}`: {title}",
        "",
        f"A step takes {moved} (95 % interval {low} … {high}); allowed {allowed}, "
        f"equal runs differ by {floor}.",
        "",
        f"| piece | `{before}` | `{after}` | change |",
        "|---|---:|---:|---:|",
        *rows,
        _cells("all", pieces),
    ]
    return "".join(f"{line}\n" for line in lines)


def _cells(name: str, rows: Sequence[Mapping[str, Any]]) -> str:
    before, after, change = (
        sum(row[key] for row in rows) / 1e6 for key in ("before_ns", "after_ns", "change_ns")
    )
    return f"| {name} | {before:,.3f} ms | {after:,.3f} ms | {change:+,.3f} ms |"
