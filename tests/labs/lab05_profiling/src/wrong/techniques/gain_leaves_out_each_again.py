"""Takes each row called again for the repetition of the baseline."""

from __future__ import annotations

import statistics
from operator import truediv
from typing import Any

CAUGHT_BY = "test_generated_gain"
SAYS = "every row but the baseline and its repetition"


def autocast_gain(capture: str) -> dict[str, Any]:
    base, *others = experiment(capture, "precision", "peak_bytes")
    speedups = {
        row["name"]: list(map(truediv, base["step_time"], row["step_time"])) for row in others
    }
    again = f"{base['name']} again"
    noise = max(abs(ratio - 1) for ratio in speedups[again])
    ways = []
    for row in others:
        if row["name"].endswith(" again"):
            continue
        speedup = statistics.median(speedups[row["name"]])
        verdict = "no difference"
        if speedup > 1 + noise:
            verdict = "faster"
        elif speedup < 1 - noise:
            verdict = "slower"
        ways.append(
            {
                "name": row["name"],
                "step_ns": float(statistics.median(row["step_time"])),
                "speedup_ratio": speedup,
                "memory_ratio": row["peak_bytes"] / base["peak_bytes"],
                "verdict": verdict,
            }
        )
    return {"noise_ratio": noise, "ways": ways}
