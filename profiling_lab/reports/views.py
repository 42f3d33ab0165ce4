"""What the page's template is given: texts that are clean, places as ns from the window's start."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any

from profiling_lab import units
from profiling_lab.reports.model import (
    KINDS,
    SHARE_KINDS,
    CaptureSection,
    Place,
    Table,
    clean_text,
    evidence_of,
    grouped,
    short_subject,
)
from profiling_lab.reports.places import places_of

if TYPE_CHECKING:
    from profiling_lab.findings import Finding

SPELLED = {"gpu": "GPU", "cuda": "CUDA", "cpu": "CPU", "sm": "SM", "mhz": "MHz", "mib": "MiB"}
LONGEST_SHOWN = 10
GAPS_SHOWN = 5
# Looks for shares of time whose caller names no kind, the least likely to mean something else first.
SPARE_LOOKS = ("graph", "api", "memset", "copy_device", "wait", "nvtx", "copy_out", "copy_in")


def view(index: int, section: CaptureSection) -> dict[str, Any]:
    """A section as the template wants it: texts, and places as ns from the window's start."""
    origin = section.window_ns[0]
    gaps = sorted(section.gaps, key=lambda gap: gap.start_ns - gap.end_ns)
    return {
        "index": index,
        "name": clean_text(section.name),
        "claim": clean_text(section.claim),
        "first": clean_text(section.first),
        "begin_with": clean_text(section.begin_with),
        "rests_on": [clean_text(line, 2000) for line in section.rests_on],
        "duration_ns": section.duration_ns,
        "drawn": bool(section.duration_ns or section.lanes or section.metrics),
        "devices": sorted({clean_text(name) for name in section.devices.values()}),
        "busy": [
            {
                "device": device,
                "ns": busy,
                "share": units.format_share(busy, section.duration_ns),
            }
            for device, busy in sorted(section.busy_ns.items())
        ],
        "shares": section.shares(),
        "shares_note": clean_text(section.shares_note, 400),
        "findings": [_group_view(index, section, group) for group in grouped(section.findings)],
        "tables": [
            _table_view(index, number, section, table)
            for number, table in enumerate(section.tables)
        ],
        "facts": section.facts,
        "gaps": [
            {
                "device": gap.device,
                "start_ns": gap.start_ns - origin,
                "end_ns": gap.end_ns - origin,
                "duration_ns": gap.end_ns - gap.start_ns,
                "note": clean_text(gap.note).replace("_", " "),
            }
            for gap in gaps[:GAPS_SHOWN]
        ],
        "gap_count": len(gaps),
        "drawings": section.drawings,
        "lanes": [
            {
                "group": clean_text(lane.group),
                "label": clean_text(lane.label),
                "count": len(lane.start_ns),
                "longest_ns": max(map(_minus, lane.end_ns, lane.start_ns), default=None),
            }
            for lane in section.lanes
        ],
        "longest": _longest(section),
        "provenance": list(_flat(section.provenance)),
        "summary": _provenance_summary(section.provenance),
    }


def _minus(end: int, start: int) -> int:
    return end - start


def _group_view(index: int, section: CaptureSection, group: Sequence[Finding]) -> dict[str, Any]:
    """Equal findings as one; members: of several, each with its evidence as cells of a table."""
    views = [_finding_view(index, section, finding) for finding in group]
    if len(group) == 1:
        return views[0] | {"members": []}
    each = [evidence_of(finding) for finding in group]
    columns = [(label, unit) for label, _, unit in each[0]]
    told = [{(label, unit): value for label, value, unit in one} for one in each]
    members = [
        {
            "name": short_subject(finding),
            "links": view["links"],
            "places": view["places"],
            "cells": [(of.get(column), column[1]) for column in columns],
        }
        for finding, view, of in zip(group, views, told, strict=True)
    ]
    kinds = {finding.subject.partition(":")[0] for finding in group}
    kind = f"{kinds.pop()}s" if len(kinds) == 1 else "times"
    of_all = {"subject": f"{len(group)} {kind}", "places": [], "links": []}
    return views[0] | of_all | {"members": members, "columns": columns}


def _finding_view(index: int, section: CaptureSection, finding: Finding) -> dict[str, Any]:
    links = [
        (clean_text(words), target) for words, target in section.links.get(finding.subject, ())
    ]
    for number, table in enumerate(section.tables):
        if finding.subject in table.subjects:
            row = list(table.subjects).index(finding.subject)
            links.append((f"Row in “{clean_text(table.topic)}”", _row_id(index, number, row)))
    return {
        "category": clean_text(finding.category),
        "subject": clean_text(finding.subject),
        "evidence": evidence_of(finding),
        "recommendation": clean_text(finding.recommendation, 2000),
        "places": [_placed(section, place) for place in places_of(section, finding)],
        "links": links,
    }


def _placed(section: CaptureSection, place: Place) -> dict[str, Any]:
    """A place as the template wants it: ns from the window's start; lane -1 for the whole height."""
    origin, end = section.window_ns
    return {
        "label": clean_text(place.label),
        "start": min(max(place.start_ns, origin), end) - origin,
        "end": min(max(place.end_ns, origin), end) - origin,
        "lane": -1 if place.lane is None else place.lane,
    }


def _row_id(index: int, number: int, row: int) -> str:
    return f"row-{index}-{number}-{row}"


def _table_view(index: int, number: int, section: CaptureSection, table: Table) -> dict[str, Any]:
    """A table as the template wants it; a row's cells are (value, unit), its place may be None."""
    wanted = {finding.subject for finding in section.findings}
    rows = []
    # A column in which no row has a value says nothing.
    used = [
        not unit or not table.rows or any(row[at] is not None for row in table.rows)
        for at, (_, unit) in enumerate(table.columns)
    ]
    for at, row in enumerate(table.rows):
        place = table.places[at] if at < len(table.places) else None
        subject = table.subjects[at] if at < len(table.subjects) else None
        units_of = (unit for _, unit in table.columns)
        cells = compress(zip(row, units_of, strict=True), used)
        rows.append(
            {
                # Only what something refers to needs a name of its own.
                "id": _row_id(index, number, at) if subject in wanted else "",
                "cells": [(value if unit else clean_text(value), unit) for value, unit in cells],
                "title": clean_text((subject or "").partition(":")[2] or row[0]),
                "place": _placed(section, place) if place else None,
            }
        )
    return {
        "topic": table.topic,
        "title": clean_text(table.title),
        "note": clean_text(table.note, 400),
        "columns": [(clean_text(head), unit) for head, unit in compress(table.columns, used)],
        "rows": rows,
        "has_places": any(row["place"] for row in rows),
    }


def _longest(section: CaptureSection) -> list[dict[str, Any]]:
    """The longest operations on the devices: what a reader of the table needs of the drawing."""
    rows = (
        (end - start, start, index, at)
        for index, lane in enumerate(section.lanes)
        if lane.device is not None
        for at, (start, end) in enumerate(zip(lane.start_ns, lane.end_ns, strict=True))
    )
    out = []
    for duration, start, index, at in heapq.nlargest(LONGEST_SHOWN, rows):
        lane = section.lanes[index]
        out.append(
            {
                "name": clean_text(lane.names[at]),
                "detail": clean_text(lane.details[at]) if lane.details else "",
                "kind": KINDS[lane.kinds[at]],
                "lane": index,
                "where": clean_text(f"{lane.group}, {lane.label}"),
                "start_ns": start - section.window_ns[0],
                "end_ns": start + duration - section.window_ns[0],
                "duration_ns": duration,
            }
        )
    return out


def _flat(mapping: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    """A nested mapping as (label, text), its inner keys behind the outer ones."""
    for key, value in mapping.items():
        words = clean_text(key).replace("_", " ").split(" ")
        label = prefix + " ".join(SPELLED.get(word, word) for word in words)
        if isinstance(value, (list, tuple)) and any(isinstance(item, Mapping) for item in value):
            # The index tells several apart; a single one needs none.
            if len(value) == 1 and isinstance(value[0], Mapping):
                value = value[0]
            else:
                value = {str(at): item for at, item in enumerate(value)}
        if isinstance(value, Mapping):
            yield from _flat(value, f"{label}, ")
        elif isinstance(value, (list, tuple)):
            if value:
                yield label, clean_text(", ".join(map(str, value)), 2000)
        elif value not in (None, ""):
            yield label, clean_text(value, 2000)


def _provenance_summary(provenance: Mapping[str, Any]) -> list[str]:
    """What a reader wants first of how it was recorded: GPU, driver, CUDA, tool, date."""

    def text(value: Any, *keys: str) -> str:
        if isinstance(value, Mapping):
            return " ".join(filter(None, (text(value.get(key)) for key in keys)))
        return clean_text(value, 80) if isinstance(value, (str, int, float)) else ""

    gpus = provenance.get("gpu")
    names = [text(gpu, "name") for gpu in (gpus if isinstance(gpus, list) else [gpus])]
    cuda = provenance.get("cuda")
    cuda = text(cuda, "toolkit") or text(cuda, "driver")
    driver = text(provenance.get("driver"))
    parts = [
        f"{count} × {name}" if (count := names.count(name)) > 1 else name
        for name in dict.fromkeys(names)
    ]
    tool = text(provenance.get("tool"), "name", "version")
    parts += [
        f"driver {driver}" if driver else "",
        f"CUDA {cuda}" if cuda else "",
        f"recorded by {tool}" if tool else "",
        text(provenance.get("date")),
    ]
    return [part for part in parts if part]


def looks(sections: Sequence[CaptureSection]) -> dict[str, str]:
    """For each label of a share of time, the look that it has in every bar of the page."""
    looks: dict[str, str] = {}
    for section in sections:
        for share in section.shares():
            kind = share.kind if share.kind in SHARE_KINDS else ""
            looks[share.label] = looks.get(share.label) or kind
    spare = [look for look in SPARE_LOOKS if look not in looks.values()]
    for label, look in looks.items():
        looks[label] = look or (spare.pop(0) if spare else "other")
    return looks


def share_table(views: list[dict[str, Any]], looks: dict[str, str]) -> list[dict[str, Any]]:
    """Rows of the table under the bars: a label, its look, and per section its length and share."""
    rows = []
    for label, look in looks.items():
        cells = []
        for view in views:
            if not view["shares"]:
                continue
            parts = [share.ns for share in view["shares"] if share.label == label]
            total = sum(parts) if parts else None
            cells.append(
                {"ns": total, "share": units.format_share(total, view["duration_ns"])}
                if total is not None
                else None
            )
        rows.append({"label": clean_text(label), "look": look, "cells": cells})
    return rows


def legend(sections: Sequence[CaptureSection]) -> dict[str, str]:
    """The kinds of rectangles that the sections hold, with their labels."""
    used = {kind for section in sections for lane in section.lanes for kind in set(lane.kinds)}
    return {kind: label for kind, label in KINDS.items() if kind in used}
