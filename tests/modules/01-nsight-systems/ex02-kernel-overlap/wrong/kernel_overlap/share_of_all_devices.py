"""Takes the launches of every device."""

from __future__ import annotations

CAUGHT_BY = "test_half_a_warp_takes_a_whole_one"
SAYS = "expected the names"


def device_share(
    capture: str, device: int = 0, warps_per_sm: int = 64, blocks_per_sm: int = 32
) -> dict[str, float]:
    shares: dict[str, float] = {}
    for number in captures.open(capture).kernels["device"].unique():
        for kernel in _kernels(capture, number, warps_per_sm, blocks_per_sm):
            if kernel.name:
                share = float(kernel.share)
                shares[kernel.name] = max(shares.get(kernel.name, share), share)
    return shares
