"""Counts instructions as they stand, not as they run."""

from __future__ import annotations

CAUGHT_BY = "test_mix_of_recorded_kernels"
SAYS = "as often as warps executed it"


def instruction_mix(listing: list[dict[str, Any]]) -> dict[str, float]:
    executed = dict.fromkeys((row["address"] for row in listing if row["executed"]), 1)
    total = sum(executed.values())
    if not total:
        raise ValueError("the listing has no executed instruction")
    opcodes = {row["address"]: _opcode(row["instruction"]) for row in listing}
    counts = dict.fromkeys([*INSTRUCTION_CLASSES, "other"], 0)
    for address, count in executed.items():
        counts[_class_of(opcodes[address])] += count
    return {name: count / total for name, count in counts.items()}
