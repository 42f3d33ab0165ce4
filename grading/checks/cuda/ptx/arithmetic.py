"""What instructions of PTX compute from registers, and what lanes of a warp tell each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from grading.checks.cuda.ptx.listing import Instruction, split
from grading.checks.cuda.ptx.memory import DTYPES, LOCAL_WINDOW, SHARED_WINDOW, WARP, Unsupported
from grading.checks.cuda.ptx.threads import Threads

WIDER = {"s16": np.int32, "u16": np.uint32, "s32": np.int64, "u32": np.uint64}


class Arithmetic(Threads):
    """What threads compute."""

    def op_mov(self, instruction: Instruction, lanes: np.ndarray) -> None:
        target, source = instruction.operands
        kind = self._kind(instruction)
        if source.startswith("{"):
            halves = split(source.strip("{}"))
            size = np.dtype(DTYPES[kind]).itemsize // len(halves)
            value = np.zeros(len(lanes), np.uint64)
            for number, half in enumerate(halves):
                bits = self.read(half, f"b{8 * size}", lanes).astype(np.uint64)
                value |= bits << np.uint64(8 * size * number)
            self.write(target, value.astype(f"u{size * len(halves)}"), lanes)
        elif target.startswith("{"):
            halves = split(target.strip("{}"))
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


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whole division that rounds toward zero; by zero it gives all bits set, as the hardware does."""
    safe = np.where(b == 0, 1, b).astype(a.dtype)
    result = (np.abs(a) // np.abs(safe)).astype(a.dtype)
    if a.dtype.kind == "i":
        result = np.where((a < 0) != (safe < 0), -result, result)
    return np.where(b == 0, np.array(-1).astype(a.dtype), result).astype(a.dtype)
