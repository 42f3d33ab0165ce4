"""Says seconds where the evidence is in milliseconds."""

from __future__ import annotations

CAUGHT_BY = "test_every_number_in_the_text_has_evidence"
SAYS = "is in s; the evidence"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    for section, text in told["sections"].items():
        told["sections"][section] = text.replace(" ms [", " s [")
    return told
