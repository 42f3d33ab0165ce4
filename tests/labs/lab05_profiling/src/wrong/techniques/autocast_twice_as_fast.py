"""Believes the sentence: lower precision makes everything twice as fast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiling_lab import devices

CAUGHT_BY = "test_a_step_on_paper"
SAYS = "their peak changes with the precision"


def predict_autocast(
    operations: Sequence[dict[str, Any]], device: str, precision: str
) -> dict[str, float]:
    if precision not in PRODUCTS_IN:
        raise ValueError(f"precision is {precision!r}")
    kinds = {operation["kind"] for operation in operations}
    if not kinds or not kinds <= {"matmul", "other"}:
        raise ValueError(f"the kinds are {sorted(kinds)}")
    found = devices.get(device)
    found.peak(PRODUCTS_IN[precision])
    half = 1.0 if precision == "fp32" else 2.0
    whole = matmul = before = 0.0
    for operation in operations:
        compute_s = operation["flops"] / found.peak("float32")
        memory_s = operation["elements"] * 4 / found.memory_bandwidth_bytes_per_s
        time_ns = 1e9 * operation["count"] * max(compute_s, memory_s)
        product = operation["kind"] == "matmul"
        before += time_ns
        whole += time_ns / half if product else time_ns
        matmul += time_ns / half if product else 0.0
    return {"predicted_ns": whole, "matmul_ns": matmul, "speedup_ratio": before / whole}
