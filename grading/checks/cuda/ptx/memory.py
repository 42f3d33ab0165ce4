"""What a launch meets and leaves: memory, the counters of its accesses, and what cannot be done."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

SECTOR_BYTES = 32
BANKS, BANK_BYTES = 32, 4
WARP = 32
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
