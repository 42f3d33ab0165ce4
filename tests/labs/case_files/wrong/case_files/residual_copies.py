"""Blames the copies, which are in the way as well."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_residual"
SAYS = "copies run without a kernel beside them"


def verdict_residual() -> dict[str, object]:
    return {
        "category": "transfer_bound",
        "subject": "device:0",
        "evidence": {"copy_alone_ns": 16_563_735},
        "recommendation": "copy_stream",
    }
