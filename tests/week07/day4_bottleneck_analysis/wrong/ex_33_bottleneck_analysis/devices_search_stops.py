"""Searches up to a million rows, and then gives up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiling_lab import devices

CAUGHT_BY = "test_the_ridge_far_out"
SAYS = "a whole number of rows reaches it"


def _rows_to_ridge(k: int, n: int, dtype: str, ridge: float) -> int | None:
    def reached(m: int) -> bool:
        return _matmul_intensity(m, k, n, dtype) >= ridge

    return _smallest(reached) if reached(1_000_000) else None


def class_by_device(
    m: int, k: int, n: int, dtype: str, device_names: Sequence[str]
) -> list[dict[str, Any]]:
    if not device_names:
        raise ValueError("no device is named")
    name = devices.dtype(dtype).name
    intensity = _matmul_intensity(m, k, n, dtype)
    out = []
    for device in map(devices.get, device_names):
        known = name in device.peak_flops_per_s
        ridge = ridge_point(device.name, dtype) if known else None
        out.append(
            {
                "device": device.name,
                "intensity": intensity,
                "ridge": ridge,
                "category": None if ridge is None else _roof(intensity, ridge),
                "rows_to_ridge": None if ridge is None else _rows_to_ridge(k, n, dtype, ridge),
            }
        )
    return out
