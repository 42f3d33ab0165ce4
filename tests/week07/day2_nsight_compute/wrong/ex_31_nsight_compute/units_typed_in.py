"""Returns the lesson's figures of a transpose."""

from __future__ import annotations

CAUGHT_BY = "test_units_of_recorded_kernels"
SAYS = "Per cent over 100"


def unit_use(kernel: dict[str, Any]) -> dict[str, float | None]:
    known = {"dram": 0.12, "l2": 0.81, "l1": 0.50, "issue": 0.02, "pipe": 0.01}
    return {**known, "atomics": 0.0, "adu": 0.01}
