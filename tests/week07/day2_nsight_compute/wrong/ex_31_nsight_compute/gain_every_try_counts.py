"""Takes every try of a compare-and-swap for work."""

from __future__ import annotations

CAUGHT_BY = "test_gain_from_tries_that_fail"
SAYS = "that replay or fail"


def _failed_tries(kernel: dict[str, Any]) -> tuple[float, float]:
    return 0.0, 0.0
