"""Gives a program one row, however short it is."""

from __future__ import annotations

CAUGHT_BY = "test_rows_and_warps"
SAYS = "the tile should have"


def launch_configuration(columns: int) -> tuple[int, int]:
    _check_counts(columns=columns)
    if columns > WIDEST_COLUMNS:
        raise ValueError(f"{columns} columns: one program holds rows of up to {WIDEST_COLUMNS}")
    padded = 1 << (columns - 1).bit_length()
    rows = 1
    return rows, max(1024, padded) // (32 * THREAD_ELEMENTS)
