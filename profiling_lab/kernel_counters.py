"""A few numbers of a kernel under short names, as somebody would ask for them one at a time.

    >>> from profiling_lab.captures import kernels
    >>> from profiling_lab.kernel_counters import value
    >>> round(value(kernels.read("ncu_memory")[0]["metrics"], "memory_use"), 2)
    0.86

Each is a counter of the raw page, or a quotient of two.
"""

from __future__ import annotations

from typing import Any

from profiling_lab.captures.kernels import UNITS

# By name: what it says.
COUNTERS: dict[str, str] = {
    "duration_ns": "how long the kernel took",
    "memory_use": "use of DRAM or of L2, whichever is fuller",
    "l1_use": "use of L1 and shared memory",
    "waiting_ratio": "share of a warp's life in long scoreboard",
    "needed_ratio": "sectors of global memory: those needed, of those moved",
    "spilled_ratio": "sectors of loads and stores: those of local memory, of all",
    "conflict_ratio": "wavefronts of shared memory: those that conflicts add, of all",
    "l2_hit_ratio": "sectors that L2 had, of those it was asked for",
    "occupancy_ratio": "theoretical occupancy",
    "achieved_ratio": "achieved occupancy",
    "waves": "waves of blocks: those of the grid, over those that fit on the device at once",
}

_STATE = "smsp__average_warps_issue_stalled_"
_PER_CENT = {
    "l2_hit_ratio": "lts__t_sector_hit_rate.pct",
    "occupancy_ratio": "sm__maximum_warps_per_active_cycle_pct",
    "achieved_ratio": "sm__warps_active.avg.pct_of_peak_sustained_active",
}


def value(metrics: dict[str, Any], name: str) -> float:
    """One of COUNTERS. Raises KeyError for another name, and where the page lacks what it is made of."""
    if name == "duration_ns":
        return metrics["gpu__time_duration.sum"]
    if name == "waves":
        return metrics["launch__waves_per_multiprocessor"]
    if name in _PER_CENT:
        return metrics[_PER_CENT[name]] / 100
    if name == "memory_use":
        known = [metrics.get(counter) for unit in ("dram", "l2") for counter in UNITS[unit]]
        return max(share for share in known if share is not None) / 100
    if name == "l1_use":  # the counter is a share of the time in which an SM had work
        busy = metrics["sm__cycles_active.avg"] / metrics["gpc__cycles_elapsed.max"]
        return metrics[UNITS["l1"][0]] / 100 * busy
    if name == "waiting_ratio":
        life = {key: cycles for key, cycles in metrics.items() if key.startswith(_STATE)}
        waiting = life[f"{_STATE}long_scoreboard_per_issue_active.ratio"]
        return _of(waiting, sum(cycles for cycles in life.values() if cycles is not None))
    if name == "needed_ratio":
        moved = metrics["memory_l2_theoretical_sectors_global"]
        needed = metrics["memory_l2_theoretical_sectors_global_ideal"]
        return _of(needed, moved, of_none=1.0)
    if name == "spilled_ratio":
        local = sum(
            metrics[f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum"] for op in ("ld", "st")
        )
        plain = sum(
            metrics[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"] for op in ("ld", "st")
        )
        return _of(local, local + plain)
    if name == "conflict_ratio":
        all_of_them = metrics["memory_l1_wavefronts_shared"]
        return _of(all_of_them - metrics["memory_l1_wavefronts_shared_ideal"], all_of_them)
    raise KeyError(f"{name!r} is none of {', '.join(COUNTERS)}")


def _of(part: float, whole: float, of_none: float = 0.0) -> float:
    """A share; of_none where there is nothing to have a share of."""
    return part / whole if whole else of_none
