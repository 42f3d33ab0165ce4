"""Run the functions of a tree over a capture, and keep what each of them said.

Nothing here decides: window, busy time, gaps, causes and the finding are what the functions return
(see `profiling_lab.mine.contracts`). What a function could not say is kept as a sentence.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling_lab import captures, devices, roofline
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding, problems
from profiling_lab.mine.functions import Functions, FunctionUnavailable

if TYPE_CHECKING:
    from profiling_lab.captures.nsys_export import NsysCapture
    from profiling_lab.roofline import Point, Roof

LARGEST_GAPS = 5


@dataclass(frozen=True)
class Busy:
    """How long a device worked in a window; of a trace, in its steps."""

    device: str
    busy_ns: int
    window_ns: int
    steps: int = 0


@dataclass
class Diagnosis:
    """What the functions of one tree say about one capture; None where one gave no answer.

    span_ns: first start and last end of any device operation, from the capture itself.
    window_ns, busy_ns, gaps, blocking_ns, recoverable_ns, overlap, active, overhead_ns, finding:
    the answers of find_window, busy_time, idle_gaps, blocking_time, recoverable_time,
    missed_overlap, busy_against_active, profiler_overhead and name_bottleneck.
    unanswered: a sentence a function that gave no answer. todo: those of them still to do.
    """

    name: str
    capture: NsysCapture
    nvtx_range: str | None
    span_ns: tuple[int, int]
    window_ns: tuple[int, int] | None = None
    busy_ns: dict[int, int] | None = None
    gaps: list[dict[str, int]] | None = None
    blocking_ns: dict[str, int] | None = None
    recoverable_ns: dict[str, int] | None = None
    overlap: dict[int, dict[str, int]] | None = None
    active: dict[int, dict[str, float]] | None = None
    overhead_ns: int | None = None
    finding: Finding | None = None
    unanswered: dict[str, str] = field(default_factory=dict)
    todo: set[str] = field(default_factory=set)

    @property
    def devices(self) -> list[int]:
        """The devices that ran something, in order."""
        return sorted(self.capture.device_operations["device"].unique().to_list())

    def explain_unanswered(self, tasks: dict[str, str]) -> list[str]:
        """A sentence for all functions still to do, and one for each that gave another reason."""
        names = [tasks.get(name, name) for name in self.unanswered if name in self.todo]
        out = [f"still to do: {', '.join(names)}"] if names else []
        return out + [text for name, text in self.unanswered.items() if name not in self.todo]

    @property
    def length_ns(self) -> int:
        """The window's length; without a window, from first to last device operation."""
        start, end = self.window_ns or self.span_ns
        return end - start

    def device_name(self, device: int) -> str:
        """The name of a device as recorded, "" if it was not."""
        rows = self.capture.devices
        names = dict(zip(rows["device"].to_list(), rows["name"].to_list(), strict=True))
        return names.get(device) or ""

    def largest_gaps(self, count: int = LARGEST_GAPS) -> list[dict[str, int]]:
        """The longest idle gaps, longest first."""
        gaps = self.gaps or []
        return sorted(gaps, key=lambda g: (g["start_ns"] - g["end_ns"], g["start_ns"]))[:count]

    def idle_ns(self, device: int) -> int | None:
        """The window without a device's busy time; None if either is unknown."""
        if self.window_ns is None or self.busy_ns is None or device not in self.busy_ns:
            return None
        return max(0, self.length_ns - self.busy_ns[device])

    def shares(self, device: int) -> list[tuple[str, int, str]]:
        """Parts of the window on one device: (label, ns, kind of the report); they add up to it."""
        idle = self.idle_ns(device)
        if idle is None:
            return []
        assert self.busy_ns is not None
        busy = self.busy_ns[device]
        parts = (self.overlap or {}).get(device)
        if not parts:
            return [("Busy", busy, "kernel"), ("Idle", idle, "idle")]
        both = parts["copy_ns"] - parts["exposed_copy_ns"]
        alone = parts["compute_only_ns"]
        exposed = parts["exposed_copy_ns"]
        rest = busy - both - alone - exposed
        if min(both, rest) < 0:  # the functions contradict each other: show what is certain
            return [("Busy", busy, "kernel"), ("Idle", idle, "idle")]
        out = [
            ("Kernels alone", alone, "kernel"),
            ("Kernels beside copies", both, ""),
            ("Copies alone", exposed, "copy_in"),
            ("Memsets, other copies", rest, ""),
            ("Idle", idle, "idle"),
        ]
        return [part for part in out if part[1]]


def diagnose(
    recording: NsysCapture,
    functions: Functions | None,
    *,
    name: str | None = None,
    nvtx_range: str | None = None,
) -> Diagnosis:
    """Ask every function about a capture.

    Raises EmptyCapture if the capture holds no kernel, and CaptureError where a function says that
    the capture lacks something (a range of that name, say).
    """
    file = str(recording.file.resolve())
    if not recording.kernels.height and not recording.graph_launches.height:
        raise EmptyCapture(
            f"{recording.file}: holds no kernel: was it recorded with --trace=cuda, and did the "
            "capture range hold work?"
        )
    out = Diagnosis(name or display_name(recording.file), recording, nvtx_range, recording.span_ns)
    if functions is None:
        return out
    _ask(out, functions, "find_window", "window_ns", _is_window, file, nvtx_range)
    _ask(out, functions, "busy_time", "busy_ns", _is_ns_by(int), file, nvtx_range)
    _ask(out, functions, "idle_gaps", "gaps", _are_gaps, file, nvtx_range)
    _ask(out, functions, "blocking_time", "blocking_ns", _is_ns_by(str), file, nvtx_range)
    _ask(out, functions, "missed_overlap", "overlap", _is_overlap, file, nvtx_range)
    _ask(out, functions, "profiler_overhead", "overhead_ns", _is_ns, file, nvtx_range)
    if recording.gpu_metrics.height:
        _ask(out, functions, "busy_against_active", "active", _is_active, file, nvtx_range)
    _ask(out, functions, "recoverable_time", "recoverable_ns", _is_ns_by(str), file, nvtx_range)
    _ask(out, functions, "name_bottleneck", "finding", misfit, file, nvtx_range)
    return out


def roofline_of(capture: str, functions: Functions) -> tuple[list[Roof], list[Point], list[str]]:
    """What a capture of counters gives to draw: roofs, points, and the names of kernels without one.

    A kernel has no point if its operations could not be counted, or its data type's peak is unknown.

    Raises FunctionUnavailable if `roofline_points` gave no answer, DeviceError for an unknown device.
    """
    document = json.loads(captures.text(capture, "counters.json"))
    rows = functions.call("roofline_points", capture)
    known = devices.get(document["device"])
    dtype_of = {row["name"]: row.get("dtype") for row in document["kernels"]}
    has_roof = {dtype for dtype in dtype_of.values() if dtype in known.peak_flops_per_s}
    roofs = [roofline.roof(known.name, dtype) for dtype in sorted(has_roof)]
    placed = [
        row
        for row in rows
        if row.get("intensity")
        and row.get("rate_flops_per_s")
        and dtype_of.get(row["name"]) in has_roof
    ]
    points = [
        roofline.Point(
            row["name"],
            row["intensity"],
            row["rate_flops_per_s"],
            "operations counted"
            if row.get("flops_source") == "counters"
            else "operations computed",
        )
        for row in placed
    ]
    return roofs, points, [row["name"] for row in rows if row not in placed]


def _ask(
    out: Diagnosis, functions: Functions, name: str, where: str, fits: Any, *args: Any
) -> None:
    try:
        answer = functions.call(name, *args)
    except FunctionUnavailable as error:
        out.unanswered[name] = str(error)
        if error.todo:
            out.todo.add(name)
        return
    if wrong := fits(answer):
        check = functions.tasks.get(name, name)
        shown = " ".join(repr(answer).split())
        shown = shown if len(shown) <= 60 else shown[:57] + "…"
        out.unanswered[name] = f"{name} returned {shown}, {wrong}; lab check {check}"
        return
    setattr(out, where, tuple(answer) if where == "window_ns" else answer)


# -- the shape of answers: a sentence on what does not fit, or "" ---------------------------------


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value)


def _is_ns(value: Any) -> str:
    return "" if _is_number(value) else "not a number of ns"


def _is_window(value: Any) -> str:
    if not isinstance(value, (tuple, list)) or len(value) != 2 or not all(map(_is_number, value)):
        return "not a pair of start and end"
    return "" if value[1] > value[0] else "a window that has no length"


def _is_ns_by(key: type) -> Any:
    def fits(value: Any) -> str:
        if not isinstance(value, dict):
            return "not a dictionary"
        good = all(isinstance(k, key) and _is_number(v) for k, v in value.items())
        return "" if good else f"not a dictionary of {key.__name__} to ns"

    return fits


def _are_gaps(value: Any) -> str:
    keys = ("device", "start_ns", "end_ns")
    good = isinstance(value, list) and all(
        isinstance(gap, dict) and all(_is_number(gap.get(key)) for key in keys) for gap in value
    )
    return "" if good else "not a list of gaps with device, start_ns and end_ns"


def _has(value: Any, *keys: str) -> bool:
    return isinstance(value, dict) and all(
        isinstance(row, dict) and all(_is_number(row.get(key)) for key in keys)
        for row in value.values()
    )


def _is_overlap(value: Any) -> str:
    keys = ("copy_ns", "exposed_copy_ns", "compute_only_ns", "hideable_ns", "pageable_bytes")
    return "" if _has(value, *keys) else f"not, a device, {', '.join(keys)}"


def _is_active(value: Any) -> str:
    keys = ("busy_ratio", "sm_active_ratio", "dram_ratio")
    return "" if _has(value, *keys) else f"not, a device, {', '.join(keys)}"


def misfit(value: Any) -> str:
    """What is wrong with the form of what should be a finding, "" if nothing is."""
    if not isinstance(value, Finding):
        return "not a Finding"
    wrong = problems(value)
    return f"whose {wrong[0]}" if wrong else ""


# -- what a capture is called, and what it cannot show ---------------------------------------------


def display_name(file: Path) -> str:
    """A capture's name for people: its folder's in captures/, else the file's."""
    return file.parent.name if file.name == "timeline.sqlite" else file.stem


def largest(values: dict[str, int] | None, count: int = 5) -> list[tuple[str, int]]:
    """The largest of some times by name, those above 0 only, largest first."""
    ordered = sorted((values or {}).items(), key=lambda item: -item[1])
    return [item for item in ordered if item[1] > 0][:count]
