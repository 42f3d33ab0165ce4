"""Calls a time a count."""

from __future__ import annotations

CAUGHT_BY = "test_every_number_is_derived_again"
SAYS = "its name allows"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["evidence"]["E1"] |= {"unit": "count", "value": 4_443_000}
    return told
