"""Adds the kernels of all streams and cuts at one: a sum is not a union."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_recorded_utilization"
SAYS = "what runs at the same time counts once"


def utilization_series(capture: str, period_ns: int) -> dict[int, list[dict[str, float]]]:
    if period_ns <= 0:
        raise ValueError(f"period_ns = {period_ns}")
    recording = captures.open(capture)
    start, end = recording.span_ns
    out: dict[int, list[dict[str, float]]] = {}
    operations = recording.device_operations.rows(named=True)
    for device in sorted({o["device"] for o in operations}):
        out[device] = []
        for low in range(start, end, period_ns):
            high = min(low + period_ns, end)
            summed = sum(
                max(0, min(o["end_ns"], high) - max(o["start_ns"], low))
                for o in operations
                if o["device"] == device and o["kind"] in ("kernel", "graph")
            )
            ratio = summed / (high - low)
            out[device].append(
                {"start_ns": low, "utilization_ratio": min(1.0, ratio), "summed_ratio": ratio}
            )
    return out
