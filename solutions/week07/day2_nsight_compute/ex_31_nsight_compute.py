"""Day 2, Nsight Compute: what limits this kernel?

You repair one kernel, and write small functions that read the counters of others and say what to fix. The lesson is
`README.md` in this folder, hints are in `hints.md`, and

    uv run lab check ex_31

says which tasks are right and what is wrong in the others. A *kernel* is an entry of the list that `read_metrics`
returns: its "name", "grid", "block", "cc", and "metrics". "metrics" maps the profiler's own metric names to values in
base units (ns, bytes, bytes/s, Hz, counts); percentages stay percentages. If the capture lacks a metric, the answer is
None, never 0: use `.get`.

Shares and efficiencies are ratios: 0.0 to 1.0. `week07/README.md` says what to do with bad input. Only
`refuses_bad_input` is checked for it.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from functools import partial
from typing import Any

from profiling_lab import captures, kernel_causes, kernel_counters
from profiling_lab.captures import kernels
from profiling_lab.captures.kernels import OF_AN_SM, PIPES
from profiling_lab.errors import CaptureError
from profiling_lab.findings import CATEGORIES, Finding
from profiling_lab.kernel_causes import OF_THE_GRID

# Limits of one SM by compute capability (source: cuda_occupancy.h of CUDA 13.2 and the CUDA C++
# Programming Guide, technical specifications). kB here are 1,024 bytes. `shared_steps_kb` are the
# sizes that the SM can set aside as shared memory; the rest of the array is L1. `reserved_kb` is what
# the driver keeps of it for each block.
SM_LIMITS: dict[str, dict[str, Any]] = {
    "7.0": {
        "warps": 64,
        "blocks": 32,
        "shared_steps_kb": (0, 8, 16, 32, 64, 96),
        "shared_unit_bytes": 256,
        "reserved_kb": 0,
    },
    "7.5": {
        "warps": 32,
        "blocks": 16,
        "shared_steps_kb": (32, 64),
        "shared_unit_bytes": 256,
        "reserved_kb": 0,
    },
    "8.0": {
        "warps": 64,
        "blocks": 32,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100, 132, 164),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
    },
    "8.6": {
        "warps": 48,
        "blocks": 16,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
    },
    "8.9": {
        "warps": 48,
        "blocks": 24,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
    },
    "9.0": {
        "warps": 64,
        "blocks": 32,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
    },
    "10.0": {
        "warps": 64,
        "blocks": 32,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100, 132, 164, 196, 228),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
    },
    "12.0": {
        "warps": 48,
        "blocks": 24,
        "shared_steps_kb": (0, 8, 16, 32, 64, 100),
        "shared_unit_bytes": 128,
        "reserved_kb": 1,
    },
}
WARP_THREADS = 32
MAX_BLOCK_THREADS = 1024
SM_REGISTERS = 65_536
SM_PARTITIONS = 4  # an SM's registers and warp slots are split over four schedulers
WARP_REGISTER_UNIT = 256  # registers are granted to a warp in multiples of this

SECTOR_BYTES = 32
BANKS = 32  # of shared memory, four bytes wide
TILE = 32

# For each unit, the counters that tell how busy it is, in per cent. The units are DRAM, the caches, the schedulers'
# issue slots, the arithmetic pipes, L2's atomics, and the ADU (barriers and jumps).
UNIT_METRICS = kernels.UNITS
LIMITER_OF_UNIT = {
    "dram": "memory_bound",
    "l2": "cache_bound",
    "l1": "cache_bound",
    "atomics": "cache_bound",
    "adu": "latency_bound",
    **dict.fromkeys(("issue", *PIPES), "compute_bound"),
}

# Shared memory: the data pipe's wavefronts (also "…_op_atom" before ".sum") and waits for a bank.
SHARED_WAVEFRONTS = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
BANK_WAITS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"

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

# The counters that `choose_counters` may ask for: name and meaning.
COUNTERS = kernel_counters.COUNTERS

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

# The share of a unit's peak that a well-written kernel reaches. No fix takes a unit beyond it.
ATTAINABLE_RATIO = 0.9
# If a unit is used at least this much, warps queue for it, and their waiting is caused by its work.
SATURATED_RATIO = 0.8
# A saving below this share of the duration is not worth naming (Day 1's HEALTHY_FLOOR_RATIO).
FLOOR_RATIO = 0.10
# If no unit is used this much, none is near its ceiling. The tool's own rule has the same limit (details.csv,
# SOLBottleneck).
BUSY_RATIO = 0.6


def read_metrics(capture: str) -> list[dict[str, Any]]:
    """The kernels of a capture with their counters, in the file's order. Given.

    Raises CaptureError if the file is not a complete raw page (`ncu --page raw --csv`).
    """
    return kernels.read(capture)


def sectors_of_request(addresses: list[int | None], size_bytes: int = 4) -> tuple[int, int]:
    """How many sectors one request to global memory moves, and the fewest that could hold its bytes.

    addresses: for each lane of a warp, the address of its first byte; None for a lane that does not access memory.
    size_bytes: how many bytes each lane accesses: 1, 2, 4, 8 or 16, at a multiple of this number.

    Returns (moved, ideal). moved counts the sectors of SECTOR_BYTES that any lane touches. ideal counts the sectors that
    these bytes fill if packed together, each byte once, however many lanes ask for it. No lane: (0, 0).

    Example: 32 lanes, four bytes each, at 0, 4, 8, …: `(4, 4)`. The same at 16, 20, 24, …: `(5, 4)`.
    """
    asked = {address for address in addresses if address is not None}
    touched = {address // SECTOR_BYTES for address in asked}
    return len(touched), math.ceil(len(asked) * size_bytes / SECTOR_BYTES)


def wavefronts_of_request(words: list[int | None]) -> int:
    """How many wavefronts one request to shared memory takes.

    words: for each lane of a warp, the number of the four-byte word that it reads; None for a lane that reads nothing.
    One wavefront serves each of the BANKS once. Section 2 shows which lanes one wavefront can serve together. No
    lane: 0.

    Example: 32 lanes at the words 0, 1, 2, … take 1 wavefront; at 0, 2, 4, … they take 2.
    """
    banks = [word % BANKS for word in {word for word in words if word is not None}]
    return max((banks.count(bank) for bank in banks), default=0)


def step(operation: str, at: Callable[[int, int], int | None]) -> dict[str, Any]:
    """One step of a block of 32 × 32 threads. Given.

    at(y, x): where lane x of warp y does it; None where it does nothing.
    """
    return {"operation": operation, "at": [at(y, x) for y in range(TILE) for x in range(TILE)]}


def slow_transpose(
    tile_row: int, tile_column: int, rows: int, columns: int
) -> list[dict[str, Any]]:
    """One block's part of a transpose, as it was first written: one element for each thread. Given."""

    def load(y: int, x: int) -> int | None:
        row, column = TILE * tile_row + y, TILE * tile_column + x
        return row * columns + column if row < rows and column < columns else None

    def store(y: int, x: int) -> int | None:
        row, column = TILE * tile_row + y, TILE * tile_column + x
        return column * rows + row if row < rows and column < columns else None

    return [step("load", load), step("store", store)]


def transpose_block(
    tile_row: int, tile_column: int, rows: int, columns: int
) -> list[dict[str, Any]]:
    """`slow_transpose`, repaired: the same result, with the fewest sectors and wavefronts possible.

    A block of 1,024 threads (32 warps) moves one tile of 32 × 32 elements of four bytes from a matrix of `rows` ×
    `columns`, row after row in memory, to its transpose. At the edges a tile is cut off. Each thread has one register.

    Returns the block's steps, each made by `step`, with the operations
        "load"   register ← element of the matrix       "store"   element of the transpose ← register
        "put"    word of shared memory ← register       "get"     register ← word of shared memory
    and {"operation": "barrier"}: no warp passes it before all warps have reached it. Between barriers, warps may be at
    different steps. Shared memory has 12,288 words.

    A load request touches only the sectors of one row of the matrix's tile, a store request only those of one row of the
    result's tile. A put or get request takes one wavefront. Nothing is loaded, put, got or
    stored twice.

    Example: the first two loads of `slow_transpose(0, 1, 64, 64)` are at 32 and 33, its first two stores at 2048 and
    2112: each store touches 32 sectors.
    """

    def load(y: int, x: int) -> int | None:
        row, column = TILE * tile_row + y, TILE * tile_column + x
        return row * columns + column if row < rows and column < columns else None

    def put(y: int, x: int) -> int | None:
        return None if load(y, x) is None else y * (TILE + 1) + x

    def store(y: int, x: int) -> int | None:
        row, column = TILE * tile_column + y, TILE * tile_row + x  # of the transpose
        return row * rows + column if row < columns and column < rows else None

    def get(y: int, x: int) -> int | None:
        return None if store(y, x) is None else x * (TILE + 1) + y

    barrier = {"operation": "barrier"}
    return [step("load", load), step("put", put), barrier, step("get", get), step("store", store)]


def busy_sm_ratio(kernel: dict[str, Any]) -> float | None:
    """The mean share of a kernel's duration in which an SM had at least one warp; None if it is not known. Given."""
    metrics = kernel["metrics"]
    active, elapsed = metrics.get("sm__cycles_active.avg"), metrics.get("gpc__cycles_elapsed.max")
    return active / elapsed if active is not None and elapsed else None


def unit_use(kernel: dict[str, Any]) -> dict[str, float | None]:
    """How near each unit of the device is to its ceiling, over the whole duration of a kernel. Given.

    For each unit of UNIT_METRICS, this is the largest of its metrics in the capture, as a ratio. A metric whose name
    ends in "_elapsed" is a share of the duration; one whose name ends in "_active" is a share only of the time in which
    an SM had work.

    Returns {unit: ratio} for every unit; the ratio is None if none of the unit's metrics is known.
    """
    busy = busy_sm_ratio(kernel)
    out: dict[str, float | None] = {}
    for unit, names in UNIT_METRICS.items():
        shares = []
        for name in names:
            value, share = kernel["metrics"].get(name), 1.0 if name.endswith("_elapsed") else busy
            if value is not None and share is not None:
                shares.append(value / 100 * share)
        out[unit] = max(shares, default=None)
    return out


def fullest_unit(kernel: dict[str, Any]) -> tuple[str, float]:
    """The unit that is used most, and its use. A use that is not known counts as 0. Given."""
    use = {unit: share or 0.0 for unit, share in unit_use(kernel).items()}
    unit = max(use, key=lambda name: use[name])
    return unit, use[unit]


def round_up(value: int, unit: int) -> int:
    """The smallest multiple of `unit` that is not below `value`. Given."""
    return math.ceil(value / unit) * unit


def shared_blocks(
    compute_capability: str, asked_bytes: int, shared_config_bytes: int | None
) -> int | None:
    """How many blocks the shared memory of one SM holds; None if a block takes none. Given.

    A block gets what it asks for and the driver's part, rounded up. shared_config_bytes: the shared memory that the
    SM sets aside. It is rounded up to the next size that the SM has and that holds a block. None: the largest size.
    """
    sm = SM_LIMITS[compute_capability]
    steps = [kb * 1024 for kb in sm["shared_steps_kb"]]
    config = steps[-1] if shared_config_bytes is None else shared_config_bytes
    needed = round_up(asked_bytes + sm["reserved_kb"] * 1024, sm["shared_unit_bytes"])
    available = next((step for step in steps if step >= max(config, needed)), 0)
    return available // needed if needed else None


def register_blocks(block_threads: int, thread_registers: int) -> int | None:
    """How many blocks the registers of one SM hold; None if a thread takes none.

    An SM has SM_REGISTERS, in SM_PARTITIONS equal partitions. Section 5 says in which units registers are granted. The
    warps of a block need not be in one partition.

    Example: `register_blocks(256, 64)` is 4.
    """
    if not thread_registers:
        return None
    warp_registers = round_up(thread_registers * WARP_THREADS, WARP_REGISTER_UNIT)
    partition_warps = SM_REGISTERS // SM_PARTITIONS // warp_registers
    return partition_warps * SM_PARTITIONS // math.ceil(block_threads / WARP_THREADS)


def theoretical_occupancy(
    compute_capability: str,
    block_threads: int,
    thread_registers: int,
    static_shared_bytes: int = 0,
    dynamic_shared_bytes: int = 0,
    shared_config_bytes: int | None = None,
) -> dict[str, Any]:
    """How many blocks of a kernel fit on one SM, and what keeps more from fitting. Given, with your `register_blocks`.

    Returns {"blocks_count", "warps_count" (per SM), "occupancy_ratio" (of the SM's warps), "limits", "limiters"}. "limits"
    has the blocks that "warps", "blocks", "registers" and "shared" would each allow; None for a resource that the kernel
    does not use. "limiters" lists the smallest limits, in this order.
    """
    sm = SM_LIMITS[compute_capability]
    block_warps = math.ceil(block_threads / WARP_THREADS)
    limits: dict[str, int | None] = {
        "warps": sm["warps"] // block_warps,
        "blocks": sm["blocks"],
        "registers": register_blocks(block_threads, thread_registers),
        "shared": shared_blocks(
            compute_capability, static_shared_bytes + dynamic_shared_bytes, shared_config_bytes
        ),
    }
    blocks = min(limit for limit in limits.values() if limit is not None)
    return {
        "blocks_count": blocks,
        "warps_count": blocks * block_warps,
        "occupancy_ratio": blocks * block_warps / sm["warps"],
        "limits": limits,
        "limiters": [name for name, limit in limits.items() if limit == blocks],
    }


def rank_stalls(kernel: dict[str, Any]) -> list[dict[str, Any]]:
    """What the warps of a kernel wait for, most first. Given.

    Returns a list of {"reason", "cycles_per_instruction", "share_ratio"}. "cycles_per_instruction" counts the cycles
    with this reason from one instruction of a warp to its next. "share_ratio" is the share of these cycles in all
    cycles between the two instructions. "selected" is in this total but not in the list, because it is the issue
    itself and not a wait.
    """
    before, after = "smsp__average_warps_issue_stalled_", "_per_issue_active.ratio"
    cycles = {
        name.removeprefix(before).removesuffix(after): value
        for name, value in kernel["metrics"].items()
        if name.startswith(before) and name.endswith(after) and value is not None
    }
    life = sum(cycles.values())
    return [
        {"reason": reason, "cycles_per_instruction": count, "share_ratio": count / life}
        for reason, count in sorted(cycles.items(), key=lambda item: (-item[1], item[0]))
        if life and reason != "selected"
    ]


def work_left(kernel: dict[str, Any], cause: str) -> dict[str, float] | None:
    """What would be left of the work of all units, and of "waiting", by the course's engine: 1.0 is all of it. Given."""
    use = {unit: share for unit, share in unit_use(kernel).items() if share is not None}
    stalls = [(row["reason"], row["share_ratio"]) for row in rank_stalls(kernel)]
    left = kernel_causes.left_without(kernel["metrics"], use, stalls, cause)
    return (
        None if left is None or not use else dict.fromkeys((*UNIT_METRICS, "waiting"), 1.0) | left
    )


def left_without(kernel: dict[str, Any], cause: str) -> dict[str, float] | None:
    """What would be left, without one of CAUSES, of each unit's work and of "waiting": 1.0 is all of it. Given.

    None if a needed counter is missing, or no unit's use is known. "atomics" is always 1.0: "waiting" includes
    the waiting for atomics, and `times_left` has what is left of their work.
    """
    left = work_left(kernel, cause)
    return None if left is None else left | {"atomics": 1.0}


def times_left(kernel: dict[str, Any], cause: str) -> dict[str, float]:
    """How long each unit needs, without one of CAUSES, for the work that is left to it, if the duration is 1. Given.

    A unit works at ATTAINABLE_RATIO of its peak. Only the fix of a cause in OF_THE_GRID gives work to idle SMs. For other
    causes, a unit in OF_AN_SM has only the time in which an SM had work. {} if `left_without` is None.
    """
    left = work_left(kernel, cause) or {}
    busy = 1.0 if cause in OF_THE_GRID else busy_sm_ratio(kernel) or 1.0
    return {
        unit: share / (busy if unit in OF_AN_SM else 1.0) * left[unit] / ATTAINABLE_RATIO
        for unit, share in unit_use(kernel).items()
        if left and share is not None
    }


def estimate_gain(kernel: dict[str, Any], cause: str) -> float | None:
    """The speed-up to expect if one of CAUSES were removed; 1.0 means none. None if `left_without` gives None.

    Take the duration as 1. The new duration is the longest of these times, but at most 1, because no fix makes a kernel
    slower:
    1. The time of each unit: `times_left`.
    2. The waiting that is left: left["waiting"], where left is what `left_without` gives. But if `fullest_unit` is used
       at least SATURATED_RATIO, all waiting is for this unit. The waiting that is left is then the smaller of
       left["waiting"] and left[unit] (shares left, not times).

    Example: DRAM used 0.45, L1 0.85, a cause that leaves a tenth of L1's work and half of the waiting: DRAM takes 0.5, L1
    0.094, the waiting 0.1. The gain is 2.0.
    """
    left = left_without(kernel, cause)
    if left is None:
        return None
    waiting = left["waiting"]
    fullest, use = fullest_unit(kernel)
    if use >= SATURATED_RATIO:
        waiting = min(waiting, left[fullest])
    return 1 / min(1.0, max(waiting, *times_left(kernel, cause).values()))


def classify_kernel(kernel: dict[str, Any]) -> str:
    """What limits a kernel, in one word: a category of CATEGORIES.

    A cause saves 1 − 1 / estimate_gain of the duration. The verdict is the cause that saves most, if it saves at least
    FLOOR_RATIO. Of equal savings, take the cause with the lower `CATEGORIES[cause].precedence`. Leave out a cause that cannot be
    judged. If no cause saves enough, the verdict is the limiter: LIMITER_OF_UNIT of the `fullest_unit`, or
    "latency_bound" if even this unit is used less than BUSY_RATIO.

    Example: savings of 0.3 by bank_conflicts and 0.25 by low_occupancy: "bank_conflicts". Savings of 0.05, DRAM used 0.7:
    "memory_bound".
    """
    savings = {}
    for cause in CAUSES:
        gain = estimate_gain(kernel, cause)
        savings[cause] = 0.0 if gain is None else 1 - 1 / gain
    best = max(CAUSES, key=lambda cause: (savings[cause], -CATEGORIES[cause].precedence))
    if savings[best] >= FLOOR_RATIO:
        return best
    unit, use = fullest_unit(kernel)
    return LIMITER_OF_UNIT[unit] if use >= BUSY_RATIO else "latency_bound"


def ask_of(kernel: dict[str, Any]) -> Callable[[str], float]:
    """The argument of `choose_counters` for a kernel that you have, so that you can try it. Given."""
    return partial(kernel_counters.value, kernel["metrics"])


def is_sign(counter: str, value: float) -> bool:
    """Whether a counter that shows a fault has the fault's value: less than one wave, or a ratio beyond one half. Given.

    Raises ValueError for a counter that shows none of the faults of `choose_counters`.
    """
    if counter == "waves":
        return value < 1
    if counter in ("needed_ratio", "occupancy_ratio"):
        return value < 0.5
    if counter in ("spilled_ratio", "conflict_ratio"):
        return value > 0.5
    raise ValueError(f"{counter} shows no fault of this task")


def choose_counters(ask: Callable[[str], float]) -> dict[str, str]:
    """What limits an unknown kernel, with at most four calls of `ask`.

    ask(name): the value of one of COUNTERS. Each call runs the kernel again.

    The place is memory if memory_use is at least BUSY_RATIO, else L1 if l1_use is, else neither. In each place two of
    these faults can cost time: bank_conflicts, low_occupancy, register_spills, small_grid, and in two places
    uncoalesced_access. Each has one counter, whose value `is_sign` judges. Ask for the counters of both faults of the
    place. At most one shows its fault.

    Returns
        "cause"        the fault that shows; if none does "memory_bound", "cache_bound" or "latency_bound", by the place
        "shown_by"     the fault's counter; without a fault memory_use, l1_use, or (in neither place) either of them
        "rival"        the place's other fault; without a fault either of the two
        "excluded_by"  the rival's counter

    Example: memory_use 0.9, needed_ratio 0.1, spilled_ratio 0.0: {"cause": "uncoalesced_access", "shown_by":
    "needed_ratio", "rival": "register_spills", "excluded_by": "spilled_ratio"}.
    """
    if ask("memory_use") >= BUSY_RATIO:
        healthy, place, faults = (
            "memory_bound",
            "memory_use",
            ("uncoalesced_access", "register_spills"),
        )
    elif ask("l1_use") >= BUSY_RATIO:
        healthy, place, faults = "cache_bound", "l1_use", ("bank_conflicts", "uncoalesced_access")
    else:
        healthy, place, faults = "latency_bound", "l1_use", ("low_occupancy", "small_grid")
    shown = {fault: is_sign(_SIGNS[fault], ask(_SIGNS[fault])) for fault in faults}
    cause = next((fault for fault in faults if shown[fault]), healthy)
    rival = next(fault for fault in faults if fault != cause)
    return {
        "cause": cause,
        "shown_by": _SIGNS.get(cause, place),
        "rival": rival,
        "excluded_by": _SIGNS[rival],
    }


_SIGNS = {
    "uncoalesced_access": "needed_ratio",
    "register_spills": "spilled_ratio",
    "bank_conflicts": "conflict_ratio",
    "low_occupancy": "occupancy_ratio",
    "small_grid": "waves",
}


def refuses_bad_input(kernel: dict[str, Any], cause: str) -> float:
    """The share of a kernel's duration that a cause costs, or an error that says what is wrong.

    Raises ValueError if the cause is not in CAUSES; the message names it and lists CAUSES. Raises
    CaptureError if there is no duration above 0 (gpu__time_duration.sum); the message names the
    kernel and the counter, and shows the value, if there is one. Raises CaptureError if the counters
    cannot tell; the message names the kernel and the cause. Messages: `week07/README.md`, "Bad input".

    Example: `refuses_bad_input(kernel, "spills")` raises ValueError("cause must be one of uncoalesced_access, …: 'spills'").
    """
    if cause not in CAUSES:
        raise ValueError(f"cause must be one of {', '.join(CAUSES)}: {cause!r}")
    duration = kernel["metrics"].get("gpu__time_duration.sum")
    if not (duration is not None and duration > 0):
        raise CaptureError(f"{kernel['name']}: gpu__time_duration.sum is {duration}")
    gain = estimate_gain(kernel, cause)
    if gain is None:
        raise CaptureError(f"{kernel['name']}: its counters cannot tell of {cause}")
    return 1 - 1 / gain


# == Further: nothing above needs what follows ===================================================


# What `ncu_command` may be asked, and the options that answer it. More sections: captures/tool_help/ncu_sections.txt.
NCU_OPTIONS: dict[str, list[str]] = {
    # how near is each unit to its peak?
    "ceilings": ["--section=SpeedOfLight"],
    # how many warps fit, how many were there?
    "occupancy": ["--section=LaunchStats", "--section=Occupancy"],
    # sectors, hit rates, bank conflicts, bytes from DRAM
    "memory": ["--section=MemoryWorkloadAnalysis", "--section=MemoryWorkloadAnalysis_Tables"],
    # what do warps wait for, and how often does a scheduler issue?
    "stalls": ["--section=SchedulerStats", "--section=WarpStateStats"],
    # which instructions, and how busy are the arithmetic pipes?
    "instructions": ["--section=ComputeWorkloadAnalysis", "--section=InstructionStats"],
    # samples and instruction counts per source line; the report contains the source
    "lines": ["--section=SourceCounters", "--import-source=yes"],
    # leave the caches as the program left them
    "warm_caches": ["--cache-control=none"],
    # leave the clocks as the program found them
    "own_clocks": ["--clock-control=none"],
}


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

    questions: one or more keys of NCU_OPTIONS, which has the options for each.
    kernel, nvtx_range: only launches of this function, only inside this pushed range. Of these launches,
    skip the first `skip`, then profile `count`.

    Options as `--option=value`, long names, each once. Always give the number of launches; give a skip only if it is not 0.
    `output` is overwritten. The lesson has the options, under "Further".

    Example: `ncu_command(["ceilings"], ["./app"], "r1")` is `["ncu", "--section=SpeedOfLight", "--launch-count=1",
    "--export=r1", "--force-overwrite", "./app"]`.
    """
    options = [option for question in dict.fromkeys(questions) for option in NCU_OPTIONS[question]]
    if kernel is not None:
        options.append(f"--kernel-name={kernel}")
    if nvtx_range is not None:
        # A name without the slash means ranges opened with start/end, not with push/pop.
        options += ["--nvtx", f"--nvtx-include={nvtx_range}/"]
    if skip:
        options.append(f"--launch-skip={skip}")
    end = [f"--launch-count={count}", f"--export={output}", "--force-overwrite"]
    return ["ncu", *options, *end, *program]


def occupancy_gap(kernel: dict[str, Any]) -> dict[str, float | None]:
    """Achieved against theoretical occupancy, and what may cause the difference.

    Returns ratios, each None if a metric for it is missing or its divisor is 0:
        "theoretical_ratio"  sm__maximum_warps_per_active_cycle_pct / 100
        "achieved_ratio"     sm__warps_active.avg.pct_of_peak_sustained_active / 100
        "gap_ratio"          theoretical minus achieved
        "busy_sm_ratio"      sm__cycles_active.avg / gpc__cycles_elapsed.max: the mean share of the time
                             in which an SM had at least one warp. Achieved occupancy is a mean over that
                             time only, so it leaves out SMs that had nothing to do
        "resident_ratio"     achieved × busy / theoretical: how full the warp slots that the launch could
                             have used were, over all SMs and the whole duration
        "waves_ratio"        the resident_ratio to expect from the launch's waves
                             (launch__waves_per_multiprocessor) if all blocks took equally long:
                             waves / (waves rounded up to a whole number, at least to 1). The tool
                             rounds waves to two decimals, so a grid of a few blocks has 0 waves
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

    The L1 cache asks L2 for sectors of SECTOR_BYTES. There are separate metrics for loads (op_ld) and stores (op_st):
        sectors   l1tex__t_sectors_pipe_lsu_mem_global_op_<op>.sum
        requests  l1tex__t_requests_pipe_lsu_mem_global_op_<op>.sum   (one for each warp instruction)
        used      smsp__sass_average_data_bytes_per_sector_mem_global_op_<op>.ratio
    Returns
        "load_ratio", "store_ratio"   used / SECTOR_BYTES: the share of the sectors' bytes that a
                                      thread asked for; None if the kernel has no such accesses
        "sectors_per_load_ratio", "sectors_per_store_ratio"   sectors / requests
        "used_ratio"                  both kinds together: bytes used / bytes of the sectors. Leave out
                                      a kind without accesses. None if there are no accesses at all, or
                                      if a kind has sectors and its `used` is missing
        "ideal_ratio"                 memory_l2_theoretical_sectors_global_ideal / …_global (without
                                      "_ideal"): the first counts the sectors that the same accesses
                                      would need if their lanes were side by side. A broadcast uses
                                      4 bytes of a sector and is ideal
        "l1_hit_ratio", "l2_hit_ratio"  l1tex__t_sector_hit_rate.pct and lts__t_sector_hit_rate.pct / 100
    each None if a metric for it is missing. A kind has no accesses if its sectors are 0 or missing.
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
    """Bytes that DRAM moved, compared with the bytes that the result needs.

    needed_bytes: every input read once and every output written once. You work it out from the shapes.
    Returns "read_bytes" and "written_bytes" (dram__bytes_read.sum, dram__bytes_write.sum),
    "moved_bytes" (their sum), "needed_ratio" (needed / moved; above 1 if a cache already held
    some of it), "moved_bytes_per_s" and "needed_bytes_per_s" (over gpu__time_duration.sum). Each is None
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
    """How many wavefronts of shared memory were needed only because lanes used the same bank.

    A request of a warp is served in one or more *wavefronts*. Conflicts add wavefronts, and these are waste.
    Returns
        "wavefronts_count"  memory_l1_wavefronts_shared
        "conflicts_count"   wavefronts minus those that are needed (memory_l1_wavefronts_shared_ideal)
        "conflict_ratio"    conflicts / wavefronts
        "pipe_ratio"        the share of the duration in which the data pipe serves conflicts:
                            conflict_ratio × the pipe's use for shared memory,
                            SHARED_WAVEFRONTS.sum.pct_of_peak_sustained_elapsed
        "atomics_ratio"     the share of atomics in the waits for a bank: BANK_WAITS_op_atom.sum /
                            BANK_WAITS.sum, 0.0 if both are 0. Lanes that add to one word take turns, and
                            so do lanes that add to words of one bank; no counter shows which it was
    each None if a metric for it is missing or its divisor is 0 (but see "atomics_ratio"). Use
    BANK_WAITS for this share only: it counts every wait for a bank, including the waits of one
    request for another.
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


def read_source(capture: str, kernel: str) -> list[dict[str, Any]]:
    """The machine instructions of one kernel, with their source lines and samples.

    Reads `captures.text(capture, "source.csv")`: `ncu --page source --csv --print-source cuda,sass`. The
    file is a sequence of blocks. A block has a row "File Path" with a source file, a row "Function Name" with
    the kernel's whole name, a header that begins with "Line No", and then two kinds of rows. A row with a line
    number is a line of the source. Rows without a number below it, whose address begins with "0x", are
    the instructions that the line became. Ignore rows with other addresses ("..."). A function may have
    several blocks, because code inlined from other files has blocks of its own.
    kernel: a function name as in rank_kernels.

    Returns, in the file's order, a list of {"file": str, "line": int, "text": the line without
    blanks around it, "address": str, "instruction": str without blanks around it, "samples": int or None,
    "executed": int or None}. The last two are the columns "# Samples" and "Instructions Executed"; None
    if the cell is not a number. An instruction is listed once for each line that it belongs to, even if
    the file repeats it there.

    The tool does not escape quotation marks in a source line, so such a row has too many cells. Take its
    number, and as much of the text as the first cells hold.

    Raises CaptureError, with the file's name in the message, if
    - an instruction's row is shorter or longer than the header, or a line's row is shorter. The file was cut off; the
      message has the line's number;
    - a row is of another kind, has no header above it, or has a line number that is not a number (the
      file may be another page);
    - a header lacks one of these columns; the message names those that are missing;
    - the kernel does not exist; the message lists the functions that do, sorted and separated by ", ".
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
    """The source line at which most samples were taken, and the hottest instruction in it.

    listing: as from read_source, whose keys are named after the tool's columns. A line is a file and a
    number. Its samples are those of its instructions; a missing count adds nothing. Of equal lines, and of
    equal instructions of a line, choose the one that comes first in the listing.

    Returns {"file", "line", "text", "samples_count": int, "share_ratio", "instruction"}. "share_ratio" is the
    line's share of the samples of all instructions of the listing, each address counted once. "instruction" is
    the line's instruction with most samples. Raises ValueError if the listing has no samples.
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
    """A count per instruction. An instruction that belongs to two lines is twice in a listing."""
    return {row["address"]: row[key] or 0 for row in listing}


def instruction_mix(listing: list[dict[str, Any]]) -> dict[str, float]:
    """Which kinds of instructions a kernel executes: the share of each class.

    listing: as from read_source. An instruction counts as often as warps executed it, each
    address once; a missing count adds nothing. Its opcode is the first word, or the second if the first is a
    predicate ("@P0", "@!UP1"), up to the first ".". The class is the entry of INSTRUCTION_CLASSES
    that has the opcode, else "other".

    Returns {class: ratio} for all classes of the table and "other"; the ratios add up to 1.0. Raises
    ValueError if nothing was executed.
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


def duration_gap(
    profiled: dict[str, Any], warm: dict[str, Any], application_ns: float, application_hz: float
) -> dict[str, float | None]:
    """Why a kernel's duration under the profiler differs from its duration in the application.

    profiled: the kernel as the profiler measures it by default, with caches flushed before each pass.
    warm: the same kernel with `--cache-control none`. application_ns: its duration in the program, without
    a profiler. application_hz: the SM clock while it ran there.

    A duration is cycles divided by a clock. Use gpu__time_duration.sum (ns), gpc__cycles_elapsed.max
    (cycles) and gpc__cycles_elapsed.avg.per_second (Hz):
        "profiled_ns"  the profiled duration
        "ratio"        profiled / application
        "clock_ns"     what the profiler's clock adds: the profiled duration minus the time that its
                       cycles (here duration × clock) take at application_hz. This is an upper bound for
                       a kernel that waits for DRAM, which has a clock of its own
        "cache_ns"     what cold caches add: gpc__cycles_elapsed.max of `profiled` minus that of `warm`,
                       at application_hz
        "rest_ns"      what is left of profiled minus application: replay, other work on the device,
                       the launch itself
    clock_ns + cache_ns + rest_ns + application_ns = profiled_ns. Parts may be negative. A value is None if a
    metric for it is missing.

    Raises ValueError if application_ns or application_hz is not a finite number above 0; the message names it.
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


def rank_kernels(findings: list[Finding], launches: dict[str, int]) -> list[dict[str, Any]]:
    """The kernels of an application by the time that fixing them would save, most first.

    findings: about kernels, with duration_ns and recoverable_ns as evidence. launches: how often the application launches
    each kernel, by function name. A function name is the subject's name up to the first "(" or "<",
    without a return type before it: "kernel:void scale<float>(float *)" is "scale". A kernel that
    the application does not launch has no row.

    Returns a list of {"name": function name, "category": str, "total_ns": duration × launches,
    "recoverable_ns": recoverable × launches}, sorted by recoverable_ns, then total_ns, largest first,
    then name. If a function has several findings, divide its launches evenly among them. The function's row has the
    category of the finding with the largest recoverable_ns, the first of equal ones.
    Raises ValueError if a number of launches is negative; the message names the kernel.
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
