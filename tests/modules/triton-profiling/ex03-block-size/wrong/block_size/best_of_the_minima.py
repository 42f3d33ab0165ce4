"""Takes the shortest sample of each."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_made_best"
SAYS = "median of all"


def best_block_size(capture: str) -> dict[str, Any]:
    table = _sweep(capture)
    rows = table["configurations"]
    try:
        times = {
            row["name"]: min([t for samples in row["device_time"] for t in samples]) for row in rows
        }
        noise = max(noise_ratio(row["device_time"]) for row in rows)
        default = table["default"]
        default_ns = times[default]
    except (KeyError, TypeError, ValueError) as error:
        raise CaptureError(f"{capture}: no sweep with samples: {error!r}") from None
    best = min(times, key=times.__getitem__)
    ties = [name for name, time in times.items() if time <= times[best] * (1 + noise)]
    return {
        "best": best,
        "best_ns": times[best],
        "noise_ratio": noise,
        "ties": ties,
        "default": default,
        "default_ns": default_ns,
        "speedup_ratio": default_ns / times[best],
        "verdict": "no_win" if default in ties else "win",
    }
