"""Judges loads by the bytes used per sector."""

from __future__ import annotations

CAUGHT_BY = "test_gains_of_recorded_kernels"
SAYS = "Sectors fall to the ideal ones"


def _without_uncoalesced(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    metrics = kernel["metrics"]
    moved = metrics.get("dram__bytes_read.sum") + metrics.get("dram__bytes_write.sum")
    sectors = metrics.get("memory_l2_theoretical_sectors_global")
    ideal = metrics.get("memory_l2_theoretical_sectors_global_ideal")
    others = _sectors(kernel, "global")
    atomics = _sectors(kernel, "global", "red", "atom")
    if sectors == 0:
        return {}
    share = sector_efficiency(kernel)["used_ratio"]
    twice = atomics / (atomics + others) if atomics else 0.0
    dram = 1.0 if moved == 0 else min(1.0, ideal * (1 + twice) * SECTOR_BYTES / moved)
    waiting = 1 - _stalled(kernel)[0] * (1 - min(share, dram))
    return {"l1": share, "l2": share, "dram": dram, "waiting": waiting}
