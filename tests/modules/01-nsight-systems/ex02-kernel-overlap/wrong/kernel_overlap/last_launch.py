"""Keeps the share of the last launch of a name."""

from __future__ import annotations

CAUGHT_BY = "test_half_a_warp_takes_a_whole_one"
SAYS = "asks for"


def device_share(
    capture: str, device: int = 0, warps_per_sm: int = 64, blocks_per_sm: int = 32
) -> dict[str, float]:
    found = _kernels(capture, device, warps_per_sm, blocks_per_sm)
    return {kernel.name: float(kernel.share) for kernel in found if kernel.name}
