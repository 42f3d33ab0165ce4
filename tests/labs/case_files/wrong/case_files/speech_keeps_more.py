"""Keeps variants that are never used again."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_speech"
SAYS = "of no use to the next"


def verdict_speech() -> dict[str, object]:
    return {
        "category": "recompilation",
        "subject": "device:0",
        "evidence": {"compiling_ns": 983_209_273},
        "recommendation": "keep_more_code",
    }
