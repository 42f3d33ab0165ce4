"""Diagnoses and findings as sections of a report, and the page that holds them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling_lab.compare import CAUSES, Compared
from profiling_lab.diagnosis import Diagnosis, cannot_show, largest
from profiling_lab.errors import EmptyCapture
from profiling_lab.functions import FunctionUnavailable, functions_if_any

if TYPE_CHECKING:
    from profiling_lab.reports import CaptureSection

MOST_GAPS = 5000  # of a page; the rest is too short to be seen on it


def section(diagnosis: Diagnosis) -> CaptureSection:
    """The section of a report for a diagnosed capture."""
    from profiling_lab.reports import section_from_capture

    if not diagnosis.devices:
        raise EmptyCapture(f"{diagnosis.capture.file}: no device did anything")
    busiest = max(diagnosis.devices, key=lambda device: (diagnosis.busy_ns or {}).get(device, 0))
    return section_from_capture(
        diagnosis.capture,
        window_ns=diagnosis.window_ns or diagnosis.span_ns,
        findings=[diagnosis.finding] if diagnosis.finding else [],
        busy=diagnosis.busy_ns,
        gaps=diagnosis.largest_gaps(MOST_GAPS),
        where_the_time_went=diagnosis.shares(busiest),
        facts=_facts(diagnosis),
        name=diagnosis.name,
    )


def section_without_timeline(
    name: str, kind: str, against: str | None
) -> tuple[CaptureSection, list[str]]:
    """The section of a report for kernels, a trace or counters, and what could not be shown."""
    from profiling_lab import captures, roofline
    from profiling_lab.diagnosis import FINDING_FUNCTIONS, findings_of, roofline_of
    from profiling_lab.errors import CaptureError
    from profiling_lab.reports import CaptureSection

    place = captures.file(name, captures.MAIN_FILES[kind])
    made = CaptureSection(name=Path(name).name, provenance=captures.provenance_beside(place))
    missing = []
    if kind in FINDING_FUNCTIONS:
        functions, why = functions_if_any(kind, against)
        try:
            made.findings = findings_of(kind, name, functions) if functions else ()
        except FunctionUnavailable as error:
            why = str(error)
        missing += [why] if why else []
    try:
        counters = captures.file(name, captures.MAIN_FILES["counters"])
    except CaptureError:
        return made, missing
    if counters == place and kind != "counters":  # a file by itself, not a folder
        return made, missing
    functions, why = functions_if_any("counters", against)
    try:
        if functions:
            roofs, points, without = roofline_of(name, functions)
            caption = "Measured work under the ceilings of the device."
            if without:
                caption += f" Not placed, for want of a count or a peak: {', '.join(without)}."
            made.drawings = [(caption, roofline.svg(roofs, points))]
    except FunctionUnavailable as error:
        why = str(error)
    return made, missing + ([why] if why else [])


def _facts(diagnosis: Diagnosis) -> list[tuple[Any, ...]]:
    facts: list[tuple[Any, ...]] = []
    for name, ns in largest(diagnosis.blocking_ns):
        facts.append((f"Host in {name}", ns, "ns", "time in a call that holds the host up"))
    for name, ns in largest(diagnosis.recoverable_ns):
        facts.append(
            (
                f"Saved without {CAUSES.get(name, name)}",
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
    for line in cannot_show(diagnosis.capture):
        facts.append(("Not in this capture", line))
    return facts


def write_page(
    output: Path, sections: list[CaptureSection], comparisons: list[Compared], *, title: str
) -> None:
    """Write captures, findings and comparisons as one HTML page."""
    from profiling_lab.reports import write_report

    write_report(
        output,
        sections,
        title=title,
        comparison=comparisons[0].to_report() if comparisons else None,
    )
