"""Returns the lesson's numbers."""

from __future__ import annotations

CAUGHT_BY = "test_busy_device_with_idle_sms"
SAYS = "a share of 1.0"


def busy_against_active(capture: str, nvtx_range: str | None = None) -> dict[int, dict[str, float]]:
    return {
        0: {
            "busy_ratio": 0.08977887718640686,
            "sm_active_ratio": 0.08520785219399539,
            "dram_ratio": 0.028745188606620474,
        }
    }
