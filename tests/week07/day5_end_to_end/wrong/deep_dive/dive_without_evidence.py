"""States a number that nothing supports."""

from __future__ import annotations

CAUGHT_BY = "test_every_number_in_the_text_has_evidence"
SAYS = "has no evidence behind it"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["sections"]["limits"] += " On other machines the gain is usually about 1.5 times."
    return told
