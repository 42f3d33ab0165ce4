from __future__ import annotations

CAUGHT_BY = "test_waits_for_a_slow_batch"
SAYS = "makes it, after its batch"


def prefetch_waits(
    batch_ns: Sequence[float], compute_ns: float, workers: int, prefetch_factor: int
) -> list[float]:
    if workers < 1 or prefetch_factor < 1 or compute_ns < 0 or min(batch_ns, default=0) < 0:
        raise ValueError("no such loader")
    worker_free, taken, waits, free = [0.0] * workers, [], [], 0.0
    for number, cost in enumerate(batch_ns):
        before = number - workers * prefetch_factor
        worker = worker_free.index(min(worker_free))
        worker_free[worker] = max(worker_free[worker], taken[before] if before >= 0 else 0.0) + cost
        taken.append(max(free, worker_free[worker]))
        waits.append(taken[-1] - free)
        free = taken[-1] + compute_ns
    return waits
