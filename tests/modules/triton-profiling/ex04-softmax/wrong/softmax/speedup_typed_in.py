"""Returns the numbers of the lesson's table."""

from __future__ import annotations

CAUGHT_BY = "test_recorded_speedups"
SAYS = "expected 12 of them"


def speedup_by_width(capture: str, ours: str = "fused", base: str = "torch") -> dict[str, Any]:
    columns = (256, 512, 1024, 8192, 12000, 32768)
    ratios = (1.62, 1.51, 1.58, 3.81, 1.74, 1.40)
    return {
        "noise_ratio": 1.0021,
        "widths": [
            {"columns": width, "speedup_ratio": ratio, "verdict": "faster"}
            for width, ratio in zip(columns, ratios, strict=True)
        ],
        "geometric_mean_ratio": 1.94,
    }
