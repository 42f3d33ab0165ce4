"""Stops at the first row that is no training step."""

from __future__ import annotations

from typing import Any

from profiling_lab import devices
from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_generated_training"
SAYS = "training step"


def model_flops_utilization(capture: str) -> list[dict[str, Any]]:
    device = devices.get(load_document(capture, "measurements.json")["device"])
    out = []
    for row in read_measurements(capture):
        if row["op"] != "training_step":
            break
        sizes = dict(row["arguments"])
        again = sizes.pop("recompute")
        check_sizes(**sizes)
        tokens = sizes["batch"] * sizes["sequence"]
        attention = 4 * sizes["layers"] * sizes["hidden"] * sizes["sequence"] * tokens
        forward = 2 * sizes["parameter_count"] * tokens + attention
        rate = 3 * forward / row["device_ns"] * 1e9
        mfu = rate / device.peak(row["dtype"])
        out.append(
            {
                "name": row["name"],
                "model_flops": 3 * forward,
                "rate_flops_per_s": rate,
                "mfu_ratio": mfu,
                "hfu_ratio": mfu * 4 / 3 if again else mfu,
            }
        )
    if not out:
        raise CaptureError(f"{capture}: holds no training step")
    return out
