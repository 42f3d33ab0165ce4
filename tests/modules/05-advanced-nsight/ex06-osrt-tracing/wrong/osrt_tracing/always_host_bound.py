from __future__ import annotations

CAUGHT_BY = "test_verdict_on_drawn_threads"
SAYS = "says host_bound"


def os_verdict(capture: str, floor_ratio: float = 0.05) -> Finding:
    if not 0 < floor_ratio < 1:
        raise ValueError("floor_ratio")
    waits = costly_waits(capture)
    first, last = _read(capture).window
    idle = {f"{kind}_ns": 0 for kind in WAITING}
    for row in waits:
        idle[f"{row['class']}_ns"] += row["idle_ns"]
    evidence = {"recoverable_ns": sum(idle.values()), "window_ns": last - first} | idle
    evidence["held_ns"] = holder(capture)["overlap_ns"]
    return Finding("host_bound", "device:0", evidence, f"take {waits[0]['name']} away")
