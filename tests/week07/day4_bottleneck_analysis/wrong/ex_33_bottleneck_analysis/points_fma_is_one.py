"""Counts a fused multiply-add as one operation."""

from __future__ import annotations

from typing import Any

from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_generated_counters"
SAYS = "fused multiply-add is two operations"


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
                "intensity": flops / dram if flops is not None and dram else None,
                "rate_flops_per_s": (
                    flops / duration * 1e9 if flops is not None and duration is not None else None
                ),
            }
        )
    return out


def _counted_flops(row: dict[str, Any]) -> tuple[float | None, str | None]:
    counted = 0.0
    tensor = _counter(row, TENSOR_COUNTER)
    seen = tensor == 0
    for kind in "fd":
        for name, operations in (("add", 1), ("mul", 1), ("fma", 1)):
            metric = f"smsp__sass_thread_inst_executed_op_{kind}{name}_pred_on.sum"
            value = _counter(row, metric)
            if value is None:
                seen = False
            else:
                counted += operations * value
    if seen:
        return counted, "counters"
    if row.get("op") is None:
        return None, None
    return float(cost_of(row)["flops"]), "analytic"
