"""Wants more streams where four take turns."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_ensemble"
SAYS = "four already"


def verdict_ensemble() -> dict[str, object]:
    return {
        "category": "serialized_streams",
        "subject": "device:0",
        "evidence": {"one_stream_ns": 35_229_628},
        "recommendation": "more_streams",
    }
