"""Fills the tile with rows as they are, without their padding."""

from __future__ import annotations

CAUGHT_BY = "test_rows_and_warps"
SAYS = "a row is padded to"


def launch_configuration(columns: int, itemsize: int) -> tuple[int, int]:
    _check_counts(columns=columns)
    if columns > WIDEST_COLUMNS:
        raise ValueError(f"{columns} columns: one program holds rows of up to {WIDEST_COLUMNS}")
    if itemsize not in (2, 4):
        raise ValueError(f"itemsize is {itemsize!r}: elements have 2 or 4 bytes")
    row_bytes = itemsize * triton.next_power_of_2(columns)
    rows = 1
    while rows * columns * itemsize < TILE_BYTES:
        rows *= 2
    warps = rows * row_bytes // (32 * THREAD_BYTES)
    return rows, min(32, max(1, warps))
