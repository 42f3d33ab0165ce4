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
from profiling_lab.findings import CATEGORIES, Finding

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

TENSOR_METRIC = "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed"

# The arithmetic pipes of an SM: alu does integers, comparisons and bits; fma multiplies and adds floats and
# halves; fp64 doubles; xu transcendental functions and conversions; tensor matrices (source: Nsight
# Compute, Kernel Profiling Guide, pipelines).
PIPE_METRICS = {
    "alu": "sm__pipe_alu_cycles_active.avg.pct_of_peak_sustained_active",
    "fma": "sm__pipe_fma_cycles_active.avg.pct_of_peak_sustained_active",
    "fp64": "sm__pipe_fp64_cycles_active.avg.pct_of_peak_sustained_active",
    "xu": "sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active",
    "tensor": TENSOR_METRIC,
}

# Shared memory: the data pipe's wavefronts (also "…_op_atom" before ".sum") and waits for a bank.
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
BANK_WAITS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
ATOMIC_METRIC = "lts__d_atomic_input_cycles_active.{}.pct_of_peak_sustained_elapsed"

# What tells how busy a unit is: the largest counts. `lts__throughput` is left out: it is the largest of
# many counters, and some of those are not shown.
UNIT_METRICS = {
    "dram": ("gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed",),
    "l2": (
        "lts__t_sectors.avg.pct_of_peak_sustained_elapsed",
        "lts__t_tag_requests.avg.pct_of_peak_sustained_elapsed",
        "lts__lts2xbar_cycles_active.avg.pct_of_peak_sustained_elapsed",
        "lts__xbar2lts_cycles_active.avg.pct_of_peak_sustained_elapsed",
    ),
    "l1": ("l1tex__throughput.avg.pct_of_peak_sustained_active",),
    "issue": ("smsp__issue_active.avg.pct_of_peak_sustained_active",),
    "pipe": tuple(PIPE_METRICS.values()),
    # What L2 does for atomics, in the slice that does most: few addresses lie in few slices.
    "atomics": (ATOMIC_METRIC.format("max"),),
    # Barriers of a block, jumps to diverging addresses, loads of constants (source: Kernel Profiling Guide,
    # pipelines).
    "adu": ("sm__inst_executed_pipe_adu.avg.pct_of_peak_sustained_active",),
}
LIMITER_OF_UNIT = {
    "dram": "memory_bound",
    "l2": "cache_bound",
    "l1": "cache_bound",
    "issue": "compute_bound",
    "pipe": "compute_bound",
    "atomics": "cache_bound",
    "adu": "latency_bound",
}

# Opcodes of Volta to Hopper by what they do (source: CUDA Binary Utilities, Instruction Set Reference).
# A move may hide in another opcode: IMAD.MOV, HFMA2.MMA with -RZ.
INSTRUCTION_CLASSES: dict[str, tuple[str, ...]] = {
    "fp32": ("FADD", "FMUL", "FFMA", "FMNMX", "FSEL", "FSETP", "FCHK"),
    "fp64": ("DADD", "DMUL", "DFMA", "DMNMX", "DSETP"),
    "fp16": ("HADD2", "HMUL2", "HFMA2", "HMNMX2", "HSETP2"),
    "tensor": ("HMMA", "IMMA", "DMMA", "BMMA", "HGMMA", "IGMMA", "QGMMA"),
    "special": ("MUFU",),
    "convert": ("F2F", "F2I", "I2F", "F2FP", "I2FP", "FRND"),
    "integer": (
        "IADD3",
        "IMAD",
        "ISETP",
        "IMNMX",
        "IABS",
        "LEA",
        "LOP3",
        "SHF",
        "POPC",
        "SEL",
        "PRMT",
        "VIADD",
    ),
    "global": ("LDG", "STG", "LD", "ST", "RED", "REDG", "ATOM", "ATOMG", "LDGSTS"),
    "shared": ("LDS", "STS", "LDSM", "STSM", "ATOMS"),
    "local": ("LDL", "STL"),
    "constant": ("LDC", "ULDC"),
    "control": ("BRA", "BRX", "EXIT", "BSSY", "BSYNC", "BAR", "WARPSYNC", "CALL", "RET", "NOP"),
}

# What can be fixed in a kernel; each is a category of profiling_lab.findings.
CAUSES = (
    "uncoalesced_access",
    "bank_conflicts",
    "register_spills",
    "divergence",
    "low_occupancy",
    "small_grid",
    "tail_effect",
    "atomic_contention",
    "tensor_cores_unused",
)

# What a well-written kernel reaches of a unit's peak: a fix takes no unit beyond this.
ATTAINABLE_RATIO = 0.9
# From this use on, warps queue for a unit: their waiting is its work.
SATURATED_RATIO = 0.8
# Twice the cycles that a request to DRAM waits where nothing is in its way (the lesson measures them).
UNCONTENDED_CYCLES = 1_000
# From this share of all requests on, the queue behind contended atomics holds up the others too.
ATOMIC_RATIO = 0.25
# A try of a compare-and-swap: load, compute, swap, compare, jump back (nvcc's code of atomicAdd for floats).
TRY_INSTRUCTIONS = 5
# Matrix work in 16 bits: see estimate_gain.
MATRIX_RATIO = 0.5
HALF_PRECISION_RATIO = 0.1
OPERAND_RATIO = 0.03
# Half of what the peaks promise: dense fp16 on an H200's tensor cores 989 TFLOP/s (profiling_lab/devices.toml),
# on its CUDA cores 134, twice fp32 (NVIDIA H100 architecture whitepaper). Half, because a plain kernel
# does not keep tensor cores fed: the recorded gemm_fragments has them a third busy.
TENSOR_SPEEDUP = 3.7

# A saving below this share of the duration is not worth naming (Day 1's HEALTHY_FLOOR_RATIO).
FLOOR_RATIO = 0.10
# With no unit used this much, nothing is near a ceiling. This and the next are the lines of the tool's own rule
# (details.csv, SOLBottleneck).
BUSY_RATIO = 0.6
# From this use on, the kernel is at its ceiling.
CEILING_RATIO = 0.8
# A verdict this close to another one says "borderline": two recordings of one kernel differ by as much as
# 0.021 in a saving or a use (the lesson compares them).
BORDERLINE_RATIO = 0.03


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
    if not questions:
        raise ValueError(f"ask at least one question of: {', '.join(_QUESTIONS)}")
    for question in questions:
        if question not in _QUESTIONS:
            raise ValueError(f"unknown question {question!r}; known: {', '.join(_QUESTIONS)}")
    if skip < 0:
        raise ValueError(f"skip must not be negative, got {skip}")
    if count < 1:
        raise ValueError(f"count must be at least 1, got {count}")
    options = [
        option
        for question, asked in _QUESTIONS.items()
        if question in questions
        for option in asked
    ]
    if not any(option.startswith("--section=") for option in options):
        raise ValueError(f"{', '.join(questions)}: no section is asked for, nothing to measure")
    filters = [f"--kernel-name={kernel}"] if kernel is not None else []
    if nvtx_range is not None:
        # A name without the slash means ranges opened with start/end, not with push/pop.
        filters += ["--nvtx", f"--nvtx-include={nvtx_range}/"]
    if skip:
        filters.append(f"--launch-skip={skip}")
    return [
        "ncu",
        *options,
        *filters,
        f"--launch-count={count}",
        f"--export={output}",
        "--force-overwrite",
        *program,
    ]


_QUESTIONS = {
    "ceilings": ["--section=SpeedOfLight"],
    "occupancy": ["--section=LaunchStats", "--section=Occupancy"],
    "memory": ["--section=MemoryWorkloadAnalysis", "--section=MemoryWorkloadAnalysis_Tables"],
    "stalls": ["--section=SchedulerStats", "--section=WarpStateStats"],
    "instructions": ["--section=ComputeWorkloadAnalysis", "--section=InstructionStats"],
    "lines": ["--section=SourceCounters", "--import-source=yes"],
    "warm_caches": ["--cache-control=none"],
    "own_clocks": ["--clock-control=none"],
}


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

    Raises CaptureError, with the file's name in the message, if there is no header with these columns
    (the message names the missing ones), no row of units (ID, Kernel Name and CC empty in it; the
    message says so), no kernel, or a row, that of units included, that is shorter or longer than the
    header (a file that was cut off; the message has the line's number in the file).
    """
    place = captures.file(capture, "kernels.csv")
    lines = captures.text(capture, "kernels.csv").splitlines()
    first = next((i for i, line in enumerate(lines) if line.startswith(('"ID"', "ID,"))), None)
    if first is None:
        raise CaptureError(
            f"{place.name}: no header that begins with ID; is it ncu --page raw --csv?"
        )
    reader = csv.reader(lines[first:])
    header = next(reader)
    missing = [name for name in _IDENTITY if name not in header]
    if missing:
        raise CaptureError(f"{place.name}: the header lacks {', '.join(missing)}")
    rows = []
    for row in reader:
        if len(row) != len(header):
            raise CaptureError(
                f"{place.name}: line {first + reader.line_num} has {len(row)} columns, "
                f"the header {len(header)}: was the file cut off?"
            )
        rows.append(row)
    at = {name: header.index(name) for name in _IDENTITY}
    if not rows or any(rows[0][at[name]] for name in ("ID", "Kernel Name", "CC")):
        raise CaptureError(f"{place.name}: no row of units below the header")
    if len(rows) == 1:
        raise CaptureError(f"{place.name}: no kernel was profiled")
    columns = range(at["CC"] + 1, len(header))
    factors = {i: _factor(rows[0][i]) for i in columns}
    return [
        {
            "id": int(row[at["ID"]]),
            "name": row[at["Kernel Name"]],
            "grid": _triple(row[at["Grid Size"]]),
            "block": _triple(row[at["Block Size"]]),
            "cc": row[at["CC"]],
            "metrics": {header[i]: _value(row[i], factors[i]) for i in columns},
        }
        for row in rows[1:]
    ]


_IDENTITY = ("ID", "Kernel Name", "Block Size", "Grid Size", "CC")
_NS = {"s": 1e9, "ms": 1e6, "us": 1e3, "ns": 1}
_PREFIXES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}


def _factor(unit: str) -> float:
    """What a value in this unit is multiplied with."""
    above, _, below = unit.strip().lower().replace("second", "s").partition("/")
    factor: float = _NS.get(above, 1)
    found = re.fullmatch(r"([kmgt]?)(?:byte|hz)", above)
    if found:
        factor = _PREFIXES[found[1]]
    return factor * 1e9 / _NS[below] if below in _NS else factor


def _value(text: str, factor: float) -> int | float | str | None:
    text = text.strip()
    if text.lower().lstrip("+-") in ("", "n/a", "nan", "inf", "infinity"):
        return None
    plain = text.replace(",", "")
    if re.fullmatch(r"[+-]?\d+", plain) and factor == 1:
        return int(plain)
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", plain, re.IGNORECASE):
        return float(plain) * factor
    return text


def _triple(text: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", text))


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
                     times four, divided by the warps of a block. No limit for 0 registers
        "shared"     the shared memory set aside, divided by what a block needs: static + dynamic +
                     reserved, rounded up to `shared_unit_bytes`. No limit if a block needs none.
                     0 if static + dynamic is more than `block_kb`
    Returns {"blocks_count": int, "warps_count": int (per SM), "occupancy_ratio": float (of the SM's
    warps), "limits": {limit: blocks, or None for no limit}, "limiters": [the limits that are least,
    in the order above]}. A kernel that cannot be launched has 0 blocks and a ratio of 0.0.

    Raises ValueError for an unknown compute capability (the message lists the known ones), for
    block_threads outside 1 … MAX_BLOCK_THREADS, for thread_registers outside 0 … MAX_THREAD_REGISTERS,
    for negative bytes, and for shared_config_bytes above the largest step (the message says how many
    bytes that step is).
    """
    if compute_capability not in SM_LIMITS:
        raise ValueError(
            f"unknown compute capability {compute_capability!r}; known: {', '.join(SM_LIMITS)}"
        )
    sm = SM_LIMITS[compute_capability]
    if not 1 <= block_threads <= MAX_BLOCK_THREADS:
        raise ValueError(f"block_threads must be 1 to {MAX_BLOCK_THREADS}, got {block_threads}")
    if not 0 <= thread_registers <= MAX_THREAD_REGISTERS:
        raise ValueError(
            f"thread_registers must be 0 to {MAX_THREAD_REGISTERS}, got {thread_registers}"
        )
    steps = [kb * 1024 for kb in sm["shared_steps_kb"]]
    config = steps[-1] if shared_config_bytes is None else shared_config_bytes
    if min(static_shared_bytes, dynamic_shared_bytes, config) < 0:
        raise ValueError("shared memory must not be negative")
    if config > steps[-1]:
        raise ValueError(f"an SM of {compute_capability} has {steps[-1]} bytes, not {config}")

    block_warps = math.ceil(block_threads / WARP_THREADS)
    limits: dict[str, int | None] = {
        "warps": sm["warps"] // block_warps,
        "blocks": sm["blocks"],
        "registers": None,
        "shared": None,
    }
    if thread_registers:
        warp_registers = _round_up(thread_registers * WARP_THREADS, WARP_REGISTER_UNIT)
        partition_warps = SM_REGISTERS // SM_PARTITIONS // warp_registers
        limits["registers"] = partition_warps * SM_PARTITIONS // block_warps
    asked = static_shared_bytes + dynamic_shared_bytes
    needed = _round_up(asked + sm["reserved_kb"] * 1024, sm["shared_unit_bytes"])
    if asked > sm["block_kb"] * 1024:
        limits["shared"] = 0
    elif needed:
        available = next(step for step in steps if step >= max(config, needed))
        limits["shared"] = available // needed
    blocks = min(limit for limit in limits.values() if limit is not None)
    return {
        "blocks_count": blocks,
        "warps_count": blocks * block_warps,
        "occupancy_ratio": blocks * block_warps / sm["warps"],
        "limits": limits,
        "limiters": [name for name, limit in limits.items() if limit == blocks],
    }


def _round_up(value: int, unit: int) -> int:
    return math.ceil(value / unit) * unit


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
                             resident_ratio if all blocks took equally long: waves over the next whole
                             number, at least 1. The tool rounds waves to two decimals: 0 is a grid
                             of a few blocks
    """
    metrics = kernel["metrics"]
    theoretical = _share(metrics, "sm__maximum_warps_per_active_cycle_pct")
    achieved = _share(metrics, "sm__warps_active.avg.pct_of_peak_sustained_active")
    busy = _quotient(metrics.get("sm__cycles_active.avg"), metrics.get("gpc__cycles_elapsed.max"))
    waves = metrics.get("launch__waves_per_multiprocessor")
    return {
        "theoretical_ratio": theoretical,
        "achieved_ratio": achieved,
        "gap_ratio": None if theoretical is None or achieved is None else theoretical - achieved,
        "busy_sm_ratio": busy,
        "resident_ratio": _quotient(_product(achieved, busy), theoretical),
        "waves_ratio": None if waves is None else waves / max(1, math.ceil(waves)),
    }


def _share(metrics: dict[str, Any], name: str) -> float | None:
    value = metrics.get(name)
    return None if value is None else value / 100


def _quotient(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _product(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a * b


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
                                      without accesses has no part in it; None if there are none at
                                      all, and if a kind has sectors and its `used` is missing
        "ideal_ratio"                 memory_l2_theoretical_sectors_global_ideal / …_global (without
                                      "_ideal"): the sectors that the same accesses need if their lanes
                                      lay side by side. A broadcast uses 4 bytes of a sector and is ideal
        "l1_hit_ratio", "l2_hit_ratio"  l1tex__t_sector_hit_rate.pct and lts__t_sector_hit_rate.pct / 100
    each None if a metric for it is missing. No access of a kind: its sectors are 0, or missing.
    """
    metrics = kernel["metrics"]
    out: dict[str, float | None] = {}
    moved = used = 0.0
    whole = True
    for op, name in (("ld", "load"), ("st", "store")):
        sectors = metrics.get(f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum")
        requests = metrics.get(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum")
        per_sector = metrics.get(
            f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio"
        )
        share = _quotient(per_sector, SECTOR_BYTES) if sectors else None
        out[f"{name}_ratio"] = share
        out[f"sectors_per_{name}_ratio"] = _quotient(sectors, requests)
        if share is not None:
            moved += sectors * SECTOR_BYTES
            used += sectors * per_sector
        elif sectors:
            whole = False
    out["used_ratio"] = _quotient(used, moved) if whole else None
    out["ideal_ratio"] = _quotient(
        metrics.get("memory_l2_theoretical_sectors_global_ideal"),
        metrics.get("memory_l2_theoretical_sectors_global"),
    )
    out["l1_hit_ratio"] = _share(metrics, "l1tex__t_sector_hit_rate.pct")
    out["l2_hit_ratio"] = _share(metrics, "lts__t_sector_hit_rate.pct")
    return out


def dram_traffic(kernel: dict[str, Any], needed_bytes: float) -> dict[str, float | None]:
    """Bytes that DRAM moved against the bytes that the result needs.

    needed_bytes: every input read once and every output written once, which you work out from the
    shapes. Returns "read_bytes" and "written_bytes" (dram__bytes_read.sum, dram__bytes_write.sum),
    "moved_bytes" (their sum), "needed_ratio" (needed / moved: above 1 where a cache already held
    some of it), "moved_bytes_per_s" and "needed_bytes_per_s" (over gpu__time_duration.sum); each None
    if a metric for it is missing or its divisor is 0.

    Raises ValueError if needed_bytes is not a finite number above 0.
    """
    if not (math.isfinite(needed_bytes) and needed_bytes > 0):
        raise ValueError(f"needed_bytes must be above 0, got {needed_bytes}")
    metrics = kernel["metrics"]
    read = metrics.get("dram__bytes_read.sum")
    written = metrics.get("dram__bytes_write.sum")
    moved = None if read is None or written is None else read + written
    duration = metrics.get("gpu__time_duration.sum")
    per_second = _quotient(1e9, duration)
    return {
        "read_bytes": read,
        "written_bytes": written,
        "moved_bytes": moved,
        "needed_ratio": _quotient(needed_bytes, moved),
        "moved_bytes_per_s": _product(moved, per_second),
        "needed_bytes_per_s": _product(needed_bytes, per_second),
    }


def bank_conflicts(kernel: dict[str, Any]) -> dict[str, float | None]:
    """How often shared memory had to be visited again because lanes hit the same bank.

    A request of a warp is served in one or more *wavefronts*; those that conflicts add are waste.
    Returns
        "wavefronts_count"  memory_l1_wavefronts_shared
        "conflicts_count"   wavefronts minus those that are needed (memory_l1_wavefronts_shared_ideal)
        "conflict_ratio"    conflicts / wavefronts
        "pipe_ratio"        the share of the duration in which the data pipe serves conflicts:
                            conflict_ratio × the pipe's use for shared memory,
                            SHARED_WAVEFRONTS.sum.pct_of_peak_sustained_elapsed
        "atomics_ratio"     the part of atomics in the waits for a bank: BANK_WAITS_op_atom.sum /
                            BANK_WAITS.sum, 0.0 if both are 0. Lanes that add to one word come one after
                            the other, as do lanes that add to words of one bank: no counter tells which
    each None if a metric for it is missing or another divisor is 0. (BANK_WAITS is good for this share
    only: it counts every wait for a bank, also that of different requests for each other.)
    """
    metrics = kernel["metrics"]
    wavefronts = metrics.get("memory_l1_wavefronts_shared")
    ideal = metrics.get("memory_l1_wavefronts_shared_ideal")
    conflicts = None if wavefronts is None or ideal is None else wavefronts - ideal
    share = _quotient(conflicts, wavefronts)
    use = _share(metrics, f"{SHARED_WAVEFRONTS}.sum.pct_of_peak_sustained_elapsed")
    waits = metrics.get(f"{BANK_WAITS}.sum")
    atomics = metrics.get(f"{BANK_WAITS}_op_atom.sum")
    return {
        "wavefronts_count": wavefronts,
        "conflicts_count": conflicts,
        "conflict_ratio": share,
        "pipe_ratio": _product(share, use),
        "atomics_ratio": 0.0 if waits == 0 and atomics == 0 else _quotient(atomics, waits),
    }


def rank_stalls(kernel: dict[str, Any]) -> list[dict[str, Any]]:
    """What the warps of a kernel wait for, most first.

    smsp__average_warps_issue_stalled_<reason>_per_issue_active.ratio is the cycles that warps spent in
    that state, over all warps of a scheduler, for each instruction issued: the cycles of a warp's life
    from one instruction to its next that go into it. "selected" is the issue itself, not a wait.

    Returns a list of {"reason": str, "cycles_per_instruction": float, "share_ratio": float}, without "selected"
    and without metrics that are missing; share_ratio is of the sum over all these reasons and
    "selected" (the whole life of a warp), so the shares add up to less than 1. Sorted by share, largest
    first; equal shares by name. [] if there is no such metric or their sum is 0.
    """
    warps = {}
    for name, value in kernel["metrics"].items():
        found = re.fullmatch(
            r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio", name
        )
        if found and value is not None:
            warps[found[1]] = value
    total = sum(warps.values())
    if not total:
        return []
    return [
        {"reason": reason, "cycles_per_instruction": count, "share_ratio": count / total}
        for reason, count in sorted(warps.items(), key=lambda item: (-item[1], item[0]))
        if reason != "selected"
    ]


def read_source(capture: str, kernel: str) -> list[dict[str, Any]]:
    """The machine instructions of one kernel, with their source lines and what was sampled at them.

    Reads `captures.text(capture, "source.csv")`: `ncu --page source --csv --print-source cuda,sass`. The
    file is a sequence of blocks: a row "File Path" with a source file, a row "Function Name" with the
    kernel's whole name, a header that begins with "Line No", then rows of two kinds. A row with a line
    number is a line of the source; the rows below it without one, whose address begins with "0x", are
    the instructions that it became. Rows with other addresses ("...") mean nothing. A function may have
    several blocks: code inlined from other files has its own.
    kernel: a function name as in rank_kernels.

    Returns, in the file's order, a list of {"file": str, "line": int, "text": the line without
    blanks around it, "address": str, "instruction": str without blanks around it, "samples": int or None,
    "executed": int or None} from the columns "# Samples" and "Instructions Executed"; None for a cell
    that is no number. An instruction stands once for each line that it belongs to, even if
    the file repeats it there.

    The tool does not escape quotation marks in a source line, so such a row has too many cells: take its
    number and as much of the text as the first cells hold. Raises CaptureError, with the file's
    name in the message, for an instruction whose row has another length than the header and a line
    whose row is shorter (cut off; with the line's number), for a row of another kind, with no header
    above it or with a line number that is none (is it another page?), for a header without these
    columns (the message names them), and for a kernel that is not there (with the functions that
    are, sorted and separated by ", ").
    """
    place = captures.file(capture, "source.csv")
    reader = csv.reader(captures.text(capture, "source.csv").splitlines())
    file = function = text = ""
    line = 0
    header: list[str] = []
    at: dict[str, int] = {}
    found: dict[tuple[str, int, str], dict[str, Any]] = {}
    functions = set()
    for row in reader:
        first = row[0] if row else ""
        if first == "File Path":
            file = row[1]
        elif first == "Function Name":
            function = _function(row[1])
            functions.add(function)
        elif first == "Line No":
            header = row
            missing = [name for name in _SOURCE_COLUMNS if name not in header]
            if missing:
                raise CaptureError(f"{place.name}: the header lacks {', '.join(missing)}")
            at = {name: header.index(name) for name in _SOURCE_COLUMNS}
        elif not header or (first and not first.isdecimal()):
            raise CaptureError(f"{place.name}: line {reader.line_num}: is it the source page?")
        elif len(row) < len(header) or (not first and len(row) > len(header)):
            raise CaptureError(
                f"{place.name}: line {reader.line_num} has {len(row)} columns, the header "
                f"{len(header)}: was the file cut off?"
            )
        elif first:
            line, text = int(first), row[1].strip()
        elif function == kernel and row[at["Address"]].startswith("0x"):
            address = row[at["Address"]]
            found[file, line, address] = {
                "file": file,
                "line": line,
                "text": text,
                "address": address,
                "instruction": row[at["Address"] + 1].strip(),
                "samples": _count(row[at["# Samples"]]),
                "executed": _count(row[at["Instructions Executed"]]),
            }
    if kernel not in functions:
        known = ", ".join(sorted(functions)) or "none"
        raise CaptureError(f"{place.name}: no kernel {kernel!r}; it has {known}")
    return list(found.values())


_SOURCE_COLUMNS = ("Address", "# Samples", "Instructions Executed")


def _function(name: str) -> str:
    return re.split(r"[<(]", name)[0].split(" ")[-1]


def _count(text: str) -> int | None:
    text = text.replace(",", "")
    return int(text) if text.isdecimal() else None


def hottest_line(listing: list[dict[str, Any]]) -> dict[str, Any]:
    """The source line at which warps were found most often, and the hottest instruction in it.

    listing: as from read_source, whose keys are named after the tool's columns. A line is a file and a
    number; its samples are those of its instructions, where a missing count adds nothing. Equal lines,
    and equal instructions of a line: the one that comes first in the listing.

    Returns {"file", "line", "text", "samples_count": int, "share_ratio": of the samples of all
    instructions of the listing, each address counted once, "instruction": of the line's
    instruction with most samples}. Raises ValueError if the listing has no sample at all.
    """
    total = sum(_by_address(listing, "samples").values())
    if not total:
        raise ValueError("the listing has no samples: record SourceCounters, of a longer kernel")
    lines: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in listing:
        lines.setdefault((row["file"], row["line"]), []).append(row)
    sums = {line: sum(row["samples"] or 0 for row in rows) for line, rows in lines.items()}
    file, line = max(sums, key=lambda line: sums[line])
    hottest = max(lines[file, line], key=lambda row: row["samples"] or 0)
    return {
        "file": file,
        "line": line,
        "text": hottest["text"],
        "samples_count": sums[file, line],
        "share_ratio": sums[file, line] / total,
        "instruction": hottest["instruction"],
    }


def _by_address(listing: list[dict[str, Any]], key: str) -> dict[str, int]:
    """A count per instruction: one that belongs to two lines stands twice in a listing."""
    return {row["address"]: row[key] or 0 for row in listing}


def instruction_mix(listing: list[dict[str, Any]]) -> dict[str, float]:
    """Which kinds of instructions a kernel executes: the share of each class.

    listing: as from read_source. An instruction counts as often as warps executed it, each
    address once; a missing count adds nothing. Its opcode is the word that follows a predicate, if
    there is one ("@P0", "@!UP1"), up to the first "."; the class is the one in INSTRUCTION_CLASSES that
    names the opcode, else "other".

    Returns {class: ratio}, all classes of the table and "other", together 1.0. Raises ValueError if
    nothing was executed.
    """
    executed = _by_address(listing, "executed")
    total = sum(executed.values())
    if not total:
        raise ValueError("the listing has no executed instruction")
    opcodes = {row["address"]: _opcode(row["instruction"]) for row in listing}
    counts = dict.fromkeys([*INSTRUCTION_CLASSES, "other"], 0)
    for address, count in executed.items():
        counts[_class_of(opcodes[address])] += count
    return {name: count / total for name, count in counts.items()}


def _opcode(instruction: str) -> str:
    words = instruction.split()
    return words[1 if words[0].startswith("@") else 0].split(".")[0]


def _class_of(opcode: str) -> str:
    for name, opcodes in INSTRUCTION_CLASSES.items():
        if opcode in opcodes:
            return name
    return "other"


def unit_use(kernel: dict[str, Any]) -> dict[str, float | None]:
    """How near each unit of the device is to its ceiling, over the whole duration of a kernel.

    For each unit of UNIT_METRICS, the largest of its metrics that the capture holds, as a ratio. A
    metric whose name ends in "_active" is a share of the time in which an SM had work: it is
    multiplied with busy_sm_ratio of occupancy_gap, and counts as missing where that is None.

    Returns {unit: ratio}, every unit; None for one of which no metric is there.
    """
    busy = occupancy_gap(kernel)["busy_sm_ratio"]
    out: dict[str, float | None] = {}
    for unit, names in UNIT_METRICS.items():
        shares = [_of_the_duration(kernel["metrics"], name, busy) for name in names]
        out[unit] = max((share for share in shares if share is not None), default=None)
    return out


def _of_the_duration(metrics: dict[str, Any], name: str, busy: float | None) -> float | None:
    """A metric in per cent as a share of the kernel's whole duration."""
    return _product(_share(metrics, name), busy if name.endswith("_active") else 1.0)


def pipe_use(kernel: dict[str, Any]) -> list[dict[str, Any]]:
    """Which arithmetic pipe is busy, over the whole duration of a kernel, the busiest first.

    For each pipe of PIPE_METRICS its metric as a ratio; "_active" as in unit_use.

    Returns a list of {"pipe": str, "use_ratio": float}, without pipes whose use is not known. Sorted by
    use, largest first; equal uses in the order of PIPE_METRICS. [] if none is known.
    """
    busy = occupancy_gap(kernel)["busy_sm_ratio"]
    rows = []
    for pipe, name in PIPE_METRICS.items():
        share = _of_the_duration(kernel["metrics"], name, busy)
        if share is not None:
            rows.append({"pipe": pipe, "use_ratio": share})
    return sorted(rows, key=lambda row: -row["use_ratio"])


def duration_gap(
    profiled: dict[str, Any], warm: dict[str, Any], application_ns: float, application_hz: float
) -> dict[str, float | None]:
    """Why a kernel's duration under the profiler is not its duration in the application.

    profiled: the kernel as the profiler measures by default, caches flushed before each pass.
    warm: the same kernel with `--cache-control none`. application_ns: its duration in the program, without
    a profiler. application_hz: the SM clock while it ran there.

    A duration is cycles over a clock. With gpu__time_duration.sum (ns), gpc__cycles_elapsed.max
    (cycles) and gpc__cycles_elapsed.avg.per_second (Hz):
        "profiled_ns"  the profiled duration
        "ratio"        profiled / application
        "clock_ns"     what the profiler's clock adds: the profiled duration minus the time that its
                       cycles, here duration × clock, take at application_hz; an upper bound for a
                       kernel that waits for DRAM, whose clock is another one
        "cache_ns"     what cold caches add: the gpc__cycles_elapsed.max of `profiled` more than that
                       of `warm`, at application_hz
        "rest_ns"      what is left of profiled minus application: replay, other work on the device,
                       the launch itself
    clock_ns + cache_ns + rest_ns + application_ns = profiled_ns. Parts may be negative. None where a
    metric for it is missing.

    Raises ValueError, naming it, if application_ns or application_hz is not a finite number above 0.
    """
    for name, value in (("application_ns", application_ns), ("application_hz", application_hz)):
        if not (math.isfinite(value) and value > 0):
            raise ValueError(f"{name} must be above 0, got {value}")
    metrics = profiled["metrics"]
    duration = metrics.get("gpu__time_duration.sum")
    hz = metrics.get("gpc__cycles_elapsed.avg.per_second")
    cycles = metrics.get("gpc__cycles_elapsed.max")
    warm_cycles = warm["metrics"].get("gpc__cycles_elapsed.max")
    clock = cache = rest = None
    if duration is not None and hz is not None:
        clock = duration - duration * hz / application_hz
    if cycles is not None and warm_cycles is not None:
        cache = (cycles - warm_cycles) / application_hz * 1e9
    if clock is not None and cache is not None:
        rest = duration - application_ns - clock - cache
    return {
        "profiled_ns": duration,
        "ratio": _quotient(duration, application_ns),
        "clock_ns": clock,
        "cache_ns": cache,
        "rest_ns": rest,
    }


def estimate_gain(kernel: dict[str, Any], cause: str) -> float | None:
    """The speed-up to expect if one cause were removed: 1.0 is none.

    Take the duration as 1. Without the cause, units have less to do and warps wait less; then the kernel
    takes as long as the largest of
        each unit of unit_use that is known: its use × what is left of its work / ATTAINABLE_RATIO
        the waiting of warps: what is left of it
    but never more than before: the gain is 1 / min(1, the largest).
    An SM cannot give work away: for "l1", "issue", "pipe", "adu" the use counts over the time in which an
    SM has work (use / busy_sm_ratio, if that is known and not 0), unless the cause is "small_grid" or
    "tail_effect".

    What is left, as a share; what is not named stays 1:
        "uncoalesced_access"   e = ideal_ratio of sector_efficiency. l1, l2: e. dram: b = bytes used /
                               bytes moved, at most 1, where used are the ideal sectors × SECTOR_BYTES, those
                               of atomics twice (read and written: × (1 + their share of the sectors below)),
                               and moved is DRAM's read + write (b = 1 if that is 0).
                               waiting: 1 − memory × (1 − min(e, b))
        "bank_conflicts"       w = conflict_ratio × (1 − atomics_ratio) of bank_conflicts: the share of
                               shared memory's wavefronts that goes away. l1: 1 − w × lsu / unit_use, if l1
                               is used. waiting: 1 − shared × w
        "register_spills"      f = sectors of local memory / (local + global), loads and stores
                               together. l1, l2, dram: 1 − f. issue, adu: 1 − spilling instructions /
                               all. waiting: 1 − memory × f
        "divergence"           d = smsp__thread_inst_executed_per_inst_executed.ratio / WARP_THREADS.
                               issue, pipe, adu: d. waiting: memory + (1 − memory) × d
        "low_occupancy"        waiting: the larger of theoretical_ratio and 1 / waves, with at least one
                               wave (fewer leave no block to add)
        "small_grid"           with fewer waves than one, waiting: the larger of waves_ratio and
                               resident_ratio of occupancy_gap; else nothing changes
        "tail_effect"          with at least one wave, the same; else nothing changes
        "atomic_contention"    in global memory, if there are any: a = atomics / all requests. c = calm / the
                               cycles that a request now waits, at most 1; calm is UNCONTENDED_CYCLES. If avg
                               of ATOMIC_METRIC is known and max not 0, atomics: avg / max (what few slices
                               of L2 do, all could share), and calm is half where "atomics" is the unit used
                               most, and at least SATURATED_RATIO: the queue is theirs.
                               In shared memory, if wavefronts_count is not 0 (else nothing of this is needed,
                               or changes): w = conflict_ratio × atomics_ratio + failed tries (below),
                               at most 1. l1: as for bank_conflicts. issue, pipe: 1 − the share of failed
                               tries in the instructions.
                               waiting: 1 − memory × (1 − c) × min(1, a / ATOMIC_RATIO) − shared × w
        "tensor_cores_unused"  for matrix work (below) with s = 1 / TENSOR_SPEEDUP. l1, issue, pipe: s.
                               waiting: memory + (1 − memory) × s; for other work nothing changes
    with, from rank_stalls,
        shared   the shares of short_scoreboard and mio_throttle
        memory   the shares of long_scoreboard, lg_throttle and drain, and `shared` as well where the
                 kernel has no wavefront of shared memory, or none is known (the same queue serves
                 both). A reason that is missing has a share of 0, also where all are missing
        lsu      SHARED_WAVEFRONTS.sum.pct_of_peak_sustained_elapsed as a ratio
    Failed tries: what shared memory has no instruction for, such as adding floats, the compiler makes a loop:
    load, compute, compare-and-swap (in two wavefronts, other atomics take one), again where another thread was
    faster. Lanes that leave the loop in g equal turns make g tries where one would do, with 1/2 + 1/(2g) of
    the lanes active in the mean: f = 1 − 1/g = 2 × (1 − d) of the tries fail, at most 1, with d as above
    (d is of the whole kernel: lanes that part elsewhere are counted as well).
    With n = smsp__inst_executed_op_shared_atom.sum and v = SHARED_WAVEFRONTS_op_atom.sum, a share s of the
    atomics swaps: (v − BANK_WAITS_op_atom.sum) / n − 1, from 0 to 1. Failed tries take, of all wavefronts
    (SHARED_WAVEFRONTS.sum), s × f × (v + n), and of all instructions (smsp__inst_executed.sum)
    s × f × n × TRY_INSTRUCTIONS; nothing if n or the wavefronts are 0.
    Where the unit with the largest unit_use is used at least SATURATED_RATIO and the cause leaves less
    of its work, warps queue for that unit: what is left of the waiting is the smaller of the above and of
    what is left of that unit's work. Not so for "atomics": nobody waits for an addition whose
    result is not read.

    Metrics besides those of your other functions: launch__waves_per_multiprocessor; sectors
    l1tex__t_sectors_pipe_lsu_mem_<local|global>_op_<ld|st>.sum, of atomics global_op_<red|atom>.sum;
    sass__inst_executed_register_spilling, smsp__inst_executed.sum; requests
    l1tex__t_requests_pipe_lsu_mem_global_op_<ld|st|red|atom>.sum (the last two are the atomics); cycles
    that a request waits = memory × warps × cycles / requests, with warps =
    sm__warps_active.avg.per_cycle_active and cycles = sm__cycles_active.sum.
    Matrix work in 16 bits outside the tensor cores, all four: multiply-adds and 16-bit additions (hfma,
    ffma, hadd of smsp__sass_thread_inst_executed_op_<op>_pred_on.sum.per_cycle_elapsed, together, times
    gpc__cycles_elapsed.max) are at least MATRIX_RATIO of WARP_THREADS × smsp__inst_executed.sum; of
    them at least HALF_PRECISION_RATIO are hfma or hadd; the use of the load-store pipe
    (sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed) is at least OPERAND_RATIO of the use
    of "pipe" (products of matrices fetch operands all the time, polynomials do not); and "pipe" is used
    more than the tensor cores (TENSOR_METRIC).

    There is nothing to gain, 1.0, from coalescing where the divisor of ideal_ratio is 0, from fewer spills
    where the sectors of local memory are, from padding where wavefronts_count is. A share of 0 sectors is 0.
    None if a metric that the line of the cause needs is missing, even where it would not change the
    result, or if no unit is known. Raises ValueError, listing CAUSES, for
    another cause.
    """
    if cause not in CAUSES:
        raise ValueError(f"unknown cause {cause!r}; known: {', '.join(CAUSES)}")
    use: dict[str, Any] = unit_use(kernel)
    try:
        left = _left_without(kernel, use, cause)
    except TypeError:  # arithmetic with a metric that is missing
        return None
    known = {unit: share for unit, share in use.items() if share is not None}
    if not known:
        return None
    if not left:
        return 1.0
    waiting = left.pop("waiting", 1.0)
    fullest = max(known, key=lambda unit: known[unit])
    if known[fullest] >= SATURATED_RATIO and fullest in left and fullest != "atomics":
        waiting = min(waiting, left[fullest])
    busy = 1.0
    if cause not in ("small_grid", "tail_effect"):
        busy = occupancy_gap(kernel)["busy_sm_ratio"] or 1.0
    needed = [waiting]
    for unit, share in known.items():
        own = share / busy if unit in ("l1", "issue", "pipe", "adu") else share
        needed.append(own * left.get(unit, 1.0) / ATTAINABLE_RATIO)
    return 1 / min(1.0, max(needed))


def _stalled(kernel: dict[str, Any]) -> tuple[float, float]:
    """The shares of a warp's life spent waiting for global memory, and for shared memory."""
    shares = {row["reason"]: row["share_ratio"] for row in rank_stalls(kernel)}
    memory = sum(shares.get(name, 0.0) for name in ("long_scoreboard", "lg_throttle", "drain"))
    shared = sum(shares.get(name, 0.0) for name in ("short_scoreboard", "mio_throttle"))
    if not bank_conflicts(kernel)["wavefronts_count"]:
        memory += shared
    return memory, shared


def _sectors(kernel: dict[str, Any], space: str, one: str = "ld", other: str = "st") -> float:
    name = f"l1tex__t_sectors_pipe_lsu_mem_{space}_op_"
    return kernel["metrics"].get(f"{name}{one}.sum") + kernel["metrics"].get(f"{name}{other}.sum")


def _without_uncoalesced(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    metrics = kernel["metrics"]
    moved = metrics.get("dram__bytes_read.sum") + metrics.get("dram__bytes_write.sum")
    sectors = metrics.get("memory_l2_theoretical_sectors_global")
    ideal = metrics.get("memory_l2_theoretical_sectors_global_ideal")
    others = _sectors(kernel, "global")
    atomics = _sectors(kernel, "global", "red", "atom")
    if sectors == 0:
        return {}
    share = ideal / sectors
    twice = atomics / (atomics + others) if atomics else 0.0
    dram = 1.0 if moved == 0 else min(1.0, ideal * (1 + twice) * SECTOR_BYTES / moved)
    waiting = 1 - _stalled(kernel)[0] * (1 - min(share, dram))
    return {"l1": share, "l2": share, "dram": dram, "waiting": waiting}


def _without_wavefronts(
    kernel: dict[str, Any], use: dict[str, Any], share: float
) -> dict[str, float]:
    """What is left if this share of shared memory's wavefronts goes away."""
    lsu = kernel["metrics"].get(f"{SHARED_WAVEFRONTS}.sum.pct_of_peak_sustained_elapsed") / 100
    left = {"waiting": 1 - _stalled(kernel)[1] * share}
    return {**left, "l1": 1 - share * lsu / use["l1"]} if use["l1"] else left


def _without_conflicts(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    conflicts: dict[str, Any] = bank_conflicts(kernel)
    if conflicts["wavefronts_count"] == 0:
        return {}
    share = conflicts["conflict_ratio"] * (1 - conflicts["atomics_ratio"])
    return _without_wavefronts(kernel, use, share)


def _without_spills(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    metrics = kernel["metrics"]
    local = _sectors(kernel, "local")
    spilling = metrics.get("sass__inst_executed_register_spilling") / metrics.get(
        "smsp__inst_executed.sum"
    )
    if not local:
        return {}
    share = local / (local + _sectors(kernel, "global"))
    left = dict.fromkeys(("l1", "l2", "dram"), 1 - share)
    left |= dict.fromkeys(("issue", "adu"), 1 - spilling)
    return {**left, "waiting": 1 - _stalled(kernel)[0] * share}


def _without_divergence(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    lanes = kernel["metrics"].get("smsp__thread_inst_executed_per_inst_executed.ratio")
    share, memory = lanes / WARP_THREADS, _stalled(kernel)[0]
    left = dict.fromkeys(("issue", "pipe", "adu"), share)
    return {**left, "waiting": memory + (1 - memory) * share}


def _without_low_occupancy(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    waves = kernel["metrics"].get("launch__waves_per_multiprocessor")
    theoretical: Any = occupancy_gap(kernel)["theoretical_ratio"]
    return {"waiting": max(theoretical, 1 / max(1.0, waves))}


def _without_small_grid(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    gap: dict[str, Any] = occupancy_gap(kernel)
    filled = max(gap["waves_ratio"], gap["resident_ratio"])
    return {"waiting": filled} if kernel["metrics"]["launch__waves_per_multiprocessor"] < 1 else {}


def _without_tail(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    gap: dict[str, Any] = occupancy_gap(kernel)
    filled = max(gap["waves_ratio"], gap["resident_ratio"])
    return {"waiting": filled} if kernel["metrics"]["launch__waves_per_multiprocessor"] >= 1 else {}


def _failed_tries(kernel: dict[str, Any]) -> tuple[float, float]:
    """What compare-and-swaps that come too late take of shared memory's wavefronts, and of the instructions."""
    metrics = kernel["metrics"]
    atomics = metrics.get("smsp__inst_executed_op_shared_atom.sum")
    own = metrics.get(f"{SHARED_WAVEFRONTS}_op_atom.sum")
    wavefronts = metrics.get(f"{SHARED_WAVEFRONTS}.sum")
    swaps = own - metrics.get(f"{BANK_WAITS}_op_atom.sum") - atomics
    lanes = metrics.get("smsp__thread_inst_executed_per_inst_executed.ratio") / WARP_THREADS
    issued = TRY_INSTRUCTIONS * atomics / metrics.get("smsp__inst_executed.sum")
    if not atomics * wavefronts:
        return 0.0, 0.0
    failed = min(1.0, max(0.0, swaps / atomics)) * min(1.0, 2 * (1 - lanes))
    return failed * (own + atomics) / wavefronts, failed * issued


def _without_contention(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    metrics = kernel["metrics"]
    loads, stores, adds, atomics = (
        metrics.get(f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum")
        for op in ("ld", "st", "red", "atom")
    )
    requests = loads + stores + adds + atomics
    warps = metrics.get("sm__warps_active.avg.per_cycle_active")
    cycles = warps * metrics.get("sm__cycles_active.sum")
    conflicts: dict[str, Any] = bank_conflicts(kernel)
    left: dict[str, float] = {}
    if conflicts["wavefronts_count"] != 0:
        replays = conflicts["conflict_ratio"] * conflicts["atomics_ratio"]
        failed, issued = _failed_tries(kernel)
        left = _without_wavefronts(kernel, use, min(1.0, replays + failed))
        left |= dict.fromkeys(("issue", "pipe"), 1 - issued)
    if not adds + atomics:
        return left
    calm: float = UNCONTENDED_CYCLES
    mean = _share(metrics, ATOMIC_METRIC.format("avg"))
    if use["atomics"] and mean is not None:
        left["atomics"] = mean / use["atomics"]
        known = [share for share in use.values() if share is not None]
        if use["atomics"] == max(known) >= SATURATED_RATIO:
            calm /= 2
    memory = _stalled(kernel)[0]
    waits = memory * cycles / requests
    if waits > calm:
        blame = min(1.0, (adds + atomics) / requests / ATOMIC_RATIO)
        left["waiting"] = left.get("waiting", 1.0) - memory * (1 - calm / waits) * blame
    return left


def _without_plain_matrix_work(kernel: dict[str, Any], use: dict[str, Any]) -> dict[str, float]:
    metrics = kernel["metrics"]
    halves, floats, sums = (
        metrics.get(f"smsp__sass_thread_inst_executed_op_{op}_pred_on.sum.per_cycle_elapsed")
        for op in ("hfma", "ffma", "hadd")
    )
    work = halves + floats + sums
    everything = WARP_THREADS * metrics.get("smsp__inst_executed.sum")
    loads = metrics.get("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed") / 100
    tensor = metrics.get(TENSOR_METRIC) / 100
    if (
        work * metrics.get("gpc__cycles_elapsed.max") < MATRIX_RATIO * everything
        or halves + sums < HALF_PRECISION_RATIO * work
        or loads < OPERAND_RATIO * use["pipe"]
        or tensor >= use["pipe"]
    ):
        return {}
    memory, faster = _stalled(kernel)[0], 1 / TENSOR_SPEEDUP
    left = dict.fromkeys(("l1", "issue", "pipe"), faster)
    return {**left, "waiting": memory + (1 - memory) * faster}


def _left_without(kernel: dict[str, Any], use: dict[str, Any], cause: str) -> dict[str, float]:
    """What is left of the units' work and of the waiting; TypeError if a metric is missing."""
    functions = {
        "uncoalesced_access": _without_uncoalesced,
        "bank_conflicts": _without_conflicts,
        "register_spills": _without_spills,
        "divergence": _without_divergence,
        "low_occupancy": _without_low_occupancy,
        "small_grid": _without_small_grid,
        "tail_effect": _without_tail,
        "atomic_contention": _without_contention,
        "tensor_cores_unused": _without_plain_matrix_work,
    }
    return functions[cause](kernel, use)


def classify_kernel(kernel: dict[str, Any]) -> Finding:
    """What limits a kernel: the cause whose removal saves most, else the unit at its ceiling.

    A cause saves 1 − 1 / estimate_gain of the duration. If the largest saving is at least
    FLOOR_RATIO, its cause is the category; of equal savings the cause with the lower precedence number
    in `profiling_lab.findings.CATEGORIES`. Else the category is the limiter: where the largest unit_use is
    below BUSY_RATIO "latency_bound", else by the unit, as LIMITER_OF_UNIT says (of equal units the first in
    the order of UNIT_METRICS). An "adu" computes and moves nothing:
    full of barriers, it says that warps wait for each other.

    subject: "kernel:<name>", the whole name.
    evidence: "duration_ns" (gpu__time_duration.sum), "recoverable_ns" (not rounded) and "recoverable_ratio"
    (the largest saving), "ceiling_ratio" (the largest unit_use), "unjudged_count" (causes that
    estimate_gain cannot judge), and "margin_ratio", how far the verdict is from another one:
        for a cause     its saving minus the larger of FLOOR_RATIO and the next cause's saving
        for a limiter   the smallest of: FLOOR_RATIO minus the largest saving; the distance of
                        ceiling_ratio from BUSY_RATIO; and, from BUSY_RATIO on, ceiling_ratio
                        minus the largest use of a unit that stands for another limiter
    recommendation: one sentence; "none" for a limiter other than latency with ceiling_ratio at least
    CEILING_RATIO, if every cause was judged. It names each cause that was not: of that one nothing is known.
    For "latency_bound" it speaks of barriers if rank_stalls begins with "barrier". If margin_ratio is at
    most BORDERLINE_RATIO it begins with "borderline", instead of "none" as well.

    Raises CaptureError, naming the kernel, if its duration or all units of unit_use are missing.
    """
    name, metrics = kernel["name"], kernel["metrics"]
    duration = metrics.get("gpu__time_duration.sum")
    use = {unit: share for unit, share in unit_use(kernel).items() if share is not None}
    if duration is None or not use:
        raise CaptureError(f"{name}: no duration or no unit's throughput; record SpeedOfLight")
    gains = {cause: estimate_gain(kernel, cause) for cause in CAUSES}
    savings = {cause: 1 - 1 / gain for cause, gain in gains.items() if gain is not None}
    ranked = sorted(savings, key=lambda cause: (-savings[cause], CATEGORIES[cause].precedence))
    saving = savings[ranked[0]] if ranked else 0.0
    unit = max(use, key=lambda name: use[name])
    ceiling = use[unit]
    if saving >= FLOOR_RATIO:
        category = ranked[0]
        margin = saving - max([FLOOR_RATIO, *(savings[cause] for cause in ranked[1:])])
        advice = _RECOMMENDATIONS[category]
    else:
        category = LIMITER_OF_UNIT[unit] if ceiling >= BUSY_RATIO else "latency_bound"
        margins = [FLOOR_RATIO - saving, abs(ceiling - BUSY_RATIO)]
        if ceiling >= BUSY_RATIO:
            margins += [ceiling - use[other] for other in use if LIMITER_OF_UNIT[other] != category]
        margin = min(margins)
        advice = _RECOMMENDATIONS[category]
        if category == "latency_bound":
            if [row["reason"] for row in rank_stalls(kernel)][:1] == ["barrier"]:
                advice = _FEWER_BARRIERS
        elif ceiling >= CEILING_RATIO:
            advice = "none"
    unjudged = [cause for cause in CAUSES if cause not in savings]
    if unjudged:
        advice = f"record more sections; not judged: {', '.join(unjudged)}; else: {advice}"
    if margin <= BORDERLINE_RATIO:
        advice = f"borderline (by {margin:.1%} of the duration): {advice}"
    return Finding(
        category,
        f"kernel:{name}",
        {
            "duration_ns": duration,
            "recoverable_ns": saving * duration,
            "recoverable_ratio": saving,
            "ceiling_ratio": ceiling,
            "margin_ratio": margin,
            "unjudged_count": len(unjudged),
        },
        advice,
    )


_RECOMMENDATIONS = {
    "uncoalesced_access": "let neighbouring threads use neighbouring addresses",
    "bank_conflicts": "pad or swizzle the shared array so that the lanes of a warp hit different banks",
    "register_spills": "allow more registers a thread, or keep fewer values alive",
    "divergence": "give the lanes of a warp the same path: sort or compact the work",
    "low_occupancy": "use less of what limits the resident blocks, or have more loads under way",
    "small_grid": "cut the work into more blocks",
    "tail_effect": "use more, smaller blocks, or as many as fit at once, each doing its share",
    "atomic_contention": "add up in registers first, or in copies for warps or lanes, then once a block",
    "tensor_cores_unused": "use the tensor cores, through a library if one has the operation",
    "memory_bound": "move fewer bytes, or have more of them under way",
    "cache_bound": "keep more in registers: fewer and wider accesses",
    "compute_bound": "do less arithmetic, or use a faster unit or a smaller type",
    "latency_bound": "have more independent work under way in each thread",
}
_FEWER_BARRIERS = "have fewer barriers: let the lanes of a warp exchange by shuffles"


def classify_kernels(capture: str) -> list[Finding]:
    """classify_kernel of every launch that `read_metrics` finds in a capture, in the file's order."""
    return [classify_kernel(kernel) for kernel in read_metrics(capture)]


def rank_kernels(findings: list[Finding], launches: dict[str, int]) -> list[dict[str, Any]]:
    """The kernels of an application by the time that fixing them would save, most first.

    findings: as from classify_kernels. launches: how often the application launches each kernel, by
    function name: the subject's name up to the first "(" or "<", without a return type before it
    ("kernel:void scale<float>(float *)" is "scale"). A kernel that it does not launch has no row.

    Returns a list of {"name": function name, "category": str, "total_ns": duration × launches,
    "recoverable_ns": recoverable × launches}, sorted by recoverable_ns, then total_ns, largest first,
    then name. Several findings of one function: the launches are shared out evenly among them, and the row
    has the category of the finding with the largest recoverable_ns, the first of equal ones.
    Raises ValueError, naming the kernel, for a negative number of launches.
    """
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(_function(finding.subject.partition(":")[2]), []).append(finding)
    rows = []
    for name, group in groups.items():
        count = launches.get(name, 0)
        if count < 0:
            raise ValueError(f"{name}: {count} launches")
        each = count / len(group)
        worst = max(group, key=lambda finding: finding.evidence["recoverable_ns"])
        if count:
            rows.append(
                {
                    "name": name,
                    "category": worst.category,
                    "total_ns": each * sum(f.evidence["duration_ns"] for f in group),
                    "recoverable_ns": each * sum(f.evidence["recoverable_ns"] for f in group),
                }
            )
    return sorted(rows, key=lambda row: (-row["recoverable_ns"], -row["total_ns"], row["name"]))
