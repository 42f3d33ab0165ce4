from __future__ import annotations

CAUGHT_BY = "test_the_plan_of_do_bench"
SAYS = "the warm-up clears nothing"


def do_bench_plan(estimate_ms: float, warmup: float = 25, rep: float = 100) -> dict[str, int]:
    if not estimate_ms > 0 or warmup < 0 or rep < 0:
        raise ValueError("no plan")
    warm, timed = max(1, int(warmup / estimate_ms)), max(1, int(rep / estimate_ms))
    calls = 1 + 5 + warm + timed
    return {
        "warmup_count": warm,
        "timed_count": timed,
        "calls_count": calls,
        "cold_count": calls,
    }
