"""One HTML page that holds everything it needs.

Names in it come from profiled programs and are not trusted: the template escapes all of them, the
data block is JSON that cannot close its own element, scripts set text and never markup, and the
page's policy lets no script run but the two that are shipped here, and nothing be fetched.
"""

from __future__ import annotations

import base64
import hashlib
import heapq
import json
import math
import os
import re
import sys
from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from profiling_lab import units
from profiling_lab.atomic_files import replaced
from profiling_lab.reports.model import (
    KINDS,
    SHARE_KINDS,
    CaptureSection,
    Comparison,
    Lane,
    MetricSeries,
    Place,
    Table,
    clean_text,
    sentence,
)
from profiling_lab.reports.places import places_of

if TYPE_CHECKING:
    from profiling_lab.findings import Finding

HERE = Path(__file__).parent
UPLOT = HERE / "vendor" / "uplot"

SPELLED = {"gpu": "GPU", "cuda": "CUDA", "cpu": "CPU", "sm": "SM", "mhz": "MHz", "mib": "MiB"}
LONGEST_SHOWN = 10
GAPS_SHOWN = 5
FINDINGS_SHOWN = 3  # of a capture; the rest is folded away
# Looks for shares of time whose caller names no kind, the least likely to mean something else first.
SPARE_LOOKS = ("graph", "api", "memset", "copy_device", "wait", "nvtx", "copy_out", "copy_in")


def write_report(
    path: str | os.PathLike[str],
    sections: Sequence[CaptureSection],
    *,
    title: str,
    comparison: Comparison | None = None,
) -> Path:
    """Write the report to `path` (folders are made) and return the path.

    The page replaces an older one in one step, so a reader never sees half of it. Raises OSError
    where the place cannot be written.
    """
    return write(path, render_report(sections, title=title, comparison=comparison))


def write(path: str | os.PathLike[str], page: str) -> Path:
    """Write a page to `path` in one step (folders are made) and return the path."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replaced(target) as draft:
        draft.write_text(page, encoding="utf-8")
    return target


def render_report(
    sections: Sequence[CaptureSection], *, title: str, comparison: Comparison | None = None
) -> str:
    """The page as text."""
    uplot_script, uplot_style = _vendored()
    views = [_view(index, section) for index, section in enumerate(sections)]
    looks = _looks(sections)
    return render(
        "report.html.j2",
        ["theme.js", "report.js"],
        ["report.css"],
        title=clean_text(title),
        sections=views,
        comparison=comparison,
        looks=looks,
        shares=_share_table(views, looks),
        charts=[view for view in views if view["drawn"]],
        longest_ns=max((section.duration_ns for section in sections), default=0),
        kinds=_legend(sections),
        topics=list(dict.fromkeys(table.topic for one in sections for table in one.tables)),
        findings_shown=FINDINGS_SHOWN,
        has_timeline=any(section.lanes or section.metrics for section in sections),
        data=_script_json(_payload(sections)),
        uplot_script=uplot_script,
        uplot_style=uplot_style,
    )


def render(template: str, scripts: Sequence[str], styles: Sequence[str], **given: Any) -> str:
    """A page from a template of this folder, as text; its policy lets no other script run.

    scripts, styles: files of this folder, given to the template by their name ("theme.js" as
    `theme_js`). given: the rest of what the template names; a value that ends in `_script` may run too.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(HERE / "templates"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters.update(
        clean=clean_text,
        quantity=lambda value, unit: clean_text(units.format_quantity(value, unit)),
        full=lambda value, unit: clean_text(units.full_value(value, unit)),
        ns=units.format_ns,
        words=lambda slug: clean_text(str(slug)).replace("_", " "),
        sentence=sentence,
    )
    files = {
        name.replace(".", "_"): (HERE / "templates" / name).read_text(encoding="utf-8")
        for name in (*scripts, *styles)
    }
    allowed = [files[name.replace(".", "_")] for name in scripts]
    allowed += [text for name, text in given.items() if name.endswith("_script")]
    page = environment.get_template(template).render(policy=_policy(*allowed), **files, **given)
    # Text that UTF-8 cannot hold must not stop the report.
    return page.encode("utf-8", "replace").decode("utf-8")


# -- what the template shows ---------------------------------------------------------------------


def _view(index: int, section: CaptureSection) -> dict[str, Any]:
    """A section as the template wants it: texts, and places as ns from the window's start."""
    origin = section.window_ns[0]
    gaps = sorted(section.gaps, key=lambda gap: gap.start_ns - gap.end_ns)
    return {
        "index": index,
        "name": clean_text(section.name),
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
        "findings": [_finding_view(index, section, finding) for finding in section.findings],
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


def _finding_view(index: int, section: CaptureSection, finding: Finding) -> dict[str, Any]:
    evidence = []
    for key, value in finding.evidence.items():
        label, value, unit = units.evidence(clean_text(key), value)
        evidence.append((label, value if units.is_number(value) else clean_text(value), unit))
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
        "evidence": evidence,
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
    for at, row in enumerate(table.rows):
        place = table.places[at] if at < len(table.places) else None
        subject = table.subjects[at] if at < len(table.subjects) else None
        cells = zip(row, (unit for _, unit in table.columns), strict=True)
        rows.append(
            {
                # Only what something refers to needs a name of its own.
                "id": _row_id(index, number, at) if subject in wanted else "",
                "cells": [(value if unit else clean_text(value), unit) for value, unit in cells],
                "place": _placed(section, place) if place else None,
            }
        )
    return {
        "topic": table.topic,
        "title": clean_text(table.title),
        "note": clean_text(table.note, 400),
        "columns": [(clean_text(heading), unit) for heading, unit in table.columns],
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


def _looks(sections: Sequence[CaptureSection]) -> dict[str, str]:
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


def _share_table(views: list[dict[str, Any]], looks: dict[str, str]) -> list[dict[str, Any]]:
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


def _legend(sections: Sequence[CaptureSection]) -> dict[str, str]:
    used = {kind for section in sections for lane in section.lanes for kind in set(lane.kinds)}
    return {kind: label for kind, label in KINDS.items() if kind in used}


# -- the data of the timeline --------------------------------------------------------------------


def _payload(sections: Sequence[CaptureSection]) -> dict[str, Any]:
    return {
        "kinds": [{"id": kind, "label": label} for kind, label in KINDS.items()],
        "sections": [_section_data(section) for section in sections],
    }


def _section_data(section: CaptureSection) -> dict[str, Any]:
    origin = section.window_ns[0]
    texts: dict[tuple[str, str], int] = {}
    lanes = [_lane_data(lane, origin, texts) for lane in section.lanes]
    series = []
    for metric in section.metrics:
        order = sorted(range(len(metric.timestamp_ns)), key=metric.timestamp_ns.__getitem__)
        series.append(
            {
                "group": clean_text(metric.group),
                "label": clean_text(metric.label),
                "unit": clean_text(metric.unit),
                "maximum": metric.maximum or 1,
                "top": _top(metric),
                "holds": metric.holds_on,
                "time": _packed([metric.timestamp_ns[i] - origin for i in order]),
                "value": _packed_floats([metric.values[i] for i in order]),
            }
        )
    gaps: dict[int, list[tuple[int, int]]] = {}
    for gap in section.gaps:
        gaps.setdefault(gap.device, []).append((gap.start_ns - origin, gap.end_ns - origin))
    return {
        "name": clean_text(section.name),
        "duration": section.duration_ns,
        "names": [[clean_text(name), clean_text(detail)] for name, detail in texts],
        "lanes": lanes,
        "series": series,
        "gaps": {
            f"GPU {device}": {
                "start": _packed([start for start, _ in sorted(spans)]),
                "end": _packed([end for _, end in sorted(spans)]),
            }
            for device, spans in gaps.items()
        },
        "notes": {clean_text(group): clean_text(note) for group, note in section.notes.items()}
        | {
            f"GPU {device}": f"busy {units.format_share(busy, section.duration_ns)}"
            for device, busy in section.busy_ns.items()
        },
        "devices": {f"GPU {d}": clean_text(name) for d, name in section.devices.items()},
    }


def _top(metric: MetricSeries) -> str:
    """What the upper edge of a series stands for."""
    if metric.unit == "pct":
        return f"{metric.maximum:g}%"
    return clean_text(units.format_quantity(metric.maximum, metric.unit))


def _lane_data(lane: Lane, origin: int, texts: dict[tuple[str, str], int]) -> dict[str, Any]:
    order: Sequence[int] = range(len(lane.start_ns))
    if any(a > b for a, b in zip(lane.start_ns, lane.start_ns[1:], strict=False)):
        order = sorted(order, key=lane.start_ns.__getitem__)
    starts = [int(lane.start_ns[i]) - origin for i in order]
    ends = [int(lane.end_ns[i]) - origin for i in order]
    numbers = {kind: at for at, kind in enumerate(KINDS)}
    return {
        "group": clean_text(lane.group),
        "label": clean_text(lane.label),
        "device": lane.device,
        "count": len(starts),
        "start": _packed(starts),
        "end": _packed(ends),
        # The latest end so far lets a search find what began early and still runs.
        "reach": _packed(list(accumulate(ends, max))),
        "kind": _packed([numbers[lane.kinds[i]] for i in order]),
        "name": _packed(
            [
                texts.setdefault(
                    (lane.names[i], lane.details[i] if lane.details else ""), len(texts)
                )
                for i in order
            ]
        ),
    }


def _packed(values: Sequence[int]) -> dict[str, str]:
    """Whole numbers as base64 of the smallest little-endian array that holds them exactly."""
    low, high = min(values, default=0), max(values, default=0)
    if low >= 0 and high < 1 << 8:
        code, kind = "B", "Uint8Array"
    elif low >= 0 and high < 1 << 16:
        code, kind = "H", "Uint16Array"
    elif low >= 0 and high < 1 << 32:
        code, kind = "I", "Uint32Array"
    else:
        code, kind = "d", "Float64Array"  # exact for whole numbers up to 2**53 ns: 104 days
    return {"type": kind, "data": _base64(array(code, values))}


def _packed_floats(values: Sequence[float]) -> dict[str, str]:
    finite = [float(value) if math.isfinite(value) else 0.0 for value in values]
    return {"type": "Float32Array", "data": _base64(array("f", finite))}


def _base64(values: array) -> str:
    if sys.byteorder == "big":
        values.byteswap()
    return base64.b64encode(values.tobytes()).decode("ascii")


def _script_json(data: Any) -> Any:
    """JSON that is safe inside a script element, whatever its strings hold."""
    from markupsafe import Markup

    text = json.dumps(data, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for char in "<>&":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)


# -- what is shipped in the page -----------------------------------------------------------------


def _vendored() -> tuple[str, str]:
    """uPlot's script and style. Its banner, an address, gives way to its whole licence."""
    script = (UPLOT / "uPlot.iife.min.js").read_text(encoding="utf-8")
    script = re.sub(r"\A/\*!.*?\*/\s*", "", script, flags=re.DOTALL)
    licence = (UPLOT / "LICENSE").read_text(encoding="utf-8").replace("*/", "* /")
    style = (UPLOT / "uPlot.min.css").read_text(encoding="utf-8")
    return f"/*! uPlot 1.6.32\n{licence}*/\n{script}", style


def _policy(*scripts: str) -> str:
    """The page's content security policy: these scripts, its own styles, and nothing else."""
    hashes = " ".join(
        "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
        for text in scripts
    )
    return (
        f"default-src 'none'; script-src {hashes}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )
