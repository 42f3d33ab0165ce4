"""What could be fixed in a kernel, and what would be left of its work.

Without a cause, units have less to do and warps wait less. Each function here says, for one cause, what is left: a share
by unit, and for "waiting"; what it does not name stays. It raises Missing where a counter that it needs was not measured.
What that gives, the engine computes (`diagnosis.kernels`), and on Day 2 the learner: so this stands outside of the engine.
"""

# Long because each cause is a function of the same counters.

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

from profiling_lab.captures.kernels import PIPES
from profiling_lab.errors import CaptureError

SECTOR_BYTES = 32
WARP_LANES = 32
SATURATED = 0.8  # from this use on, warps queue for a unit: their waiting is its work
BUSY = 0.6  # with no unit used this much, nothing is near a ceiling (the tool's own line)
# Twice the cycles that a request to DRAM waits where nothing is in its way; the course's lesson measures them.
UNCONTENDED_CYCLES = 1_000
ATOMIC_RATIO = (
    0.25  # of all requests: from here on the queue behind contended atomics holds up the others too
)
TRY_INSTRUCTIONS = 5  # of one try of a compare-and-swap: load, compute, swap, compare, jump back
# Matrix work in 16 bits outside the tensor cores: see the course's Day 2 for where the lines come from.
MATRIX_RATIO, HALF_PRECISION_RATIO, OPERAND_RATIO, TENSOR_SPEEDUP = 0.5, 0.1, 0.03, 3.7
WIDEST_BYTES = 16  # that one thread can load at once
DENSE_RATIO = 0.75  # of a sector's bytes: lanes lie side by side, but for where they begin
FEW_HITS = 0.5  # in L1: what hits there waits for no bytes in flight
CONVERSIONS = 0.25  # of an fp64 instruction: doubles stand among floats, not alone
XU_INSTRUCTIONS = 0.5  # that an SM's special-function pipe takes in a cycle: 16 lanes
FEW_PRODUCTS = 0.1  # use of the tensor cores below which a kernel is not made of products
FEW_WARPS = 2  # of a block: its launch costs as much as its work

_SHARED = "l1tex__data_pipe_lsu_wavefronts_mem_shared"
_BANK_WAITS = "l1tex__data_bank_conflicts_pipe_lsu_mem_shared"
_ATOMIC = "lts__d_atomic_input_cycles_active.{}.pct_of_peak_sustained_elapsed"
_LANES = "smsp__thread_inst_executed_per_inst_executed.ratio"
_INSTRUCTIONS = "smsp__inst_executed.sum"
_WAVES = "launch__waves_per_multiprocessor"

Left = dict[str, float]


class Missing(CaptureError):
    """A page lacks a counter; the message is its name."""


class Kernel:
    """A launch: its counters in base units, and what is made of them."""

    metrics: dict[str, Any]

    @cached_property
    def use(self) -> dict[str, float]:
        """The units whose use is known, as shares of the whole duration."""
        raise NotImplementedError

    @cached_property
    def stalls(self) -> list[tuple[str, float]]:
        """What warps wait for: (reason, share of a warp's life), most first, without the issue itself."""
        raise NotImplementedError

    def get(self, name: str) -> float | None:
        """A counter in base units; None where the page lacks it or it is no number."""
        value = self.metrics.get(name)
        return None if isinstance(value, str) else value

    def need(self, name: str) -> float:
        """A counter in base units. Raises Missing where the page lacks it."""
        value = self.get(name)
        if value is None:
            raise Missing(name)
        return value

    def either(self, *names: str) -> float:
        """The first of some counters that the page has. Raises Missing where it has none of them."""
        for name in names:
            if (value := self.get(name)) is not None:
                return value
        raise Missing(names[0])

    @cached_property
    def cycles(self) -> float | None:
        """Cycles of the SMs' clock from its first to its last."""
        for name in ("gpc__cycles_elapsed.max", "sm__cycles_elapsed.max"):
            if value := self.get(name):
                return value
        duration = self.get("gpu__time_duration.sum")
        hz = self.get("sm__cycles_elapsed.avg.per_second")
        return None if hz is None or duration is None else duration * hz / 1e9

    @cached_property
    def busy_sm_ratio(self) -> float:
        """The mean share of the duration in which an SM had any warp; 1.0 where it is not known."""
        active = self.get("sm__cycles_active.avg")
        return min(1.0, active / self.cycles) if active and self.cycles else 1.0

    @property
    def pipe(self) -> float:
        """The use of the fullest arithmetic pipe."""
        return max((self.use[name] for name in PIPES if name in self.use), default=0.0)


class Told(Kernel):
    """A launch of which use and stalls are known already."""

    def __init__(
        self, metrics: dict[str, Any], use: dict[str, float], stalls: list[tuple[str, float]]
    ) -> None:
        self.metrics, self.use, self.stalls = metrics, use, stalls


def uses_wgmma(kernel: Kernel) -> bool:
    """Whether warp groups multiply matrices from shared memory (Hopper's wgmma)."""
    names = (
        "smsp__sass_inst_executed_op_shared_gmma.sum",
        "sm__inst_executed_pipe_tensor_op_gmma.sum",
        "sm__inst_executed_pipe_tensor_op_gmma.avg.pct_of_peak_sustained_active",
    )
    return any((kernel.get(name) or 0) > 0 for name in names)


def bulk_bytes(kernel: Kernel) -> float:
    """Bytes that bulk copies (TMA) moved between global and shared memory."""
    return sum(
        kernel.get(f"l1tex__m_{way}_mem_global_op_tma_{op}.sum") or 0.0
        for way, op in (
            ("xbar2l1tex_read_bytes", "ld"),
            ("l1tex2xbar_write_bytes", "st"),
            ("l1tex2xbar_write_bytes", "red"),
        )
    )


def _global(kernel: Kernel, what: str, *ops: str) -> float:
    """Sectors or requests of global memory through load and store instructions."""
    return sum(kernel.need(f"l1tex__t_{what}_pipe_lsu_mem_global_op_{op}.sum") for op in ops)


def _data_bytes(kernel: Kernel, op: str) -> float:
    """The bytes of a sector that lanes asked for, on average; whole sectors where there are none."""
    name = f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio"
    return kernel.need(name) if _global(kernel, "sectors", op) else float(SECTOR_BYTES)


def _memory_and_shared(kernel: Kernel) -> tuple[float, float]:
    """The shares of a warp's life spent waiting for global memory, and for shared memory."""
    shares = dict(kernel.stalls)
    if not shares:
        raise Missing("smsp__average_warps_issue_stalled_…")
    memory = sum(shares.get(name, 0.0) for name in ("long_scoreboard", "lg_throttle", "drain"))
    shared = sum(shares.get(name, 0.0) for name in ("short_scoreboard", "mio_throttle"))
    if not kernel.get("memory_l1_wavefronts_shared"):
        return memory + shared, shared  # the same queue serves both
    return memory, shared


# -- accesses ----------------------------------------------------------------------------------------


def uncoalesced_access(kernel: Kernel) -> Left:
    """Sectors beyond those that the accesses' bytes need; what bulk copies move has no such rule."""
    theoretical = kernel.need("memory_l2_theoretical_sectors_global")
    ideal = kernel.need("memory_l2_theoretical_sectors_global_ideal")
    moved = kernel.need("dram__bytes_read.sum") + kernel.need("dram__bytes_write.sum")
    plain = _global(kernel, "sectors", "ld", "st")
    atomics = _global(kernel, "sectors", "red", "atom")
    if not theoretical or not _too_many_sectors(kernel):
        return {}
    bulk = bulk_bytes(kernel) / SECTOR_BYTES
    if bulk:
        theoretical = plain
        ideal = sum(
            _global(kernel, "sectors", op) * _data_bytes(kernel, op) / SECTOR_BYTES
            for op in ("ld", "st")
        )
    own = plain / (plain + bulk) if plain + bulk else 0.0
    twice = atomics / (atomics + plain) if atomics else 0.0
    to_l1 = ideal / theoretical if theoretical else 1.0  # bulk copies alone: nothing wasted
    asked = kernel.get("lts__t_sectors_srcunit_tex.sum")
    to_l2 = max(to_l1, min(1.0, (ideal + bulk) / asked)) if asked else to_l1
    needed = (ideal * (1 + twice) + bulk) * SECTOR_BYTES
    dram = min(1.0, needed / moved) if moved else 1.0
    memory, _ = _memory_and_shared(kernel)
    return {
        "l1": 1 - own * (1 - to_l1),
        "l2": 1 - own * (1 - to_l2),
        "dram": dram,
        "waiting": 1 - own * memory * (1 - min(to_l2, dram)),
    }


def _too_many_sectors(kernel: Kernel) -> bool:
    """Whether a kind of access takes more than one sector too many: one is what an offset costs, and neighbours
    share it."""
    for op in ("ld", "st"):
        if requests := _global(kernel, "requests", op):
            sectors = _global(kernel, "sectors", op) / requests
            if sectors * (1 - _data_bytes(kernel, op) / SECTOR_BYTES) > 1.01:
                return True
    return bool(_global(kernel, "sectors", "red", "atom"))


def narrow_access(kernel: Kernel) -> Left:
    """Lanes side by side that ask for few bytes each: too few bytes are under way to fill the memory."""
    requests = _global(kernel, "requests", "ld", "st")
    hits = kernel.get("l1tex__t_sector_hit_rate.pct") or 0.0
    memory, _ = _memory_and_shared(kernel)
    if not requests or hits / 100 > FEW_HITS or max(kernel.use.values()) >= BUSY:
        return {}
    used = 0.0
    for op in ("ld", "st"):
        sectors = _global(kernel, "sectors", op)
        data = _data_bytes(kernel, op)
        if sectors and data < DENSE_RATIO * SECTOR_BYTES:
            return {}
        used += sectors * data
    lane_bytes = used / requests / kernel.need(_LANES)
    # Below a byte a lane, lanes ask for the same address.
    if not 1 <= lane_bytes < WIDEST_BYTES:
        return {}
    share = lane_bytes / WIDEST_BYTES
    return {"waiting": 1 - memory * (1 - share)}


def _without_wavefronts(kernel: Kernel, share: float) -> Left:
    """What is left if this share of shared memory's wavefronts goes away."""
    pipe = kernel.need(f"{_SHARED}.sum.pct_of_peak_sustained_elapsed") / 100
    left = {"waiting": 1 - _memory_and_shared(kernel)[1] * share}
    l1 = kernel.use.get("l1")
    return {**left, "l1": 1 - share * min(1.0, pipe / l1)} if l1 else left


def _conflicts(kernel: Kernel) -> tuple[float, float]:
    """The share of shared memory's wavefronts that conflicts add, and the part of atomics in them."""
    wavefronts = kernel.need("memory_l1_wavefronts_shared")
    waits, atomics = kernel.need(f"{_BANK_WAITS}.sum"), kernel.need(f"{_BANK_WAITS}_op_atom.sum")
    if not wavefronts:
        return 0.0, 0.0
    share = 1 - kernel.need("memory_l1_wavefronts_shared_ideal") / wavefronts
    return max(0.0, share), atomics / waits if waits else 0.0


def bank_conflicts(kernel: Kernel) -> Left:
    """Wavefronts of shared memory beyond those that are needed, but for atomics'."""
    share, atomics = _conflicts(kernel)
    return _without_wavefronts(kernel, share * (1 - atomics)) if share else {}


def register_spills(kernel: Kernel) -> Left:
    """Traffic of registers that lie in local memory."""
    local = sum(
        kernel.need(f"l1tex__t_sectors_pipe_lsu_mem_local_op_{op}.sum") for op in ("ld", "st")
    )
    spilling = kernel.need("sass__inst_executed_register_spilling") / kernel.need(_INSTRUCTIONS)
    if not local:
        return {}
    share = local / (local + _global(kernel, "sectors", "ld", "st"))
    left = dict.fromkeys(("l1", "l2", "dram"), 1 - share)
    left |= dict.fromkeys(("issue", "adu"), 1 - spilling)
    return {**left, "waiting": 1 - _memory_and_shared(kernel)[0] * share}


# -- lanes, warps, blocks ----------------------------------------------------------------------------


def divergence(kernel: Kernel) -> Left:
    """Lanes that do nothing while others of their warp work, or go on for longer: rows of unequal length."""
    lanes = kernel.need(_LANES) / WARP_LANES
    memory, _ = _memory_and_shared(kernel)
    # Accesses of full warps ask for 4 bytes a lane or more: those that ask for less lack lanes, too, and equal
    # work would need fewer of them.
    asked, requests = 0.0, _global(kernel, "requests", "ld", "st")
    for op in ("ld", "st"):
        asked += _global(kernel, "sectors", op) * _data_bytes(kernel, op)
    full = min(1.0, asked / (4 * WARP_LANES * requests)) if requests else 1.0
    left = dict.fromkeys(("issue", "alu", "fma", "fp64", "xu", "adu"), lanes)
    return {**left, "waiting": memory * max(lanes, full) + (1 - memory) * lanes}


def low_occupancy(kernel: Kernel) -> Left:
    """Fewer resident warps than fit, so that nothing is issued while they wait."""
    waves = kernel.need(_WAVES)
    theoretical = kernel.need("sm__maximum_warps_per_active_cycle_pct") / 100
    if kernel.use.get("tensor", 0.0) >= max(FEW_PRODUCTS, kernel.pipe):
        return {}  # their warps are few because each holds a tile, and copies and products go on without them
    resident = theoretical
    blocks = kernel.get("launch__occupancy_limit_blocks")
    others = (
        kernel.get(f"launch__occupancy_limit_{n}") for n in ("warps", "registers", "shared_mem")
    )
    threads = kernel.get("launch__block_size") or 0
    tightest = blocks is not None and blocks <= min((n for n in others if n is not None), default=0)
    if tightest and threads <= FEW_WARPS * WARP_LANES:
        # Blocks this small end as fast as they are launched: their slots stay empty.
        achieved = kernel.need("sm__warps_active.avg.pct_of_peak_sustained_active") / 100
        resident = min(theoretical, achieved)
    return {"waiting": max(resident, 1 / max(1.0, waves))}


def _filled(kernel: Kernel) -> float:
    """How full the slots of the launch's waves are, over all SMs and all of the time."""
    waves = kernel.need(_WAVES)
    theoretical = kernel.need("sm__maximum_warps_per_active_cycle_pct")
    achieved = kernel.need("sm__warps_active.avg.pct_of_peak_sustained_active")
    whole = max(1, -(-waves // 1))
    resident = achieved * kernel.busy_sm_ratio / theoretical if theoretical else 1.0
    return min(1.0, max(waves / whole, resident))


def small_grid(kernel: Kernel) -> Left:
    """Fewer blocks than fit at once."""
    filled = _filled(kernel)
    return {"waiting": filled} if kernel.need(_WAVES) < 1 else {}


def tail_effect(kernel: Kernel) -> Left:
    """A last wave that few blocks are left for."""
    filled = _filled(kernel)
    return {"waiting": filled} if kernel.need(_WAVES) >= 1 else {}


# -- atomics, kinds of arithmetic ---------------------------------------------------------------------


def _failed_tries(kernel: Kernel) -> tuple[float, float]:
    """What compare-and-swaps that come too late take of shared memory's wavefronts, and of the instructions."""
    atomics = kernel.need("smsp__inst_executed_op_shared_atom.sum")
    own = kernel.need(f"{_SHARED}_op_atom.sum")
    wavefronts = kernel.need(f"{_SHARED}.sum")
    swaps = own - kernel.need(f"{_BANK_WAITS}_op_atom.sum") - atomics
    lanes = kernel.need(_LANES) / WARP_LANES
    issued = TRY_INSTRUCTIONS * atomics / kernel.need(_INSTRUCTIONS)
    if not atomics * wavefronts:
        return 0.0, 0.0
    failed = min(1.0, max(0.0, swaps / atomics)) * min(1.0, 2 * (1 - lanes))
    return failed * (own + atomics) / wavefronts, failed * issued


def atomic_contention(kernel: Kernel) -> Left:
    """Atomics to few addresses, which come one after the other."""
    # A bulk copy asks for what warps would have asked for, four bytes a lane.
    plain = _global(kernel, "requests", "ld", "st") + bulk_bytes(kernel) / (4 * WARP_LANES)
    adding = _global(kernel, "requests", "red", "atom")
    share, of_atomics = _conflicts(kernel)
    left: Left = {}
    if kernel.get("memory_l1_wavefronts_shared"):
        failed, issued = _failed_tries(kernel)
        left = _without_wavefronts(kernel, min(1.0, share * of_atomics + failed))
        left |= dict.fromkeys(("issue", "alu", "fma", "fp64", "xu"), 1 - issued)
    if not adding:
        return left
    warps = kernel.need("sm__warps_active.avg.per_cycle_active")
    cycles = warps * kernel.need("sm__cycles_active.sum")
    calm: float = UNCONTENDED_CYCLES
    mean, most = kernel.get(_ATOMIC.format("avg")), kernel.use.get("atomics")
    if most and mean is not None:
        left["atomics"] = mean / 100 / most
        if most == max(kernel.use.values()) >= SATURATED:
            calm /= 2
    memory, _ = _memory_and_shared(kernel)
    waits = memory * cycles / (plain + adding)
    if waits > calm:
        blame = min(1.0, adding / (plain + adding) / ATOMIC_RATIO)
        left["waiting"] = left.get("waiting", 1.0) - memory * (1 - calm / waits) * blame
    return left


def _per_cycle(kernel: Kernel, *ops: str) -> float:
    """Operations of all lanes in a cycle of the whole device."""
    stem = "smsp__sass_thread_inst_executed_op_{}_pred_on.sum.per_cycle_elapsed"
    return sum(kernel.need(stem.format(op)) for op in ops)


def tensor_cores_unused(kernel: Kernel) -> Left:
    """Products of matrices in 16 bits on the ordinary pipes."""
    work, halves = _per_cycle(kernel, "hfma", "ffma", "hadd"), _per_cycle(kernel, "hfma", "hadd")
    everything = WARP_LANES * kernel.need(_INSTRUCTIONS)
    loads = kernel.need("sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed") / 100
    if (
        kernel.cycles is None
        or work * kernel.cycles < MATRIX_RATIO * everything
        or halves < HALF_PRECISION_RATIO * work
        or loads < OPERAND_RATIO * kernel.pipe
        or kernel.use.get("tensor", 0.0) >= kernel.pipe
    ):
        return {}
    memory, faster = _memory_and_shared(kernel)[0], 1 / TENSOR_SPEEDUP
    left = dict.fromkeys(("l1", "issue", "alu", "fma"), faster)
    return {**left, "waiting": memory + (1 - memory) * faster}


def double_precision(kernel: Kernel) -> Left:
    """Doubles among floats, as a literal without an "f" makes them: each is converted there and back."""
    doubles = _per_cycle(kernel, "dadd", "dmul", "dfma") / WARP_LANES
    sms, cycles = kernel.need("launch__sm_count"), kernel.cycles
    special = (
        kernel.need("sm__inst_executed_pipe_xu.avg.pct_of_peak_sustained_active")
        / 100
        * kernel.busy_sm_ratio
    )
    issued = kernel.need(_INSTRUCTIONS)
    converted = min(special * XU_INSTRUCTIONS * sms, 2 * doubles)
    if not doubles or not cycles or converted < CONVERSIONS * doubles:
        return {}
    fma = kernel.use.get("fma", 0.0)
    as_floats = fma + kernel.use.get("fp64", 0.0) / 2
    gone = 1 - min(1.0, converted * cycles / issued)
    left = {
        "fp64": 0.0,
        "xu": 1 - converted / (special * XU_INSTRUCTIONS * sms),
        "issue": gone,
        "waiting": _memory_and_shared(kernel)[0] + (1 - _memory_and_shared(kernel)[0]) * gone,
    }
    return {**left, "fma": as_floats / fma} if fma else left


CAUSES: dict[str, Callable[[Kernel], Left]] = {
    function.__name__: function
    for function in (
        uncoalesced_access,
        narrow_access,
        bank_conflicts,
        register_spills,
        divergence,
        low_occupancy,
        small_grid,
        tail_effect,
        atomic_contention,
        tensor_cores_unused,
        double_precision,
    )
}
OF_THE_GRID = ("small_grid", "tail_effect")


def left_without(
    metrics: dict[str, Any], use: dict[str, float], stalls: list[tuple[str, float]], cause: str
) -> Left | None:
    """What is left of a launch's work without a cause; None where a counter that tells was not measured.

    metrics: in base units. use: of the units that are known. stalls: reasons, with shares of a warp's life. cause: of
    CAUSES. {} says that there is nothing to remove. Raises KeyError for another cause.
    """
    try:
        return CAUSES[cause](Told(metrics, use, stalls))
    except Missing:
        return None
