"""The page that holds the sections of a report; captures of counters as sections."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from profiling_lab import captures
from profiling_lab.analysis.compare import Compared
from profiling_lab.captures import MAIN_FILES
from profiling_lab.mine.diagnosis import roofline_of
from profiling_lab.mine.functions import FunctionUnavailable, functions_for
from profiling_lab.reports import CaptureSection, write_report
from profiling_lab.reports.drawings import draw

if TYPE_CHECKING:
    from profiling_lab.captures import Part


def counters(part: Part, against: str | None, number: int) -> tuple[CaptureSection, list[str]]:
    """The roofline of a capture of chosen counters, by the function of the course, and what could not be shown."""
    beside = part.path / MAIN_FILES[part.kind] if part.path.is_dir() else part.path
    made = CaptureSection(part.name, provenance=captures.provenance_beside(beside))
    try:
        roofs, points, without = roofline_of(str(part.path), functions_for(part.kind, against))
    except FunctionUnavailable as error:
        return made, [str(error)]
    caption = "Measured work under the ceilings of the device."
    if without:
        caption += f" Not placed, for want of a count or a peak: {', '.join(without)}."
    draw(made, roofs, [(f"kernel:{point.name}", point) for point in points], caption, number)
    return made, []


def write_page(
    output: Path, sections: list[CaptureSection], comparisons: list[Compared], *, title: str
) -> None:
    """Write captures, findings and a comparison as one HTML page."""
    comparison = comparisons[0].to_report() if comparisons else None
    write_report(output, sections, title=title, comparison=comparison)
