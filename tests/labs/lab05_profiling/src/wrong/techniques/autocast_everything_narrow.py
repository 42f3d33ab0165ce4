"""Puts everything into the lower precision, not the products alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiling_lab import devices

CAUGHT_BY = "test_a_step_on_paper"
SAYS = "Without products autocast changes nothing"


def predict_autocast(
    operations: Sequence[dict[str, Any]], device: str, precision: str
) -> dict[str, float]:
    if precision not in PRODUCTS_IN:
        raise ValueError(f"precision is {precision!r}; known: {', '.join(PRODUCTS_IN)}")
    kinds = {operation["kind"] for operation in operations}
    if not kinds or not kinds <= {"matmul", "other"}:
        raise ValueError(f"the kinds are {sorted(kinds)}: 'matmul' and 'other' are known")
    found = devices.get(device)

    def time_ns(operation: dict[str, Any], precision: str) -> float:
        product = operation["kind"] == "matmul"
        name = PRODUCTS_IN[precision]
        compute_s = operation["flops"] / found.peak(name)
        moved_bytes = operation["elements"] * devices.dtype(name).bytes
        memory_s = moved_bytes / found.memory_bandwidth_bytes_per_s
        return 1e9 * operation["count"] * max(compute_s, memory_s)

    whole = sum(time_ns(operation, precision) for operation in operations)
    products = [operation for operation in operations if operation["kind"] == "matmul"]
    return {
        "predicted_ns": whole,
        "matmul_ns": float(sum(time_ns(operation, precision) for operation in products)),
        "speedup_ratio": sum(time_ns(operation, "fp32") for operation in operations) / whole,
    }
