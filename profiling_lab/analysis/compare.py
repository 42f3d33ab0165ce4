"""Runs of the same work before and after a change: what got longer, what got shorter, by how much.

The verdict on timelines and traces rests on one time (the window, or the mean step of traces that have
steps): where it is longer after than before by more than the tolerance, that is a regression. Every other
time that grew by more than the same amount is marked, as it says where to look, but a kernel may well run
longer in a program that ends earlier. Pages of kernels have no common window: there each kernel that both
sides hold is judged by its own duration.

Several runs of a side are compared by their medians, with a 95 % interval of the ratio by the bootstrap
(Efron and Tibshirani, "An Introduction to the Bootstrap", 1993): both sides are drawn again from their
own runs, with replacement. Where the interval holds 1, these runs show no difference.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from profiling_lab.analysis import measures
from profiling_lab.analysis.compare_notes import notes_on
from profiling_lab.analysis.measures import NAMED, STEP, WINDOW, Run
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CAUSE_IN_WORDS

if TYPE_CHECKING:
    from profiling_lab.reports.model import Comparison

TOLERANCE = 0.02
SHOWN_KERNELS = 10
RESAMPLES = 2000
SEED = 7
# Programs whose common kernels, by name, take less than this share of either's kernel time look like
# different ones. Among the recorded cases two variants of one program share 73 % and more, two programs
# 10 % in the median.
SAME_PROGRAM_RATIO = 0.25
# Host time of calls and operators is mostly waiting, which moves from one to the other: not marked.
HOST_NAMED = ("calls", "operators")
_LABELS = {"saved": "saved without {}", "stages": "range {}"}  # in a report
LEAST_PART_RATIO = 0.1  # of a change, what is worth naming as its main part
NEITHER_BETTER = {"Kernels", "CUDA graphs", "Bytes copied"}


@dataclass(frozen=True)
class Row:
    """One measure before and after, medians where there are several runs; None where it is unknown.

    group: "time", "spent", "gaps", "calls", "copies", "saved", "stages", "operators", "kernels" or
    "counters". unit: "ns", "bytes", "count", "pct" or "hz". grew: it is a time and grew by more than
    is allowed, and by more than chance. change: what else changed ("new", "launches 12 → 24").
    interval: of after ÷ before, where both sides have several runs.
    """

    group: str
    what: str
    before: float | None
    after: float | None
    unit: str = "ns"
    grew: bool = False
    change: str = ""
    interval: tuple[float, float] | None = None

    def counts(self, allowed_ns: float) -> bool:
        """Whether less is better here, and a time changed by more than is allowed."""
        if self.what in NEITHER_BETTER or self.before is None or self.after is None:
            return False
        return self.unit != "ns" or abs(self.after - self.before) > allowed_ns

    @property
    def ratio(self) -> float | None:
        """after ÷ before; None where either is unknown or before is 0."""
        if self.before is None or self.after is None or not self.before:
            return None
        return self.after / self.before

    @property
    def is_noise(self) -> bool:
        """Whether the runs of both sides overlap so much that they show no difference."""
        return self.interval is not None and self.interval[0] <= 1 <= self.interval[1]

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data."""
        return {
            "group": self.group,
            "what": self.what,
            "unit": self.unit,
            "before": self.before,
            "after": self.after,
            "ratio": self.ratio,
            "ratio_interval": None if self.interval is None else list(self.interval),
            "grew": self.grew,
            "change": self.change,
        }


@dataclass(frozen=True)
class Side:
    """The runs of one side, of which there is at least one."""

    runs: Sequence[Run]

    @property
    def name(self) -> str:
        """The name of the run, or of the first and how many more there are."""
        more = len(self.runs) - 1
        return self.runs[0].name + (f" and {more} more" if more else "")

    @property
    def length_ns(self) -> float:
        """The median window; of pages of kernels 0."""
        found = [run.get("time", WINDOW) for run in self.runs]
        return statistics.median(ns for ns in found if ns is not None) if None not in found else 0


@dataclass
class Compared:
    """All rows, the verdict, and what makes the two sides hard to compare."""

    before: Side
    after: Side
    tolerance: float
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def deciding(self) -> list[Row]:
        """The rows that the verdict rests on: the window or the mean step, or each kernel of a page."""
        times = {row.what: row for row in self.rows if row.group == "time"}
        for what in (STEP, WINDOW):
            if what in times and times[what].ratio is not None:
                return [times[what]]
        return [
            row
            for row in self.rows
            if row.group == "kernels" and row.unit == "ns" and row.before and row.after
        ]

    @property
    def shared_ratio(self) -> float | None:
        """The share of kernel time in kernels that both sides ran, the smaller of both sides' shares.

        None where it says nothing: a side's kernels are unknown, or graphs were recorded as wholes.
        """
        rows = [row for row in self.rows if row.group == "kernels"]
        if any(row.what == "CUDA graphs" for row in rows):
            return None
        pairs = [(row.before or 0, row.after or 0) for row in rows if row.unit == "ns"]
        totals = [sum(side) for side in zip(*pairs, strict=True)]
        if not pairs or not all(totals):
            return None
        common = [sum(side) for side in zip((0, 0), *filter(all, pairs), strict=True)]
        return min(part / whole for part, whole in zip(common, totals, strict=True))

    @property
    def doubt(self) -> str:
        """Why the two should not be compared at all; "" where nothing speaks against it."""
        shared = self.shared_ratio
        if shared is None or shared >= SAME_PROGRAM_RATIO or not self.before.length_ns:
            return ""
        return f"by name, kernels that both run take {shared:.0%} of their time"

    @property
    def window_ratio(self) -> float:
        """What the verdict rests on, after ÷ before; of several kernels, of their sum."""
        old, new = (sum(getattr(r, s) for r in self.deciding) for s in ("before", "after"))
        return new / old if old else 1.0

    @property
    def main_change(self) -> tuple[Row, float] | None:
        """What changed most of kernels, copies and idle time, which together fill a device's window.

        With its share of the change that the verdict rests on. None where that changed by less than the
        tolerance, or where nothing of these explains a tenth of it.
        """
        windows = [row for row in self.rows if row.group == "time" and row.what == WINDOW]
        total_ns = sum(_growth(row) for row in windows or self.deciding)
        if total_ns == 0 or abs(self.window_ratio - 1) <= self.tolerance:
            return None
        told = [
            row
            for row in self.rows
            if row.group == "spent" and row.what.startswith(("idle", "set-up"))
        ]
        idle = told or [row for row in self.rows if row.what.startswith("Idle")]
        parts = [
            row for row in self.rows if row.unit == "ns" and row.group in ("kernels", "copies")
        ] + idle
        shares = [(_growth(row) / total_ns, row) for row in parts]
        share, most = max(shares, key=lambda pair: pair[0], default=(0.0, None))
        return (most, share) if most is not None and share >= LEAST_PART_RATIO else None

    @property
    def is_regression(self) -> bool:
        """Whether what the verdict rests on got longer by more than the tolerance, and than chance."""
        return any(self._judge(row) == "longer" for row in self.deciding)

    @property
    def verdict(self) -> str:
        """ "regression", "faster", "unclear" (too much noise to say), "unchanged", or "different" for
        what looks like different programs, whatever the times."""
        if self.doubt:
            return "different"
        judged = {self._judge(row) for row in self.deciding}
        if "longer" in judged:
            return "regression"
        return next((word for word in ("unclear", "faster") if word in judged), "unchanged")

    def _judge(self, row: Row) -> str:
        ratio = row.ratio
        if ratio is None or 1 - self.tolerance <= ratio <= 1 + self.tolerance:
            return "unchanged"
        if row.is_noise:
            return "unclear"
        return "longer" if ratio > 1 else "faster"

    def to_dict(self) -> dict[str, Any]:
        """All as plain data: what `lab compare --json` prints."""
        sides = {"before": self.before, "after": self.after}
        return {
            **{name: side.name for name, side in sides.items()},
            "runs": {name: [run.name for run in side.runs] for name, side in sides.items()},
            "tolerance_ratio": self.tolerance,
            "window_ratio": self.window_ratio,
            "verdict": self.verdict,
            "regression": self.is_regression,
            "findings": {name: _categories(side.runs[0]) for name, side in sides.items()},
            "rows": [row.to_dict() for row in self.rows],
            "shared_kernel_time_ratio": self.shared_ratio,
            "notes": self.notes,
        }

    def to_report(self, headline: str = "") -> Comparison:
        """The rows as a report shows them."""
        # A report shows what is computed here; only as a report does it go there.
        from profiling_lab.reports import Comparison, ComparisonRow

        allowed_ns = self.tolerance * self.before.length_ns
        # Else, and where the two look like different programs, no row is better for being less.
        changed = self.verdict in ("faster", "regression")
        left_out = {id(row) for group in NAMED for row in named_rows(self.rows, group)[1]}
        shown = [row for row in self.rows if row.group == "time" or row.before or row.after]
        return Comparison(
            self.before.name,
            self.after.name,
            [
                ComparisonRow(
                    _LABELS.get(row.group, "{}").format(CAUSE_IN_WORDS.get(row.what, row.what)),
                    row.before,
                    row.after,
                    row.unit,
                    better="lower"
                    if changed and (row.what == WINDOW or row.counts(allowed_ns))
                    else "",
                )
                for row in shown
                if id(row) not in left_out and row.group not in ("gaps", *HOST_NAMED)
            ],
            headline,
            self.doubt,
        )


def compare_runs(
    before: Sequence[Run], after: Sequence[Run], *, tolerance: float = TOLERANCE
) -> Compared:
    """Compare runs of one kind. tolerance: a share of the window before, 0.02 for 2 %. Raises CaptureError if they are of different kinds."""
    runs = [*before, *after]
    kinds = {run.kind: run.name for run in runs}
    if len(kinds) > 1:
        raise CaptureError(
            "only captures of one kind can be compared: "
            + ", ".join(f"{name} is of kind {kind}" for kind, name in kinds.items())
        )
    out = Compared(Side(before), Side(after), tolerance)
    window_ns = out.before.length_ns
    if all(len(run.devices) <= 1 for run in runs):  # which one it was need not be said
        for run in runs:
            run.measures = {
                (group, what.removesuffix(label), unit): value
                for label in map(measures.device_label, run.devices)
                for (group, what, unit), value in run.measures.items()
            } or run.measures
    by_group: dict[str, list[Row]] = {}
    for key in dict.fromkeys(key for run in runs for key in run.measures):
        row = _row(key, before, after, tolerance, window_ns)
        if row is not None:
            by_group.setdefault(row.group, []).append(row)
    for group, rows in by_group.items():
        if group in NAMED:
            rows.sort(
                key=lambda row: (
                    -max(row.before or 0, row.after or 0) if row.unit == "ns" else -math.inf
                )
            )
    out.rows = [row for rows in by_group.values() for row in rows]
    if out.doubt:
        out.rows = [replace(row, grew=False) for row in out.rows]
    out.notes = notes_on(before, after, out.rows)
    return out


def _row(
    key: measures.Key,
    before: Sequence[Run],
    after: Sequence[Run],
    tolerance: float,
    window_ns: float,
) -> Row | None:
    group, what, unit = key
    absent = 0 if group in NAMED and window_ns else None
    sides = [[run.measures.get(key, absent) for run in runs] for runs in (before, after)]
    known = [[value for value in values if value is not None] for values in sides]
    old, new = (statistics.median(values) if values else None for values in known)
    if old is None and new is None:
        return None
    interval = _interval(*known) if unit == "ns" and min(map(len, known)) > 1 else None
    grew = False
    if unit == "ns" and group not in HOST_NAMED and old is not None and new is not None:
        grew = new - old > tolerance * (window_ns or old)
        grew = grew and not (interval is not None and interval[0] <= 1)
    change = _change(what, before, after) if group == "kernels" and unit == "ns" else ""
    return Row(group, what, old, new, unit, grew, change, interval)


def _interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of median after ÷ median before; None if that can be ÷ 0."""
    import numpy as np

    if not min(before) > 0:
        return None
    random = np.random.default_rng(SEED)
    medians = [
        np.median(
            np.asarray(values)[random.integers(len(values), size=(RESAMPLES, len(values)))], 1
        )
        for values in (before, after)
    ]
    low, high = np.quantile(medians[1] / medians[0], (0.025, 0.975))
    return float(low), float(high)


def _change(name: str, before: Sequence[Run], after: Sequence[Run]) -> str:
    """What changed about a kernel besides its time, from the first run of each side."""
    old, new = before[0].launches.get(name), after[0].launches.get(name)
    if old is None or new is None:
        return "" if old is new else ("new" if old is None else "gone")
    parts = []
    if old.count != new.count:
        parts.append(f"launches {old.count:,} → {new.count:,}")
    gone, come = sorted(old.shapes - new.shapes), sorted(new.shapes - old.shapes)
    if gone and come:
        parts.append(f"grid × block {_first(gone)} → {_first(come)}")
    elif gone or come:
        parts.append(f"{'also' if come else 'no more'} grid × block {_first(come or gone)}")
    return ", ".join(parts)


def _first(shapes: list[str]) -> str:
    return shapes[0] + (f" and {len(shapes) - 1} more" if len(shapes) > 1 else "")


def named_rows(rows: Sequence[Row], group: str) -> tuple[list[Row], list[Row]]:
    """The rows of a group to show, the longest and those that grew most, and those to leave out."""
    here = [row for row in rows if row.group == group and (row.before or row.after)]
    counts = [row for row in here if row.unit != "ns"]
    times = [row for row in here if row.unit == "ns"]
    most = SHOWN_KERNELS if group == "kernels" else SHOWN_KERNELS // 2
    rest = sorted(times[most:], key=lambda row: -_growth(row))
    grown = [row for row in rest if row.grew][:most]
    return counts + times[:most] + grown, [row for row in rest if row not in grown]


def _growth(row: Row) -> float:
    return (row.after or 0) - (row.before or 0)


def _categories(run: Run) -> dict[str, str]:
    """The category that was found, by kernel; by "" of the whole."""
    return {subject: finding.category for subject, finding in run.findings.items()}
