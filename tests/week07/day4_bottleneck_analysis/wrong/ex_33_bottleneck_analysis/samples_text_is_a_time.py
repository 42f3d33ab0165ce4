"""Lets numpy turn text into a time."""

from __future__ import annotations

from typing import Any

import numpy as np

from profiling_lab import devices
from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_samples_that_say_nothing"
SAYS = "text is no number"


def _samples(row: dict[str, Any], key: str) -> np.ndarray:
    values = row.get(key)
    if not values:
        raise CaptureError(f"{row['name']}: no samples of {key}")
    samples = np.array(values, dtype=float)
    if not (np.isfinite(samples) & (samples > 0)).all():
        raise CaptureError(f"{row['name']}: {key} holds what is no time above 0")
    return samples


def read_measurements(capture: str) -> list[dict[str, Any]]:
    document = load_document(capture, "measurements.json")
    if document.get("unit") not in NS_PER_UNIT:
        raise CaptureError(
            f"{capture}: the unit is {document.get('unit')!r}; known: {', '.join(NS_PER_UNIT)}"
        )
    to_ns = NS_PER_UNIT[document["unit"]]
    rows = []
    for row in document["measurements"]:
        samples = _samples(row, "device_time") * to_ns
        host = None if row.get("host_time") is None else _samples(row, "host_time") * to_ns
        low, middle, high = np.percentile(samples, [25, 50, 75])
        rows.append(
            {
                "name": row["name"],
                "op": row["op"],
                "arguments": row["arguments"],
                "dtype": devices.dtype(row["dtype"]).name,
                "cache": row["cache"],
                "device_ns": float(middle),
                "device_iqr_ns": float(high - low),
                "host_ns": None if host is None else float(np.median(host)),
                "sample_count": len(samples),
            }
        )
    return rows
