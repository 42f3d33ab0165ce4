"""Says healthy, and mends it."""

from __future__ import annotations

CAUGHT_BY = "test_verdict_denoiser"
SAYS = "which is all that could be saved"


def verdict_denoiser() -> dict[str, object]:
    return {
        "category": "healthy",
        "subject": "device:0",
        "evidence": {"idle_ns": 2_321_542},
        "recommendation": "drop_waits",
    }
