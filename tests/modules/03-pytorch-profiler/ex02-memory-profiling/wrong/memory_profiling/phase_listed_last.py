from __future__ import annotations

CAUGHT_BY = "test_growth_of_several_lines"
SAYS = "the end of the last step"


def growing_lines(capture: str) -> list[dict[str, Any]]:
    snapshot = read_snapshot(capture)
    end_of = {p["step"]: p["end_us"] for p in _phases(capture, snapshot) if p["step"] >= 0}
    ends = [end_of[step] for step in sorted(end_of)]
    if len(ends) < 4:
        raise CaptureError(f"{capture}: {len(ends)} steps are too few")
    middle = len(ends) // 2
    held: dict[str | None, list[int]] = defaultdict(lambda: [0, 0])
    for tensor in _tensors(snapshot):
        for place, end in enumerate((ends[middle], ends[-1])):
            died = tensor["died_us"]
            if tensor["born_us"] <= end and (died is None or died > end):
                held[tensor["where"]][place] += tensor["bytes"]
    steps = len(ends) - 1 - middle
    rows = [
        {"where": where, "growth_bytes": (late - early) / steps, "held_bytes": late}
        for where, (early, late) in held.items()
        if late > early
    ]
    return sorted(rows, key=lambda r: (-r["growth_bytes"], r["where"] is None, r["where"] or ""))
