"""Pins memory that is pinned already."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_vision"
SAYS = "from pinned memory already"


def verdict_vision() -> dict[str, object]:
    return {
        "category": "transfer_bound",
        "subject": "device:0",
        "evidence": {"copy_alone_ns": 27_851_486},
        "recommendation": "pin_memory",
    }
