"""Roofline practice: which roof is above this kernel?

You place kernels under all of their roofs, from counters only: DRAM, L2, L1 and the arithmetic units, each
at the clock of the launch. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check ncu_ex03

checks your solution. A *kernel* is one launch from a raw page of Nsight Compute:
`{"name": str, "grid": (x, y, z), "block": (x, y, z), "cc": str, "metrics": {…}}`. "metrics" maps the
profiler's own names to values in base units (ns, bytes, Hz, counts, and these per second or per cycle). A
metric that was not measured is missing or None, and the functions below raise MissingTable with its name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiling_lab.errors import MissingTable
from profiling_lab.findings import Finding

LEVELS = ("dram", "l2", "l1")
DTYPES = ("float32", "float64")

# Bytes of a level: the counter (append .per_second for the rate, .peak_sustained for the most of a cycle)
# and the clock of its unit. l2 is what L2 sends to the SMs, l1 what L1 and shared memory give to registers:
# the three levels of the tool's own hierarchical roofline.
BYTES = {
    "dram": ("dram__bytes.sum", "dram__cycles_elapsed.avg.per_second"),
    "l2": ("derived__lts__lts2xbar_bytes.sum", "lts__cycles_elapsed.avg.per_second"),
    "l1": (
        "derived__l1tex__lsu_writeback_bytes_mem_lgds.sum",
        "l1tex__cycles_elapsed.avg.per_second",
    ),
}
# Instructions of single threads, by data type: additions, multiplications, fused multiply-adds.
OPERATIONS = {"float32": ("fadd", "fmul", "ffma"), "float64": ("dadd", "dmul", "dfma")}
INSTRUCTIONS = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
INSTRUCTION_CLOCK = "smsp__cycles_elapsed.avg.per_second"
MOST_FMA = "sm__sass_thread_inst_executed_op_{}_pred_on.sum.peak_sustained"
FMA_CLOCK = "sm__cycles_elapsed.avg.per_second"
DURATION = "gpu__time_duration.sum"
# What the roofs do not model: instructions and pipes of any kind, and accesses that cost more
# than their bytes; in per cent of the duration.
COMPUTE_METRIC = "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY_METRIC = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"

LIMITER_OF_ROOF = {
    "dram": "memory_bound",
    "l2": "cache_bound",
    "l1": "cache_bound",
    "float32": "compute_bound",
    "float64": "compute_bound",
}
# Below this share of the lowest roof, no roof explains the time (the threshold of the tool's rule SOLBottleneck).
BUSY_RATIO = 0.6
# A verdict this close to another one says "borderline".
BORDERLINE_RATIO = 0.03


def counted_work(kernel: dict[str, Any]) -> dict[str, float]:
    """What a kernel did, by its counters: operations by data type, bytes by level.

    Returns
        "float32_flops", "float64_flops":      additions + multiplications + 2 × fused multiply-adds of the
                                               data type. INSTRUCTIONS are per cycle; multiply them by
                                               INSTRUCTION_CLOCK and DURATION to get their number.
        "dram_bytes", "l2_bytes", "l1_bytes":  the rate, BYTES' counter + ".per_second", × DURATION.
    Operations of other types, and those of the tensor cores, are in none of these counters.
    """
    raise NotImplementedError


def roofs_of(kernel: dict[str, Any]) -> dict[str, float]:
    """The roofs above a kernel, at the clocks of its launch: the most that the device could do in a second.

    Returns, in the order of LEVELS and then DTYPES, bytes per second and operations per second:
        level:  the most bytes per cycle (BYTES' counter + ".peak_sustained") × the clock of its unit.
        dtype:  2 × the most fused multiply-adds per cycle (MOST_FMA of "ffma", "dfma") × FMA_CLOCK, since
                each is two operations.
    A datasheet gives these for the boost clock. A launch at a lower clock has lower roofs.
    """
    raise NotImplementedError


def ridge_points(roofs: dict[str, float]) -> dict[str, dict[str, float]]:
    """Where the roofs meet: the operations per byte at which two roofs are equally high.

    roofs: as returned by roofs_of. Returns {dtype: {level: operations per byte}} for all DTYPES and LEVELS.

    Raises ValueError, with the roof's name in its message, for a roof that is missing or not above 0.
    """
    raise NotImplementedError


def under_the_roofs(kernel: dict[str, Any]) -> dict[str, Any]:
    """A kernel's point on the hierarchical roofline, and the lowest roof above it.

    The data type is the type of DTYPES with more operations in counted_work (if equal, the first).
    Returns
        "dtype":            its name.
        "flops_per_s":      its operations / DURATION.
        "intensity":        {level: operations per byte of that level}, None where no bytes moved.
        "attainable_flops_per_s":  {level: the lower of two roofs at this intensity: the level's slanted roof
                            (intensity × bytes per second) and the flat roof of the data type}. Where the
                            intensity is None, it is the flat roof.
        "roof":             the level or data type with the largest used share: the kernel's bytes or operations
                            per second / its roof. Candidates are LEVELS, then the data type; if
                            equal, the first. It is the lowest roof above the point. For a kernel without any
                            operations, this is the only way to find the roof.
        "reached_ratio":    that share.
    """
    raise NotImplementedError


def forecast(kernel: dict[str, Any], extra_flops: Sequence[float]) -> dict[str, Any]:
    """How long the kernel would take with more operations of its own data type.

    extra_flops: numbers of operations to be fused into the kernel, each a separate case. They need no
    additional bytes. Extra operations are free if all operations, at the rate of the data type's flat roof
    (`under_the_roofs`, `roofs_of`), fit into the kernel's present duration. With more operations, the flat roof
    gives the duration.

    Returns
        "free_flops":    number of further operations that fit into the present duration (at least 0).
        "durations_ns":  a list with the predicted duration for each entry of extra_flops: the longer of the
                         present duration and the time of old and new operations under the flat roof.
        "turn_intensity" operations per byte of DRAM at which the free operations are used up; None without
                         bytes
    Raises ValueError, with the number in its message, for a negative number of operations.
    """
    raise NotImplementedError


def roofline_verdict(kernel: dict[str, Any]) -> Finding:
    """Which roof limits a kernel, if any does.

    category, from reached_ratio and roof of under_the_roofs:
        If reached_ratio is at least BUSY_RATIO, it is the roof's entry of LIMITER_OF_ROOF.
        If reached_ratio is below, the roofs do not explain the time. unseen_ratio is the larger of COMPUTE_METRIC and
        MEMORY_METRIC, both divided by 100 (if equal, the first). If unseen_ratio is at least BUSY_RATIO, the
        category is "compute_bound" for the first metric, "cache_bound" for the second. Else it is
        "latency_bound".
    `finding_of` makes the finding.
    evidence:
        "duration_ns", "reached_ratio", and "unseen_ratio" in every case;
        "dram_intensity_ratio":  operations per byte of DRAM (0.0 if it moved none).
        "dram_ridge_ratio":      where the roofs of DRAM and of the data type meet (ridge_points). To the
                                 right of it, a roofline with only DRAM's roof calls any kernel compute-bound.
        "free_count":            free_flops of forecast.
    margins: the distance of reached_ratio from BUSY_RATIO; if reached_ratio is below, also that of unseen_ratio from
    BUSY_RATIO; if unseen_ratio then reaches BUSY_RATIO, also the difference of the two metrics as ratios.
    """
    raise NotImplementedError


RECOMMENDATIONS = {
    "memory_bound": "fuse what follows into this kernel: free_count operations cost no time",
    "cache_bound": "fewer and wider accesses: let each byte of the cache serve more operations",
    "compute_bound": "none",
    "latency_bound": "no roof is near: have more warps, or more independent work in each",
}


def finding_of(
    kernel: dict[str, Any], category: str, evidence: dict[str, float], margins: list[float]
) -> Finding:
    """The finding on a kernel: the smallest margin is in its evidence and decides whether it is "borderline". Given."""
    margin = min(margins)
    advice = RECOMMENDATIONS.get(category, "none")
    return Finding(
        category,
        f"kernel:{kernel['name']}",
        {**evidence, "margin_ratio": margin},
        f"borderline: {advice}" if margin <= BORDERLINE_RATIO else advice,
    )
