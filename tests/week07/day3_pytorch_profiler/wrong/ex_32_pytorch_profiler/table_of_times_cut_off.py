"""Cuts ns off where they are to be rounded."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_table_of_a_profile"
SAYS = "Rounded to whole ns"


def _ns_of(row: Any, *names: str) -> int | None:
    for name in names:
        if hasattr(row, name):
            return int(getattr(row, name) * 1000)
    return None
