"""A page of Nsight Compute as a section of a report: a row a launch, and the roofline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from profiling_lab import captures
from profiling_lab.analysis import kernel_roof
from profiling_lab.analysis.measures import COUNTERS
from profiling_lab.captures import MAIN_FILES, Kind
from profiling_lab.reports.drawings import draw
from profiling_lab.reports.model import CaptureSection, Table
from profiling_lab.reports.tables import short_names
from profiling_lab.roofline import Point, Roof

if TYPE_CHECKING:
    from profiling_lab.captures import Part
    from profiling_lab.diagnosis.kernels import Judged
    from profiling_lab.findings import Finding

KERNELS_SHOWN = 200


def section(
    part: Part, judged: Sequence[Judged], findings: Sequence[Finding], number: int
) -> CaptureSection:
    """The section for a page; findings: what was said of its kernels, none for what was recorded alone.

    number: of the section on its page.
    """
    beside = part.path / MAIN_FILES[Kind.KERNELS] if part.path.is_dir() else part.path
    made = CaptureSection(
        part.name, provenance=captures.provenance_beside(beside), findings=findings
    )
    made.tables = [_table(judged, findings)]
    points, roofs = [], {}
    for one in judged[:KERNELS_SHOWN]:
        place = kernel_roof.of(one.kernel)
        if place is None:
            continue
        device = one.kernel.device or "this device"
        above = Roof(device, place.dtype, place.roof_bytes_per_s, place.roof_flops_per_s)
        # A launch that ran at a lower clock has lower roofs; drawn are those of the fastest.
        best = roofs.get(place.dtype)
        if best is None or above.flops_per_s > best.flops_per_s:
            roofs[place.dtype] = above
        name = one.kernel.name
        points.append(
            (f"kernel:{name}", Point(_label(name), place.intensity, place.flops_per_s, place.dtype))
        )
    if points:
        caption = (
            "Operations per byte of DRAM traffic, under the roofs of these launches, at their own clocks. "
            "What the tensor cores compute is not counted."
        )
        draw(made, list(roofs.values()), points, caption, number)
    return made


def _table(judged: Sequence[Judged], findings: Sequence[Finding]) -> Table:
    shown = [
        (metric, heading, unit)
        for metric, (heading, unit) in COUNTERS.items()
        if any(one.kernel.get(metric) is not None for one in judged)
    ]
    said: dict[str, list[str]] = {}
    for finding in findings:
        said.setdefault(finding.subject, []).append(finding.category.replace("_", " "))
    rows, subjects = [], []
    longest = sorted(judged, key=lambda one: -(one.kernel.duration_ns or 0))[:KERNELS_SHOWN]
    called = short_names([one.kernel.name for one in longest])
    for name, one in zip(called, longest, strict=True):
        kernel = one.kernel
        subject = f"kernel:{kernel.name}"
        rows.append(
            (
                name,
                ", ".join(dict.fromkeys(said.get(subject, ()))) or "–",
                100 * one.headroom_ratio if one.class_ else None,
                kernel.duration_ns,
                f"{_size(kernel.grid)} of {_size(kernel.block)}",
                *(kernel.get(metric) for metric, _, _ in shown),
            )
        )
        subjects.append(subject)
    columns = [
        ("Kernel", ""), ("Finding", ""), ("To the nearest peak", "pct"), ("Duration", "ns"),
        ("Blocks of threads", ""),
    ]  # fmt: skip
    columns += [(heading, unit) for _, heading, unit in shown]
    if not findings:  # what was recorded, without what was found
        columns, rows = columns[:1] + columns[3:], [row[:1] + row[3:] for row in rows]
    more = len(judged) - len(rows)
    note = f"And {more:,} launches more." if more else ""
    return Table("Kernels", "Launches, the longest first", columns, rows, note, subjects=subjects)


def _label(name: str) -> str:
    """A kernel's name without what it returns and takes, as a label of a drawing."""
    name = name.removeprefix("void ").replace("(anonymous namespace)::", "")
    return name.partition("(")[0] or name


def _size(size: Sequence[int]) -> str:
    """A grid or block in words, without the dimensions that are 1."""
    return " × ".join(f"{n:,}" for n in size if n != 1) or "1"
