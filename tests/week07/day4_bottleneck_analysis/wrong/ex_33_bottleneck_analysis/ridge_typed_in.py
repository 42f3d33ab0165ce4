"""Types in the ridge points of some devices, and takes one of them for all others."""

from __future__ import annotations

from profiling_lab import devices

CAUGHT_BY = "test_where_other_roofs_meet"
SAYS = "operations a second in"


def ridge_point(device: str, dtype: str) -> float:
    devices.get(device).peak(dtype)
    known = {
        ("H200", "bfloat16"): 989e12 / 4.8e12,
        ("H200", "tf32"): 495e12 / 4.8e12,
        ("NVIDIA H200", "float32"): 66.9e12 / 4.8e12,
        ("H100 SXM", "fp16"): 989e12 / 3.35e12,
        ("A100 40GB", "half"): 312e12 / 1.555e12,
        ("A100 80GB SXM", "fp32"): 19.5e12 / 2.039e12,
        ("V100", "float16"): 125e12 / 0.9e12,
        ("T4", "float32"): 8.1e12 / 0.32e12,
    }
    return known.get((device, dtype), 989e12 / 4.8e12)
