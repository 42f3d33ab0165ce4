"""The recordings that the book shows: a report of each, as `lab report` writes it, without a verdict.

To find out what is wrong with a recording is the course's task, so a report of the book holds what was
recorded and nothing that was found. A lesson and a notebook show parts of these same pages.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from profiling_lab import captures
from profiling_lab.analysis import intervals, kineto_columns
from profiling_lab.captures import Kind, Part, inputs
from profiling_lab.cli.pages import counters
from profiling_lab.course.manifest import SOLUTIONS
from profiling_lab.diagnosis import kernels
from profiling_lab.errors import LabError
from profiling_lab.reports import (
    CaptureSection,
    kernel_pages,
    page,
    section_from_capture,
    trace_lanes,
)
from profiling_lab.reports.from_verdict import MOST_GAPS

PARTS = {Kind.TIMELINE: "timeline", Kind.TRACE: "timeline", Kind.TRACES: "timeline"}
# Of a case file, whose cause a reader is to find, the command and the program's words would tell it.
CASE, TELLS_NOTHING = "case_", ("gpu", "driver", "cuda", "tool", "date")


def names(root: Path) -> dict[str, str]:
    """The recordings of a course that have a report, and of each the part that shows it best."""
    found = {}
    for folder in sorted(path for path in (root / "captures").glob("*") if path.is_dir()):
        if any(
            (folder / f"{file}{end}").is_file()
            for file in captures.MAIN_FILES.values()
            for end in ("", ".gz")
        ):
            found[folder.name] = PARTS.get(captures.kind(folder), "kernels")
        elif captures.rank_traces(folder):
            found[folder.name] = "timeline"
    return found


def write(root: Path, wanted: list[str], folder: Path) -> list[str]:
    """Write NAME.html of each recording to `folder`; returns those of which there is something to draw."""
    page.write_linked_files(folder)
    for file in folder.glob("*.html"):
        if file.stem not in wanted:
            file.unlink()
    # Spawned: a fork of a process with threads may hold a lock that nobody releases.
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("spawn")) as workers:
        drawn = workers.map(_write, [root] * len(wanted), wanted, [folder] * len(wanted))
        return [name for name, has in zip(wanted, drawn, strict=True) if has]


def _write(root: Path, name: str, folder: Path) -> bool:
    """Write one report, unless it is newer than the recording; whether there is one."""
    file, capture = folder / f"{name}.html", root / "captures" / name
    newest = max(path.stat().st_mtime for path in capture.iterdir())
    if file.is_file() and file.stat().st_mtime > newest:
        return True
    try:
        made = section(root, capture)
    except LabError:  # copies alone, say
        return False
    if not (made.lanes or made.tables or made.drawings):
        return False
    page.write(file, page.render_report([made], title=name, linked=True))
    return True


def section(root: Path, capture: Path) -> CaptureSection:
    """A recording as a section of a report: its lanes, gaps, tables and roofline. Raises LabError."""
    [part] = inputs.read([str(capture)])
    if part.kind == Kind.TIMELINE:
        with captures.open(capture) as recording:
            window = recording.span_ns
            made = section_from_capture(recording, window_ns=window, gaps=_gaps(recording, window))
    else:
        made = _without_timeline(root, part)
    made.name = capture.name
    if capture.name.startswith(CASE):
        made.provenance = {
            key: made.provenance[key] for key in TELLS_NOTHING if key in made.provenance
        }
    return made


def _without_timeline(root: Path, part: Part) -> CaptureSection:
    if part.kind == Kind.KERNELS:
        return kernel_pages.section(part, kernels.read(part.path), (), 0)
    if part.kind == Kind.COUNTERS:
        references = root / SOLUTIONS
        return counters(part, str(references) if references.is_dir() else None, 0)[0]
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
