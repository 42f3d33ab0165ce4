"""Puts blocks of no line before lines that hold the same."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

CAUGHT_BY = "test_lines_of_holders"
SAYS = "z.py:1 h"


def held_at_peak(capture: str, device: int = 0) -> list[dict[str, Any]]:
    place = peak_memory(capture, device)["place"]
    _, blocks = _history(capture, device)
    held: dict[str | None, list[int]] = defaultdict(list)
    for block in blocks:
        if block["from_place"] <= place and (
            block["to_place"] is None or block["to_place"] > place
        ):
            held[_allocating_line(block["frames"])].append(block["bytes"])
    rows = [
        {"where": where, "bytes": sum(sizes), "count": len(sizes)} for where, sizes in held.items()
    ]
    return sorted(rows, key=lambda r: (-r["bytes"], r["where"] or ""))
