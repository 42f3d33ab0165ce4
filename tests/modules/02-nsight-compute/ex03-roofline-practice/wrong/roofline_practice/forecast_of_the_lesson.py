# What the lesson forecasts for one kernel, whatever the kernel.
from __future__ import annotations

CAUGHT_BY = "test_forecast_for_recorded_kernels"
SAYS = "What the flat roof allows"


def forecast(kernel: dict[str, Any], extra_flops: Sequence[float]) -> dict[str, Any]:
    return {
        "free_flops": 7.06e9,
        "durations_ns": [123_040.0 for _ in extra_flops],
        "turn_intensity": 15.9,
    }
