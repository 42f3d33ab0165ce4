"""Fills the list with one number under two labels."""

from __future__ import annotations

CAUGHT_BY = "test_no_number_counts_twice"
SAYS = "are the same number"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["evidence"]["E12"] = told["evidence"]["E1"]
    told["sections"]["limits"] += " It all began with 4.44 ms [E12]."
    return told
