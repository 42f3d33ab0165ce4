"""Fills a section up to its length with one word."""

from __future__ import annotations

CAUGHT_BY = "test_it_has_every_part"
SAYS = "different words"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["sections"]["limits"] = "More " + "and more " * 30
    return told
