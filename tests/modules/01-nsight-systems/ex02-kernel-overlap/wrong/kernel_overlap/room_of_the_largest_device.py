"""Takes the SMs of the largest device for those of every device."""

from __future__ import annotations

CAUGHT_BY = "test_what_fits_by_every_axis"
SAYS = "Two bounds"


def _kernels(
    capture: str,
    device: int,
    warps_per_sm: int = WARPS_PER_SM,
    blocks_per_sm: int = BLOCKS_PER_SM,
) -> list[_Kernel]:
    recording = captures.open(capture)
    sms = {row["device"]: row["sm_count"] for row in recording.devices.rows(named=True)}
    out = []
    for row in recording.kernels.rows(named=True):
        if row["device"] == device:
            blocks = row["grid_x"] * row["grid_y"] * row["grid_z"]
            room = max(sms.values(), default=1) * _blocks_per_sm(row, warps_per_sm, blocks_per_sm)
            key = row["process"], row["correlation"]
            name, stream = row["name"], row["stream"]
            share = Fraction(blocks, room)
            out.append(_Kernel(row["start_ns"], row["end_ns"], stream, name, share, key))
    for row in recording.graph_launches.rows(named=True):
        if row["device"] == device:
            key = row["process"], row["correlation"]
            out.append(_Kernel(row["start_ns"], row["end_ns"], row["stream"], "", _WHOLE, key))
    if not out:
        raise EmptyCapture(f"{capture}: no kernel ran on device {device}")
    return sorted(out, key=lambda k: (k.start_ns, k.end_ns))
