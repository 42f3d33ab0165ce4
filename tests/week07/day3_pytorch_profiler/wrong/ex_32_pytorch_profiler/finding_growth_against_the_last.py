"""Compares growth with what there is in the end."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_growth_near_its_floor"
SAYS = "memory_growth"


def _growth_finding(capture: str, trace: dict[str, Any], subject: str) -> Finding | None:
    device = int(subject.removeprefix("device:"))
    ends = _step_end_bytes(trace, _steps(trace["events"], capture), device)
    if len(ends) < 2 or None in ends:
        return None
    growth = memory_growth(capture, device)
    if growth["growth_bytes"] <= GROWTH_FLOOR_RATIO * ends[-1]:
        return None
    evidence = {"growth_bytes": growth["growth_bytes"], "step_end_bytes": ends[-1]}
    for properties in trace["devices"] or []:
        if properties.get("id") == device and "totalGlobalMem" in properties:
            free_bytes = properties["totalGlobalMem"] - ends[-1]
            evidence["steps_left_count"] = free_bytes // growth["growth_bytes"]
    where = f" ({growth['where']})" if growth["where"] else ""
    return Finding("memory_growth", subject, evidence, _RECOMMENDATIONS["memory_growth"] + where)
