"""Calls a change a win because its ratio is below one."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_is_what_the_rounds_say"
SAYS = "with the A/A noise beside them"

_whole = deep_dive  # noqa: F821 -- the reference, which the rest stays


def deep_dive() -> dict:
    told = _whole()
    told["verdict"] = {"capture": "serving_evidence", "run": "change_c", "verdict": "win"}
    return told
