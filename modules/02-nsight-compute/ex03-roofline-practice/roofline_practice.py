"""Roofline practice: which roof is above this kernel?

You place kernels under all of their roofs at once, from counters alone: DRAM, L2, L1 and the arithmetic units,
each at the clock that the launch ran at. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check ncu_ex03

tells what is right and wrong. A *kernel* is one launch of a raw page of Nsight Compute:
`{"name": str, "grid": (x, y, z), "block": (x, y, z), "cc": str, "metrics": {…}}`. "metrics" maps the
profiler's own names to values in base units (ns, bytes, Hz, counts, and those per second or per cycle); what
was not measured is missing or None, and the functions below raise MissingTable with its name.
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
        "float32_flops", "float64_flops"   the data type's additions and multiplications once and its fused
                                           multiply-adds twice. Each INSTRUCTIONS is per cycle; with
                                           INSTRUCTION_CLOCK and DURATION it becomes a number of them
        "dram_bytes", "l2_bytes", "l1_bytes"   the rate, BYTES' counter + ".per_second", × DURATION
    Other types, and the tensor cores, are in none of these counters.
    """
    raise NotImplementedError


def roofs_of(kernel: dict[str, Any]) -> dict[str, float]:
    """The roofs above a kernel, at the clocks of its launch: what the device could do in a second.

    Returns, by LEVELS and then DTYPES, in bytes per second and in operations per second:
        level   the most bytes of a cycle (BYTES' counter + ".peak_sustained") × the clock of its unit
        dtype   the most fused multiply-adds of a cycle (MOST_FMA of "ffma", "dfma") × FMA_CLOCK, each two
                operations
    A datasheet gives the same at the boost clock; a launch at a lower clock has lower roofs.
    """
    raise NotImplementedError


def ridge_points(roofs: dict[str, float]) -> dict[str, dict[str, float]]:
    """Where the roofs meet: operations per byte at which neither of two roofs is the lower one.

    roofs: as from roofs_of. Returns {dtype: {level: operations per byte}} for all DTYPES and LEVELS.
    Raises ValueError, naming it, for a roof that is missing or not above 0.
    """
    raise NotImplementedError


def under_the_roofs(kernel: dict[str, Any]) -> dict[str, Any]:
    """A kernel's point on the hierarchical roofline, and the roof that is lowest above it.

    The data type is the one of DTYPES with more operations by counted_work (of equal ones the first).
    Returns
        "dtype"             its name
        "flops_per_s"       its operations over DURATION
        "intensity"         {level: operations per byte of that level}, None where no bytes moved
        "attainable_flops_per_s"   {level: the lower of that level's slanted roof at its intensity,
                            intensity × bytes per second, and the flat roof of the type}; the flat one
                            where the intensity is None
        "roof"              of LEVELS and the type, the one of which the kernel used the largest share
                            (bytes, or operations, per second over its roof); of equal ones the first in
                            the order LEVELS, type. It is the lowest roof above the point, and for a kernel
                            without any operations the only way to find it
        "reached_ratio"     that share
    """
    raise NotImplementedError


def forecast(kernel: dict[str, Any], extra_flops: Sequence[float]) -> dict[str, Any]:
    """How long the kernel would take with more operations of its own data type.

    extra_flops: numbers of operations to be fused into the kernel, each a separate case; they need no
    more bytes. As long as all operations fit under the flat roof of the type (`under_the_roofs`, `roofs_of`)
    within the kernel's present duration, they are free; beyond, the flat roof gives the duration.

    Returns
        "free_flops"     further operations that fit into the present duration (not below 0)
        "durations_ns"   a list: for each entry of extra_flops the predicted duration, the longer of the
                         present one and the time of old and new operations under the flat roof
        "turn_intensity" operations per byte of DRAM at which the free ones are used up; None without bytes
    Raises ValueError, naming it, for a negative number of operations.
    """
    raise NotImplementedError


def roofline_verdict(kernel: dict[str, Any]) -> Finding:
    """Which roof limits a kernel, if any does.

    category: with reached_ratio and roof of under_the_roofs
        reached_ratio at least BUSY_RATIO   the roof's entry of LIMITER_OF_ROOF
        else                                what the roofs do not model: of COMPUTE_METRIC and MEMORY_METRIC,
                                            both / 100, the larger (of equal ones the first) is
                                            unseen_ratio. From BUSY_RATIO on "compute_bound" if it is
                                            the first, "cache_bound" if it is the second; below
                                            "latency_bound"
    subject: "kernel:<name>", the whole name.
    evidence: "duration_ns"; "reached_ratio"; "unseen_ratio" (always); "dram_intensity_ratio", operations
    per byte of DRAM (0.0 if it moved none), and "dram_ridge_ratio", where DRAM's and the type's roof
    meet (ridge_points): right of it a roofline with DRAM's roof alone calls any kernel compute-bound;
    "free_count", the free_flops of forecast; and "margin_ratio", the smallest of: the distance of
    reached_ratio from BUSY_RATIO; below that, the distance of unseen_ratio from BUSY_RATIO, and if that
    is reached, the difference of the two metrics as ratios.
    recommendation: one sentence; "none" for "compute_bound"; in front of all of them "borderline: " if
    margin_ratio is at most BORDERLINE_RATIO.
    """
    raise NotImplementedError
