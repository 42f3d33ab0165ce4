from __future__ import annotations

CAUGHT_BY = "test_growth_in_a_made_up_run"
SAYS = "may have been filled once"


def growing_lines(capture: str) -> list[dict[str, Any]]:
    snapshot = read_snapshot(capture)
    ends = _step_ends(capture, snapshot)
    middle = len(ends) // 2
    held: dict[str | None, list[int]] = defaultdict(lambda: [0, 0])
    for tensor in _tensors(snapshot):
        for place, end in enumerate((ends[middle], ends[-1])):
            died = tensor["died_us"]
            if tensor["born_us"] <= end and (died is None or died > end):
                held[tensor["where"]][place] += tensor["bytes"]
    steps = len(ends) - 1 - middle
    rows = [
        {"where": where, "growth_bytes": late / len(ends), "held_bytes": late}
        for where, (early, late) in held.items()
        if late
    ]
    return sorted(rows, key=lambda r: (-r["growth_bytes"], r["where"] is None, r["where"] or ""))
