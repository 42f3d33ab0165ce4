"""Diagnoses and findings as sections of a report, and the page that holds them."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling_lab.analysis.compare import Compared
from profiling_lab.analysis.measures import COUNTERS, DURATION
from profiling_lab.diagnosis import limits
from profiling_lab.errors import EmptyCapture, LabError
from profiling_lab.findings import CAUSE_IN_WORDS
from profiling_lab.mine.diagnosis import Diagnosis, largest, roofline_of
from profiling_lab.mine.functions import Functions, FunctionUnavailable, functions_if_any

if TYPE_CHECKING:
    from profiling_lab.captures import Part
    from profiling_lab.findings import Finding
    from profiling_lab.reports import CaptureSection
    from profiling_lab.reports.model import Table
    from profiling_lab.roofline import Point, Roof

MOST_GAPS = 5000  # of a page; the rest is too short to be seen on it
KERNELS_SHOWN = 200
# The exercise whose functions place a page of Nsight Compute under its roofs.
ROOFLINE_EXERCISE = "ncu_ex03"


@dataclass
class Answers:
    """Functions of a tree, asked one after the other; what gave no answer is kept as a sentence."""

    against: str | None
    missing: list[str] = field(default_factory=list)

    def functions(self, kind: str) -> Functions | None:
        """The functions for a kind of capture, or of an exercise."""
        found, why = functions_if_any(kind, self.against)
        if found is None:
            self.missing.append(why or "no functions")
        return found

    def ask(self, functions: Functions | None, name: str, *arguments: Any) -> Any:
        """What a function returns; None, with a sentence in `missing`, if it gives no answer."""
        if functions is None:
            return None
        try:
            return functions.call(name, *arguments)
        except FunctionUnavailable as error:
            self.missing.append(str(error))
            return None


# -- timelines ------------------------------------------------------------------------------------


def section(diagnosis: Diagnosis, findings: Sequence[Finding] = ()) -> CaptureSection:
    """The section of a report for a diagnosed capture; findings: others than the diagnosis' own."""
    from profiling_lab.reports import section_from_capture

    if not diagnosis.devices:
        raise EmptyCapture(f"{diagnosis.capture.file}: no device did anything")
    busiest = max(diagnosis.devices, key=lambda device: (diagnosis.busy_ns or {}).get(device, 0))
    return section_from_capture(
        diagnosis.capture,
        window_ns=diagnosis.window_ns or diagnosis.span_ns,
        findings=findings or ([diagnosis.finding] if diagnosis.finding else []),
        busy=diagnosis.busy_ns,
        gaps=diagnosis.largest_gaps(MOST_GAPS),
        where_the_time_went=diagnosis.shares(busiest),
        facts=_facts(diagnosis),
        name=diagnosis.name,
    )


def _facts(diagnosis: Diagnosis) -> list[tuple[Any, ...]]:
    facts: list[tuple[Any, ...]] = []
    for name, ns in largest(diagnosis.blocking_ns):
        facts.append((f"Host in {name}", ns, "ns", "time in a call that holds the host up"))
    for name, ns in largest(diagnosis.recoverable_ns):
        facts.append(
            (
                f"Saved without {CAUSE_IN_WORDS.get(name, name)}",
                ns,
                "ns",
                "how much earlier the last device operation would have ended",
            )
        )
    for device, active in (diagnosis.active or {}).items():
        facts.append((f"SMs active, device {device}", 100 * active["sm_active_ratio"], "pct"))
        facts.append((f"DRAM used, device {device}", 100 * active["dram_ratio"], "pct"))
    if diagnosis.overhead_ns:
        facts.append(("Profiler at work", diagnosis.overhead_ns, "ns"))
    facts += [("Not in this capture", line) for line in limits.of_timeline(diagnosis.capture)]
    return facts


# -- traces ---------------------------------------------------------------------------------------


def section_without_timeline(
    part: Part, against: str | None, findings: Sequence[Finding], number: int
) -> tuple[CaptureSection, list[str]]:
    """The section for traces, kernels or counters, and what could not be shown.

    findings: what was found in it, the main one first. number: of the section on its page.
    """
    from profiling_lab import captures
    from profiling_lab.reports import CaptureSection

    main = captures.MAIN_FILES[part.kind.one]
    beside = part.path / main if part.path.is_dir() else part.path
    made = CaptureSection(
        part.name, provenance=captures.provenance_beside(beside), findings=findings
    )
    answers = Answers(against)
    functions = answers.functions(part.kind.one)
    if functions is not None:
        if part.kind == captures.Kind.KERNELS:
            _add_kernels(made, part.path, functions, answers, number)
        elif part.kind == captures.Kind.COUNTERS:
            _add_counters(made, part.path, functions, answers, number)
        else:
            _add_traces(made, part, functions, answers)
    return made, list(dict.fromkeys(answers.missing))


def _add_traces(made: CaptureSection, part: Part, functions: Functions, answers: Answers) -> None:
    """Put a trace, or one a rank, on one timeline."""
    from profiling_lab import captures
    from profiling_lab.reports import traces
    from profiling_lab.reports.tables import memory_table

    if part.kind == captures.Kind.TRACE:
        files = {"": captures.file(part.path, captures.MAIN_FILES[captures.Kind.TRACE])}
    else:
        files = {str(rank): file for rank, file in captures.rank_traces(part.path).items()}
    read: dict[str, Mapping[str, Any]] = {}
    for rank, file in files.items():
        trace = answers.ask(functions, "read_trace", str(file))
        if trace is None:
            return
        if wrong := traces.problem(trace):
            answers.missing.append(f"read_trace returned {wrong}, so there is no timeline")
            return
        read[rank] = trace
    shift = traces.shifts(read) if len(read) > 1 else {}
    if len(read) > 1 and not shift:
        answers.missing.append(
            "the ranks on one clock: a trace does not tell its own; each begins at 0"
        )
    windows = []
    for rank, trace in read.items():
        start, end = traces.window_of(trace["events"])
        windows.append((start + shift.get(rank, 0), end + shift.get(rank, 0)))
    made.window_ns = (min(start for start, _ in windows), max(end for _, end in windows))
    for rank, trace in read.items():
        by = {"rank": rank, "shift_ns": shift.get(rank, 0)}
        made.lanes += traces.lanes_of(trace, made.window_ns, **by)
        made.metrics += traces.memory_of(trace, made.window_ns, **by)
        for device in trace.get("devices") or ():
            if isinstance(device, Mapping) and type(device.get("id")) is int:
                made.devices = {**made.devices, device["id"]: str(device.get("name", ""))}
    made.tables = traces.kernels_of(made.lanes, made.window_ns) + memory_table(made.metrics)
    if len(read) == 1:
        steps = answers.ask(functions, "step_breakdown", str(next(iter(files.values()))))
        _add_steps(made, steps)


def _add_steps(made: CaptureSection, steps: Any) -> None:
    """Where the time of a trace went, and a row a step, from what `step_breakdown` says."""
    from profiling_lab.reports.model import Place, Table, TimeShare

    keys = ("step", "device", "step_ns", "busy_ns", "kernel_ns")
    if not isinstance(steps, list) or not all(
        isinstance(step, dict) and all(type(step.get(key)) is int for key in keys) for step in steps
    ):
        return
    busy: dict[int, int] = {}
    for step in steps:
        busy[step["device"]] = busy.get(step["device"], 0) + step["busy_ns"]
    if not busy:
        return
    made.busy_ns = busy
    busiest = max(busy, key=lambda device: busy[device])
    mine = [step for step in steps if step["device"] == busiest]
    kernel = sum(step["kernel_ns"] for step in mine)
    parts = [
        TimeShare("Kernels", kernel, "kernel"),
        TimeShare("Copies and memsets alone", busy[busiest] - kernel, "copy_in"),
        TimeShare("Idle", sum(step["step_ns"] - step["busy_ns"] for step in mine), "idle"),
    ]
    made.where_the_time_went = [part for part in parts if part.ns > 0]
    made.shares_note = (
        "Of a trace these are its steps as the host went through them: a device may be at work on what "
        "was issued before, and not done when the last step ends."
    )
    spans = {
        name: (start, end)
        for lane in made.lanes
        for name, start, end in zip(lane.names, lane.start_ns, lane.end_ns, strict=True)
        if name.startswith("ProfilerStep#")
    }
    rows, places = [], []
    for step in mine:
        span = spans.get(f"ProfilerStep#{step['step']}")
        idle = step["step_ns"] - step["busy_ns"]
        share = 100 * idle / step["step_ns"] if step["step_ns"] else None
        rows.append(
            (f"Step {step['step']}", step["step_ns"], step["busy_ns"], step["kernel_ns"], share)
        )
        places.append(Place("Show", *span) if span else None)
    if rows:
        idlest = max(range(len(rows)), key=lambda at: rows[at][-1] or 0)
        if place := places[idlest]:
            subject = f"device:{busiest}"
            made.places = {
                subject: Place(f"{rows[idlest][0]}, the most idle", place.start_ns, place.end_ns)
            }
    columns = [("Step", ""), ("Length", "ns"), ("Busy", "ns"), ("Kernels", "ns"), ("Idle", "pct")]
    title = f"GPU {busiest}, step by step"
    made.tables = [Table("Steps", title, columns, rows, places=places), *made.tables]


# -- kernels and counters -------------------------------------------------------------------------


def _add_kernels(
    made: CaptureSection, path: Path, functions: Functions, answers: Answers, number: int
) -> None:
    """A row a launch, and its point under the roofs."""
    kernels = answers.ask(functions, "read_metrics", str(path))
    if _are_kernels(kernels):
        made.tables = [_kernel_table(kernels, made.findings)]
        _add_roofline(made, kernels, answers, number)


def _are_kernels(kernels: Any) -> bool:
    return (
        isinstance(kernels, list)
        and bool(kernels)
        and all(
            isinstance(kernel, dict)
            and isinstance(kernel.get("name"), str)
            and isinstance(kernel.get("metrics"), dict)
            for kernel in kernels
        )
    )


def _kernel_table(kernels: list[dict[str, Any]], findings: Sequence[Finding]) -> Table:
    from profiling_lab.reports.model import Table

    shown = [
        (metric, heading, unit)
        for metric, (heading, unit) in COUNTERS.items()
        if any(kernel["metrics"].get(metric) is not None for kernel in kernels)
    ]
    said: dict[str, list[str]] = {}
    for finding in findings:
        said.setdefault(finding.subject, []).append(finding.category.replace("_", " "))
    rows, subjects = [], []
    for kernel in kernels[:KERNELS_SHOWN]:
        subject = f"kernel:{kernel['name']}"
        metrics = kernel["metrics"]
        rows.append(
            (
                kernel["name"],
                ", ".join(dict.fromkeys(said.get(subject, ()))) or "–",
                metrics.get(DURATION),
                f"{_size(kernel.get('grid'))} of {_size(kernel.get('block'))}",
                *(metrics.get(metric) for metric, _, _ in shown),
            )
        )
        subjects.append(subject)
    columns = [("Kernel", ""), ("Finding", ""), ("Duration", "ns"), ("Blocks of threads", "")]
    columns += [(heading, unit) for _, heading, unit in shown]
    more = len(kernels) - len(rows)
    note = f"And {more:,} launches more." if more else ""
    return Table("Kernels", "In the order of the file", columns, rows, note, subjects=subjects)


def _without_arguments(name: str) -> str:
    """A kernel's name without what it returns and takes, as a label of a drawing."""
    short = re.match(r"(?:void )?(.+?)\((?!anonymous)", name)
    return short[1] if short else name


def _size(size: Any) -> str:
    """A grid or block in words, without the dimensions that are 1."""
    if not isinstance(size, (tuple, list)) or not all(type(n) is int for n in size):
        return "n/a"
    return " × ".join(f"{n:,}" for n in size if n != 1) or "1"


def _add_roofline(
    made: CaptureSection, kernels: list[dict[str, Any]], answers: Answers, number: int
) -> None:
    """The kernels under the roofs of their own launches, by the functions of the roofline practice."""
    from profiling_lab.roofline import Point, Roof

    functions = answers.functions(ROOFLINE_EXERCISE)
    device = _device_of(made, kernels)
    roofs: dict[str, Roof] = {}
    points: list[Point] = []
    subjects: list[str] = []
    for kernel in kernels[:KERNELS_SHOWN]:
        try:
            point = answers.ask(functions, "under_the_roofs", kernel)
            above = answers.ask(functions, "roofs_of", kernel) if point else None
        except LabError:
            continue  # counters of a roofline were not measured
        if functions is None or point is None or above is None:
            return
        try:
            dtype, intensity = point["dtype"], point["intensity"]["dram"]
            rate, roof = point["flops_per_s"], Roof(device, dtype, above["dram"], above[dtype])
        except (KeyError, TypeError):
            answers.missing.append("under_the_roofs or roofs_of returned something else than said")
            return
        numbers = (intensity, rate, roof.bytes_per_s, roof.flops_per_s)
        if not all(_is_above_0(number) for number in numbers):
            continue  # no operations, or no bytes: logarithmic axes have no place for it
        # A launch that ran at a lower clock has lower roofs; drawn are those of the fastest.
        best = roofs.get(dtype)
        if best is None or roof.flops_per_s > best.flops_per_s:
            roofs[dtype] = roof
        points.append(Point(_without_arguments(kernel["name"]), intensity, rate, dtype))
        subjects.append(f"kernel:{kernel['name']}")
    if points:
        caption = (
            "Operations per byte of DRAM traffic, under the roofs of these launches, at their own "
            "clocks."
        )
        _draw(made, list(roofs.values()), points, subjects, caption, number)


def _is_above_0(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf


def _device_of(made: CaptureSection, kernels: list[dict[str, Any]]) -> str:
    for kernel in kernels:
        name = kernel["metrics"].get("device__attribute_display_name")
        if isinstance(name, str) and name:
            return name
    gpu = made.provenance.get("gpu")
    gpu = gpu[0] if isinstance(gpu, list) and gpu else gpu
    gpu = gpu.get("name") if isinstance(gpu, dict) else gpu
    return str(gpu or "this device")


def _draw(
    made: CaptureSection,
    roofs: list[Roof],
    points: list[Point],
    subjects: Sequence[str],
    caption: str,
    number: int,
) -> None:
    """Add a roofline to a section, and from each subject a link to its point."""
    from profiling_lab import roofline

    which = hashlib.sha256(caption.encode()).hexdigest()[:4]
    ids = [f"point-{number}-{which}-{at}" for at in range(len(points))]
    made.drawings = [*made.drawings, (caption, roofline.svg(roofs, points, ids=ids))]
    links = {subject: list(found) for subject, found in made.links.items()}
    for subject, target in zip(subjects, ids, strict=True):
        links.setdefault(subject, []).append(("Point on the roofline", target))
    made.links = links


def _add_counters(
    made: CaptureSection, path: Path, functions: Functions, answers: Answers, number: int
) -> None:
    """The roofline of a capture of chosen counters."""
    try:
        roofs, points, without = roofline_of(str(path), functions)
    except FunctionUnavailable as error:
        answers.missing.append(str(error))
        return
    caption = "Measured work under the ceilings of the device."
    if without:
        caption += f" Not placed, for want of a count or a peak: {', '.join(without)}."
    _draw(made, roofs, points, [f"kernel:{point.name}" for point in points], caption, number)


# -- the page -------------------------------------------------------------------------------------


def write_page(
    output: Path,
    sections: list[CaptureSection],
    comparisons: list[Compared],
    *,
    title: str,
    what: str = "",
) -> None:
    """Write captures, findings and a comparison as one HTML page; what: another name of its first row."""
    from profiling_lab.reports import write_report

    comparison = comparisons[0].to_report() if comparisons else None
    if comparison and comparison.rows and what:
        rows = [replace(comparison.rows[0], what=what), *comparison.rows[1:]]
        comparison = replace(comparison, rows=rows)
    write_report(output, sections, title=title, comparison=comparison)
