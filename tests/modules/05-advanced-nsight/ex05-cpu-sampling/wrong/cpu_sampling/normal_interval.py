from __future__ import annotations

CAUGHT_BY = "test_interval_of_a_share"
SAYS = "high_ratio"


def share_interval(hit_count: int, sample_count: int) -> dict[str, float]:
    if not 0 <= hit_count <= sample_count or sample_count < 1:
        raise ValueError("no share")
    share = hit_count / sample_count
    half = Z_95 * math.sqrt(share * (1 - share) / sample_count)
    return {"ratio": share, "low_ratio": share - half, "high_ratio": share + half}
