"""Rounds in its own favour."""

from __future__ import annotations

CAUGHT_BY = "test_every_number_in_the_text_has_evidence"
SAYS = "cites [E2], which is 2.222"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    text = told["sections"]["result"]
    told["sections"]["result"] = text.replace("2.22 ms [E2]", "2.1 ms [E2]")
    return told
