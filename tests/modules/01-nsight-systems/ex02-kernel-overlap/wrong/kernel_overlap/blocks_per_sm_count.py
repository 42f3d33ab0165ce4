"""Takes the blocks over the number of SMs: an SM that holds two blocks counts as full with one."""

from __future__ import annotations

from profiling_lab import captures

CAUGHT_BY = "test_recorded_shares"
SAYS = "an SM holds at most"


def device_share(
    capture: str, device: int = 0, warps_per_sm: int = 64, blocks_per_sm: int = 32
) -> dict[str, float]:
    recording = captures.open(capture)
    sms = {row["device"]: row["sm_count"] for row in recording.devices.rows(named=True)}
    out: dict[str, float] = {}
    for row in recording.kernels.rows(named=True):
        if row["device"] == device:
            blocks = row["grid_x"] * row["grid_y"] * row["grid_z"]
            out[row["name"]] = max(out.get(row["name"], 0.0), blocks / sms.get(device, 1))
    return out
