"""Fills the tile with rows as they are, without their padding."""

from __future__ import annotations

CAUGHT_BY = "test_rows_and_warps"
SAYS = "a row is padded to"


def launch_configuration(columns: int) -> tuple[int, int]:
    _check_counts(columns=columns)
    if columns > WIDEST_COLUMNS:
        raise ValueError(f"{columns} columns: one program holds rows of up to {WIDEST_COLUMNS}")
    padded = 1 << (columns - 1).bit_length()
    rows = 1
    while rows * columns < TILE_ELEMENTS:
        rows *= 2
    return rows, rows * padded // (32 * THREAD_ELEMENTS)
