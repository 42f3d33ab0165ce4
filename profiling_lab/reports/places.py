"""Where on the timeline a finding can be seen.

Nothing is decided here: for the category that a finding names, the longest of what it speaks of is
looked up among the rectangles and gaps of the section.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from profiling_lab.analysis.columns import LOADER
from profiling_lab.findings import CATEGORIES
from profiling_lab.reports.model import CaptureSection, Lane, Place

if TYPE_CHECKING:
    from profiling_lab.findings import Finding

SETUP = "set-up"  # as `analysis.spent` calls it, which a course without the engine lacks
ALLOCATION = re.compile(r"cu(da)?(Mem|Host)?(Malloc|Alloc|Free|Create|Host(Alloc|Register))", re.I)
COMPILATION = re.compile(r"compile_inner|_compile\.|\bcompile", re.I)

# category: (kinds of rectangle, what its name must hold). The words for the place stand in the category's row.
_EVIDENCE: dict[str, tuple[frozenset[str], re.Pattern[str] | None]] = {
    "sync_bound": (frozenset({"wait"}), None),
    "allocation_bound": (frozenset({"api", "wait"}), ALLOCATION),
    "transfer_bound": (frozenset({"copy_in", "copy_out"}), None),
    "input_bound": (frozenset({"operator", "nvtx", "os"}), LOADER),
    "recompilation": (frozenset({"operator", "nvtx"}), COMPILATION),
    **dict.fromkeys(
        ("communication_bound", "rank_imbalance", "pipeline_bubble"),
        (frozenset({"collective"}), None),
    ),
}


def places_of(section: CaptureSection, finding: Finding) -> list[Place]:
    """Where to look for a finding, the most telling place first; empty if it is nowhere to be seen.

    The longest of what the category speaks of, the longest gap of its device, what the section's
    `places` say of the subject; if there is none of them the subject by name: a range's first
    occurrence, a kernel's longest, all of a stream or device.
    """
    if not section.duration_ns:
        return []
    found: list[Place | None] = []
    row = CATEGORIES.get(finding.category)  # what a file names may be none
    lanes = _lanes_of(section, finding.subject)
    if row is not None and finding.category in _EVIDENCE:
        kinds, pattern = _EVIDENCE[finding.category]
        # A device's subject says nothing about the host's lanes.
        on_device = "collective" in kinds or "copy_in" in kinds
        # Of ranks it is not the late one that is seen waiting.
        on_device = on_device and finding.category != "rank_imbalance"
        among = lanes if on_device and lanes else range(len(section.lanes))
        found.append(_longest(section, row.place, among, _is(kinds, pattern)))
    if row is not None and row.in_gaps:
        found.append(_longest_gap(section, finding.subject))
    if finding.category == "memory_growth":
        found.append(_memory(section))
    found.append(section.places.get(finding.subject))
    if not any(found):
        found.append(_subject(section, finding.subject, lanes))
    return [place for place in found if place is not None]


def _is(kinds: frozenset[str], pattern: re.Pattern[str] | None) -> Callable[[str, str, str], bool]:
    return lambda kind, name, detail: (
        kind in kinds and (pattern is None or bool(pattern.search(name) or pattern.search(detail)))
    )


def _lanes_of(section: CaptureSection, subject: str) -> list[int]:
    """The lanes that a stream or a device has; empty for other subjects."""
    kind, _, name = subject.partition(":")
    lanes = enumerate(section.lanes)
    if kind == "stream":
        return [index for index, lane in lanes if lane.key == subject]
    if kind == "device":
        return [index for index, lane in lanes if str(lane.device) == name]
    if kind == "rank":
        return [index for index, lane in lanes if lane.device is not None and lane.rank == name]
    return []


def _subject(section: CaptureSection, subject: str, lanes: list[int]) -> Place | None:
    kind, _, name = subject.partition(":")
    if lanes:
        # A device is several lanes, and no single one is marked.
        return Place("", *section.window_ns, lanes[0] if len(lanes) == 1 else None)
    everywhere = range(len(section.lanes))
    if kind == "kernel":
        return _longest(section, "", everywhere, _named("kernel", name))
    if kind == "range":
        return _first(section, everywhere, _named("nvtx", name))
    return None


def _named(kind: str, name: str) -> Callable[[str, str, str], bool]:
    return lambda of_kind, text, detail: of_kind == kind and name in (text, detail)


def _rows(lane: Lane):
    details = lane.details or [""] * len(lane.names)
    return zip(lane.start_ns, lane.end_ns, lane.kinds, lane.names, details, strict=True)


def _longest(
    section: CaptureSection, words: str, among: range | list[int], fits: Callable[..., bool]
) -> Place | None:
    best: Place | None = None
    for index in among:
        for start, end, kind, name, detail in _rows(section.lanes[index]):
            if (best is None or end - start > best.end_ns - best.start_ns) and fits(
                kind, name, detail
            ):
                best = Place(f"{words}: {name}" if words else "", start, end, index)
    return best


def _first(
    section: CaptureSection, among: range | list[int], fits: Callable[..., bool]
) -> Place | None:
    best: Place | None = None
    for index in among:
        for start, end, kind, name, detail in _rows(section.lanes[index]):
            if fits(kind, name, detail):
                if best is None or start < best.start_ns:
                    best = Place("", start, end, index)
                break
    return best


def _longest_gap(section: CaptureSection, subject: str) -> Place | None:
    kind, _, name = subject.partition(":")
    gaps = [gap for gap in section.gaps if kind != "device" or str(gap.device) == name]
    if not gaps:
        return None
    # What is set-up above all is not what the finding is of.
    gap = max(gaps, key=lambda gap: (gap.note != SETUP, gap.end_ns - gap.start_ns))
    return Place(f"Longest idle gap of GPU {gap.device}", gap.start_ns, gap.end_ns)


def _memory(section: CaptureSection) -> Place | None:
    if not any(series.key == "memory" for series in section.metrics):
        return None
    return Place("Memory over the whole window", *section.window_ns)
