"""Takes the predicate for the opcode."""

from __future__ import annotations

CAUGHT_BY = "test_mix_of_recorded_kernels"
SAYS = "behind a predicate"


def _opcode(instruction: str) -> str:
    words = instruction.split()
    return words[0].split(".")[0].rstrip(";")
