"""The data that the page's script draws the timeline from: arrays of whole numbers, packed as base64."""

from __future__ import annotations

import base64
import math
import sys
from array import array
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

from profiling_lab import units
from profiling_lab.reports.model import KINDS, CaptureSection, Lane, MetricSeries, clean_text


def payload(sections: Sequence[CaptureSection]) -> dict[str, Any]:
    """The kinds of rectangles, and of each section its lanes, series and gaps."""
    return {
        "kinds": [{"id": kind, "label": label} for kind, label in KINDS.items()],
        "sections": [_section_data(section) for section in sections],
    }


def _section_data(section: CaptureSection) -> dict[str, Any]:
    origin = section.window_ns[0]
    texts: dict[tuple[str, str, str], int] = {}
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
        "names": [[clean_text(text) for text in told] for told in texts],
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


def _lane_data(lane: Lane, origin: int, texts: dict[tuple[str, str, str], int]) -> dict[str, Any]:
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
        "rank": lane.rank,
        "count": len(starts),
        "start": _packed(starts),
        "end": _packed(ends),
        # The latest end so far lets a search find what began early and still runs.
        "reach": _packed(list(accumulate(ends, max))),
        "kind": _packed([numbers[lane.kinds[i]] for i in order]),
        "name": _packed(
            [
                texts.setdefault(
                    (
                        lane.names[i],
                        lane.details[i] if lane.details else "",
                        lane.shapes[i] if lane.shapes else "",
                    ),
                    len(texts),
                )
                for i in order
            ]
        ),
        "launch": _packed([lane.launches[i] for i in order] if any(lane.launches) else []),
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
