"""Judges loads by the bytes used per sector."""

from __future__ import annotations

CAUGHT_BY = "test_gains_of_recorded_kernels"
SAYS = "Sectors fall to the ideal ones"


def _without_uncoalesced(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    moved = dram_traffic(kernel, 1)["moved_bytes"]
    sectors = kernel["metrics"].get("memory_l2_theoretical_sectors_global")
    ideal = kernel["metrics"].get("memory_l2_theoretical_sectors_global_ideal")
    if sectors == 0:
        return {}
    share = sector_efficiency(kernel)["used_ratio"]
    dram = 1.0 if moved == 0 else min(1.0, ideal * SECTOR_BYTES / moved)
    waiting = 1 - _stalled(kernel)[0] * (1 - min(share, dram))
    return {"l1": share, "l2": share, "dram": dram, "waiting": waiting}
