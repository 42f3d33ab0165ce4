"""Takes the median where the text and the comparison say p99."""

from __future__ import annotations

CAUGHT_BY = "test_every_number_is_derived_again"
SAYS = "percentile 99"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["evidence"]["E3"]["value"] = 4.443
    return told
