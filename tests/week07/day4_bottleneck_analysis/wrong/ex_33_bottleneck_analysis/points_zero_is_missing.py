"""Takes a counted 0 for a missing number."""

from __future__ import annotations

from typing import Any

from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_a_kernel_without_operations"
SAYS = "A counted 0 is a number"


def roofline_points(capture: str) -> list[dict[str, Any]]:
    out = []
    for row in load_document(capture, "counters.json")["kernels"]:
        duration = _counter(row, "gpu__time_duration.sum")
        if duration is not None and duration <= 0:
            raise CaptureError(f"{row['name']}: a duration of {duration} ns")
        moved = [_counter(row, f"dram__bytes_{way}.sum") for way in ("read", "write")]
        dram = None if None in moved else sum(moved)  # type: ignore[arg-type]
        flops, source = _counted_flops(row)
        out.append(
            {
                "name": row["name"],
                "flops": flops,
                "flops_source": source,
                "dram_bytes": dram,
                "duration_ns": duration,
                "intensity": flops / dram if flops and dram else None,
                "rate_flops_per_s": (
                    flops / duration * 1e9 if flops and duration is not None else None
                ),
            }
        )
    return out
