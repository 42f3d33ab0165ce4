from __future__ import annotations

CAUGHT_BY = "test_workers_of_the_model"
SAYS = "workers_count"


def workers_needed(compute_ns: float, batch_ns: float, cpu_count: int) -> dict[str, float]:
    if compute_ns <= 0 or batch_ns <= 0 or cpu_count < 1:
        raise ValueError("no model")
    workers = math.ceil(batch_ns / compute_ns)
    return {"workers_count": workers, "step_ns": max(compute_ns, batch_ns / workers)}
