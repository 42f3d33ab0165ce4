"""Takes the cheapest setting, whatever its latency."""

from __future__ import annotations

from collections.abc import Sequence

CAUGHT_BY = "test_choice_for_drawn_arrivals"
SAYS = "does not keep the limit"


def choose_batcher(
    arrival_ns: Sequence[int],
    service_ns: dict[int, int],
    limit_ns: float,
    max_batches: Sequence[int],
    max_waits_ns: Sequence[int],
    percent: float = 99,
) -> dict | None:
    if not (len(arrival_ns) and len(max_batches) and len(max_waits_ns)):
        raise ValueError("arrivals, maximum batches and maximum waits must not be empty")
    if not limit_ns > 0:
        raise ValueError(f"limit_ns must be above 0, got {limit_ns}")
    found = []
    for max_batch in max_batches:
        for max_wait_ns in max_waits_ns:
            done = simulate_batcher(arrival_ns, service_ns, max_batch, max_wait_ns)
            latency = [e - a for e, a in zip(done["end_ns"], arrival_ns, strict=True)]
            at_percent = percentile(latency, percent)
            batches = set(zip(done["start_ns"], done["end_ns"], strict=True))
            busy = sum(end - start for start, end in batches)
            found.append((busy, at_percent, max_batch, max_wait_ns))
    if not found:
        return None
    busy, at_percent, max_batch, max_wait_ns = min(found)
    return {
        "max_batch": max_batch,
        "max_wait_ns": max_wait_ns,
        "percentile_ns": at_percent,
        "busy_ns": busy,
    }
