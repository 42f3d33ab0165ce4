"""Compute metrics: what keeps the arithmetic units waiting?

You count lanes, issue slots and resident warps, predict how many warps a latency needs, and say why a kernel
computes less than the device could. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check ncu_ex02

tells what is right and wrong. A *kernel* is one launch of a raw page of Nsight Compute:
`{"name": str, "grid": (x, y, z), "block": (x, y, z), "cc": str, "metrics": {…}}`. "metrics" maps the
profiler's own names to values in base units (ns, bytes, counts; per cent stays per cent); what was not
measured is missing or None, and the functions below raise MissingTable with its name, except where their
contract says otherwise. Shares are ratios, 0.0 to 1.0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from profiling_lab.errors import MissingTable
from profiling_lab.findings import Finding

WARP_THREADS = 32
# What may limit the number of resident blocks, by the counter launch__occupancy_limit_<name>.
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

    segments: what the warp executes, one after the other: (active lanes, instructions). A branch
        with 20 lanes on one side and 12 on the other is two segments; a loop that lanes leave one by
        one is a segment for each number of lanes. Inactive lanes wait.

    Returns
        "instructions_count"  issued by the warp
        "lanes_count"         active lanes of an instruction, on average (32 = none waits)
        "slowdown_ratio"      instructions issued / those that would do the same work with all lanes
                              active in each (this number need not be whole)
    Raises ValueError, naming the value, for a number of lanes outside 1 to WARP_THREADS, for a negative
    number of instructions, and if there are no instructions at all.
    """
    raise NotImplementedError


def scheduler_view(kernel: dict[str, Any]) -> dict[str, float]:
    """A scheduler's cycle, on average over the cycles in which its SM had work.

    Returns
        "resident_count"   warps that the scheduler holds: smsp__warps_active.avg.per_cycle_active
        "eligible_count"   of them those that could issue: smsp__warps_eligible.avg.per_cycle_active
        "issue_ratio"      cycles in which one did:
                           smsp__issue_active.avg.pct_of_peak_sustained_active
        "interval_count"   cycles from one instruction of a warp to its next, by Little's law
                           resident / issue; 0.0 if nothing was issued
        "lanes_count"      lanes of an instruction that a predicate did not switch off:
                           smsp__thread_inst_executed_pred_on_per_inst_executed.ratio
        "work_ratio"       share of the scheduler's lane slots (WARP_THREADS a cycle) that were used
    """
    raise NotImplementedError


def predict_issue(
    warps_count: int, chains_count: int, latency_cycles: float, pipe_cycles: float = 1.0
) -> dict[str, float]:
    """Predict how often a scheduler issues, from the chains that its warps have in flight.

    warps_count: warps that the scheduler holds. chains_count: independent chains of instructions of one
    warp; in each chain the next instruction may issue latency_cycles after the one
    before. pipe_cycles: cycles for which an instruction keeps the pipe of a scheduler busy; at least 1,
    because a scheduler issues one instruction a cycle.

    Returns
        "issue_ratio"       instructions issued a cycle: what Little's law gives for warps × chains in
                            flight, at most what the pipe accepts
        "warps_needed_count"  the fewest warps with as many chains each that keep the pipe full (whole)
    Raises ValueError, naming the value, for counts below 1, for a latency below pipe_cycles, and for
    pipe_cycles below 1.
    """
    raise NotImplementedError


def warp_slots(kernel: dict[str, Any]) -> dict[str, Any]:
    """Where the device's warp slots were lost, as shares of all slots over the whole duration.

    With theoretical = sm__maximum_warps_per_active_cycle_pct, achieved =
    sm__warps_active.avg.pct_of_peak_sustained_active (both / 100) and busy = sm__cycles_active.avg /
    sm__cycles_elapsed.avg:
        "limit_ratio"   slots that no warp could take: 1 − theoretical, whatever the SM did
        "idle_ratio"    of the others, those of SMs without any block: theoretical × (1 − busy)
        "gap_ratio"     those left free while their SM had work: (theoretical − achieved) × busy
        "filled_ratio"  achieved × busy
    Their sum is 1. The measured achieved may be a little above theoretical. Then "gap_ratio" is
    negative; leave it so, or the sum would be wrong.
        "limited_by"    the names in OCCUPANCY_LIMITS whose launch__occupancy_limit_<name> is the
                        smallest, in this order; empty if theoretical is 1 or above: then nothing limits
    """
    raise NotImplementedError


def occupancy_rule(
    kernels: Sequence[dict[str, Any]], good_ratio: float = 0.5
) -> dict[str, list[str]]:
    """Test a rule of thumb, "an occupancy of at least good_ratio is good", on kernels.

    A kernel's occupancy is sm__warps_active.avg.pct_of_peak_sustained_active / 100. It is busy if
    the larger of COMPUTE_METRIC and MEMORY_METRIC / 100 is at least BUSY_RATIO.

    Returns {"kept": […], "low_but_busy": […], "high_but_idle": […]}: the names of the kernels that agree with
    the rule, of those below good_ratio that are busy, and of those from good_ratio on
    that are not; each in the order given. Raises ValueError for good_ratio outside 0 to 1.
    """
    raise NotImplementedError


def compute_verdict(kernel: dict[str, Any]) -> Finding:
    """Why a kernel computes less than the device could.

    compute and memory are the shares COMPUTE_METRIC and MEMORY_METRIC / 100. Decide in this order:
    1. the larger of them is at least BUSY_RATIO: the device is busy. If it is compute (of equal ones
       compute), the lanes that an instruction leaves idle cost
           lost_ratio = compute × (1 − lanes_count / WARP_THREADS)     (lanes_count: scheduler_view)
       of the duration: "divergence" from FLOOR_RATIO on, else "compute_bound". If it is memory:
       lost_ratio is 0.0, and "memory_bound" if DRAM_METRIC / 100 is at least BUSY_RATIO, else
       "cache_bound".
    2. else, with busy = sm__cycles_active.avg / sm__cycles_elapsed.avg, compute / busy is at least BUSY_RATIO:
       an SM with work is busy, and others have none. lost_ratio is 1 − busy, the category
       "small_grid" if launch__waves_per_multiprocessor is below 1, else "tail_effect".
    3. else the warps were missing or they waited. Of warp_slots, lost_ratio is the largest of limit_ratio,
       idle_ratio and gap_ratio (of equal ones the first); if it is larger than filled_ratio,
       "low_occupancy" for limit_ratio, and for the two others as in step 2;
       else "latency_bound": the slots were filled, and the warps in them waited.

    subject: "kernel:<name>", the whole name.
    evidence: "duration_ns" (gpu__time_duration.sum), "compute_ratio", "memory_ratio", "lost_ratio",
    "filled_ratio", and "margin_ratio", the smallest of: the distance of the larger share from
    BUSY_RATIO; where step 1 asks about lanes, that of lost_ratio from FLOOR_RATIO; from step 2 on that of
    compute / busy from BUSY_RATIO; in step 3 that of lost_ratio from filled_ratio.
    recommendation: one sentence; "none" for the three categories that end in "_bound" of step 1; in front
    of all of them "borderline: " if margin_ratio is at most BORDERLINE_RATIO.
    """
    raise NotImplementedError
