"""Runs a kernel's PTX on the CPU: what it computes, and which memory it touches how.

`Module(text).launch(...)` executes every thread of a grid with numpy and counts what the profiler
would: requests, sectors and used bytes of global memory, wavefronts of shared memory, instructions.

Order. Warps run one after another, each from barrier to barrier, in ascending or descending order:
what is right only because threads happened to be in step comes out wrong in one of the two. Shared
memory and what was never written hold NaN. Threads of a warp run in step and meet again at the
lowest program counter.

What it counts follows the CUDA programming guide (global accesses of a warp are served in sectors of
32 bytes; shared memory has 32 banks of 4 bytes) and Nsight Compute's definition of wavefronts: one of
8 bytes a thread serves half a warp at a time, one of 16 bytes a quarter.

An instruction that is missing here raises Unsupported, which names it.
"""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4
WARP = 32
MOST_STEPS = 400_000  # of a launch: a guard against a kernel that never ends
MOST_BYTES = 2 * 2**30  # that buffers hold together, and the threads of a launch
GUARD_BYTES = 4096  # between buffers, so that an address past one is never inside another
SHARED_WINDOW = 1 << 44  # where shared and local memory lie among generic addresses
LOCAL_WINDOW = 1 << 45
FIRST_ADDRESS = 1 << 20

DTYPES: dict[str, Any] = {
    "pred": np.bool_,
    "b8": np.uint8, "u8": np.uint8, "s8": np.int8,
    "b16": np.uint16, "u16": np.uint16, "s16": np.int16, "f16": np.float16,
    "b32": np.uint32, "u32": np.uint32, "s32": np.int32, "f32": np.float32,
    "b64": np.uint64, "u64": np.uint64, "s64": np.int64, "f64": np.float64,
}  # fmt: skip
WIDER = {"s16": np.int32, "u16": np.uint32, "s32": np.int64, "u32": np.uint64}
SPACES = ("global", "shared", "local", "param", "const")
IGNORED = frozenset(("membar", "fence", "nanosleep", "pragma", "prefetch", "discard", "isspacep"))


class EmulatorError(Exception):
    """The kernel does what a GPU would refuse, or never ends: says which thread did what."""


class Unsupported(Exception):
    """The kernel uses what the emulator does not follow: says what."""


@dataclass
class Traffic:
    """Accesses to global memory of one kind, by warp: requests, the sectors they touch, the bytes that
    are used of them. widths: requests by bytes a thread."""

    requests: int = 0
    sectors: int = 0
    bytes: int = 0
    widths: Counter[int] = field(default_factory=Counter)


@dataclass
class SharedTraffic:
    """Accesses to shared memory: wavefronts that they take, and that they would take without conflicts."""

    wavefronts: int = 0
    ideal: int = 0

    @property
    def conflicts(self) -> int:
        return self.wavefronts - self.ideal


@dataclass
class Counters:
    """What a launch did. atomics: by thread. instructions: warp instructions by opcode."""

    loads: Traffic = field(default_factory=Traffic)
    stores: Traffic = field(default_factory=Traffic)
    shared_loads: SharedTraffic = field(default_factory=SharedTraffic)
    shared_stores: SharedTraffic = field(default_factory=SharedTraffic)
    atomics: int = 0
    local_accesses: int = 0
    barriers: int = 0
    instructions: Counter[str] = field(default_factory=Counter)


class Memory:
    """Global memory: named buffers with gaps between them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.bytes = np.zeros(0, np.uint8)

    def allocate(self, name: str, size: int, fill: int = 0xFF) -> int:
        """A new buffer, all of whose bytes are `fill` (0xFF: every float is NaN); its address."""
        start = -(-(FIRST_ADDRESS + len(self.bytes)) // 256) * 256
        end = start + size
        if size < 0 or end - FIRST_ADDRESS > MOST_BYTES:
            raise EmulatorError(f"{name} of {size} bytes is more than the emulator has room for")
        grown = np.full(-(-(end + GUARD_BYTES - FIRST_ADDRESS) // 256) * 256, 0xFF, np.uint8)
        grown[: len(self.bytes)] = self.bytes
        grown[start - FIRST_ADDRESS : end - FIRST_ADDRESS] = fill
        self.bytes = grown
        self.names.append(name)
        self.starts.append(start)
        self.ends.append(end)
        return start

    def view(self, address: int, dtype: Any, count: int) -> np.ndarray:
        first = address - FIRST_ADDRESS
        return self.bytes[first : first + count * np.dtype(dtype).itemsize].view(dtype)

    def check(self, addresses: np.ndarray, size: int) -> tuple[int, str] | None:
        """The first access that is outside every buffer, with words for it; None if there is none."""
        place = np.searchsorted(np.array(self.starts, np.int64), addresses, side="right") - 1
        ends = np.array(self.ends, np.int64)
        outside = (place < 0) | (addresses + size > ends[np.maximum(place, 0)])
        if not outside.any():
            return None
        first = int(np.flatnonzero(outside)[0])
        near = int(place[first])
        if near < 0:
            return first, "at an address that no buffer has"
        past = int(addresses[first]) + size - self.ends[near]
        return first, f"{past} bytes past the end of {self.names[near]}"


@dataclass
class Instruction:
    guard: str | None
    negated: bool
    opcode: str
    parts: tuple[str, ...]
    operands: tuple[str, ...]
    text: str


@dataclass
class Kernel:
    name: str
    parameters: list[tuple[str, str]]  # name, type
    registers: list[tuple[str, str]]  # pattern or name, type
    instructions: list[Instruction]
    labels: dict[str, int]
    shared: list[tuple[str, int, int]]  # name, bytes, alignment
    local: list[tuple[str, int, int]]


@functools.lru_cache(maxsize=4096)
def _split(text: str) -> tuple[str, ...]:
    """Operands, at commas outside brackets."""
    out, depth, current = [], 0, ""
    for character in text:
        depth += (character in "{[(") - (character in "}])")
        if character == "," and depth == 0:
            out.append(current.strip())
            current = ""
        else:
            current += character
    if current.strip():
        out.append(current.strip())
    return tuple(out)


_VARIABLE = re.compile(
    r"\.(?P<space>shared|global|local|const)\s+(?:\.align\s+(?P<align>\d+)\s+)?"
    r"\.(?P<type>\w+)\s+(?P<name>[\w$.]+)(?:\[(?P<count>\d*)\])?\s*(?P<init>=[^;]*)?$"
)


class Module:
    """A PTX file: its kernels, and its own variables."""

    def __init__(self, text: str) -> None:
        text = re.sub(r"//[^\n]*", "", text)
        self.kernels: dict[str, Kernel] = {}
        self.globals: list[tuple[str, int, bool]] = []  # name, bytes, initialised
        self.extern_shared: list[str] = []
        outside = []
        position = 0
        for match in re.finditer(
            r"\.entry\s+(?P<name>[\w$]+)\s*(?:\((?P<parameters>[^)]*)\))?[^{;]*\{", text
        ):
            end = self._closing(text, match.end())
            outside.append(text[position : match.start()])
            kernel = self._kernel(match["name"], match["parameters"] or "", text[match.end() : end])
            self.kernels[kernel.name] = kernel
            position = end + 1
        outside.append(text[position:])
        for statement in " ".join(outside).split(";"):
            found = _VARIABLE.search(" ".join(statement.split()))
            if not found:
                continue
            size = np.dtype(DTYPES[found["type"]]).itemsize * int(found["count"] or 1)
            if found["space"] == "shared":
                if found["count"] == "":
                    self.extern_shared.append(found["name"])
            else:
                self.globals.append((found["name"], size, found["init"] is not None))

    @staticmethod
    def _closing(text: str, position: int) -> int:
        depth = 1
        for match in re.finditer(r"[{}]", text[position:]):
            depth += 1 if match[0] == "{" else -1
            if depth == 0:
                return position + match.start()
        raise Unsupported("a kernel whose body does not end")

    @staticmethod
    def _kernel(name: str, parameters: str, body: str) -> Kernel:
        kernel = Kernel(name, [], [], [], {}, [], [])
        for parameter in filter(None, (part.strip() for part in parameters.split(","))):
            found = re.fullmatch(
                r"\.param\s+(?:\.align \d+ )?\.(\w+)(?:\s+\.ptr\S*.*?)?\s+([\w$]+)(\[\d+\])?",
                parameter,
            )
            if not found or found[3]:
                raise Unsupported(f"{name}: a parameter that is a struct")
            kernel.parameters.append((found[2], found[1]))
        # Vector operands keep their braces; a scope's braces stand alone on a line.
        body = re.sub(r"^\s*[{}]\s*$", "", body, flags=re.MULTILINE)
        body = re.sub(r"(\$?[\w$]+):\s", r"\1:;", body)
        for statement in body.split(";"):
            statement = " ".join(statement.split())
            if not statement:
                continue
            if statement.endswith(":"):
                kernel.labels[statement[:-1]] = len(kernel.instructions)
            elif statement.startswith(".reg"):
                _, kind, names = statement.split(maxsplit=2)
                kernel.registers += [(part.strip(), kind[1:]) for part in names.split(",")]
            elif found := _VARIABLE.match(statement):
                size = np.dtype(DTYPES[found["type"]]).itemsize * int(found["count"] or 1)
                where = kernel.shared if found["space"] == "shared" else kernel.local
                where.append((found["name"], size, int(found["align"] or 4)))
            elif not statement.startswith("."):
                kernel.instructions.append(Module._instruction(statement))
        return kernel

    @staticmethod
    def _instruction(text: str) -> Instruction:
        guard, negated, rest = None, False, text
        if found := re.match(r"@(!?)(%?[\w$]+)\s+", text):
            guard, negated, rest = found[2], found[1] == "!", text[found.end() :]
        opcode, _, operands = rest.partition(" ")
        parts = tuple(opcode.split("."))
        return Instruction(guard, negated, parts[0], parts[1:], _split(operands), text)

    def launch(
        self,
        name: str,
        grid: Sequence[int],
        block: Sequence[int],
        arguments: Sequence[int | float],
        memory: Memory,
        *,
        shared_bytes: int = 0,
        descending: bool = False,
    ) -> Counters:
        """Run one kernel to its end. arguments: pointers as addresses in `memory`.

        Raises EmulatorError, Unsupported.
        """
        if name not in self.kernels:
            raise Unsupported(f"no kernel {name}; there are {', '.join(self.kernels) or 'none'}")
        run = _Run(self, self.kernels[name], grid, block, arguments, memory, shared_bytes)
        run.execute(descending)
        return run.counters


class _Run:
    def __init__(
        self,
        module: Module,
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

    # -- order ------------------------------------------------------------------------------------

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

    # -- operands ---------------------------------------------------------------------------------

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
        return np.full(len(lanes), 1).astype(dtype) * 0 + _immediate(operand, dtype)

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
        return _kind_of(instruction.parts)

    def _addresses(self, operand: str, lanes: np.ndarray) -> np.ndarray:
        base, offset = _address(operand)
        if base in self.registers:
            value = self.registers[base][lanes].astype(np.int64)
        else:
            value = np.full(
                len(lanes), self.symbols[base] if base in self.symbols else int(base), np.int64
            )
        return value + offset

    # -- memory -----------------------------------------------------------------------------------

    def _where(self, instruction: Instruction, addresses: np.ndarray) -> tuple[str, np.ndarray]:
        space = next((part for part in instruction.parts if part in SPACES), "")
        if space:
            return space, addresses
        if (addresses >= LOCAL_WINDOW).all():
            return "local", addresses - LOCAL_WINDOW
        if (addresses >= SHARED_WINDOW).all():
            return "shared", addresses - SHARED_WINDOW
        if (addresses < SHARED_WINDOW).all():
            return "global", addresses
        raise Unsupported("one access to shared and to global memory at once")

    def _thread(self, lane: int) -> str:
        thread = lane % self.threads
        x, y = self.block_shape[0], self.block_shape[1]
        return (
            f"thread ({thread % x}, {thread // x % y}, {thread // (x * y)}) of block "
            f"{self.block_of[lane]} (counted in order)"
        )

    def _access(
        self, instruction: Instruction, operand: str, lanes: np.ndarray, size: int, does: str
    ) -> tuple[str, np.ndarray]:
        """Space and byte offsets of an access, checked and counted."""
        addresses = self._addresses(operand, lanes)
        space, addresses = self._where(instruction, addresses)
        if space in ("param",):
            return space, addresses
        if (wrong := addresses % size != 0).any():
            lane = int(lanes[np.flatnonzero(wrong)[0]])
            raise EmulatorError(
                f"{self.kernel.name}: {self._thread(lane)} {does} {size} bytes at an address that is no "
                f"multiple of {size}: a GPU stops with 'misaligned address'"
            )
        if space == "global":
            if found := self.memory.check(addresses, size):
                lane = int(lanes[found[0]])
                raise EmulatorError(f"{self.kernel.name}: {self._thread(lane)} {does} {found[1]}")
            if does != "updates":
                self._count_global(addresses, lanes, size, does)
            return space, addresses - FIRST_ADDRESS
        limit = self.shared_end if space == "shared" else self.local.shape[1]
        if ((addresses < 0) | (addresses + size > limit)).any():
            raise EmulatorError(
                f"{self.kernel.name}: a thread {does} outside the {limit} bytes of {space} memory"
            )
        if space == "shared":
            self._count_shared(addresses, lanes, size, does)
            return space, addresses + self.block_of[lanes] * self.shared_size
        self.counters.local_accesses += len(lanes)
        return space, addresses + lanes * self.local.shape[1]

    def _count_global(self, addresses: np.ndarray, lanes: np.ndarray, size: int, does: str) -> None:
        traffic = self.counters.loads if does == "reads" else self.counters.stores
        warps = self.warp_of[lanes]
        requests = self._warps(lanes)
        traffic.requests += requests
        traffic.widths[size] += requests
        traffic.sectors += _distinct(np.sort(warps * (1 << 40) + addresses // SECTOR_BYTES))
        traffic.bytes += _distinct(np.sort(warps * (1 << 40) + addresses)) * size

    def _count_shared(self, addresses: np.ndarray, lanes: np.ndarray, size: int, does: str) -> None:
        traffic = self.counters.shared_loads if does == "reads" else self.counters.shared_stores
        alike = self._alike(addresses, lanes)
        if alike > 1:
            addresses, lanes = addresses[:WARP], lanes[:WARP]
        if len(lanes) == WARP and alike:
            # What is moved by whole rows of banks meets in the same ones.
            row = addresses - addresses[0] // (BANKS * BANK_BYTES) * (BANKS * BANK_BYTES)
            key = (size, row.tobytes())
            if key not in self._of_pattern:
                self._of_pattern[key] = self._wavefronts(row, lanes, size)
            longest, ideal = self._of_pattern[key]
        else:
            longest, ideal = self._wavefronts(addresses, lanes, size)
        traffic.wavefronts += longest * max(alike, 1)
        traffic.ideal += ideal * max(alike, 1)

    def _wavefronts(self, addresses: np.ndarray, lanes: np.ndarray, size: int) -> tuple[int, int]:
        """Wavefronts of an access to shared memory, and those without conflicts."""
        parts = max(1, size // BANK_BYTES)
        groups = self.warp_of[lanes] * 4 + self.lane[lanes].astype(np.int64) * parts // WARP
        words = (addresses // BANK_BYTES)[:, None] + np.arange(parts)
        words -= words.min() // BANKS * BANKS
        keys = np.unique((groups[:, None] * (1 << 20) + words).ravel())
        group, word = keys >> 20, keys & ((1 << 20) - 1)
        places, counts = np.unique(group * BANKS + word % BANKS, return_counts=True)
        _, first = np.unique(places // BANKS, return_index=True)
        longest = np.maximum.reduceat(counts, first)
        return int(longest.sum()), len(longest)

    def _warps(self, lanes: np.ndarray) -> int:
        """How many warps these lanes belong to. Lanes are in order, and so are their warps."""
        if lanes is not self._lanes:
            self._lanes, self._warp_count = lanes, _distinct(self.warp_of[lanes])
        return self._warp_count

    def _alike(self, addresses: np.ndarray, lanes: np.ndarray) -> int:
        """How many whole warps these are, if all of them ask for the same addresses; else 0.

        The same warp of each block most often does, and need be counted only once.
        """
        if len(lanes) % WARP or not (addresses[WARP:] == addresses[:-WARP]).all():
            return 0
        warps = self.warp_of[lanes].reshape(-1, WARP)
        return len(warps) if (warps[:, 0] == warps[:, -1]).all() else 0

    def _bytes(self, space: str) -> np.ndarray:
        if space == "global":
            return self.memory.bytes
        return self.shared.reshape(-1) if space == "shared" else self.local.reshape(-1)

    def op_ld(self, instruction: Instruction, lanes: np.ndarray) -> None:
        kind = self._kind(instruction)
        if "param" in instruction.parts:
            name = re.sub(r"[\[\]]", "", instruction.operands[1])
            if name not in self.parameters:
                raise Unsupported("a part of a parameter")
            self.write(instruction.operands[0], np.full(len(lanes), self.parameters[name][1]).astype(DTYPES[kind]), lanes)  # fmt: skip
            return
        targets = _split(instruction.operands[0].strip("{}"))
        item = np.dtype(DTYPES[kind]).itemsize
        space, offsets = self._access(
            instruction, instruction.operands[1], lanes, item * len(targets), "reads"
        )
        data = self._bytes(space).view(DTYPES[kind])
        for number, target in enumerate(targets):
            self.write(target, data[offsets // item + number], lanes)

    def op_ldu(self, instruction: Instruction, lanes: np.ndarray) -> None:
        self.op_ld(instruction, lanes)

    def op_st(self, instruction: Instruction, lanes: np.ndarray) -> None:
        kind = self._kind(instruction)
        sources = _split(instruction.operands[1].strip("{}"))
        item = np.dtype(DTYPES[kind]).itemsize
        space, offsets = self._access(
            instruction, instruction.operands[0], lanes, item * len(sources), "writes"
        )
        data = self._bytes(space).view(DTYPES[kind])
        for number, source in enumerate(sources):
            data[offsets // item + number] = self._narrow(source, kind, lanes)

    def _narrow(self, source: str, kind: str, lanes: np.ndarray) -> np.ndarray:
        return self.read(source, kind, lanes)

    def op_atom(self, instruction: Instruction, lanes: np.ndarray) -> None:
        self._atomic(instruction, lanes, instruction.operands[0], instruction.operands[1:])

    def op_red(self, instruction: Instruction, lanes: np.ndarray) -> None:
        self._atomic(instruction, lanes, "_", instruction.operands)

    def _atomic(
        self, instruction: Instruction, lanes: np.ndarray, target: str, operands: Sequence[str]
    ) -> None:
        kind = self._kind(instruction)
        item = np.dtype(DTYPES[kind]).itemsize
        space, offsets = self._access(instruction, operands[0], lanes, item, "updates")
        self.counters.atomics += len(lanes)
        data = self._bytes(space).view(DTYPES[kind])
        first = self.read(operands[1], kind, lanes)
        second = self.read(operands[2], kind, lanes) if len(operands) > 2 else first
        old = np.empty(len(lanes), DTYPES[kind])
        name = next(
            (p for p in instruction.parts if p in ("add", "min", "max", "inc", "dec", "exch", "cas", "and", "or", "xor")),
            "",
        )  # fmt: skip
        for number, (place, a, b) in enumerate(zip(offsets // item, first, second, strict=True)):
            was = data[place]
            old[number] = was
            if name == "add":
                data[place] = was + a
            elif name == "min":
                data[place] = min(was, a)
            elif name == "max":
                data[place] = max(was, a)
            elif name == "inc":
                data[place] = 0 if was >= a else was + 1
            elif name == "exch":
                data[place] = a
            elif name == "cas":
                data[place] = b if was == a else was
            elif name == "and":
                data[place] = was & a
            elif name == "or":
                data[place] = was | a
            else:
                raise Unsupported(f"the PTX instruction {instruction.text}")
        if target != "_":
            self.write(target, old, lanes)

    # -- moves ------------------------------------------------------------------------------------

    def op_mov(self, instruction: Instruction, lanes: np.ndarray) -> None:
        target, source = instruction.operands
        kind = self._kind(instruction)
        if source.startswith("{"):
            halves = _split(source.strip("{}"))
            size = np.dtype(DTYPES[kind]).itemsize // len(halves)
            value = np.zeros(len(lanes), np.uint64)
            for number, half in enumerate(halves):
                bits = self.read(half, f"b{8 * size}", lanes).astype(np.uint64)
                value |= bits << np.uint64(8 * size * number)
            self.write(target, value.astype(f"u{size * len(halves)}"), lanes)
        elif target.startswith("{"):
            halves = _split(target.strip("{}"))
            size = np.dtype(DTYPES[kind]).itemsize // len(halves)
            value = self.read(source, kind, lanes).view(f"u{size * len(halves)}").astype(np.uint64)
            for number, half in enumerate(halves):
                part = (value >> np.uint64(8 * size * number)).astype(f"u{size}")
                self.write(half, part, lanes)
        else:
            self.write(target, self.read(source, kind, lanes), lanes)

    def op_cvta(self, instruction: Instruction, lanes: np.ndarray) -> None:
        target, source = instruction.operands
        windows = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}
        window = next((windows[p] for p in instruction.parts if p in windows), 0)
        value = self.read(source, self._kind(instruction), lanes).astype(np.uint64)
        shift = np.uint64(window)
        self.write(target, value - shift if "to" in instruction.parts else value + shift, lanes)

    def op_cvt(self, instruction: Instruction, lanes: np.ndarray) -> None:
        kinds = [part for part in instruction.parts if part in DTYPES]
        value = self.read(instruction.operands[1], kinds[1], lanes)
        to = np.dtype(DTYPES[kinds[0]])
        if to.kind in "iu" and value.dtype.kind == "f":
            rounding = {"rni": np.rint, "rmi": np.floor, "rpi": np.ceil}
            how = next((rounding[p] for p in instruction.parts if p in rounding), np.trunc)
            value = how(value.astype(np.float64))
            limits = np.iinfo(to)
            value = np.clip(np.nan_to_num(value), float(limits.min), float(limits.max))
        elif to.kind in "iu":
            value = value.astype(np.int64 if value.dtype.kind == "i" else np.uint64)
        self.write(instruction.operands[0], value.astype(to), lanes)

    def op_selp(self, instruction: Instruction, lanes: np.ndarray) -> None:
        target, yes, no, predicate = instruction.operands
        kind = self._kind(instruction)
        chosen = np.where(
            self.read(predicate, "pred", lanes),
            self.read(yes, kind, lanes),
            self.read(no, kind, lanes),
        )
        self.write(target, chosen.astype(DTYPES[kind]), lanes)

    def op_setp(self, instruction: Instruction, lanes: np.ndarray) -> None:
        kind = self._kind(instruction)
        comparison = instruction.parts[0]
        a, b = (self.read(operand, kind, lanes) for operand in instruction.operands[1:3])
        unordered = comparison.endswith("u") and comparison not in ("lu",) and np.dtype(DTYPES[kind]).kind == "f"  # fmt: skip
        name = comparison[:-1] if unordered and len(comparison) == 3 else comparison
        name = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}.get(name, name)
        compare = {
            "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal,
            "gt": np.greater, "ge": np.greater_equal,
        }  # fmt: skip
        if name not in compare:
            raise Unsupported(f"the PTX instruction {instruction.text}")
        result = compare[name](a, b)
        if np.dtype(DTYPES[kind]).kind == "f":
            nan = np.isnan(a) | np.isnan(b)
            result = result | nan if unordered else result & ~nan
        inverse = ~result
        if len(instruction.operands) > 3:
            operand = instruction.operands[3]
            other = self.read(operand.lstrip("!"), "pred", lanes)
            other = ~other if operand.startswith("!") else other
            combine = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
            how = next(combine[p] for p in instruction.parts if p in combine)
            result, inverse = how(result, other), how(inverse, other)
        for target, value in zip(
            instruction.operands[0].split("|"), (result, inverse), strict=False
        ):
            self.write(target, value, lanes)

    # -- arithmetic -------------------------------------------------------------------------------

    def _map(self, instruction: Instruction, lanes: np.ndarray, function: Callable) -> None:
        kind = self._kind(instruction)
        values = [self.read(operand, kind, lanes) for operand in instruction.operands[1:]]
        result = np.asarray(function(*values))
        self.write(instruction.operands[0], result.astype(DTYPES[kind]) if result.dtype != np.bool_ else result, lanes)  # fmt: skip

    def op_add(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.add)

    def op_sub(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.subtract)

    def op_neg(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, lambda a: np.subtract(a.dtype.type(0), a))

    def op_abs(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.abs)

    def op_min(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.fmin)

    def op_max(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.fmax)

    def op_and(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.bitwise_and)

    def op_or(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.bitwise_or)

    def op_xor(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.bitwise_xor)

    def op_not(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.invert)

    def op_sqrt(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.sqrt)

    def op_rcp(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, np.reciprocal)

    def op_popc(self, i: Instruction, lanes: np.ndarray) -> None:
        value = self.read(i.operands[1], self._kind(i), lanes)
        counted = np.array([bin(int(v)).count("1") for v in value], np.uint32)
        self.write(i.operands[0], counted, lanes)

    def op_div(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, lambda a, b: a / b if a.dtype.kind == "f" else _quotient(a, b))

    def op_rem(self, i: Instruction, lanes: np.ndarray) -> None:
        self._map(i, lanes, lambda a, b: a - _quotient(a, b) * b)

    def _shift(self, i: Instruction, lanes: np.ndarray, function: Callable) -> None:
        kind = self._kind(i)
        value = self.read(i.operands[1], kind, lanes)
        amount = self.read(i.operands[2], "u32", lanes).astype(np.int64)
        bits = value.dtype.itemsize * 8
        shifted = function(value, np.minimum(amount, bits - 1).astype(value.dtype))
        none = value >> np.array(bits - 1, value.dtype) if function is np.right_shift and value.dtype.kind == "i" else np.zeros_like(value)  # fmt: skip
        self.write(
            i.operands[0], np.where(amount >= bits, none, shifted).astype(value.dtype), lanes
        )

    def op_shl(self, i: Instruction, lanes: np.ndarray) -> None:
        self._shift(i, lanes, np.left_shift)

    def op_shr(self, i: Instruction, lanes: np.ndarray) -> None:
        self._shift(i, lanes, np.right_shift)

    def op_mul(self, i: Instruction, lanes: np.ndarray) -> None:
        self.write(i.operands[0], self._product(i, lanes), lanes)

    def _product(self, i: Instruction, lanes: np.ndarray) -> np.ndarray:
        kind = self._kind(i)
        a, b = (self.read(operand, kind, lanes) for operand in i.operands[1:3])
        if "wide" in i.parts:
            return a.astype(WIDER[kind]) * b.astype(WIDER[kind])
        if "hi" in i.parts:
            bits = a.dtype.itemsize * 8
            if bits == 64:
                high = [(int(x) * int(y)) >> 64 for x, y in zip(a, b, strict=True)]
                return np.array([value & (2**64 - 1) for value in high], np.uint64).view(a.dtype)
            return ((a.astype(WIDER[kind]) * b.astype(WIDER[kind])) >> bits).astype(a.dtype)
        return a * b

    def op_mad(self, i: Instruction, lanes: np.ndarray) -> None:
        product = self._product(i, lanes)
        kind = {4: "b32", 8: "b64", 2: "b16"}[product.dtype.itemsize]
        addend = self.read(i.operands[3], kind, lanes).view(product.dtype)
        self.write(i.operands[0], product + addend, lanes)

    def op_fma(self, i: Instruction, lanes: np.ndarray) -> None:
        def fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
            if a.dtype == np.float32:
                return (a.astype(np.float64) * b + c).astype(np.float32)
            return a * b + c

        self._map(i, lanes, fused)

    def op_bfe(self, i: Instruction, lanes: np.ndarray) -> None:
        kind = self._kind(i)
        if kind[0] == "s":
            raise Unsupported(f"the PTX instruction {i.text}")
        value = self.read(i.operands[1], kind, lanes).astype(np.uint64)
        at, count = (
            self.read(o, "u32", lanes).astype(np.uint64) & np.uint64(255) for o in i.operands[2:4]
        )
        mask = (np.uint64(1) << np.minimum(count, np.uint64(63))) - np.uint64(1)
        self.write(i.operands[0], (value >> at & mask).astype(DTYPES[kind]), lanes)

    def op_bfi(self, i: Instruction, lanes: np.ndarray) -> None:
        kind = self._kind(i)
        part, base = (self.read(o, kind, lanes).astype(np.uint64) for o in i.operands[1:3])
        at, count = (
            self.read(o, "u32", lanes).astype(np.uint64) & np.uint64(255) for o in i.operands[3:5]
        )
        mask = ((np.uint64(1) << np.minimum(count, np.uint64(63))) - np.uint64(1)) << at
        self.write(i.operands[0], (base & ~mask | part << at & mask).astype(DTYPES[kind]), lanes)

    def op_lop3(self, i: Instruction, lanes: np.ndarray) -> None:
        a, b, c = (self.read(operand, "b32", lanes) for operand in i.operands[1:4])
        table = int(i.operands[4], 0)
        result = np.zeros_like(a)
        for number in range(8):
            if table >> number & 1:
                terms = (a if number & 4 else ~a, b if number & 2 else ~b, c if number & 1 else ~c)
                result |= terms[0] & terms[1] & terms[2]
        self.write(i.operands[0], result, lanes)

    # -- within a warp ----------------------------------------------------------------------------

    def op_shfl(self, i: Instruction, lanes: np.ndarray) -> None:
        mode = next(part for part in i.parts if part in ("up", "down", "bfly", "idx"))
        targets = i.operands[0].split("|")
        value = self.read(i.operands[1], "b32", lanes)
        amount = self.read(i.operands[2], "u32", lanes).astype(np.int64)
        control = self.read(i.operands[3], "u32", lanes).astype(np.int64)
        lane = self.lane[lanes].astype(np.int64)
        clamp, segment = control & 31, control >> 8 & 31
        highest, lowest = (lane & segment) | (clamp & ~segment), lane & segment
        if mode == "up":
            source = lane - amount
            fine = source >= highest
        elif mode == "down":
            source = lane + amount
            fine = source <= highest
        elif mode == "bfly":
            source = lane ^ amount
            fine = source <= highest
        else:
            source = lowest | (amount & ~segment)
            fine = source <= highest
        source = np.where(fine, source, lane)
        # A thread that does not take part has nothing to give: what comes from it is no number.
        table = np.full(
            (len(self.warp_of) // self.threads * self.warps, WARP), 0xFFFFFFFF, np.uint32
        )
        table[self.warp_of[lanes], lane] = value
        self.write(targets[0], table[self.warp_of[lanes], source & 31], lanes)
        if len(targets) > 1:
            self.write(targets[1], fine, lanes)

    def _by_warp(self, lanes: np.ndarray, flags: np.ndarray) -> np.ndarray:
        """For each lane, the bits of its warp's lanes whose flag is set."""
        bits = np.zeros(self.blocks * self.warps, np.uint32)
        mask = np.where(flags, np.uint32(1) << self.lane[lanes], np.uint32(0)).astype(np.uint32)
        np.bitwise_or.at(bits, self.warp_of[lanes], mask)
        return bits[self.warp_of[lanes]]

    def op_activemask(self, i: Instruction, lanes: np.ndarray) -> None:
        self.write(i.operands[0], self._by_warp(lanes, np.ones(len(lanes), bool)), lanes)

    def op_vote(self, i: Instruction, lanes: np.ndarray) -> None:
        operand = i.operands[1]
        flags = self.read(operand.lstrip("!"), "pred", lanes)
        flags = ~flags if operand.startswith("!") else flags
        set_, there = self._by_warp(lanes, flags), self._by_warp(lanes, np.ones(len(lanes), bool))
        if "ballot" in i.parts:
            self.write(i.operands[0], set_, lanes)
        else:
            self.write(i.operands[0], set_ != 0 if "any" in i.parts else set_ == there, lanes)


@functools.lru_cache(maxsize=4096)
def _kind_of(parts: tuple[str, ...]) -> str:
    """The type that an instruction works on, the last one in its name."""
    return next((part for part in reversed(parts) if part in DTYPES), "b32")


@functools.lru_cache(maxsize=4096)
def _address(operand: str) -> tuple[str, int]:
    """Base and offset of "[base+offset]"."""
    found = re.fullmatch(r"\[([%\w$.]+)(?:\+(-?\d+))?\]", operand.replace(" ", ""))
    if not found:
        raise Unsupported(f"the address {operand}")
    return found[1], int(found[2] or 0)


def _distinct(ordered: np.ndarray) -> int:
    """How many values there are in a sorted array."""
    return min(len(ordered), 1) + int(np.count_nonzero(ordered[1:] != ordered[:-1]))


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whole division that rounds toward zero; by zero it gives all bits set, as the hardware does."""
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    result = (np.abs(a) // np.abs(safe)).astype(a.dtype)
    if a.dtype.kind == "i":
        result = np.where((a < 0) != (safe < 0), -result, result)
    return np.where(b == 0, np.array(-1).astype(a.dtype), result).astype(a.dtype)


def _immediate(text: str, dtype: Any) -> Any:
    kind = np.dtype(dtype)
    if text.startswith("0f"):
        return np.array([int(text[2:], 16)], np.uint32).view(np.float32)[0]
    if text.startswith("0d"):
        return np.array([int(text[2:], 16)], np.uint64).view(np.float64)[0]
    try:
        value = int(text, 0)
    except ValueError:
        raise Unsupported(f"the operand {text}") from None
    if kind.kind == "f":
        return kind.type(value)
    bits = kind.itemsize * 8
    value &= (1 << bits) - 1
    return np.array([value], f"u{kind.itemsize}").view(kind)[0]
