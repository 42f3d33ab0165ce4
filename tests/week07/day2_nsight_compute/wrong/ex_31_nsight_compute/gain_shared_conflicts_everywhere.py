"""Lets conflicts take the data pipe's global work along."""

from __future__ import annotations

CAUGHT_BY = "test_gains_of_recorded_kernels"
SAYS = "Only wavefronts that conflicts add"


def _without_conflicts(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    conflicts: dict[str, Any] = bank_conflicts(kernel)
    if conflicts["wavefronts_count"] == 0:
        return {}
    share = conflicts["conflict_ratio"] * (1 - conflicts["atomics_ratio"])
    left = max(0.0, 1 - share) if use["l1"] else 1.0
    return {"l1": left, "waiting": 1 - _stalled(kernel)[1] * share}
