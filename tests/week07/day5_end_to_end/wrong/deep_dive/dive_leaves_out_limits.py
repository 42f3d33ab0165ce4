"""Says nothing about what the evidence does not show."""

from __future__ import annotations

CAUGHT_BY = "test_it_has_every_part"
SAYS = '"limits"'

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["sections"]["limits"] = "None."
    return told
