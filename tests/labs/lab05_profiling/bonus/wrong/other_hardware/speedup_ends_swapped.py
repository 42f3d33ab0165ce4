"""The lowest speed-up from the shortest times."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_from_one_device_to_another"
SAYS = "from the sums of the parts"


def speedup_interval(
    costs: Costs, measured_ns: dict[str, float], dtype: str, from_device: str, to_device: str
) -> dict[str, Any]:
    parts: dict[str, list[float]] = {}
    fixed = 0.0
    target = predict_on(costs, dtype, [to_device])[0]["parts"]
    *rows, whole = held_against(costs, measured_ns, dtype, from_device)
    for row in rows:
        measured, old, new = row["measured_ns"], row["floor_ns"], target[row["part"]]["floor_ns"]
        ends = {"scales": measured * new / old, "stays": new + (measured - old)}
        if row["verdict"] == "latency":
            del ends["scales"]
            fixed += measured
        elif row["verdict"] == "below":
            del ends["stays"]
        parts[row["part"]] = [min(ends.values()), max(ends.values())]
    low, high = (sum(ends[side] for ends in parts.values()) for side in (0, 1))
    return {
        "parts": parts,
        "low_ns": low,
        "high_ns": high,
        "low_speedup_ratio": whole["measured_ns"] / low,
        "high_speedup_ratio": whole["measured_ns"] / high,
        "fixed_ratio": fixed / whole["measured_ns"],
    }
