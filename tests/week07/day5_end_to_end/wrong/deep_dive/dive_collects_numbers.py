"""Lists a number that it says nothing about."""

from __future__ import annotations

CAUGHT_BY = "test_all_evidence_is_cited"
SAYS = "no section cites E12"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["evidence"]["E12"] = told["evidence"]["E1"]
    return told
