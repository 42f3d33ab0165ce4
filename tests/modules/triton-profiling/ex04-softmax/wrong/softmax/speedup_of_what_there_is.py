"""Leaves out the widths at which base was measured but once."""

from __future__ import annotations

CAUGHT_BY = "test_nothing_to_compare_with"
SAYS = "rival_again was not measured at each width"


def speedup_by_width(capture: str, ours: str = "fused", base: str = "torch") -> dict[str, Any]:
    medians: dict[str, dict[int, float]] = {ours: {}, base: {}, f"{base}_again": {}}
    for row in read_sweep(capture):
        medians.setdefault(row["implementation"], {})[row["columns"]] = row["median_ns"]
    widths = [columns for columns in medians[ours] if columns in medians[f"{base}_again"]]
    if not widths:
        raise CaptureError(f"{capture}: {ours}, {base} or {base}_again was not measured")
    missing = [columns for columns in widths if columns not in medians[base]]
    if missing:
        raise CaptureError(f"{capture}: {base} was not measured at {missing} columns")
    again = [medians[f"{base}_again"][columns] / medians[base][columns] for columns in widths]
    noise = max(max(ratio, 1 / ratio) for ratio in again)
    speedups = {columns: medians[base][columns] / medians[ours][columns] for columns in widths}
    return {
        "noise_ratio": noise,
        "widths": [
            {"columns": columns, "speedup_ratio": speedup, "verdict": _verdict(speedup, noise)}
            for columns, speedup in speedups.items()
        ],
        "geometric_mean_ratio": statistics.geometric_mean(speedups.values()),
    }
