"""Leaves values in the unit of the column."""

from __future__ import annotations

CAUGHT_BY = "test_recorded_kernels_in_base_units"
SAYS = "the row of units says in which unit"


def _factor(unit: str) -> float:
    above, _, below = unit.strip().lower().replace("second", "s").partition("/")
    factor: float = _NS.get(above, 1)
    found = re.fullmatch(r"([kmgt]?)(?:byte|hz)", above)
    if found:
        factor = _PREFIXES[found[1]]
    return 1
    return factor * 1e9 / _NS[below] if below in _NS else factor
