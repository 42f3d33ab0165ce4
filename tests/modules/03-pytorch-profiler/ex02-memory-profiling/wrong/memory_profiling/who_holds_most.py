from __future__ import annotations

CAUGHT_BY = "test_verdict_on_several_lines"
SAYS = "does not name the line"


def memory_verdict(capture: str) -> Finding:
    snapshot = read_snapshot(capture)
    phases = _phases(capture, snapshot)
    end = _step_ends(capture, snapshot)[-1]
    lines = growing_lines(capture)
    growth = sum(line["growth_bytes"] for line in lines)
    held = sum(
        tensor["bytes"]
        for tensor in _tensors(snapshot)
        if tensor["born_us"] <= end and (tensor["died_us"] is None or tensor["died_us"] > end)
    )
    first = min(phase["start_us"] for phase in phases)
    last = max(phase["end_us"] for phase in phases)
    growing = growth > GROWTH_FLOOR_BYTES
    where = next((r["where"] for r in requests_by_line(capture) if r["held_bytes"]), None) or "?"
    advice = f"find out who keeps what is allocated at {where}" if growing else "none"
    if abs(growth - GROWTH_FLOOR_BYTES) <= BORDER_RATIO * GROWTH_FLOOR_BYTES:
        advice = f"borderline: {advice}; record more steps"
    return Finding(
        category="memory_growth" if growing else "healthy",
        subject="device:0",
        evidence={
            "growth_bytes": growth,
            "held_bytes": held,
            "steps_count": len(_step_ends(capture, snapshot)),
            "recoverable_ns": 0,
            "window_ns": (last - first) * 1000,
        },
        recommendation=advice,
    )
