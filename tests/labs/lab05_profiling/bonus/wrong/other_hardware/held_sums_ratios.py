"""Gives the longest part instead of all together."""

from __future__ import annotations

from typing import Any

from profiling_lab import devices

CAUGHT_BY = "test_below_near_and_far_above"
SAYS = "of sum is"


def held_against(
    costs: Costs, measured_ns: dict[str, float], dtype: str, device_name: str
) -> list[dict[str, Any]]:
    _check_measured(costs, measured_ns)
    device = devices.get(device_name)
    floors = {part: _floor(cost, device, dtype)["floor_ns"] for part, cost in costs.items()}
    pairs = [(part, floors[part], measured_ns[part]) for part in costs]
    pairs.append(("sum", sum(floors.values()), max(measured_ns.values())))
    return [
        {
            "part": part,
            "floor_ns": floor,
            "measured_ns": measured,
            "excess_ratio": measured / floor - 1,
            "verdict": _verdict(floor, measured),
        }
        for part, floor, measured in pairs
    ]
