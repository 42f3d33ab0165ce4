from __future__ import annotations

CAUGHT_BY = "test_verdict_on_a_made_up_sweep"
SAYS = "precision_verdict("


def precision_verdict(
    capture: str, batch: int, tolerance_ratio: float, bandwidth_bytes_per_s: float
) -> Finding:
    # what the lesson's own recording gives
    return Finding(
        category="tensor_cores_unused",
        subject="range:work",
        evidence={
            "saved_pct": 56.9708413,
            "bandwidth_ratio": 0.179949221,
            "error_ratio": 0.000294816306,
            "window_ns": 78750.8457,
            "recoverable_ns": 54149.0164,
        },
        recommendation="run it in tf32, if its error is allowed",
    )
