"""Returns the lesson's points."""

from __future__ import annotations

CAUGHT_BY = "test_curve_of_recorded_requests"
SAYS = "One point a run"


def throughput_latency_curve(capture: str) -> list[dict]:
    return [
        {
            "run": "closed_1",
            "throughput_per_s": 1721.8804369271609,
            "p50_ns": 565000.0,
            "p99_ns": 657000.0,
            "mean_batch": 1.0,
        },
        {
            "run": "closed_2",
            "throughput_per_s": 2981.088718442381,
            "p50_ns": 653000.0,
            "p99_ns": 742000.0,
            "mean_batch": 2.0,
        },
        {
            "run": "closed_4",
            "throughput_per_s": 4678.8185983039275,
            "p50_ns": 836000.0,
            "p99_ns": 898000.0,
            "mean_batch": 4.0,
        },
        {
            "run": "closed_8",
            "throughput_per_s": 6566.796634516725,
            "p50_ns": 1189000.0,
            "p99_ns": 1288000.0,
            "mean_batch": 8.0,
        },
    ]
