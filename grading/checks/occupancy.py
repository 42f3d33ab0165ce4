"""Theoretical occupancy by NVIDIA's own calculator, `cuda_occupancy.h`, compiled for the host.

The header comes with the CUDA toolkit (and with the wheel nvidia-cuda-runtime). Where it or a C++
compiler is missing, `occupancy_table.csv.gz` beside this file holds what it said for a fixed list of
launches; write the table anew with

    uv run python -m grading.checks.occupancy
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import random
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from grading.checks.cuda import toolchain

TABLE = Path(__file__).with_name("occupancy_table.csv.gz")

# What cudaGetDeviceProperties says of one device of each compute capability: warps per SM, shared
# bytes per SM, the most a block may opt in to, reserved bytes per block (source: CUDA C++ Programming
# Guide, technical specifications per compute capability).
PROPERTIES = {
    "7.0": (64, 96 << 10, 96 << 10, 0),
    "7.5": (32, 64 << 10, 64 << 10, 0),
    "8.0": (64, 164 << 10, 163 << 10, 1 << 10),
    "8.6": (48, 100 << 10, 99 << 10, 1 << 10),
    "8.9": (48, 100 << 10, 99 << 10, 1 << 10),
    "9.0": (64, 228 << 10, 227 << 10, 1 << 10),
    "10.0": (64, 228 << 10, 227 << 10, 1 << 10),
    "12.0": (48, 100 << 10, 99 << 10, 1 << 10),
}

PROGRAM = r"""
#include <cstddef>
#include <cstdio>
#include "cuda_occupancy.h"

int main() {
    int major, minor, warps, threads, registers, carveout;
    unsigned long shared_sm, shared_optin, reserved, fixed, dynamic;
    while (std::scanf("%d %d %d %lu %lu %lu %d %d %lu %lu %d", &major, &minor, &warps, &shared_sm,
                      &shared_optin, &reserved, &threads, &registers, &fixed, &dynamic,
                      &carveout) == 11) {
        cudaOccDeviceProp device;
        device.computeMajor = major;
        device.computeMinor = minor;
        device.maxThreadsPerBlock = 1024;
        device.maxThreadsPerMultiprocessor = warps * 32;
        device.regsPerBlock = 65536;
        device.regsPerMultiprocessor = 65536;
        device.warpSize = 32;
        device.sharedMemPerBlock = 48 << 10;
        device.sharedMemPerMultiprocessor = shared_sm;
        device.numSms = 100;
        device.sharedMemPerBlockOptin = shared_optin;
        device.reservedSharedMemPerBlock = reserved;
        cudaOccFuncAttributes function;
        function.maxThreadsPerBlock = 1024;
        function.numRegs = registers;
        function.sharedSizeBytes = fixed;
        function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
        function.maxDynamicSharedSizeBytes = dynamic;
        function.numBlockBarriers = 1;
        cudaOccDeviceState state;
        state.carveoutConfig = carveout;
        cudaOccResult result;
        const int error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state,
                                                                  threads, dynamic);
        std::printf("%d %d %d %d %d %d\n", error, result.activeBlocksPerMultiprocessor,
                    result.blockLimitWarps, result.blockLimitBlocks, result.blockLimitRegs,
                    result.blockLimitSharedMem);
    }
}
"""
NO_LIMIT = 2**31 - 1


@dataclass(frozen=True)
class Launch:
    """What occupancy depends on. carveout_pct: preferred share of shared memory, -1: no preference."""

    compute_capability: str
    block_threads: int
    thread_registers: int
    static_shared_bytes: int = 0
    dynamic_shared_bytes: int = 0
    carveout_pct: int = -1

    @property
    def shared_config_bytes(self) -> int | None:
        """The carve-out in bytes, before it is raised to a size that the SM can set aside."""
        if self.carveout_pct < 0:
            return None
        return self.carveout_pct * PROPERTIES[self.compute_capability][1] // 100


@dataclass(frozen=True)
class Occupancy:
    """Blocks per SM, and what each limit alone would allow; None: it does not limit."""

    blocks: int
    limits: dict[str, int | None]


def available() -> bool:
    """Whether the header can be compiled here."""
    try:
        _program()
    except (toolchain.ToolchainError, OSError, subprocess.SubprocessError):
        return False
    return True


def compute(launches: Iterable[Launch]) -> list[Occupancy]:
    """What the header says of these launches."""
    launches = list(launches)
    lines = []
    for launch in launches:
        major, minor = launch.compute_capability.split(".")
        numbers = (
            *PROPERTIES[launch.compute_capability],
            launch.block_threads,
            launch.thread_registers,
            launch.static_shared_bytes,
            launch.dynamic_shared_bytes,
            launch.carveout_pct,
        )
        lines.append(f"{major} {minor} {' '.join(map(str, numbers))}\n")
    done = subprocess.run(
        [_program()], input="".join(lines), capture_output=True, text=True, check=True, timeout=60
    )
    out = []
    for line in done.stdout.splitlines():
        error, blocks, *limits = map(int, line.split())
        if error:
            raise ValueError(f"cuda_occupancy.h refused {launches[len(out)]}")
        out.append(_occupancy(blocks, limits))
    return out


def tabled() -> list[tuple[Launch, Occupancy]]:
    """The launches of the committed table, with what the header said of them."""
    with gzip.open(TABLE, "rt", encoding="ascii", newline="") as file:
        rows = list(csv.reader(file))[1:]
    return [
        (Launch(row[0], *map(int, row[1:6])), _occupancy(int(row[6]), [int(n) for n in row[7:]]))
        for row in rows
    ]


def _occupancy(blocks: int, limits: list[int]) -> Occupancy:
    named = zip(("warps", "blocks", "registers", "shared"), limits, strict=True)
    return Occupancy(blocks, {name: None if limit >= NO_LIMIT else limit for name, limit in named})


@cache
def _program() -> Path:
    """The compiled calculator, kept in the cache of compiled programs."""
    headers = [
        folder / "cuda_occupancy.h"
        for folder in (
            toolchain.nvcc().resolve().parent.parent / "include",
            *(Path(name) for name in toolchain._include_folders()),
        )
    ]
    header = next((path for path in headers if path.is_file()), None)
    if header is None:
        raise toolchain.ToolchainError("no cuda_occupancy.h beside nvcc")
    key = toolchain._key(b"occupancy", PROGRAM, header)
    folder = toolchain.cache_folder()
    program = folder / f"{key}.occupancy"
    with toolchain.locked(folder, key):
        if not program.is_file():
            source = folder / f"{key}.occupancy.cpp"
            source.write_text(PROGRAM, encoding="ascii")
            subprocess.run(
                [toolchain.cxx(), "-std=c++17", "-O0", "-w", f"-I{header.parent}"]
                + ["-o", program, source],
                capture_output=True,
                check=True,
                timeout=toolchain.COMPILE_TIMEOUT_S,
            )
    return program


def sample(seed: int, count: int) -> list[Launch]:
    """Launches of every compute capability, some beyond what can be launched."""
    rng = random.Random(seed)
    capabilities = itertools.cycle(PROPERTIES)
    out = []
    for _ in range(count):
        capability = next(capabilities)
        most = PROPERTIES[capability][1]
        shared = rng.choice((0, 0, rng.randrange(1, 4096), rng.randrange(1, most + 2048)))
        fixed = min(rng.choice((0, shared, shared // 2)), 48 << 10)
        out.append(
            Launch(
                capability,
                rng.choice(
                    (rng.randint(1, 1024), 32 * rng.randint(1, 32), 1 << rng.randint(5, 10))
                ),
                rng.choice((0, rng.randint(1, 255), 8 * rng.randint(2, 16))),
                fixed,
                shared - fixed,
                rng.choice((-1, -1, 0, 100, rng.randint(1, 99))),
            )
        )
    return out


def main() -> None:
    """Write the table."""
    launches = sample(31, 1600)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(
        ("compute_capability", "block_threads", "thread_registers", "static_shared_bytes")
        + ("dynamic_shared_bytes", "carveout_pct", "blocks", "warps", "blocks_limit")
        + ("registers", "shared")
    )
    for launch, occupancy in zip(launches, compute(launches), strict=True):
        limits = [NO_LIMIT if limit is None else limit for limit in occupancy.limits.values()]
        writer.writerow((*vars(launch).values(), occupancy.blocks, *limits))
    TABLE.write_bytes(gzip.compress(buffer.getvalue().encode("ascii"), mtime=0))


if __name__ == "__main__":
    main()
