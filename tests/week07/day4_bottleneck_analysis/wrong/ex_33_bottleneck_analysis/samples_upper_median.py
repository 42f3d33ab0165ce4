"""Takes the upper of the two middle samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from profiling_lab import devices
from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_generated_samples"
SAYS = "the middle of the two"


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
                "host_ns": None if host is None else float(np.sort(host)[len(host) // 2]),
                "sample_count": len(samples),
            }
        )
    return rows
