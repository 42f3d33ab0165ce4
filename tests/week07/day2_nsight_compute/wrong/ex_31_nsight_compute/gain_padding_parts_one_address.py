"""Lets padding mend what lanes wait for that add to one address."""

from __future__ import annotations

CAUGHT_BY = "test_gain_from_padding_is_not_that_of_atomics"
SAYS = "which padding does not mend"


def _without_conflicts(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    conflicts: dict[str, Any] = bank_conflicts(kernel)
    if conflicts["wavefronts_count"] == 0:
        return {}
    share = conflicts["conflict_ratio"]
    return _without_wavefronts(kernel, use, share)
