"""Turns the quotient upside down."""

from __future__ import annotations

CAUGHT_BY = "test_traffic_of_recorded_kernels"
SAYS = "Needed over moved"


def dram_traffic(kernel: dict[str, Any], needed_bytes: float) -> dict[str, float | None]:
    if not (math.isfinite(needed_bytes) and needed_bytes > 0):
        raise ValueError(f"needed_bytes must be above 0, got {needed_bytes}")
    metrics = kernel["metrics"]
    read = metrics.get("dram__bytes_read.sum")
    written = metrics.get("dram__bytes_write.sum")
    moved = None if read is None or written is None else read + written
    duration = metrics.get("gpu__time_duration.sum")
    per_second = _quotient(1e9, duration)
    return {
        "read_bytes": read,
        "written_bytes": written,
        "moved_bytes": moved,
        "needed_ratio": _quotient(moved, needed_bytes),
        "moved_bytes_per_s": _product(moved, per_second),
        "needed_bytes_per_s": _product(needed_bytes, per_second),
    }
