from __future__ import annotations

CAUGHT_BY = "test_the_plan_of_do_bench"
SAYS = "warmup and rep are milliseconds"


def do_bench_plan(estimate_ms: float, warmup: float = 25, rep: float = 100) -> dict[str, int]:
    if not estimate_ms > 0 or warmup < 0 or rep < 0:
        raise ValueError("no plan")
    warm, timed = max(1, int(warmup)), max(1, int(rep))
    return {
        "warmup_count": warm,
        "timed_count": timed,
        "calls_count": 1 + 5 + warm + timed,
        "cold_count": 5 + timed,
    }
