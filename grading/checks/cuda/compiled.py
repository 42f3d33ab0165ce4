"""What the compiler made of a CUDA source: PTX, registers, spills, shared memory; and what it does.

`compiled` gives the PTX and, from ptxas, the resources of every kernel. `run` lets the source's host
code issue its work on the recording stand-in, then does that work in the emulator. Nothing of it
needs a GPU; nothing of it says how long a kernel takes.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from grading.checks.cuda import toolchain
from grading.checks.cuda.ptx import Counters, Memory, Module
from grading.checks.cuda.recording import RunError, run_on_stand_in

PTX_FLAGS = ("-O3", "-std=c++17", f"-arch={toolchain.ARCHITECTURE}", "-ptx")


@dataclass(frozen=True)
class Resources:
    """What ptxas gives a kernel. shared_bytes: static. spill_bytes: stored and loaded, in the code."""

    registers: int
    shared_bytes: int
    spill_bytes: int
    stack_bytes: int


@dataclass(frozen=True)
class Compiled:
    ptx: str
    resources: dict[str, Resources]  # by the kernel's name as compiled


@dataclass
class Launch:
    """One kernel that ran: how it was launched, and what it did."""

    name: str
    symbol: str
    grid: tuple[int, ...]
    block: tuple[int, ...]
    counters: Counters

    @property
    def blocks(self) -> int:
        return int(np.prod(self.grid))

    def __str__(self) -> str:
        return f"{self.name}<<<{self.grid}, {self.block}>>>"


@dataclass
class Run:
    """A program's run: its kernels, and the buffers that it allocated, in order."""

    launches: list[Launch] = field(default_factory=list)
    buffers: list[np.ndarray] = field(default_factory=list)

    def total(self, kind: str) -> Any:
        """A counter, summed over the launches: `total("loads")`."""
        parts = [getattr(launch.counters, kind) for launch in self.launches]
        if isinstance(parts[0], int):
            return sum(parts)
        out = type(parts[0])()
        for part in parts:
            for name, value in vars(part).items():
                setattr(out, name, getattr(out, name) + value)
        return out


def compiled(source: Path, given: Path) -> Compiled:
    """PTX and resources of a source. Raises BuildError, ToolchainError."""
    shared = toolchain.with_siblings(source, given)
    source = shared[0] if shared else source
    return _compiled(source.resolve(), given.resolve(), source.stat().st_mtime_ns)


@functools.lru_cache(maxsize=64)
def _compiled(source: Path, given: Path, _: int) -> Compiled:
    nvcc = toolchain.nvcc()
    folders = [source.parent, given]
    key = toolchain.key_of(source, folders, *PTX_FLAGS)
    cache = toolchain.cache_folder()
    ptx, listing = cache / f"{source.stem}-{key}.ptx", cache / f"{source.stem}-{key}.ptxas"
    with toolchain.locked(cache, f"{source.stem}-{key}"):
        if not listing.exists():
            command = [str(nvcc), *PTX_FLAGS, "-ccbin", str(toolchain.cxx())]
            command += [f"-I{path}" for path in folders]
            result = toolchain.run([*command, str(source)], out=ptx, read=[source, *folders])
            if result.returncode != 0:
                raise toolchain.BuildError(
                    f"nvcc does not compile {source.name}:\n{toolchain.first_errors(result)}"
                )
            assembler = nvcc.resolve().with_name("ptxas")
            command = [str(assembler), "-v", f"-arch={toolchain.ARCHITECTURE}", str(ptx)]
            result = toolchain.run([*command, "-o", os.devnull], read=[ptx])
            if result.returncode != 0:
                raise toolchain.ToolchainError(f"ptxas: {result.stderr.strip()[:300]}")
            listing.write_text(result.stderr + result.stdout, encoding="utf-8")
    return Compiled(ptx.read_text(encoding="utf-8"), resources(listing.read_text(encoding="utf-8")))


def resources(listing: str) -> dict[str, Resources]:
    """What `ptxas -v` says of each kernel."""
    out = {}
    for name, text in re.findall(
        r"Compiling entry function '(\S+)'[^\n]*\n(.*?)(?=Compiling entry function|\Z)",
        listing,
        re.DOTALL,
    ):

        def number(pattern: str, text: str = text) -> int:
            found = re.search(pattern, text)
            return int(found[1]) if found else 0

        out[name] = Resources(
            registers=number(r"Used (\d+) registers"),
            shared_bytes=number(r"(\d+) bytes smem"),
            spill_bytes=number(r"(\d+) bytes spill stores") + number(r"(\d+) bytes spill loads"),
            stack_bytes=number(r"(\d+) bytes stack frame"),
        )
    return out


def issued(
    source: Path, given: Path, arguments: Sequence[str], multiprocessors: int = 132
) -> list[dict[str, Any]]:
    """The record of what the source's host code issues. Raises BuildError, RunError, ToolchainError."""
    shared = toolchain.with_siblings(source, given)
    program = shared[1] if shared else toolchain.build_alone(source, given)
    called = f"{source.name} {' '.join(arguments)}"
    result, lines = run_on_stand_in(
        called,
        [str(program.executable), *arguments],
        LAB_MULTIPROCESSORS=str(multiprocessors),
        LAB_VARIANT=str(program.variant),
    )
    refused = [line for line in lines if line["kind"] == "refused"]
    if result.returncode != 0 or refused:
        words = [f"{x['function']} returned {x['error']}: {x['why']}" for x in refused[:1]]
        words += result.stderr.strip().splitlines()[-3:]
        raise RunError(f"{called} ended with exit code {result.returncode}. {' '.join(words)}")
    return lines


def run(
    source: Path,
    given: Path,
    arguments: Sequence[str],
    inputs: dict[int, np.ndarray],
    *,
    multiprocessors: int = 132,
    descending: bool = False,
) -> Run:
    """Issue and emulate. inputs: number of an allocation to what it holds at first; others hold NaN.

    descending: the order in which the warps of a block run between two barriers.
    Raises BuildError, RunError, ToolchainError, EmulatorError, Unsupported.
    """
    module = Module(compiled(source, given).ptx)
    memory = Memory()
    out = Run()
    starts: dict[int, int] = {}
    sizes: dict[int, int] = {}
    for line in issued(source, given, arguments, multiprocessors):
        if line["kind"] == "allocate" and line["memory"] == "device":
            number = len(starts)
            starts[line["buffer"]] = memory.allocate(f"buffer {number}", line["bytes"])
            sizes[line["buffer"]] = line["bytes"]
            if number in inputs:
                values = inputs[number]
                memory.view(starts[line["buffer"]], values.dtype, values.size)[:] = values.ravel()
        elif line["kind"] == "memset":
            start = starts[line["destination"]["buffer"]] + line["destination"]["offset"]
            memory.view(start, np.uint8, line["bytes"])[:] = line["value"]
        elif line["kind"] == "copy":
            if line["direction"] != "D2D":
                raise RunError(f"{source.name} copies from or to memory of the host")
            places = [
                starts[line[end]["buffer"]] + line[end]["offset"]
                for end in ("source", "destination")
            ]
            memory.view(places[1], np.uint8, line["bytes"])[:] = memory.view(
                places[0], np.uint8, line["bytes"]
            ).copy()
        elif line["kind"] == "kernel":
            values = [_argument(argument, starts) for argument in line["arguments"]]
            counters = module.launch(
                line["symbol"],
                line["grid"],
                line["block"],
                values,
                memory,
                shared_bytes=line["shared_bytes"],
                descending=descending,
            )
            out.launches.append(
                Launch(
                    line["name"],
                    line["symbol"],
                    tuple(line["grid"]),
                    tuple(line["block"]),
                    counters,
                )
            )
    out.buffers = [memory.view(start, np.float32, sizes[b] // 4) for b, start in starts.items()]
    return out


def _argument(argument: dict[str, Any], starts: dict[int, int]) -> int | float:
    if "value" in argument:
        return argument["value"]
    pointer = argument.get("pointer")
    if pointer is None:
        if "pointer" in argument:
            return 0
        raise RunError(f"a kernel's argument of type {argument['type']} is not followed here")
    if pointer["buffer"] not in starts:
        raise RunError("a kernel was given a pointer to memory of the host")
    return starts[pointer["buffer"]] + pointer["offset"]
