"""Takes a number with commas between thousands for none."""

from __future__ import annotations

CAUGHT_BY = "test_numbers_as_the_tool_writes_them"
SAYS = "time_ns is None"


def _number(cell: str | None, unit: str | None) -> float | None:
    try:
        value = float(cell or "")
    except ValueError:
        return None
    return value * UNITS.get((unit or "").partition("/")[0], 1) if math.isfinite(value) else None
