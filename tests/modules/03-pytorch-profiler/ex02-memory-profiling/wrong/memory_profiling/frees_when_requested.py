from __future__ import annotations

CAUGHT_BY = "test_lifetimes_in_a_made_up_run"
SAYS = "dies in that of its free_completed"


def lifetimes(capture: str) -> list[dict[str, Any]]:
    snapshot = read_snapshot(capture)
    for entry in snapshot["device_traces"][0]:
        # from here on nobody uses it
        if entry["action"] == "free_requested":
            entry["action"] = "free_completed"
        elif entry["action"] == "free_completed":
            entry["action"] = "done"
    phases = _phases(capture, snapshot)

    def phase_at(time_us: int) -> dict[str, Any] | None:
        inside = (p for p in phases if p["start_us"] <= time_us < p["end_us"])
        return next(inside, None)

    sums: dict[tuple[str, str | None, int | None], list[int]] = defaultdict(list)
    for tensor in _tensors(snapshot):
        born = phase_at(tensor["born_us"])
        if born is None:
            continue
        if tensor["died_us"] is None:
            sums[born["name"], None, None].append(tensor["bytes"])
        elif died := phase_at(tensor["died_us"]):
            key = born["name"], died["name"], died["step"] - born["step"]
            sums[key].append(tensor["bytes"])
    rows = [
        {"born": born, "died": died, "steps_later": later, "bytes": sum(sizes), "count": len(sizes)}
        for (born, died, later), sizes in sums.items()
    ]
    return sorted(
        rows,
        key=lambda r: (
            -r["bytes"],
            r["born"],
            r["died"] is None,
            r["died"] or "",
            r["steps_later"] or 0,
        ),
    )
