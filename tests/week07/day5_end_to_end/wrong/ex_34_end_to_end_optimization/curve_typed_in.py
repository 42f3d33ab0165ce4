"""Returns the lesson's points."""

from __future__ import annotations

CAUGHT_BY = "test_curve_of_recorded_requests"
SAYS = "One point a run"


def throughput_latency_curve(capture: str) -> list[dict]:
    return [
        {
            "run": "closed_1",
            "throughput_per_s": 224.60974057574964,
            "p50_ns": 4350000.0,
            "p99_ns": 8302000.0,
            "mean_batch": 1.0,
        },
        {
            "run": "closed_2",
            "throughput_per_s": 463.52627614577904,
            "p50_ns": 4302000.0,
            "p99_ns": 4589000.0,
            "mean_batch": 2.0,
        },
        {
            "run": "closed_4",
            "throughput_per_s": 927.3391163231004,
            "p50_ns": 4294000.0,
            "p99_ns": 4594000.0,
            "mean_batch": 4.0,
        },
        {
            "run": "closed_8",
            "throughput_per_s": 1881.983924720643,
            "p50_ns": 4191000.0,
            "p99_ns": 4467000.0,
            "mean_batch": 8.0,
        },
    ]
