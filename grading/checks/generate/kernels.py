"""Simulated kernels: what one cause costs is known, because the same work is timed without it.

    work = Work.drawn("bank_conflicts", seed)
    kernel = work.profile()            # the counters that such a kernel would have, as read_metrics gives
    work.without("bank_conflicts").cycles / work.cycles      # the truth

The machine is simple on purpose. Each unit (DRAM, L2, L1, the issue slots, the arithmetic pipes) has
a rate; a warp lives as long as what it waits for; resident warps overlap. A launch takes as long as
the slowest unit needs at the rate that is reached in practice, or as its waves of warps take to live,
whichever is longer. Where a unit is the slowest, warps queue for it, and their waiting shows there.
"""

# Long because it writes each counter of one format.

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from typing import Any

REACHED = 0.92  # of a unit's peak rate, in practice
CLOCK_HZ = 1.6e9
SECTOR = 32

# Rates a cycle: sectors for memory, wavefronts and warp instructions an SM.
DRAM_SECTORS, L2_SECTORS = 88.0, 176.0
L1_WAVEFRONTS, ISSUE_SLOTS, PIPE_SLOTS, BARRIERS = 1.0, 4.0, 4.0, 0.5
# What a warp waits for one answer, in cycles, while nobody else asks.
DRAM_LATENCY, L2_LATENCY, L1_LATENCY, SHARED_LATENCY = 700, 280, 40, 30
TENSOR_SPEED = 4  # what a plain kernel gets from tensor instructions, against packed halves


@dataclass(frozen=True)
class Work:
    """One launch. Counts are warp instructions of one warp, while all its lanes are active."""

    sms: int = 132
    blocks: int = 13_200
    block_warps: int = 8
    blocks_per_sm: int = 8
    loads: int = 0
    stores: int = 0
    load_sectors: float = 4.0  # a request
    store_sectors: float = 4.0
    used_bytes: float = 32.0  # of a sector
    l1_hit: float = 0.0
    l2_hit: float = 0.0
    in_flight: float = 4.0  # loads that a warp has under way
    shared: float = 0
    conflict_ways: float = 1.0
    adds_to_shared: bool = False  # these accesses are atomics, and ways of them meet at an address
    barriers: int = 0
    spills: int = 0
    atomics: int = 0
    atomic_cycles: float = 0.0  # one after the other, for the whole device
    floats: int = 0
    halves: int = 0
    others: int = 8
    chain_cycles: float = 0.0  # waiting for the result before, an arithmetic instruction
    lanes: float = 32.0
    tensor: bool = False

    # -- what it takes --------------------------------------------------------------------------

    @property
    def warps(self) -> int:
        return self.blocks * self.block_warps

    @property
    def spread(self) -> float:
        """How many times a warp runs through its code because its lanes part ways."""
        return 32 / self.lanes

    @property
    def waves(self) -> float:
        return self.blocks / (self.sms * self.blocks_per_sm)

    @property
    def global_sectors(self) -> tuple[float, float]:
        """Sectors that loads and stores ask L1 for."""
        return (
            self.warps * self.loads * self.load_sectors,
            self.warps * self.stores * self.store_sectors,
        )

    @property
    def local_sectors(self) -> float:
        return self.warps * self.spills * 4.0

    @property
    def l2_sectors(self) -> float:
        loads, stores = self.global_sectors
        return (
            (loads + self.local_sectors / 2) * (1 - self.l1_hit)
            + stores
            + (self.local_sectors / 2 + self.warps * self.atomics)
        )

    @property
    def dram_sectors(self) -> float:
        loads, stores = self.global_sectors
        return loads * (1 - self.l1_hit) * (1 - self.l2_hit) + stores * (1 - self.l2_hit)

    @property
    def shared_wavefronts(self) -> float:
        return self.warps * self.shared * self.conflict_ways

    @property
    def wavefronts(self) -> float:
        loads, stores = self.global_sectors
        return self.shared_wavefronts + (loads + stores + self.local_sectors) / 4

    @property
    def arithmetic(self) -> float:
        """Warp instructions of the busiest pipe."""
        halves = self.halves / TENSOR_SPEED if self.tensor else self.halves
        return self.warps * (self.floats + halves) * self.spread

    @property
    def instructions(self) -> float:
        memory = self.loads + self.stores + self.shared + self.spills + self.atomics
        others = self.barriers + self.others
        return self.arithmetic + self.warps * (memory + others) * self.spread

    def busy_cycles(self) -> dict[str, float]:
        """How long each unit would take at its peak."""
        return {
            "dram": self.dram_sectors / DRAM_SECTORS,
            "l2": self.l2_sectors / L2_SECTORS,
            "l1": self.wavefronts / (L1_WAVEFRONTS * self.sms),
            "issue": self.instructions / (ISSUE_SLOTS * self.sms),
            "pipe": self.arithmetic / (PIPE_SLOTS * self.sms),
            "adu": self.warps * self.barriers * self.spread / (BARRIERS * self.sms),
        }

    def waits(self) -> dict[str, float]:
        """Cycles that a warp waits, by reason, while nobody else is in its way."""
        miss = (1 - self.l1_hit) * (self.l2_hit * L2_LATENCY + (1 - self.l2_hit) * DRAM_LATENCY)
        latency = self.l1_hit * L1_LATENCY + miss
        answered = self.loads + self.spills / 2
        return {
            "long_scoreboard": answered * latency / self.in_flight * self.spread,
            "short_scoreboard": self.shared
            * (SHARED_LATENCY + self.conflict_ways)
            / 4
            * self.spread,
            "wait": (self.floats + self.halves) * self.chain_cycles * self.spread,
            "selected": self.instructions / self.warps,
        }

    def needed_cycles(self) -> dict[str, float]:
        """How long each unit takes at the rate that is reached: an SM has whole blocks to do."""
        share = self.blocks / self.sms
        uneven = math.ceil(share) / share
        return {
            unit: busy / REACHED * (1 if unit in ("dram", "l2") else uneven)
            for unit, busy in self.busy_cycles().items()
        }

    @property
    def cycles(self) -> float:
        """How long the launch takes."""
        return max(
            math.ceil(self.waves) * sum(self.waits().values()),
            self.atomic_cycles * self.warps * self.atomics,
            *self.needed_cycles().values(),
        )

    # -- without a cause ------------------------------------------------------------------------

    def without(self, cause: str) -> Work:
        """The same work with one cause fixed."""
        if cause == "uncoalesced_access":
            share = self.used_bytes / SECTOR
            return replace(
                self,
                load_sectors=self.load_sectors * share,
                store_sectors=self.store_sectors * share,
                used_bytes=float(SECTOR),
            )
        if cause == "tensor_cores_unused":
            # Operands come from shared memory once a tile, not once a multiplication.
            return replace(self, tensor=True, shared=self.shared / TENSOR_SPEED)
        if cause == "low_occupancy":
            return replace(self, blocks_per_sm=64 // self.block_warps)
        if cause == "small_grid":
            pieces = math.ceil(self.sms * self.blocks_per_sm / self.blocks)
            return self._cut(pieces)
        if cause == "tail_effect":
            return self._cut(64)
        changes: dict[str, dict[str, Any]] = {
            "bank_conflicts": {"conflict_ways": 1.0},
            "register_spills": {"spills": 0},
            "divergence": {"lanes": 32.0},
            "atomic_contention": {"conflict_ways": 1.0} if self.adds_to_shared else {"atomics": 0},
        }
        return replace(self, **changes[cause])

    def _cut(self, pieces: int) -> Work:
        """The same work in more blocks, each with less to do."""
        counts = ("loads", "stores", "shared", "spills", "atomics", "floats", "halves", "others")
        less = {name: getattr(self, name) / pieces for name in counts}
        return replace(self, blocks=self.blocks * pieces, **less)

    # -- as the profiler sees it ----------------------------------------------------------------

    def life(self) -> dict[str, float]:
        """What a warp's cycles go into, queues for the slowest unit included."""
        waits = self.waits()
        queued = self.cycles / math.ceil(self.waves) - sum(waits.values())
        if queued > 0:
            busy = self.needed_cycles()
            slowest = max(busy, key=lambda unit: busy[unit])
            reasons = {"issue": "not_selected", "pipe": "math_pipe_throttle", "adu": "barrier"}
            reason = reasons.get(slowest)
            if slowest == "l1" and self.shared_wavefronts > self.wavefronts / 2:
                reason = "mio_throttle"
            if self.atomic_cycles * self.warps * self.atomics > max(busy.values()):
                reason = "lg_throttle"
            reason = reason or "long_scoreboard"
            waits[reason] = waits.get(reason, 0.0) + queued
        return waits

    def profile(self, name: str = "made(float *, int)") -> dict[str, Any]:
        """The kernel as read_metrics gives it."""
        cycles, busy, life = self.cycles, self.busy_cycles(), self.life()
        theoretical = self.blocks_per_sm * self.block_warps / 64
        full = self.waves / math.ceil(self.waves)
        share = self.blocks / self.sms
        active = share / math.ceil(share)
        issued = self.instructions / (self.sms * 4)
        loads, stores = self.global_sectors
        floats, halves = self.warps * self.floats * 32, self.warps * self.halves * 32
        total = sum(life.values())
        memory = self.loads + self.stores + self.shared + self.spills + self.atomics
        resident = 64 * theoretical * full / active
        used = self.used_bytes / SECTOR
        replays = self.shared_wavefronts - self.shared_wavefronts / self.conflict_ways
        adding = 1 if self.adds_to_shared else 0
        # Two cycles of an L2 slice each, while the whole queue stands at one of eighty.
        slice_use = 50 * self.atomic_cycles * self.warps * self.atomics / cycles
        metrics: dict[str, Any] = {
            "gpu__time_duration.sum": cycles / CLOCK_HZ * 1e9,
            "gpc__cycles_elapsed.max": cycles,
            "gpc__cycles_elapsed.avg.per_second": CLOCK_HZ,
            "sm__cycles_active.avg": cycles * active,
            "sm__cycles_active.sum": cycles * active * self.sms,
            "sm__warps_active.avg.per_cycle_active": resident,
            "sm__maximum_warps_per_active_cycle_pct": 100 * theoretical,
            "sm__warps_active.avg.pct_of_peak_sustained_active": 100 * resident / 64,
            "launch__waves_per_multiprocessor": self.waves,
            "dram__bytes_read.sum": SECTOR * self.dram_sectors * loads / max(1, loads + stores),
            "dram__bytes_write.sum": SECTOR * self.dram_sectors * stores / max(1, loads + stores),
            "l1tex__t_sector_hit_rate.pct": 100 * self.l1_hit,
            "lts__t_sector_hit_rate.pct": 100 * self.l2_hit,
            "memory_l2_theoretical_sectors_global": loads + stores,
            "memory_l2_theoretical_sectors_global_ideal": (loads + stores) * used,
            "memory_l1_wavefronts_shared": self.shared_wavefronts,
            "memory_l1_wavefronts_shared_ideal": self.shared_wavefronts / self.conflict_ways,
            "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum.pct_of_peak_sustained_elapsed": 100
            * self.shared_wavefronts
            / (L1_WAVEFRONTS * self.sms * cycles),
            "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": self.shared_wavefronts,
            "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_atom.sum": self.shared_wavefronts
            * adding,
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared.sum": replays,
            "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_atom.sum": replays * adding,
            "smsp__inst_executed_op_shared_atom.sum": self.warps * self.shared * adding,
            "lts__d_atomic_input_cycles_active.avg.pct_of_peak_sustained_elapsed": slice_use / 80,
            "lts__d_atomic_input_cycles_active.max.pct_of_peak_sustained_elapsed": slice_use,
            "l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum": self.local_sectors / 2,
            "l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum": self.local_sectors / 2,
            "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum": self.warps * self.atomics,
            "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum": 0,
            "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum": self.warps * self.atomics,
            "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum": 0,
            "sass__inst_executed_register_spilling": self.warps * self.spills * self.spread,
            "smsp__thread_inst_executed_per_inst_executed.ratio": self.lanes,
            "smsp__inst_executed.sum": self.instructions,
            "smsp__sass_thread_inst_executed_op_ffma_pred_on.sum.per_cycle_elapsed": floats
            / cycles,
            "smsp__sass_thread_inst_executed_op_hfma_pred_on.sum.per_cycle_elapsed": (
                0 if self.tensor else halves / cycles
            ),
            "smsp__sass_thread_inst_executed_op_hadd_pred_on.sum.per_cycle_elapsed": 0,
            "sm__inst_executed_pipe_lsu.avg.pct_of_peak_sustained_elapsed": 100
            * self.warps
            * memory
            * self.spread
            / (self.sms * cycles),
            "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed": (
                100 * busy["pipe"] / cycles if self.tensor else 0
            ),
            "gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed": 100 * busy["dram"] / cycles,
            "lts__t_sectors.avg.pct_of_peak_sustained_elapsed": 100 * busy["l2"] / cycles,
        }
        for counter, unit in (
            ("l1tex__throughput", "l1"),
            ("smsp__issue_active", "issue"),
            ("sm__pipe_fma_cycles_active", "pipe"),
            ("sm__inst_executed_pipe_adu", "adu"),
        ):
            share = 100 * busy[unit] / cycles / active
            metrics[f"{counter}.avg.pct_of_peak_sustained_active"] = share
        for op, requests, sectors in (
            ("ld", self.warps * self.loads, loads),
            ("st", self.warps * self.stores, stores),
        ):
            metrics[f"l1tex__t_requests_pipe_lsu_mem_global_op_{op}.sum"] = requests
            metrics[f"l1tex__t_sectors_pipe_lsu_mem_global_op_{op}.sum"] = sectors
            metrics[f"smsp__sass_average_data_bytes_per_sector_mem_global_op_{op}.ratio"] = (
                self.used_bytes if sectors else None
            )
        # The ratio counts warps of a scheduler at the moment when one is issued.
        for reason, share in life.items():
            metrics[f"smsp__average_warps_issue_stalled_{reason}_per_issue_active.ratio"] = (
                share / total * (cycles / issued) * 16 * theoretical * full
            )
        return {
            "id": 0,
            "name": name,
            "grid": (self.blocks, 1, 1),
            "block": (32 * self.block_warps, 1, 1),
            "cc": "9.0",
            "metrics": metrics,
        }

    # -- drawn ----------------------------------------------------------------------------------

    @staticmethod
    def drawn(cause: str, seed: int) -> Work:
        """Work that suffers from one cause (or is healthy, by its limiter), drawn at random."""
        rng = random.Random(f"{cause} {seed}")
        sms = rng.choice((82, 108, 114, 132, 148))
        base = Work(
            sms=sms,
            blocks=sms * 8 * rng.randint(20, 60),
            loads=rng.randint(6, 16),
            stores=rng.randint(1, 4),
            in_flight=rng.choice((4.0, 6.0, 8.0)),
            floats=rng.randint(8, 40),
            l2_hit=rng.uniform(0, 0.1),
        )
        draws: dict[str, dict[str, Any]] = {
            "memory_bound": {},
            "compute_bound": {
                "loads": 2,
                "stores": 1,
                "floats": rng.randint(3_000, 6_000),
                "chain_cycles": 0.5,
            },
            "cache_bound": {
                "loads": rng.randint(60, 90),
                "stores": 1,
                "l2_hit": rng.uniform(0.95, 0.99),
                "in_flight": 16.0,
            },
            "latency_bound": {
                "loads": rng.randint(20, 40),
                "stores": 1,
                "load_sectors": 1.0,
                "used_bytes": 32.0,
                "in_flight": 1.0,
                "l2_hit": 0.3,
            },
            "uncoalesced_access": {
                "load_sectors": (ways := rng.choice((16.0, 32.0))),
                "store_sectors": ways,
                "used_bytes": 32 * 4 / ways,
            },
            "bank_conflicts": {
                "shared": rng.randint(200, 400),
                "conflict_ways": rng.choice((8.0, 16.0, 32.0)),
                "loads": 2,
                "stores": 1,
            },
            "low_occupancy": {"blocks_per_sm": rng.choice((1, 2)), "in_flight": 1.0},
            "small_grid": {
                "blocks": rng.randint(8, sms // 3),
                "loads": rng.randint(400, 900),
                "stores": 100,
                "in_flight": 2.0,
            },
            "tail_effect": {
                "blocks": sms + rng.randint(1, sms // 4),
                "block_warps": 32,
                "blocks_per_sm": 1,
                "floats": rng.randint(20_000, 40_000),
                "loads": 2,
                "stores": 1,
                "chain_cycles": 4.0,
            },
            "divergence": {
                "lanes": rng.choice((4.0, 8.0, 12.0)),
                "floats": rng.randint(2_000, 4_000),
                "loads": 2,
                "stores": 1,
                "chain_cycles": 1.0,
            },
            "atomic_contention": {
                "atomics": rng.randint(8, 16),
                "atomic_cycles": rng.uniform(0.5, 2.0),
                "loads": 4,
                "stores": 0,
            },
            "shared_atomics": {  # atomic_contention, in shared memory
                "shared": rng.randint(200, 400),
                "conflict_ways": rng.choice((8.0, 16.0, 32.0)),
                "adds_to_shared": True,
                "loads": 2,
                "stores": 1,
            },
            "barriers": {  # latency_bound: warps wait for each other
                "barriers": rng.randint(300, 600),
                "shared": rng.randint(50, 100),
                "loads": 2,
                "stores": 1,
            },
            "register_spills": {
                "spills": rng.randint(150, 300),
                "floats": rng.randint(200, 400),
                "loads": 4,
                "stores": 1,
                "l1_hit": rng.uniform(0.2, 0.5),
            },
            "tensor_cores_unused": {
                "halves": rng.randint(3_000, 6_000),
                "floats": 0,
                "loads": 4,
                "stores": 1,
                "chain_cycles": 0.5,
                "shared": 400,
            },
        }
        return replace(base, **draws[cause])
