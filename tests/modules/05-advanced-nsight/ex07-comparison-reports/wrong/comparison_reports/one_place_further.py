from __future__ import annotations

CAUGHT_BY = "test_shift_within_a_recording"
SAYS = "It is the k-th smallest difference"


def shift(before_ns: Sequence[float], after_ns: Sequence[float]) -> dict[str, float]:
    m, n = len(before_ns), len(after_ns)
    k = math.floor(m * n / 2 - Z_95 * math.sqrt(m * n * (m + n + 1) / 12))
    if k < 1:
        raise ValueError(f"{m} samples before and {n} after are too few for an interval of 95 %")
    differences = sorted(after - before for before in before_ns for after in after_ns)
    return {
        "shift_ns": statistics.median(differences),
        "low_ns": differences[k],
        "high_ns": differences[-k],
    }
