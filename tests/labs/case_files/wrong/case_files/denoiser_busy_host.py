"""Blames a host that is busy while the device works."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_denoiser"
SAYS = "no more than that would be saved"


def verdict_denoiser() -> dict[str, object]:
    return {
        "category": "host_bound",
        "subject": "device:0",
        "evidence": {"longest_gap_ns": 36_864},
        "recommendation": "loader_workers",
    }
