"""Says 0 where there is no number."""

from __future__ import annotations

CAUGHT_BY = "test_made_counters"
SAYS = "expected None"


def _number(cell: str | None, unit: str | None) -> float | None:
    try:
        value = float((cell or "").replace(",", ""))
    except ValueError:
        return 0.0
    return value * UNITS.get((unit or "").partition("/")[0], 1) if math.isfinite(value) else 0.0
