"""Gives the bandwidth in GiB/s."""

from __future__ import annotations

CAUGHT_BY = "test_generated_sweeps"
SAYS = "in GiB/s"


def read_sweep(capture: str) -> list[dict[str, Any]]:
    table = json.loads(captures.text(capture, "measurements.json"))
    unit = table["unit"]
    if unit not in NS_PER_UNIT:
        raise CaptureError(f"{capture}: unknown unit {unit!r}; known: {', '.join(NS_PER_UNIT)}")
    found = []
    for row in table["measurements"]:
        samples = row["device_time"]
        if len(samples) < 2 or min(samples) <= 0:
            raise CaptureError(
                f"{capture}: {row['implementation']} at {row['columns']} columns needs two or more"
                " samples above 0: record it again"
            )
        low, _, high = statistics.quantiles(samples, n=4, method="inclusive")
        median = statistics.median(samples) * NS_PER_UNIT[unit]
        moved = softmax_bytes(row["rows"], row["columns"], table["dtype"], "fused")
        found.append(
            {
                "implementation": row["implementation"],
                "columns": row["columns"],
                "median_ns": median,
                "iqr_ns": (high - low) * NS_PER_UNIT[unit],
                "bandwidth_gb_s": moved / median * 1e9 / 2**30,
            }
        )
    return found
