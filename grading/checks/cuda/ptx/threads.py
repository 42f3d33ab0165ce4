"""All threads of a launch: their registers, and how warps run from barrier to barrier."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence

import numpy as np

from grading.checks.cuda.ptx.listing import Instruction, Kernel, Listing, immediate, kind_of
from grading.checks.cuda.ptx.memory import (
    DTYPES,
    MOST_BYTES,
    WARP,
    Counters,
    EmulatorError,
    Memory,
    Unsupported,
)

MOST_STEPS = 400_000  # of a launch: a guard against a kernel that never ends
IGNORED = frozenset(("membar", "fence", "nanosleep", "pragma", "prefetch", "discard", "isspacep"))


class Threads:
    """The threads of one launch. Instructions are methods `op_…` of the classes that build on this one."""

    def __init__(
        self,
        module: Listing,
        kernel: Kernel,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[int | float],
        memory: Memory,
        shared_bytes: int,
    ) -> None:
        self.kernel, self.memory = kernel, memory
        self.counters = Counters()
        self.threads = math.prod(block)
        self.blocks = math.prod(grid)
        self.warps = -(-self.threads // WARP)
        count = self.threads * self.blocks
        self._check_room(count, shared_bytes)
        lanes = np.arange(count)
        self.block_of = lanes // self.threads
        thread = lanes % self.threads
        self.lane = (thread % WARP).astype(np.uint32)
        self.warp_in_block = thread // WARP
        self.warp_of = self.block_of * self.warps + self.warp_in_block
        self.block_shape = tuple(block)
        self.special = {
            "%laneid": self.lane,
            "%warpid": self.warp_in_block,
            "%lanemask_lt": (np.uint32(1) << self.lane) - np.uint32(1),
            "%clock": np.zeros(count, np.uint32),
            "%clock64": np.zeros(count, np.uint64),
            "%smid": np.zeros(count, np.uint32),
            "%dynamic_smem_size": np.full(count, shared_bytes, np.uint32),
        }
        for index, shape, own, counts in (
            (thread, block, "%tid", "%ntid"),
            (self.block_of, grid, "%ctaid", "%nctaid"),
        ):
            for number, axis in enumerate("xyz"):
                below = int(np.prod(shape[:number]))
                self.special[f"{own}.{axis}"] = index // below % shape[number]
                self.special[f"{counts}.{axis}"] = np.full(count, shape[number], np.uint32)
        self.special = {k: np.asarray(v) for k, v in self.special.items()}

        self.symbols: dict[str, int] = {}
        offset = 0
        for name, size, align in kernel.shared:
            offset = -(-offset // align) * align
            self.symbols[name] = offset
            offset += size
        offset = -(-offset // 16) * 16
        for name in module.extern_shared:
            self.symbols[name] = offset
        self.shared_size = -(-(offset + shared_bytes) // 16) * 16
        self.shared_end = offset + shared_bytes
        self.shared = np.full((self.blocks, self.shared_size), 0xFF, np.uint8)
        local = 0
        for name, size, align in kernel.local:
            local = -(-local // align) * align
            self.symbols[name] = local
            local += size
        self.local = np.full((count if local else 0, -(-local // 16) * 16), 0xFF, np.uint8)
        for name, size, initialised in module.globals:
            if initialised and any(name in i.text for i in kernel.instructions):
                raise Unsupported(f"the variable {name}, which starts with values")
            if name not in memory.names:
                memory.allocate(name, size, fill=0)
            self.symbols[name] = memory.starts[memory.names.index(name)]

        if len(arguments) != len(kernel.parameters):
            raise Unsupported(f"{kernel.name}: {len(arguments)} arguments")
        self.parameters = {
            name: (kind, value)
            for (name, kind), value in zip(kernel.parameters, arguments, strict=True)
        }
        self.registers: dict[str, np.ndarray] = {}
        for pattern, kind in kernel.registers:
            if kind not in DTYPES:
                raise Unsupported(f"registers of type {kind}")
            if found := re.fullmatch(r"(.*)<(\d+)>", pattern):
                for number in range(int(found[2])):
                    self.registers[f"{found[1]}{number}"] = np.zeros(count, DTYPES[kind])
            else:
                self.registers[pattern] = np.zeros(count, DTYPES[kind])
        self.pc = np.zeros(count, np.int64)
        self.exited = np.zeros(count, bool)
        self.waiting = np.zeros(count, bool)
        self.jumped = False
        self.steps = 0
        self._lanes, self._warp_count = np.zeros(0, np.int64), 0
        self._of_pattern: dict[tuple[int, bytes], tuple[int, int]] = {}
        self.operations: dict[str, Callable[[Instruction, np.ndarray], None]] = {
            name.removeprefix("op_"): getattr(self, name)
            for name in dir(self)
            if name.startswith("op_")
        }

    def _check_room(self, count: int, shared_bytes: int) -> None:
        """Raise EmulatorError for a launch whose threads take more memory than there is for them."""
        registers = 0
        for pattern, _ in self.kernel.registers:
            found = re.fullmatch(r".*<(\d{1,9})>", pattern)
            registers += int(found[1]) if found else 1
        own = 8 * registers + sum(size for _, size, _ in self.kernel.local)
        shared = shared_bytes + sum(size for _, size, _ in self.kernel.shared)
        if min(count, shared_bytes + 1) < 1 or count * own + self.blocks * shared > MOST_BYTES:
            raise EmulatorError(
                f"{self.kernel.name}: {self.blocks} blocks of {self.threads} threads are more than the "
                "emulator has room for"
            )

    @np.errstate(all="ignore")  # a kernel may overflow, or divide by nothing
    def execute(self, descending: bool) -> None:
        order = range(self.warps)
        lanes_of = [np.flatnonzero(self.warp_in_block == warp) for warp in order]
        while True:
            for warp in reversed(order) if descending else order:
                self._run_to_barrier(lanes_of[warp])
            if self.exited.all():
                return
            for block in np.unique(self.block_of[self.waiting]):
                own = self.waiting & (self.block_of == block)
                if len(np.unique(self.pc[own])) > 1:
                    raise EmulatorError(
                        f"{self.kernel.name}: threads of block {block} wait at different barriers; "
                        "every thread of a block must reach the same __syncthreads()"
                    )
                self.counters.barriers += 1
            self.waiting[:] = False

    def _run_to_barrier(self, lanes: np.ndarray) -> None:
        instructions = self.kernel.instructions
        while True:
            ready = lanes[~(self.exited[lanes] | self.waiting[lanes])]
            if not len(ready):
                return
            pcs = self.pc[ready]
            lowest = int(pcs.min())
            together = pcs == lowest
            active = ready[together]
            limit = len(instructions) if together.all() else int(pcs[~together].min())
            at = lowest
            self.jumped = False
            while at < limit and not self.jumped:
                self.steps += 1
                if self.steps > MOST_STEPS:
                    raise EmulatorError(
                        f"{self.kernel.name} did not end within {MOST_STEPS} instructions"
                    )
                self._step(instructions[at], active, at)
                at += 1
            if not self.jumped:
                self.pc[active] = at
                if at >= len(instructions):
                    self.exited[active] = True

    def _step(self, instruction: Instruction, active: np.ndarray, at: int) -> None:
        chosen = active
        if instruction.guard:
            wanted = self.registers[instruction.guard][active]
            chosen = active[~wanted if instruction.negated else wanted]
        name = instruction.opcode
        if len(chosen):
            self.counters.instructions[name] += self._warps(chosen)
        if name in ("bra", "ret", "exit", "bar", "barrier"):
            self._control(instruction, active, chosen, at)
        elif len(chosen) and name not in IGNORED:
            operation = self.operations.get(name)
            if operation is None:
                raise Unsupported(f"the PTX instruction {'.'.join((name, *instruction.parts))}")
            operation(instruction, chosen)

    def _control(
        self, instruction: Instruction, active: np.ndarray, chosen: np.ndarray, at: int
    ) -> None:
        name = instruction.opcode
        if name in ("bar", "barrier"):
            if "warp" in instruction.parts:  # threads of a warp are in step here
                return
            if not set(instruction.parts) <= {"sync", "cta", "aligned"}:
                raise Unsupported(f"the PTX instruction {instruction.text}")
            self.pc[active] = at + 1
            self.waiting[chosen] = True
            self.jumped = True
            return
        self.pc[active] = at + 1
        if name == "bra":
            self.pc[chosen] = self.kernel.labels[instruction.operands[0]]
        else:
            self.exited[chosen] = True
        self.jumped = True

    def read(self, operand: str, kind: str, lanes: np.ndarray) -> np.ndarray:
        dtype = DTYPES[kind]
        if operand in self.registers:
            value = self.registers[operand].take(lanes)
            if value.dtype == np.bool_ or value.dtype == dtype:
                return value
            if value.dtype.itemsize == np.dtype(dtype).itemsize:
                return value.view(dtype)
            unsigned = value.view(f"u{value.dtype.itemsize}")
            return unsigned.astype(f"u{np.dtype(dtype).itemsize}").view(dtype)
        if operand in self.special:
            return self.special[operand][lanes].astype(dtype)
        if operand in self.symbols:
            return np.full(len(lanes), self.symbols[operand], np.uint64).astype(dtype)
        return np.full(len(lanes), 1).astype(dtype) * 0 + immediate(operand, dtype)

    def write(self, operand: str, value: np.ndarray, lanes: np.ndarray) -> None:
        if operand == "_":
            return
        register = self.registers[operand]
        if register.dtype == np.bool_:
            register[lanes] = value
        elif value.dtype.itemsize == register.dtype.itemsize:
            register[lanes] = value.view(register.dtype)
        else:  # widened by sign or zero, as its type says
            register[lanes] = value.astype(f"i{register.dtype.itemsize}" if value.dtype.kind == "i"
                                           else f"u{register.dtype.itemsize}").view(register.dtype)  # fmt: skip

    def _kind(self, instruction: Instruction) -> str:
        return kind_of(instruction.parts)

    def _thread(self, lane: int) -> str:
        thread = lane % self.threads
        x, y = self.block_shape[0], self.block_shape[1]
        return (
            f"thread ({thread % x}, {thread // x % y}, {thread // (x * y)}) of block "
            f"{self.block_of[lane]} (counted in order)"
        )

    def _warps(self, lanes: np.ndarray) -> int:
        """How many warps these lanes belong to. Lanes are in order, and so are their warps."""
        if lanes is not self._lanes:
            self._lanes, self._warp_count = lanes, distinct(self.warp_of[lanes])
        return self._warp_count

    def _by_warp(self, lanes: np.ndarray, flags: np.ndarray) -> np.ndarray:
        """For each lane, the bits of its warp's lanes whose flag is set."""
        bits = np.zeros(self.blocks * self.warps, np.uint32)
        mask = np.where(flags, np.uint32(1) << self.lane[lanes], np.uint32(0)).astype(np.uint32)
        np.bitwise_or.at(bits, self.warp_of[lanes], mask)
        return bits[self.warp_of[lanes]]


def distinct(ordered: np.ndarray) -> int:
    """How many values there are in a sorted array."""
    return min(len(ordered), 1) + int(np.count_nonzero(ordered[1:] != ordered[:-1]))
