"""Fills an SM with threads, so that half a warp takes half the room."""

from __future__ import annotations

from fractions import Fraction

CAUGHT_BY = "test_half_a_warp_takes_a_whole_one"
SAYS = "an SM holds at most so many warps"


def device_share(
    capture: str, device: int = 0, warps_per_sm: int = 64, blocks_per_sm: int = 32
) -> dict[str, float]:
    recording = captures.open(capture)
    sms = {row["device"]: row["sm_count"] for row in recording.devices.rows(named=True)}
    shares: dict[str, float] = {}
    for row in recording.kernels.rows(named=True):
        if row["device"] == device:
            blocks = row["grid_x"] * row["grid_y"] * row["grid_z"]
            threads = row["block_x"] * row["block_y"] * row["block_z"]
            fit = min(blocks_per_sm, WARP_THREADS * warps_per_sm // threads)
            share = float(Fraction(blocks, sms.get(device, 1) * fit))
            shares[row["name"]] = max(shares.get(row["name"], share), share)
    return shares
