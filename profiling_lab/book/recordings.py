"""The recordings that the book shows: a report of each, as `lab report` writes it, without a verdict.

To find out what is wrong with a recording is the course's task, so a report of the book holds what was
recorded and nothing that was found. A lesson and a notebook show parts of these same pages.
"""

from __future__ import annotations

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from profiling_lab import captures
from profiling_lab.captures import Kind, inputs
from profiling_lab.cli.pages import counters
from profiling_lab.course.manifest import SOLUTIONS
from profiling_lab.errors import LabError
from profiling_lab.reports import CaptureSection, page, unjudged

PARTS = {Kind.TIMELINE: "timeline", Kind.TRACE: "timeline", Kind.TRACES: "timeline"}


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
    if part.kind != Kind.COUNTERS:
        return unjudged.section(part)
    references = root / SOLUTIONS
    return counters(part, str(references) if references.is_dir() else None, 0)[0]
