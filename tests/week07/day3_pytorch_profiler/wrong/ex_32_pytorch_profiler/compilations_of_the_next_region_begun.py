"""Takes a region that began while the compilation still ran for what it compiled."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_compilations_of_a_drawn_trace"
SAYS = "The region that follows a compilation"


def recompilations(capture: str) -> list[dict[str, Any]]:
    events = _trace(capture)["events"]
    steps = _steps(events, capture)
    out = []
    until: dict[Any, int] = {}
    for event in events:
        if event["kind"] != "operator" or event["name"] != COMPILATION:
            continue
        nested = event["start_ns"] < until.get(event["thread"], event["start_ns"])
        until[event["thread"]] = max(until.get(event["thread"], 0), event["end_ns"])
        number = _step_of(steps, event["start_ns"])
        if nested or number is None:
            continue
        region = next(
            (
                e
                for e in events
                if _region(e)
                and e["thread"] == event["thread"]
                and e["start_ns"] >= event["start_ns"]
            ),
            None,
        )
        frame, version = _region(region) or (None, None) if region else (None, None)
        functions = _functions_inside(region, events) if region else iter(())
        first = next(iter(functions), None)
        duration_ns = event["end_ns"] - event["start_ns"]
        step_ns = next(end - start for n, start, end in steps if n == number)
        out.append(
            {
                "step": number,
                "frame": frame,
                "version": version,
                "where": f"{first[0]}:{first[1]} {first[2]}" if first else None,
                "duration_ns": duration_ns,
                "step_ratio": duration_ns / step_ns,
            }
        )
    return out
