"""Memory metrics: which bytes moved, and from where?

You follow bytes from the lanes of a warp through L1 and L2 to DRAM, and find which level limits a kernel.
The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check ncu_ex01

checks your solution. A *kernel* is one launch from a raw page of Nsight Compute:
`{"name": str, "grid": (x, y, z), "block": (x, y, z), "cc": str, "metrics": {…}}`. "metrics" maps the
profiler's own names to values in base units (ns, bytes, counts; percentages stay percentages). A metric
that was not measured is missing or None. Shares are ratios, 0.0 to 1.0.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from profiling_lab.errors import MissingTable
from profiling_lab.findings import Finding

SECTOR_BYTES = 32
WARP_THREADS = 32
ACCESS_BYTES = (1, 2, 4, 8, 16)  # what one lane may load or store in one instruction

# How busy a level is, in per cent of the duration: the largest of its metrics.
LEVEL_METRICS = {
    "dram": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",),
    "l2": (
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
        "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed",
        "lts__lts2xbar_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed",
    ),
    "l1": ("l1tex__throughput.avg.pct_of_peak_sustained_elapsed",),
    # Not a level of memory. A kernel may also be limited by instructions and their pipes.
    "sm": ("sm__instruction_throughput.avg.pct_of_peak_sustained_elapsed",),
}
LIMITER_OF_LEVEL = {
    "dram": "memory_bound",
    "l2": "cache_bound",
    "l1": "cache_bound",
    "sm": "compute_bound",
}

# If the limiting level spends at least this share of the duration on bytes that nobody asked for, they are the
# cause (Days 1 and 2 use the same floor for a saving).
WASTE_RATIO = 0.10
# Below this use of every level, none is near its peak (the threshold of the tool's own rule SOLBottleneck).
BUSY_RATIO = 0.6
# A verdict this close to another one says "borderline".
BORDERLINE_RATIO = 0.03


def warp_sectors(addresses: Sequence[int | None], access_bytes: int) -> dict[str, float]:
    """Predict which sectors one load or store of a warp requests from L1, from the addresses of its lanes.

    addresses: for each lane the address in bytes of its first byte, or None if the lane is inactive. 1 to
        WARP_THREADS lanes.
    access_bytes: number of bytes that each lane reads or writes, one of ACCESS_BYTES.

    A sector is SECTOR_BYTES bytes that begin at a multiple of SECTOR_BYTES. Returns
        "sectors_count":  sectors that any lane touches, each counted once.
        "ideal_count":    the smallest number of sectors that could hold as many different bytes: the bytes
                          used (each counted once, however many lanes use it) / SECTOR_BYTES, rounded up.
        "used_ratio":     different bytes used / bytes of the sectors touched.
    If no lane is active, there is no request, and all three are 0 (0.0 for the ratio).

    Raises ValueError, with the value in its message, for an unknown access_bytes, for no lanes or too many
    (the value is their number), and for a negative address. Also raises it for an address that is not a
    multiple of access_bytes: the device refuses such an access (source: CUDA C++ Programming Guide, size and
    alignment requirement).
    """
    raise NotImplementedError


def byte_flow(kernel: dict[str, Any]) -> dict[str, dict[str, float]]:
    """How many bytes each level of memory moves, for reads and for writes of global memory.

    Returns {"read": {…}, "write": {…}}, each with
        "asked_bytes": bytes that lanes asked for: sectors × bytes used of a sector,
                       l1tex__t_sectors_pipe_lsu_mem_global_op_<op>.sum ×
                       smsp__sass_average_data_bytes_per_sector_mem_global_op_<op>.ratio.
        "l1_bytes":    the sectors that L1 looked up, × SECTOR_BYTES.
        "l2_bytes":    bytes between L1 and L2: l1tex__m_xbar2l1tex_read_bytes.sum,
                       l1tex__m_l1tex2xbar_write_bytes.sum.
        "dram_bytes":  dram__bytes_read.sum, dram__bytes_write.sum.
    <op> is ld for reads and st for writes.

    Raises MissingTable, with the name of the metric, if one of the eight is missing or None: bytes that were
    not counted may still have moved.
    """
    raise NotImplementedError


def served_by(kernel: dict[str, Any]) -> dict[str, float] | None:
    """Which level answered the loads, as shares of the bytes that L1 looked up (`byte_flow`).

    Loads look up bytes in L1. L1 supplied the bytes that did not come from L2. DRAM supplied the
    bytes that came from L2, up to the number of bytes that DRAM delivered, and L2 the rest. Returns
        "l1_ratio", "l2_ratio", "dram_ratio":  their sum is 1. Counters from two passes may differ a
                                               little; still no share is below 0.
        "overfetch_ratio"                      (bytes that DRAM delivered - bytes that L2 sent to L1) /
                                               bytes that L2 sent to L1; 0.0 if the difference is negative,
                                               or if L2 sent nothing
    Returns None if the kernel has no loads. Raises the errors of byte_flow.
    """
    raise NotImplementedError


def share_of_copy(report: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Each kernel's bandwidth as a share of the bandwidth of a device copy in the same rounds.

    report: the output of `memory_bandwidth` after RESULT: report["kernels"] maps names to
        {"samples_ns": […], "useful_bytes": …}. One of the names is "device_copy". All kernels ran once in
        each round: entry t of each "samples_ns" belongs to round t.

    Returns, for each kernel except "device_copy", in the report's order, a dict with
        "bytes_per_s":  useful bytes / median time.
        "share_ratio":  median of the shares of all rounds. A round's share is the kernel's useful bytes per
                        second / those of the copy in the same round.
        "lowest_ratio": the smallest of these shares.
    If the clock changes between rounds, it affects kernel and copy alike, and the share does not change.

    Raises ValueError, with the kernel's name in its message,
    - if there is no "device_copy";
    - if a kernel has no samples, or not as many as the copy;
    - if a sample or "useful_bytes" is not above 0.
    """
    raise NotImplementedError


def memory_verdict(kernel: dict[str, Any]) -> Finding:
    """Which level of memory limits a kernel, and whether it moves bytes that nobody asked for.

    The limiting level is the level of LEVEL_METRICS with the highest use (if equal, the first). A level's use
    is its largest metric / 100. Its moved bytes are "dram_bytes", "l2_bytes" or "l1_bytes" of `byte_flow`,
    reads and writes added; "sm" moves 0 bytes. The same accesses need at least
    memory_l2_theoretical_sectors_global_ideal × SECTOR_BYTES. Unasked bytes are the moved bytes minus these
    needed bytes, at least 0 (a cache may already hold some of the needed bytes). The level is busy for `use`
    of the duration, so the wasted share of the duration is
        wasted_ratio = use × unasked bytes / moved bytes     (0.0 if it moved nothing)
    Waste at a level that does not limit costs no time and is not counted.

    category:
        If wasted_ratio is at least WASTE_RATIO, it is "register_spills" if the sectors of local memory
        (memory_l2_theoretical_sectors_local) outnumber the excess sectors of global accesses
        (memory_l2_theoretical_sectors_global minus …_ideal), else "uncoalesced_access".
        If wasted_ratio is below WASTE_RATIO, it is "latency_bound" if the use is below BUSY_RATIO, else the
        level's entry of LIMITER_OF_LEVEL.
    `finding_of` makes the finding.
    evidence: "duration_ns" (gpu__time_duration.sum), "use_ratio", "moved_bytes", "ideal_bytes" and "wasted_ratio".
    margins: the distance of wasted_ratio from WASTE_RATIO; if wasted_ratio is below WASTE_RATIO, also that of the
    use from BUSY_RATIO.

    Raises MissingTable, with the metric's name, if a metric that the function needs is missing or None.
    """
    raise NotImplementedError


RECOMMENDATIONS = {
    "register_spills": "allow more registers a thread, or keep fewer values alive",
    "uncoalesced_access": "let the lanes of a warp use neighbouring addresses",
    "latency_bound": "have more bytes under way: wider or more independent loads in each thread",
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
