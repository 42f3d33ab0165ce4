"""Gives milliseconds as seconds."""

from __future__ import annotations

CAUGHT_BY = "test_every_number_is_derived_again"
SAYS = "when it is derived from the capture"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["evidence"]["E5"]["unit"] = "s"
    return told
