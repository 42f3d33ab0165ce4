"""Calls a copy exposed that runs beside one of the other direction."""

from __future__ import annotations

CAUGHT_BY = "test_recorded_hidden"
SAYS = "neither"


def hidden_copies(capture: str, device: int = 0) -> dict[str, dict[str, int]]:
    lanes = _lanes(capture, device)
    out = {}
    for direction, other in (("H2D", "D2H"), ("D2H", "H2D")):
        own = lanes[direction]
        behind = _shared_ns(own, lanes["kernels"])
        out[direction] = {
            "copy_ns": _length_ns(own),
            "behind_kernels_ns": behind,
            "beside_other_direction_ns": _shared_ns(own, lanes[other]),
            "exposed_ns": _length_ns(own) - behind,
        }
    return out
