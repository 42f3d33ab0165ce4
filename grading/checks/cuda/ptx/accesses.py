"""Loads, stores and atomics of PTX, and what they cost: sectors of global memory, wavefronts of shared."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from grading.checks.cuda.ptx.listing import Instruction, address, split
from grading.checks.cuda.ptx.memory import (
    BANK_BYTES,
    BANKS,
    DTYPES,
    FIRST_ADDRESS,
    LOCAL_WINDOW,
    SECTOR_BYTES,
    SHARED_WINDOW,
    WARP,
    EmulatorError,
    Unsupported,
)
from grading.checks.cuda.ptx.threads import Threads, distinct

SPACES = ("global", "shared", "local", "param", "const")


class Accesses(Threads):
    """What threads do to memory."""

    def _addresses(self, operand: str, lanes: np.ndarray) -> np.ndarray:
        base, offset = address(operand)
        if base in self.registers:
            value = self.registers[base][lanes].astype(np.int64)
        else:
            value = np.full(
                len(lanes), self.symbols[base] if base in self.symbols else int(base), np.int64
            )
        return value + offset

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
        traffic.sectors += distinct(np.sort(warps * (1 << 40) + addresses // SECTOR_BYTES))
        traffic.bytes += distinct(np.sort(warps * (1 << 40) + addresses)) * size

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
        targets = split(instruction.operands[0].strip("{}"))
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
        sources = split(instruction.operands[1].strip("{}"))
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
