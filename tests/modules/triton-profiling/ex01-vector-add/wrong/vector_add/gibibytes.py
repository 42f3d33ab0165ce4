from __future__ import annotations

CAUGHT_BY = "test_a_rate_in_gb_a_second"
SAYS = "GiB/s"


def bandwidth_gb_s(element_count: int, element_bytes: int, time_ms: float) -> float:
    if element_count < 1 or element_bytes < 1 or not time_ms > 0:
        raise ValueError("all must be above 0")
    return 3 * element_count * element_bytes / (time_ms / 1e3) / 2**30
