"""A recording as a section of a report without a verdict: what was recorded, and nothing that was found."""

from __future__ import annotations

from profiling_lab import captures
from profiling_lab.analysis import intervals, kineto_columns
from profiling_lab.captures import Kind, Part
from profiling_lab.course.cases import CASE
from profiling_lab.diagnosis import kernels
from profiling_lab.reports import (
    CaptureSection,
    kernel_pages,
    section_from_capture,
    trace_lanes,
)
from profiling_lab.reports.from_verdict import MOST_GAPS

# Of a case, whose cause a reader is to find, the command and the program's words would tell it.
TELLS_NOTHING = ("gpu", "driver", "cuda", "tool", "date")


def section(part: Part) -> CaptureSection:
    """Lanes, gaps and tables of a timeline, of traces, or of pages of kernels. Raises LabError."""
    if part.kind == Kind.TIMELINE:
        with captures.open(part.path) as recording:
            window = recording.span_ns
            made = section_from_capture(recording, window_ns=window, gaps=_gaps(recording, window))
    elif part.kind == Kind.KERNELS:
        made = kernel_pages.section(part, kernels.read(part.path), (), 0)
    else:
        made = _of_traces(part)
    made.name = part.name
    if part.name.startswith(CASE):
        made.provenance = {
            key: made.provenance[key] for key in TELLS_NOTHING if key in made.provenance
        }
    return made


def _of_traces(part: Part) -> CaptureSection:
    files = (
        captures.rank_traces(part.path).values()
        if part.kind == Kind.TRACES
        else [captures.file(part.path, captures.MAIN_FILES[Kind.TRACE])]
    )
    traces = [kineto_columns.read(file) for file in files]
    windows = [trace.window_ns or trace.recording.span_ns for trace in traces]
    return trace_lanes.section(part, traces, windows)


def _gaps(recording: captures.NsysCapture, window: tuple[int, int]) -> list[dict[str, int]]:
    """The longest stretches in which a device did nothing."""
    found = []
    for (device,), rows in recording.device_operations.group_by("device", maintain_order=True):
        spans = intervals.of(rows.select("start_ns", "end_ns").iter_rows())
        for start, end in intervals.gaps(spans, *window).pairs():
            found.append({"start_ns": start, "end_ns": end, "device": device})
    found.sort(key=lambda gap: gap["start_ns"] - gap["end_ns"])
    return found[:MOST_GAPS]
