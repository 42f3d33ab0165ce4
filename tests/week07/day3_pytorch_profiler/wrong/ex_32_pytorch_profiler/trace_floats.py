"""Reads times as floats."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CAUGHT_BY = "test_times_are_exact"
SAYS = "do not fit into a float64"


def _time_ns(value: Any, name: str, file: Path) -> int:
    if type(value) not in (int, Decimal):
        raise CaptureError(f"{file}: {name!r} has no time, or one that is no number ({value!r})")
    return int(round(float(value), 3) * 1000)
