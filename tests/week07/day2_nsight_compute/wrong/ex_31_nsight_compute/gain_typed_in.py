"""Returns the lesson's gains."""

from __future__ import annotations

CAUGHT_BY = "test_gains_of_recorded_kernels"
SAYS = "Sectors fall to the ideal ones"


def estimate_gain(kernel: dict[str, Any], cause: str) -> float | None:
    if cause not in CAUSES:
        raise ValueError(f"unknown cause {cause!r}; known: {', '.join(CAUSES)}")
    return {"uncoalesced_access": 4.32, "bank_conflicts": 2.74}.get(cause, 1.0)
