"""Gives the pairs of frames as they come."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

CAUGHT_BY = "test_breaks_of_a_drawn_trace"
SAYS = "to_frame"


def graph_breaks(capture: str) -> list[dict[str, Any]]:
    events = _trace(capture)["events"]
    steps = _steps(events, capture)
    regions = [(event, *found) for event in events if (found := _region(event))]
    if not regions:
        raise CaptureError(f"{capture}: holds no Torch-Compiled Region; nothing ran compiled")
    breaks: dict[tuple[int, int], list[str | None]] = defaultdict(list)
    for inner, to_frame, _ in regions:
        around = [
            frame
            for outer, frame, _ in regions
            if outer is not inner
            and outer["thread"] == inner["thread"]
            and outer["start_ns"] <= inner["start_ns"]
            and inner["end_ns"] <= outer["end_ns"]
        ]
        if around and _step_of(steps, inner["start_ns"]) is not None:
            breaks[around[-1], to_frame].append(_resumed_at(inner, events))
    return [
        {
            "from_frame": source,
            "to_frame": target,
            "count": len(places),
            "where": next((place for place in places if place), None),
        }
        for (source, target), places in breaks.items()
    ]
