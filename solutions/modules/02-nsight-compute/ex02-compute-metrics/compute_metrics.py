"""Compute metrics: what keeps the arithmetic units waiting?

You count lanes, issue slots and resident warps, predict how many warps a latency needs, and explain why a
kernel computes less than the device could. The lesson is `README.md` in this folder, hints are in `hints.md`,
and

    uv run lab check ncu_ex02

checks your solution. A *kernel* is one launch from a raw page of Nsight Compute:
`{"name": str, "grid": (x, y, z), "block": (x, y, z), "cc": str, "metrics": {…}}`. "metrics" maps the
profiler's own names to values in base units (ns, bytes, counts; percentages stay percentages). A metric that
was not measured is missing or None. Then the functions below raise MissingTable with its name, unless
their contract says otherwise. Shares are ratios, 0.0 to 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from profiling_lab.errors import MissingTable
from profiling_lab.findings import Finding

WARP_THREADS = 32
# What may limit the number of resident blocks. The counter is launch__occupancy_limit_<name>.
OCCUPANCY_LIMITS = ("warps", "blocks", "registers", "shared_mem")

# How busy an SM is with instructions and their pipes, and memory with moving bytes: per cent of the duration.
COMPUTE_METRIC = "sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed"
MEMORY_METRIC = "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed"
DRAM_METRIC = "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed"

# Below this use of every unit, none is near its peak (the threshold of the tool's own rule SOLBottleneck).
BUSY_RATIO = 0.6
# A loss below this share is not worth naming (Days 1 and 2 use the same floor).
FLOOR_RATIO = 0.10
# A verdict this close to another one says "borderline".
BORDERLINE_RATIO = 0.03


def divergence_cost(segments: Sequence[tuple[int, int]]) -> dict[str, float]:
    """Predict what it costs when the lanes of a warp take different paths.

    segments: what the warp executes, in order, as (active lanes, instructions). A branch with 20 lanes on
        one side and 12 on the other is two segments. A loop that lanes leave one by one has a segment for
        each number of lanes. Inactive lanes wait.

    Returns
        "instructions_count": number of instructions that the warp issues.
        "lanes_count":        average number of active lanes per instruction (32: no lane waits).
        "slowdown_ratio":     instructions issued / instructions that would do the same work if all lanes
                              were active in each (this number need not be an integer).
    Raises ValueError, with the value in its message, for a number of lanes outside 1 to WARP_THREADS, for a
    negative number of instructions, and if there are no instructions at all.
    """
    for lanes, instructions in segments:
        if not 1 <= lanes <= WARP_THREADS:
            raise ValueError(f"a segment runs with 1 to {WARP_THREADS} lanes, got {lanes}")
        if instructions < 0:
            raise ValueError(f"a segment has 0 instructions or more, got {instructions}")
    issued = sum(instructions for _, instructions in segments)
    if not issued:
        raise ValueError("the warp executes 0 instructions; give at least one segment with some")
    lanes = sum(lanes * instructions for lanes, instructions in segments) / issued
    return {
        "instructions_count": issued,
        "lanes_count": lanes,
        "slowdown_ratio": WARP_THREADS / lanes,
    }


def scheduler_view(kernel: dict[str, Any]) -> dict[str, float]:
    """A scheduler's average cycle, over the cycles in which its SM had work.

    Returns
        "resident_count":  warps that the scheduler holds: smsp__warps_active.avg.per_cycle_active.
        "eligible_count":  those of them that could issue: smsp__warps_eligible.avg.per_cycle_active.
        "issue_ratio":     share of cycles in which a warp issued:
                           smsp__issue_active.avg.pct_of_peak_sustained_active.
        "interval_count":  cycles from one instruction of a warp to its next, by Little's law
                           resident / issue; 0.0 if nothing was issued.
        "lanes_count":     lanes per instruction that no predicate switched off:
                           smsp__thread_inst_executed_pred_on_per_inst_executed.ratio.
        "work_ratio":      share of the scheduler's lane slots (WARP_THREADS per cycle) that were used.
    """
    resident = _metric(kernel, "smsp__warps_active.avg.per_cycle_active")
    issue = _metric(kernel, "smsp__issue_active.avg.pct_of_peak_sustained_active") / 100
    lanes = _metric(kernel, "smsp__thread_inst_executed_pred_on_per_inst_executed.ratio")
    return {
        "resident_count": resident,
        "eligible_count": _metric(kernel, "smsp__warps_eligible.avg.per_cycle_active"),
        "issue_ratio": issue,
        "interval_count": resident / issue if issue else 0.0,
        "lanes_count": lanes,
        "work_ratio": issue * lanes / WARP_THREADS,
    }


def _metric(kernel: dict[str, Any], name: str) -> float:
    value = kernel["metrics"].get(name)
    if value is None:
        raise MissingTable(
            f"{kernel['name']}: {name} was not recorded; add the sections SpeedOfLight, LaunchStats, "
            "Occupancy, SchedulerStats and WarpStateStats"
        )
    return value


def predict_issue(
    warps_count: int, chains_count: int, latency_cycles: float, pipe_cycles: float = 1.0
) -> dict[str, float]:
    """Predict how often a scheduler issues, from the chains that its warps have in flight.

    warps_count: number of warps that the scheduler holds.
    chains_count: number of independent chains of instructions in one warp.
    latency_cycles: in each chain the next instruction may issue this many cycles after the previous one.
    pipe_cycles: cycles for which an instruction keeps the scheduler's pipe busy; at least 1, because a
        scheduler issues one instruction per cycle.

    Returns
        "issue_ratio":        instructions issued per cycle: Little's law for warps × chains in flight, capped
                              at what the pipe accepts.
        "warps_needed_count": the smallest number of warps, with the same number of chains each, that keeps the
                              pipe full (an integer).
    Raises ValueError, with the value in its message, for counts below 1, for a latency below pipe_cycles, and
    for pipe_cycles below 1.
    """
    if warps_count < 1 or chains_count < 1:
        raise ValueError(f"at least one warp and one chain, got {warps_count} and {chains_count}")
    if pipe_cycles < 1 or latency_cycles < pipe_cycles:
        raise ValueError(
            f"a pipe takes at least 1 cycle and no more than the latency, got {pipe_cycles} of "
            f"{latency_cycles}"
        )
    return {
        "issue_ratio": min(1 / pipe_cycles, warps_count * chains_count / latency_cycles),
        "warps_needed_count": math.ceil(latency_cycles / (pipe_cycles * chains_count)),
    }


def warp_slots(kernel: dict[str, Any]) -> dict[str, Any]:
    """How the device's warp slots were lost, as shares of all slots over the whole duration.

    Let theoretical = sm__maximum_warps_per_active_cycle_pct / 100, achieved =
    sm__warps_active.avg.pct_of_peak_sustained_active / 100, and busy = sm__cycles_active.avg /
    sm__cycles_elapsed.avg. Returns
        "limit_ratio":  slots that no warp could take, whatever the SM did: 1 − theoretical.
        "idle_ratio":   of the other slots, those of SMs without any block: theoretical × (1 − busy).
        "gap_ratio":    slots that stayed free while their SM had work: (theoretical − achieved) × busy.
        "filled_ratio": achieved × busy.
        "limited_by":   the names in OCCUPANCY_LIMITS whose launch__occupancy_limit_<name> is the smallest,
                        in the order of OCCUPANCY_LIMITS. If theoretical is 1 or above, nothing limits, and the
                        list is empty.
    The four ratios add up to 1. The measured `achieved` may be slightly above `theoretical`. Then "gap_ratio"
    is negative. Keep the negative value: otherwise the sum would be wrong.
    """
    theoretical = _metric(kernel, "sm__maximum_warps_per_active_cycle_pct") / 100
    achieved = _metric(kernel, "sm__warps_active.avg.pct_of_peak_sustained_active") / 100
    busy = _metric(kernel, "sm__cycles_active.avg") / _metric(kernel, "sm__cycles_elapsed.avg")
    limits = {name: _metric(kernel, f"launch__occupancy_limit_{name}") for name in OCCUPANCY_LIMITS}
    fewest = min(limits.values())
    return {
        "limit_ratio": 1 - theoretical,
        "idle_ratio": theoretical * (1 - busy),
        "gap_ratio": (theoretical - achieved) * busy,
        "filled_ratio": achieved * busy,
        "limited_by": [name for name in limits if limits[name] == fewest]
        if theoretical < 1
        else [],
    }


def occupancy_rule(
    kernels: Sequence[dict[str, Any]], good_ratio: float = 0.5
) -> dict[str, list[str]]:
    """Test the rule of thumb "an occupancy of at least good_ratio is good" on kernels.

    A kernel's occupancy is sm__warps_active.avg.pct_of_peak_sustained_active / 100. A kernel is busy if
    the larger of COMPUTE_METRIC and MEMORY_METRIC, divided by 100, is at least BUSY_RATIO.

    Returns {"kept": […], "low_but_busy": […], "high_but_idle": […]}, each with names of kernels in the given
    order. "low_but_busy" lists the kernels below good_ratio that are busy; "high_but_idle" those at or above
    good_ratio that are not busy; "kept" the others, which agree with the rule.

    Raises ValueError for good_ratio outside 0 to 1.
    """
    if not 0 <= good_ratio <= 1:
        raise ValueError(f"good_ratio is a share from 0 to 1, got {good_ratio}")
    out: dict[str, list[str]] = {"kept": [], "low_but_busy": [], "high_but_idle": []}
    for kernel in kernels:
        occupancy = _metric(kernel, "sm__warps_active.avg.pct_of_peak_sustained_active") / 100
        used = max(_metric(kernel, COMPUTE_METRIC), _metric(kernel, MEMORY_METRIC)) / 100
        high, busy = occupancy >= good_ratio, used >= BUSY_RATIO
        key = "kept" if high == busy else "low_but_busy" if busy else "high_but_idle"
        out[key].append(kernel["name"])
    return out


def compute_verdict(kernel: dict[str, Any]) -> Finding:
    """Why a kernel computes less than the device could.

    compute is COMPUTE_METRIC / 100, memory is MEMORY_METRIC / 100. Decide in this order:
    1. If the larger of them is at least BUSY_RATIO, the device is busy.
       - If compute is the larger one (or equal), idle lanes cost this share of the duration:
             lost_ratio = compute × (1 − lanes_count / WARP_THREADS)     (lanes_count: scheduler_view)
         The category is "divergence" if lost_ratio is at least FLOOR_RATIO, else "compute_bound".
       - If memory is the larger one, lost_ratio is 0.0. The category is "memory_bound" if DRAM_METRIC / 100
         is at least BUSY_RATIO, else "cache_bound".
    2. Else let busy = sm__cycles_active.avg / sm__cycles_elapsed.avg. If compute / busy is at least BUSY_RATIO,
       the SMs that have work are busy, and other SMs have none. lost_ratio is 1 − busy. The category is
       "small_grid" if launch__waves_per_multiprocessor is below 1, else "tail_effect".
    3. Else too few warps were resident, or the resident warps waited. lost_ratio is the largest of limit_ratio,
       idle_ratio and gap_ratio of warp_slots (if equal, the first). If lost_ratio is larger than filled_ratio,
       the category is "low_occupancy" for limit_ratio, and as in step 2 for the two others. Else it is
       "latency_bound": the slots were filled, but their warps waited.

    `finding_of` makes the finding.
    evidence: "duration_ns" (gpu__time_duration.sum), "compute_ratio", "memory_ratio", "lost_ratio" and "filled_ratio".
    margins: these distances:
        always:                                    from the larger of compute and memory to BUSY_RATIO.
        in step 1, if compute is larger or equal:  from lost_ratio to FLOOR_RATIO.
        in steps 2 and 3:                          from compute / busy to BUSY_RATIO.
        in step 3:                                 from lost_ratio to filled_ratio.
    """
    compute = _metric(kernel, COMPUTE_METRIC) / 100
    memory = _metric(kernel, MEMORY_METRIC) / 100
    slots = warp_slots(kernel)
    filled = slots["filled_ratio"]
    margins = [abs(max(compute, memory) - BUSY_RATIO)]
    lost = 0.0
    if max(compute, memory) < BUSY_RATIO:
        busy = _metric(kernel, "sm__cycles_active.avg") / _metric(kernel, "sm__cycles_elapsed.avg")
        waves = _metric(kernel, "launch__waves_per_multiprocessor")
        category = "small_grid" if waves < 1 else "tail_effect"
        lost = 1 - busy
        margins.append(abs(compute / busy - BUSY_RATIO))
        if compute / busy < BUSY_RATIO:
            key = max(("limit_ratio", "idle_ratio", "gap_ratio"), key=lambda one: slots[one])
            lost = slots[key]
            margins.append(abs(lost - filled))
            if lost <= filled:
                category = "latency_bound"
            elif key == "limit_ratio":
                category = "low_occupancy"
    elif compute >= memory:
        lost = compute * (1 - scheduler_view(kernel)["lanes_count"] / WARP_THREADS)
        margins.append(abs(lost - FLOOR_RATIO))
        category = "divergence" if lost >= FLOOR_RATIO else "compute_bound"
    else:
        dram = _metric(kernel, DRAM_METRIC) / 100
        category = "memory_bound" if dram >= BUSY_RATIO else "cache_bound"
    evidence = {
        "duration_ns": _metric(kernel, "gpu__time_duration.sum"),
        "compute_ratio": compute,
        "memory_ratio": memory,
        "lost_ratio": lost,
        "filled_ratio": filled,
    }
    return finding_of(kernel, category, evidence, margins)


RECOMMENDATIONS = {
    "divergence": "give the lanes of a warp the same way: sort or compact the work",
    "low_occupancy": "use less of what limits the blocks, or give each warp more independent work",
    "small_grid": "cut the work into more blocks",
    "tail_effect": "use smaller blocks of work, or as many blocks as fit at once",
    "latency_bound": "have more independent instructions under way in each warp",
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
