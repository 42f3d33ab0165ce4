from __future__ import annotations

CAUGHT_BY = "test_interval_of_a_share"
SAYS = "high_ratio"


def share_interval(hit_count: int, sample_count: int) -> dict[str, float]:
    if not 0 <= hit_count <= sample_count or sample_count < 1:
        raise ValueError("no share")
    share, extra = hit_count / sample_count, 1 / sample_count
    middle = (share + extra / 2) / (1 + extra)
    inner = share * (1 - share) / sample_count + extra / sample_count / 4
    half = math.sqrt(inner) / (1 + extra)
    return {"ratio": share, "low_ratio": middle - half, "high_ratio": middle + half}
