"""Gives the throughput of all requests."""

from __future__ import annotations

CAUGHT_BY = "test_goodput_of_simulated_requests"
SAYS = "also of those that were too late"


def goodput(
    capture: str, run: str, ttft_limit_ns: float, tpot_limit_ns: float
) -> dict[str, float | int]:
    if not (ttft_limit_ns > 0 and tpot_limit_ns > 0):
        raise ValueError(f"limits must be above 0, got {ttft_limit_ns} and {tpot_limit_ns}")
    metrics = token_metrics(capture, run)
    sent, tokens = _tokens(capture, run)
    good = sum(
        first <= ttft_limit_ns and (pace is None or pace <= tpot_limit_ns)
        for first, pace in zip(metrics["ttft_ns"], metrics["tpot_ns"], strict=True)
    )
    took_ns = max(times[-1] for times in tokens) - min(sent)
    return {
        "request_count": len(sent),
        "good_count": good,
        "attainment_ratio": good / len(sent),
        "goodput_per_s": len(sent) / (took_ns / 1e9),
    }
