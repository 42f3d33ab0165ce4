from __future__ import annotations

CAUGHT_BY = "test_waits_for_a_slow_batch"
SAYS = "was taken"


def prefetch_waits(
    batch_ns: Sequence[float], compute_ns: float, workers: int, prefetch_factor: int
) -> list[float]:
    if workers < 1 or prefetch_factor < 1 or compute_ns < 0 or min(batch_ns, default=0) < 0:
        raise ValueError("no such loader")
    worker_free, free, waits = [0.0] * workers, 0.0, []
    for number, cost in enumerate(batch_ns):
        worker_free[number % workers] += cost
        taken = max(free, worker_free[number % workers])
        waits.append(taken - free)
        free = taken + compute_ns
    return waits
