"""Looks at the limit of a thread only."""

from __future__ import annotations

CAUGHT_BY = "test_registers_decide"
SAYS = "of the multiprocessor's"


def largest_width(warps: int, overhead_registers: int) -> int:
    if warps not in (1, 2, 4, 8, 16, 32):
        raise ValueError(f"warps is {warps!r}: Triton takes 1, 2, 4, 8, 16 or 32")
    if type(overhead_registers) is not int or overhead_registers < 0:
        raise ValueError(f"overhead_registers is {overhead_registers!r}: a whole number from 0 on")
    threads = 32 * warps
    free = REGISTERS_PER_THREAD - overhead_registers
    if free < 1:
        return 0
    return threads * 2 ** int(math.log2(free))
