"""Looks for kernels only: a device that replays CUDA graphs looks idle."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_a_long_kernel_and_a_copy"
SAYS = "It adds the parts of all kernels and graphs"


def utilization_series(capture: str, period_ns: int) -> dict[int, list[dict[str, float]]]:
    if period_ns <= 0:
        raise ValueError(f"period_ns = {period_ns}")
    recording = captures.open(capture)
    start, end = recording.span_ns
    out: dict[int, list[dict[str, float]]] = {}
    operations = recording.device_operations.rows(named=True)
    for device in sorted({o["device"] for o in operations}):
        kernels = [
            (o["start_ns"], o["end_ns"])
            for o in operations
            if o["device"] == device and o["kind"] in ("kernel",)
        ]
        out[device] = []
        for low in range(start, end, period_ns):
            high = min(low + period_ns, end)
            inside = [(max(a, low), min(b, high)) for a, b in kernels if a < high and b > low]
            out[device].append(
                {
                    "start_ns": low,
                    "utilization_ratio": _covered_ns(inside) / (high - low),
                    "summed_ratio": sum(b - a for a, b in inside) / (high - low),
                }
            )
    return out
