"""Takes a Kbyte for 1,024 bytes."""

from __future__ import annotations

CAUGHT_BY = "test_recorded_kernels_in_base_units"
SAYS = "row of units says"


def _factor(unit: str) -> float:
    above, _, below = unit.strip().lower().replace("second", "s").partition("/")
    factor: float = _NS.get(above, 1)
    found = re.fullmatch(r"([kmgt]?)(?:byte|hz)", above)
    if found:
        factor = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}[found[1]]
    return factor * 1e9 / _NS[below] if below in _NS else factor
