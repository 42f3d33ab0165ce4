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

What it cannot do. It has no time and no caches: nothing of it says how long a kernel takes, what hits, or what
waits for what. It has no matrix units, no asynchronous copies, no clusters, no textures, no dynamic parallelism,
no grid-wide barrier, no bfloat16 and no packed halves; parameters are plain values and pointers, and variables of a
module start with zeros. Blocks run side by side and never meet: a kernel that waits for
another block does not end. Only two orders of warps are tried, so a race that needs a third is not seen.
An instruction that is missing here raises Unsupported, which names it.
"""

from __future__ import annotations

from collections.abc import Sequence

from grading.checks.cuda.ptx.accesses import Accesses
from grading.checks.cuda.ptx.arithmetic import Arithmetic
from grading.checks.cuda.ptx.listing import Listing
from grading.checks.cuda.ptx.memory import Counters, EmulatorError, Memory, Unsupported

__all__ = ["Counters", "EmulatorError", "Memory", "Module", "Unsupported"]


class Launch(Accesses, Arithmetic):
    """One launch of a kernel."""


class Module(Listing):
    """A PTX file: its kernels, and its own variables."""

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
        run = Launch(self, self.kernels[name], grid, block, arguments, memory, shared_bytes)
        run.execute(descending)
        return run.counters
