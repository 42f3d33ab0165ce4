# Scales the duration with the operations, as if nothing was free.
from __future__ import annotations

CAUGHT_BY = "test_forecast_for_made_up_kernels"
SAYS = "Free operations cost nothing"


def forecast(kernel: dict[str, Any], extra_flops: Sequence[float]) -> dict[str, Any]:
    for extra in extra_flops:
        if extra < 0:
            raise ValueError(f"operations can be added, not taken away: {extra}")
    work = counted_work(kernel)
    dtype = under_the_roofs(kernel)["dtype"]
    roof = roofs_of(kernel)[dtype]
    duration, flops = _metric(kernel, DURATION), work[f"{dtype}_flops"]
    free = max(0.0, roof * duration / 1e9 - flops)
    return {
        "free_flops": free,
        "durations_ns": [duration + extra / roof * 1e9 for extra in extra_flops],
        "turn_intensity": (flops + free) / work["dram_bytes"] if work["dram_bytes"] else None,
    }
