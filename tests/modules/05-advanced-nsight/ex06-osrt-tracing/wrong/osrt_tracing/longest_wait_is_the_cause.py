from __future__ import annotations

CAUGHT_BY = "test_verdict_on_drawn_threads"
SAYS = "recoverable_ns"


def os_verdict(capture: str, floor_ratio: float = 0.05) -> Finding:
    waits = costly_waits(capture)
    first, last = _read(capture).window
    blocked = {f"{kind}_ns": 0 for kind in WAITING}
    for row in waits:
        blocked[f"{row['class']}_ns"] += row["blocked_ns"]
    evidence = {"recoverable_ns": sum(blocked.values()), "window_ns": last - first} | blocked
    evidence["held_ns"] = holder(capture)["overlap_ns"]
    return Finding("host_bound", "device:0", evidence, f"take {waits[0]['name']} away")
