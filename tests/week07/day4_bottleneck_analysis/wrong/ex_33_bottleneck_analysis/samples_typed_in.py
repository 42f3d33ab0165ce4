"""Returns the rows of the lesson."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_generated_samples"
SAYS = "rows, expected"


def read_measurements(capture: str) -> list[dict[str, Any]]:
    return [
        {
            "name": "matmul fp32 256x256x256",
            "op": "matmul",
            "arguments": {"m": 256, "k": 256, "n": 256},
            "dtype": "float32",
            "cache": "cold",
            "device_ns": 11_712.0,
            "device_iqr_ns": 704.0,
            "host_ns": 32_100.0,
            "sample_count": 21,
        }
    ]
