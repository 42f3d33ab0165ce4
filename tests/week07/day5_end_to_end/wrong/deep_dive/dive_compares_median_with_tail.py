"""Compares the tail before with the median after."""

from __future__ import annotations

CAUGHT_BY = "test_comparison_compares_like_with_like"
SAYS = "their percent is"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["comparison"] = {"before": "E3", "after": "E2"}
    return told
