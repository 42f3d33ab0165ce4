"""Lists what is in use in the end."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_holders_of_a_history"
SAYS = "not at the peak"


def held_at_peak(capture: str, device: int = 0) -> list[dict[str, Any]]:
    moments, blocks = _history(capture, device)
    place = moments[-1]["place"]
    held: dict[str | None, list[int]] = defaultdict(list)
    for block in blocks:
        if block["from_place"] <= place and (
            block["to_place"] is None or block["to_place"] > place
        ):
            held[_allocating_line(block["frames"])].append(block["bytes"])
    rows = [
        {"where": where, "bytes": sum(sizes), "count": len(sizes)} for where, sizes in held.items()
    ]
    return sorted(rows, key=lambda r: (-r["bytes"], r["where"] is None, r["where"] or ""))
