"""Takes the predicate for the opcode."""

from __future__ import annotations

CAUGHT_BY = "test_mix_of_recorded_kernels"
SAYS = "behind a predicate"


def instruction_mix(listing: list[dict[str, Any]]) -> dict[str, float]:
    executed = _by_address(listing, "executed")
    total = sum(executed.values())
    if not total:
        raise ValueError("the listing has no executed instruction")
    opcodes = {
        row["address"]: row["instruction"].split()[0].split(".")[0].rstrip(";") for row in listing
    }
    counts = dict.fromkeys([*INSTRUCTION_CLASSES, "other"], 0)
    for address, count in executed.items():
        counts[_class_of(opcodes[address])] += count
    return {name: count / total for name, count in counts.items()}
