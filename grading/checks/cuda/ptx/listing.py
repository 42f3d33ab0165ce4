"""PTX as text: kernels, their variables and their instructions."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from grading.checks.cuda.ptx.memory import DTYPES, Unsupported


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
def split(text: str) -> tuple[str, ...]:
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


class Listing:
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
                kernel.instructions.append(Listing._instruction(statement))
        return kernel

    @staticmethod
    def _instruction(text: str) -> Instruction:
        guard, negated, rest = None, False, text
        if found := re.match(r"@(!?)(%?[\w$]+)\s+", text):
            guard, negated, rest = found[2], found[1] == "!", text[found.end() :]
        opcode, _, operands = rest.partition(" ")
        parts = tuple(opcode.split("."))
        return Instruction(guard, negated, parts[0], parts[1:], split(operands), text)


_FOREIGN = re.compile(
    r"bf16|tf32|[bsu]128|(b?f|s|u)16x2|e[45]m[23](x2)?"
)  # types that are not followed


@functools.lru_cache(maxsize=4096)
def kind_of(parts: tuple[str, ...]) -> str:
    """The type that an instruction works on, the last one in its name."""
    if foreign := next(filter(_FOREIGN.fullmatch, parts), None):
        raise Unsupported(f"the type {foreign}")
    return next((part for part in reversed(parts) if part in DTYPES), "b32")


@functools.lru_cache(maxsize=4096)
def address(operand: str) -> tuple[str, int]:
    """Base and offset of "[base+offset]"."""
    found = re.fullmatch(r"\[([%\w$.]+)(?:\+(-?\d+))?\]", operand.replace(" ", ""))
    if not found:
        raise Unsupported(f"the address {operand}")
    return found[1], int(found[2] or 0)


def immediate(text: str, dtype: Any) -> Any:
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
