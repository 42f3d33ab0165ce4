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
    seconds = _metric(kernel, DURATION) / 1e9
    clock = _metric(kernel, INSTRUCTION_CLOCK)
    out = {}
    for dtype, (add, mul, fma) in OPERATIONS.items():
        a_cycle = sum(
            weight * _metric(kernel, INSTRUCTIONS.format(one))
            for one, weight in ((add, 1), (mul, 1), (fma, 2))
        )
        out[f"{dtype}_flops"] = a_cycle * clock * seconds
    for level, (counter, _) in BYTES.items():
        out[f"{level}_bytes"] = _metric(kernel, f"{counter}.per_second") * seconds
    return out


def _metric(kernel: dict[str, Any], name: str) -> float:
    value = kernel["metrics"].get(name)
    if value is None:
        raise MissingTable(
            f"{kernel['name']}: {name} was not recorded; add the sections "
            "SpeedOfLight_HierarchicalSingleRooflineChart and …DoubleRooflineChart, or --set full"
        )
    return value


def roofs_of(kernel: dict[str, Any]) -> dict[str, float]:
    """The roofs above a kernel, at the clocks of its launch: the most that the device could do in a second.

    Returns, in the order of LEVELS and then DTYPES, bytes per second and operations per second:
        level:  the most bytes per cycle (BYTES' counter + ".peak_sustained") × the clock of its unit.
        dtype:  2 × the most fused multiply-adds per cycle (MOST_FMA of "ffma", "dfma") × FMA_CLOCK, since
                each is two operations.
    A datasheet gives these for the boost clock. A launch at a lower clock has lower roofs.
    """
    out = {
        level: _metric(kernel, f"{counter}.peak_sustained") * _metric(kernel, clock)
        for level, (counter, clock) in BYTES.items()
    }
    for dtype in DTYPES:
        fma = OPERATIONS[dtype][-1]
        out[dtype] = 2 * _metric(kernel, MOST_FMA.format(fma)) * _metric(kernel, FMA_CLOCK)
    return out


def ridge_points(roofs: dict[str, float]) -> dict[str, dict[str, float]]:
    """Where the roofs meet: the operations per byte at which two roofs are equally high.

    roofs: as returned by roofs_of. Returns {dtype: {level: operations per byte}} for all DTYPES and LEVELS.

    Raises ValueError, with the roof's name in its message, for a roof that is missing or not above 0.
    """
    for name in (*LEVELS, *DTYPES):
        if not roofs.get(name, 0) > 0:
            raise ValueError(f"the roof {name!r} is {roofs.get(name)}, it must be above 0")
    return {dtype: {level: roofs[dtype] / roofs[level] for level in LEVELS} for dtype in DTYPES}


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
    work, roofs = counted_work(kernel), roofs_of(kernel)
    seconds = _metric(kernel, DURATION) / 1e9
    dtype = max(DTYPES, key=lambda one: work[f"{one}_flops"])
    flops = work[f"{dtype}_flops"]
    share = {level: work[f"{level}_bytes"] / seconds / roofs[level] for level in LEVELS}
    share[dtype] = flops / seconds / roofs[dtype]
    intensity: dict[str, float | None] = {}
    attainable = {}
    for level in LEVELS:
        moved = work[f"{level}_bytes"]
        intensity[level] = flops / moved if moved else None
        slanted = flops / moved * roofs[level] if moved else roofs[dtype]
        attainable[level] = min(slanted, roofs[dtype])
    roof = max(share, key=lambda one: share[one])
    return {
        "dtype": dtype,
        "flops_per_s": flops / seconds,
        "intensity": intensity,
        "attainable_flops_per_s": attainable,
        "roof": roof,
        "reached_ratio": share[roof],
    }


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
    for extra in extra_flops:
        if extra < 0:
            raise ValueError(f"operations can be added, not taken away: {extra}")
    work = counted_work(kernel)
    dtype = under_the_roofs(kernel)["dtype"]
    roof = roofs_of(kernel)[dtype]
    duration, flops = _metric(kernel, DURATION), work[f"{dtype}_flops"]
    free = max(0.0, roof * duration / 1e9 - flops)
    return {
        "free_flops": free,
        "durations_ns": [max(duration, (flops + extra) / roof * 1e9) for extra in extra_flops],
        "turn_intensity": (flops + free) / work["dram_bytes"] if work["dram_bytes"] else None,
    }


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
    point, roofs = under_the_roofs(kernel), roofs_of(kernel)
    compute = _metric(kernel, COMPUTE_METRIC) / 100
    memory = _metric(kernel, MEMORY_METRIC) / 100
    reached, unseen = point["reached_ratio"], max(compute, memory)
    margins = [abs(reached - BUSY_RATIO)]
    if reached >= BUSY_RATIO:
        category = LIMITER_OF_ROOF[point["roof"]]
    else:
        margins.append(abs(unseen - BUSY_RATIO))
        category = "latency_bound"
        if unseen >= BUSY_RATIO:
            margins.append(abs(compute - memory))
            category = "compute_bound" if compute >= memory else "cache_bound"
    evidence = {
        "duration_ns": _metric(kernel, DURATION),
        "reached_ratio": reached,
        "unseen_ratio": unseen,
        "dram_intensity_ratio": point["intensity"]["dram"] or 0.0,
        "dram_ridge_ratio": ridge_points(roofs)[point["dtype"]]["dram"],
        "free_count": forecast(kernel, [])["free_flops"],
    }
    return finding_of(kernel, category, evidence, margins)


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
