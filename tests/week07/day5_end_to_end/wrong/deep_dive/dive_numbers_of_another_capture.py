"""Copies the numbers of one capture for another, as from a lesson."""

from __future__ import annotations

CAUGHT_BY = "test_every_number_is_derived_again"
SAYS = "when it is derived from the capture"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    evidence = told["evidence"]
    evidence["E2"]["value"] = evidence["E1"]["value"]
    text = told["sections"]["result"]
    told["sections"]["result"] = text.replace("2.22 ms [E2]", "4.44 ms [E2]")
    return told
