"""Takes the row of least memory among those that fit."""

from __future__ import annotations

import statistics
from operator import truediv
from typing import Any

CAUGHT_BY = "test_generated_choice"
SAYS = "time is"


def choose_segments(capture: str, budget_bytes: int) -> dict[str, Any] | None:
    rows = experiment(capture, "checkpoint", "peak_bytes", "segment_count")
    base = rows[0]
    found = []
    for row in rows:
        if row["peak_bytes"] > budget_bytes or row["name"] == f"{base['name']} again":
            continue
        slowdowns = map(truediv, row["step_time"], base["step_time"])
        found.append(
            {
                "segment_count": row["segment_count"],
                "peak_bytes": row["peak_bytes"],
                "step_ns": float(statistics.median(row["step_time"])),
                "slowdown_ratio": statistics.median(slowdowns),
            }
        )
    return min(found, key=lambda row: row["peak_bytes"], default=None)
