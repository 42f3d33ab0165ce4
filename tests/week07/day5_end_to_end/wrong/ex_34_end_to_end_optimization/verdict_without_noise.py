"""Asks only whether the interval leaves 1 out."""

from __future__ import annotations

from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_verdict_by_hand"
SAYS = "differs by 5 %"


def evidence_verdict(capture: str, run: str, confidence: float = 0.95) -> dict:
    found = _run(capture, "evidence.json", run)
    before, after, again = (found.get(f"{name}_ns") or [0] for name in ("before", "after", "again"))
    if not min(*before, *after, *again) > 0:
        raise CaptureError(f"{capture}, run {run}: needs times above 0 before, after and again")
    ratios = [b / a for a, b in zip(before, after, strict=True)]
    repeats = [b / a for a, b in zip(before, again, strict=True)]
    low, high = percentile_interval(ratios, 50, confidence)
    noise_low, noise_high = percentile_interval(repeats, 50, confidence)
    noise = verdict = None
    if noise_low is not None and noise_high is not None:
        noise = max(abs(noise_low - 1), abs(noise_high - 1))
    if noise is None or low is None or high is None:
        verdict = "undecided"
    elif high < 1:
        verdict = "win"
    elif low > 1:
        verdict = "regression"
    else:
        verdict = "no_win"
    return {
        "ratio": percentile(ratios, 50, "linear"),
        "low_ratio": low,
        "high_ratio": high,
        "noise_ratio": noise,
        "verdict": verdict,
    }
