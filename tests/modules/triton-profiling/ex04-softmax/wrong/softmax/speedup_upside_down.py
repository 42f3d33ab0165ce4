"""Divides ours by base."""

from __future__ import annotations

CAUGHT_BY = "test_generated_speedups"
SAYS = "how much slower"


def speedup_by_width(capture: str, ours: str = "fused", base: str = "torch") -> dict[str, Any]:
    medians: dict[str, dict[int, float]] = {ours: {}, base: {}, f"{base}_again": {}}
    for row in read_sweep(capture):
        medians.setdefault(row["implementation"], {})[row["columns"]] = row["median_ns"]
    widths = list(medians[ours])
    if not widths:
        raise CaptureError(f"{capture}: {ours} was not measured")
    for name in (base, f"{base}_again"):
        missing = [columns for columns in widths if columns not in medians[name]]
        if missing:
            raise CaptureError(f"{capture}: {name} was not measured at {missing} columns")
    again = [medians[f"{base}_again"][columns] / medians[base][columns] for columns in widths]
    noise = max(max(ratio, 1 / ratio) for ratio in again)
    speedups = {columns: medians[ours][columns] / medians[base][columns] for columns in widths}
    return {
        "noise_ratio": noise,
        "widths": [
            {"columns": columns, "speedup_ratio": speedup, "verdict": _verdict(speedup, noise)}
            for columns, speedup in speedups.items()
        ],
        "geometric_mean_ratio": statistics.geometric_mean(speedups.values()),
    }
