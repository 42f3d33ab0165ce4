"""Names the GPU of the machine at hand."""

from __future__ import annotations

CAUGHT_BY = "test_system_is_that_of_the_captures"
SAYS = "the provenance of"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["system"]["gpu"] = "NVIDIA A100-SXM4-80GB"
    return told
