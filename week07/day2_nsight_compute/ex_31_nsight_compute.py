"""Day 2, Nsight Compute: what limits this kernel?

You write small functions that read the counters of single kernels and say what to fix, and what the
fix would give. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check ex_31

tells what is right and wrong. Most functions take one *kernel*: an entry of what `read_metrics`
returns. `kernel["metrics"]` maps the profiler's own metric names to values in base units (ns, bytes,
bytes/s, Hz, counts; per cent stays per cent). A metric that the capture lacks is None in the answer,
never 0: read metrics with `.get`, because captures differ in what they hold.

Shares and efficiencies are ratios: 0.0 to 1.0.
"""

from __future__ import annotations

import csv
import math
import re
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding

# Limits of one SM by compute capability (source: cuda_occupancy.h of CUDA 13.2 and the CUDA C++
# Programming Guide, technical specifications). kB here are 1,024 bytes. `shared_steps_kb` are the
# sizes that the SM can set aside as shared memory, the rest of the array is L1; `reserved_kb` is what
# the driver keeps of it for each block; `block_kb` is the most one block may ask for.
SM_LIMITS: dict[str, dict[str, Any]] = {
    "7.0": {
        "warps": 64,
        "blocks": 32,
        "shared_steps_kb": (0, 8, 16, 32, 64, 96),
        "shared_unit_bytes": 256,
        "reserved_kb": 0,
        "block_kb": 96,
    },
    "7.5": {
        "warps": 32,
        "blocks": 16,
        "shared_steps_kb": (32, 64),
        "shared_unit_bytes": 256,
        "reserved_kb": 0,
        "block_kb": 64,
    },
    "8.0": {
        "warps": 64,
        "blocks": 32,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100, 132, 164),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
        "block_kb": 163,
    },
    "8.6": {
        "warps": 48,
        "blocks": 16,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
        "block_kb": 99,
    },
    "8.9": {
        "warps": 48,
        "blocks": 24,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
        "block_kb": 99,
    },
    "9.0": {
        "warps": 64,
        "blocks": 32,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
        "block_kb": 227,
    },
    "10.0": {
        "warps": 64,
        "blocks": 32,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
        "block_kb": 227,
    },
    "12.0": {
        "warps": 48,
        "blocks": 24,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
        "block_kb": 99,
    },
}
WARP_THREADS = 32
MAX_BLOCK_THREADS = 1024
MAX_THREAD_REGISTERS = 255
SM_REGISTERS = 65_536
SM_PARTITIONS = 4  # an SM's registers and warp slots are split over four schedulers
WARP_REGISTER_UNIT = 256  # registers are granted to a warp in multiples of this

SECTOR_BYTES = 32


def ncu_command(
    questions: list[str],
    program: list[str],
    output: str,
    kernel: str | None = None,
    skip: int = 0,
    count: int = 1,
    nvtx_range: str | None = None,
) -> list[str]:
    """The `ncu` command that answers some questions about some launches, and measures nothing else.

    questions: one or more of
        "ceilings"      how near are compute and memory to what the device can do?
        "occupancy"     launch configuration; theoretical and achieved occupancy
        "memory"        sectors, hit rates, bank conflicts, bytes from DRAM
        "stalls"        what do warps wait for, and how often does a scheduler issue?
        "instructions"  which instructions, and how busy are the arithmetic pipes?
        "lines"         the same per source line, with the source text in the report
        "warm_caches"   leave the caches as the program left them
        "own_clocks"    leave the clocks as the program found them
    program: the program and its arguments, unchanged at the end of the command.
    output: where the report goes, without the suffix; an older report of that name is overwritten.
    kernel: the function name of the kernels to profile, exactly; None: any kernel.
    skip, count: pass over the first `skip` launches that the filters let through, then profile `count`.
    nvtx_range: profile only what is launched inside this range, which the program opened with a push
        (`torch.cuda.nvtx.range_push`); None: anywhere.

    Returns the command as a list of words, one option a word: `--option=value`, or `--option` alone
    where the tool's help shows no value. Long names. A section costs passes, in each of which the kernel
    runs again: exactly the sections that the questions need (`--section=…`, one option each), never a
    set. The number of launches is always said; `--launch-skip` only if `skip` is not 0.

    Sections and options of the tool that made this course's captures: captures/tool_help/.
    Raises ValueError, naming what is wrong, for an unknown question, for no question, for questions
    that ask for no section ("warm_caches" and "own_clocks" alone measure nothing), for skip < 0, and
    for count < 1.
    """
    raise NotImplementedError


def read_metrics(capture: str) -> list[dict[str, Any]]:
    """The kernels of a capture with their counters, in base units.

    Reads `captures.text(capture, "kernels.csv")`, the output of `ncu --page raw --csv`: perhaps lines
    of the tool's own before the table (they begin with "=="), a header that begins with the
    column ID, a row of units, then a row for each profiled launch.

    Returns, in the file's order, a list of
        {"id": int, "name": str, "grid": (x, y, z), "block": (x, y, z), "cc": str, "metrics": {…}}
    from the columns ID, Kernel Name, Grid Size, Block Size and CC. "metrics" has every column behind
    CC, by name:
        a number         in base units, as int if it is a whole number and written as one, else float
        other text       unchanged, a string
        None             for an empty cell, "n/a", "nan" and "inf", in any case and sign
    Numbers may have thousands separators ("1,234.5"). A unit is a word, or word/word:
        time        ns, us, ms, s, also spelled nsecond, usecond, msecond, second   → ns
        bytes       byte, Kbyte, Mbyte, Gbyte, Tbyte (powers of 1,000)              → bytes
        frequency   hz, Khz, Mhz, Ghz                                               → Hz
        below "/"   a time: per second ("Gbyte/s", "cycle/nsecond" → per second); any other word
                    changes nothing ("byte/block", "inst/cycle")
        all other words, "%" among them, and an empty unit change nothing
    The case of letters does not matter ("GHz").

    Raises CaptureError, with the file's name in the message, if there is no header with these columns,
    no row of units (ID, Kernel Name and CC empty in it), no kernel, or a row that is shorter or longer
    than the header (a file that was cut off; the message has the line's number).
    """
    raise NotImplementedError


def theoretical_occupancy(
    compute_capability: str,
    block_threads: int,
    thread_registers: int,
    static_shared_bytes: int = 0,
    dynamic_shared_bytes: int = 0,
    shared_config_bytes: int | None = None,
) -> dict[str, Any]:
    """How many blocks of a kernel fit on one SM, and what keeps more from fitting.

    compute_capability: a key of SM_LIMITS. shared_config_bytes: how much shared memory the SM sets
    aside (the carve-out); None: the most it can. It is raised to the next size in `shared_steps_kb`,
    and, if one block needs more, to the first size that holds a block.

    Blocks per SM are the least of four limits:
        "warps"      the SM's warps, divided by the warps of a block
        "blocks"     the SM's blocks
        "registers"  a warp gets its 32 threads' registers, rounded up to WARP_REGISTER_UNIT, in one of
                     four partitions, each with a quarter of SM_REGISTERS: whole warps per partition,
                     times four, divided by the warps of a block. No limit for 0 registers.
                     0 if one block, its warps rounded up to a multiple of four, needs more
                     than SM_REGISTERS
        "shared"     the shared memory set aside, divided by what a block needs: static + dynamic +
                     reserved, rounded up to `shared_unit_bytes`. No limit if a block needs none.
                     0 if static + dynamic is more than `block_kb`
    Returns {"blocks_count": int, "warps_count": int (per SM), "occupancy_ratio": float (of the SM's
    warps), "limits": {limit: blocks, or None for no limit}, "limiters": [the limits that are least,
    in the order above]}. A kernel that cannot be launched has 0 blocks and a ratio of 0.0.

    Raises ValueError for an unknown compute capability (the message lists the known ones), for
    block_threads outside 1 … MAX_BLOCK_THREADS, for thread_registers outside 0 … MAX_THREAD_REGISTERS,
    for negative bytes, and for shared_config_bytes above the largest step.
    """
    raise NotImplementedError


def occupancy_gap(kernel: dict[str, Any]) -> dict[str, float | None]:
    """Achieved against theoretical occupancy, and what may stand between them.

    Returns ratios, each None if a metric for it is missing or its divisor is 0:
        "theoretical_ratio"  sm__maximum_warps_per_active_cycle_pct / 100
        "achieved_ratio"     sm__warps_active.avg.pct_of_peak_sustained_active / 100
        "gap_ratio"          theoretical minus achieved
        "busy_sm_ratio"      sm__cycles_active.avg / gpc__cycles_elapsed.max: the mean share of the time
                             in which an SM had any warp at all. Achieved occupancy is averaged over that
                             time only, so SMs that had nothing to do are not in it
        "resident_ratio"     achieved × busy / theoretical: how full the slots that the launch could have
                             used were, over all SMs and all of the time
        "waves_ratio"        what the launch's waves (launch__waves_per_multiprocessor) would make of
                             resident_ratio if all blocks took equally long: waves / ceil(waves)
    """
    raise NotImplementedError


def sector_efficiency(kernel: dict[str, Any]) -> dict[str, float | None]:
    """How much of what global loads and stores move is used, and which cache answered.

    The L1 cache asks L2 for sectors of SECTOR_BYTES. For loads (op_ld) and stores (op_st) apart, with
        sectors   l1tex__t_sectors_pipe_lsu_mem_global_op_<op>.sum
        requests  l1tex__t_requests_pipe_lsu_mem_global_op_<op>.sum   (one a warp instruction)
        used      smsp__sass_average_data_bytes_per_sector_mem_global_op_<op>.ratio
    Returns
        "load_ratio", "store_ratio"   used / SECTOR_BYTES: the share of the sectors' bytes that a
                                      thread asked for; None if the kernel has no such accesses
        "sectors_per_load_ratio", "sectors_per_store_ratio"   sectors / requests
        "used_ratio"                  both kinds together: bytes used / bytes of the sectors. A kind
                                      without accesses has no part in it; None if there are none at all
        "l1_hit_ratio", "l2_hit_ratio"  l1tex__t_sector_hit_rate.pct and lts__t_sector_hit_rate.pct / 100
    each None if a metric for it is missing. No access of a kind: its sectors are 0, or missing.
    """
    raise NotImplementedError


def dram_traffic(kernel: dict[str, Any], needed_bytes: float) -> dict[str, float | None]:
    """Bytes that DRAM moved against the bytes that the result needs.

    needed_bytes: every input read once and every output written once, which you work out from the
    shapes. Returns "read_bytes" and "written_bytes" (dram__bytes_read.sum, dram__bytes_write.sum),
    "moved_bytes" (their sum), "needed_ratio" (needed / moved: above 1 where a cache already held
    some of it), "moved_bytes_per_s" and "needed_bytes_per_s" (over gpu__time_duration.sum); each None
    if a metric for it is missing or its divisor is 0.

    Raises ValueError if needed_bytes is not a finite number above 0.
    """
    raise NotImplementedError


def bank_conflicts(kernel: dict[str, Any]) -> dict[str, float | None]:
    """How often shared memory had to be visited again because lanes hit the same bank.

    A request of a warp is served in one or more *wavefronts*; those that conflicts add are waste.
    Returns
        "wavefronts_count"  l1tex__data_pipe_lsu_wavefronts_mem_shared.sum
        "conflicts_count"   l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum
        "conflict_ratio"    conflicts / wavefronts
        "data_pipe_ratio"   the share of all wavefronts of the data pipe (they serve global memory as
                            well: l1tex__data_pipe_lsu_wavefronts.sum) that conflicts add
    each None if a metric for it is missing or its divisor is 0.
    """
    raise NotImplementedError


def rank_stalls(kernel: dict[str, Any]) -> list[dict[str, Any]]:
    """What the warps of a kernel wait for, most first.

    smsp__average_warps_issue_stalled_<reason>_per_issue_active.ratio is how many warps of a scheduler
    were, on average, in that state when an instruction was issued. "selected" is the warp that was
    issued, not a wait.

    Returns a list of {"reason": str, "warps_ratio": float, "share_ratio": float}, without "selected"
    and without metrics that are missing; share_ratio is of the sum over all these reasons and
    "selected" (the whole life of a warp), so the shares add up to less than 1. Sorted by share, largest
    first; equal shares by name. [] if there is no such metric or their sum is 0.
    """
    raise NotImplementedError


def read_source(capture: str, kernel: str) -> list[dict[str, Any]]:
    """The machine instructions of one kernel, with their source lines and what was sampled at them."""
    raise NotImplementedError


def hottest_line(listing: list[dict[str, Any]]) -> dict[str, Any]:
    """The source line at which warps were found most often, and the hottest instruction in it."""
    raise NotImplementedError


def instruction_mix(listing: list[dict[str, Any]]) -> dict[str, float]:
    """Which kinds of instructions a kernel executes: share of all warp instructions, by class."""
    raise NotImplementedError


def unit_use(kernel: dict[str, Any]) -> dict[str, float | None]:
    """How near each unit of the device is to its ceiling, as a share of the kernel's duration."""
    raise NotImplementedError


def duration_gap(
    profiled: dict[str, Any],
    warm: dict[str, Any],
    application_ns: float,
    application_hz: float | None = None,
) -> dict[str, float | None]:
    """Why a kernel's duration under the profiler is not its duration in the application."""
    raise NotImplementedError


def estimate_gain(kernel: dict[str, Any], cause: str) -> float | None:
    """The speed-up to expect if one cause were removed: 1.0 is none."""
    raise NotImplementedError


def classify_kernel(kernel: dict[str, Any]) -> Finding:
    """What limits a kernel: the cause whose removal saves most, else the unit at its ceiling."""
    raise NotImplementedError


def classify_kernels(capture: str) -> list[Finding]:
    """A finding for each kernel of a capture, in the file's order."""
    raise NotImplementedError


def rank_kernels(capture: str, launches: dict[str, int]) -> list[dict[str, Any]]:
    """The kernels of an application by the time that mending them would save, most first."""
    raise NotImplementedError
