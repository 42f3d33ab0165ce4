"""Two captures of the same work, side by side: what got longer, what got shorter, by how much.

The verdict rests on one number, the window: where it is longer after than before by more than the
tolerance, that is a regression. Every other time that grew by more than the same amount is marked,
as it says where to look, but a kernel may well run longer in a program that ends earlier.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from profiling_lab.diagnosis import Diagnosis

if TYPE_CHECKING:
    import polars as pl

    from profiling_lab.reports.model import Comparison

TOLERANCE = 0.02
WINDOW = "Window"
SHOWN_KERNELS = 10


@dataclass(frozen=True)
class Row:
    """One measure before and after; None where it is unknown.

    group: "time", "host", "copies", "saved" or "kernels". unit: "ns", "bytes" or "count".
    grew: it is a time and grew by more than the tolerance times the window before.
    """

    group: str
    what: str
    before: float | None
    after: float | None
    unit: str = "ns"
    grew: bool = False

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

    def to_dict(self) -> dict[str, Any]:
        """The row as plain data."""
        return {
            "group": self.group,
            "what": self.what,
            "unit": self.unit,
            "before": self.before,
            "after": self.after,
            "ratio": self.ratio,
            "grew": self.grew,
        }


@dataclass
class Compared:
    """All rows, the verdict, and what makes the two captures hard to compare."""

    before: Diagnosis
    after: Diagnosis
    tolerance: float
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def window_ratio(self) -> float:
        """The window after ÷ before."""
        return self.after.length_ns / self.before.length_ns if self.before.length_ns else 1.0

    @property
    def is_regression(self) -> bool:
        """Whether the window got longer by more than the tolerance."""
        return self.window_ratio > 1 + self.tolerance

    def to_dict(self) -> dict[str, Any]:
        """All as plain data: what `lab compare --json` prints."""
        return {
            "before": self.before.name,
            "after": self.after.name,
            "tolerance_ratio": self.tolerance,
            "window_ratio": self.window_ratio,
            "regression": self.is_regression,
            "rows": [row.to_dict() for row in self.rows],
            "notes": self.notes,
        }

    def to_report(self, headline: str = "") -> Comparison:
        """The rows as a report shows them."""
        from profiling_lab.reports import Comparison, ComparisonRow

        shown = [row for row in self.rows if row.group == "time" or row.before or row.after]
        allowed_ns = self.tolerance * self.before.length_ns
        names = [row for row in shown if row.group == "kernels" and row.unit == "ns"]
        return Comparison(
            self.before.name,
            self.after.name,
            [
                ComparisonRow(
                    f"saved without {CAUSES.get(row.what, row.what)}"
                    if row.group == "saved"
                    else row.what,
                    row.before,
                    row.after,
                    row.unit,
                    better="lower" if row.what == WINDOW or row.counts(allowed_ns) else "",
                )
                for row in shown
                if row not in names[SHOWN_KERNELS:]
            ],
            headline,
        )


# The causes of `recoverable_time`, as people say them.
CAUSES = {
    "waits": "the host's waits",
    "launch_cost": "the cost of launching",
    "copies": "copies that could overlap",
    "allocation": "allocation",
    "host_code": "other host code",
}
NEITHER_BETTER = {"Kernels", "CUDA graphs", "Bytes copied"}


def compare(before: Diagnosis, after: Diagnosis, *, tolerance: float = TOLERANCE) -> Compared:
    """Compare two diagnosed captures. tolerance: a share of the window before, 0.02 for 2 %."""
    out = Compared(before, after, tolerance)
    allowed_ns = tolerance * before.length_ns

    def add(group: str, what: str, old: float | None, new: float | None, unit: str = "ns") -> None:
        if old is None and new is None:
            return
        grew = unit == "ns" and old is not None and new is not None and new - old > allowed_ns
        out.rows.append(Row(group, what, old, new, unit, grew))

    add("time", WINDOW, before.length_ns, after.length_ns)
    devices = sorted({*before.devices, *after.devices})
    for device in devices:
        label = f" (device {device})" if len(devices) > 1 else ""
        add("time", f"Busy{label}", *_pair(before.busy_ns, after.busy_ns, device))
        add("time", f"Idle{label}", before.idle_ns(device), after.idle_ns(device))
        add("time", f"Longest gap{label}", _longest(before, device), _longest(after, device))
    add("host", "Host in blocking calls", _total(before.blocking_ns), _total(after.blocking_ns))
    for old, new in [(_frames(before), _frames(after))]:
        for what in ("Copies H2D", "Copies D2H", "Other copies"):
            add("copies", what, old[what], new[what])
        add("copies", "Bytes copied", old["bytes"], new["bytes"], "bytes")
        add("copies", "of these pageable", old["pageable"], new["pageable"], "bytes")
        add("kernels", "Kernels", old["kernels"], new["kernels"], "count")
        if old["graphs"] or new["graphs"]:
            add("kernels", "CUDA graphs", old["graphs"], new["graphs"], "count")
    causes = {**(before.recoverable_ns or {}), **(after.recoverable_ns or {})}
    for cause in causes:
        add("saved", cause, *_pair(before.recoverable_ns, after.recoverable_ns, cause))
    totals = _kernel_totals(before), _kernel_totals(after)
    names = sorted({*totals[0], *totals[1]}, key=lambda name: -max(t.get(name, 0) for t in totals))
    for name in names:
        add("kernels", name, totals[0].get(name, 0), totals[1].get(name, 0))
    out.notes = _notes(before, after)
    return out


def _pair(old: dict | None, new: dict | None, key: Any) -> tuple[Any, Any]:
    return (old or {}).get(key), (new or {}).get(key)


def _total(values: dict[str, int] | None) -> int | None:
    return None if values is None else sum(values.values())


def _longest(diagnosis: Diagnosis, device: int) -> int | None:
    if diagnosis.gaps is None:
        return None
    gaps = [g["end_ns"] - g["start_ns"] for g in diagnosis.gaps if g["device"] == device]
    return max(gaps, default=0)


def _in_window(diagnosis: Diagnosis, frame: pl.DataFrame) -> pl.DataFrame:
    """The rows that start inside the window."""
    import polars as pl

    start, end = diagnosis.window_ns or diagnosis.span_ns
    return frame.filter((pl.col("start_ns") >= start) & (pl.col("start_ns") < end))


def _frames(diagnosis: Diagnosis) -> dict[str, int]:
    import polars as pl

    copies = _in_window(diagnosis, diagnosis.capture.copies)
    host = copies.filter(pl.col("kind").is_in(["H2D", "D2H"]))
    pageable = (pl.col("source") == "pageable") | (pl.col("destination") == "pageable")
    by_kind = {kind: copies.filter(pl.col("kind") == kind) for kind in ("H2D", "D2H")}
    other = copies.filter(~pl.col("kind").is_in(["H2D", "D2H"]))
    return {
        "Copies H2D": int(by_kind["H2D"]["duration_ns"].sum()),
        "Copies D2H": int(by_kind["D2H"]["duration_ns"].sum()),
        "Other copies": int(other["duration_ns"].sum()),
        "bytes": int(copies["bytes"].sum()),
        "pageable": int(host.filter(pageable)["bytes"].sum()),
        "kernels": _in_window(diagnosis, diagnosis.capture.kernels).height,
        "graphs": _in_window(diagnosis, diagnosis.capture.graph_launches).height,
    }


def _kernel_totals(diagnosis: Diagnosis) -> dict[str, int]:
    """Per kernel name, the summed duration of its executions in the window, in ns."""
    import polars as pl

    frame = _in_window(diagnosis, diagnosis.capture.kernels)
    frame = frame.group_by("name").agg(pl.col("duration_ns").sum())
    return {name or "(no name)": int(ns) for name, ns in frame.select("name", "duration_ns").rows()}


def _notes(before: Diagnosis, after: Diagnosis) -> list[str]:
    out = []
    old, new = _frames(before), _frames(after)
    for what in ("bytes",):
        if old[what] and new[what] and not 0.98 <= new[what] / old[what] <= 1.02:
            out.append(
                "the two copied different amounts of data: make sure that both did the same work"
            )
    names = [{d.device_name(n) for n in d.devices} for d in (before, after)]
    if names[0] != names[1]:
        out.append(
            f"recorded on different devices: {', '.join(sorted(names[0])) or 'unknown'} and "
            f"{', '.join(sorted(names[1])) or 'unknown'}"
        )
    if bool(old["graphs"]) != bool(new["graphs"]):
        out.append(
            "only one of the two records CUDA graphs as wholes: kernels inside them are not listed"
        )
    return out
