"""Takes every number as it stands, whatever its unit."""

from __future__ import annotations

CAUGHT_BY = "test_recorded_counters"
SAYS = "the second row of the file says in which unit"


def _number(cell: str | None, unit: str | None) -> float | None:
    try:
        value = float((cell or "").replace(",", ""))
    except ValueError:
        return None
    return value if math.isfinite(value) else None
