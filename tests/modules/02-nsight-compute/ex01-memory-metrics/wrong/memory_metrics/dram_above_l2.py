# All that DRAM delivered is taken for an answer, also what nobody asked for.
from __future__ import annotations

CAUGHT_BY = "test_made_up_loads_and_who_answered"
SAYS = "At most what L2 passed on came from DRAM"


def served_by(kernel: dict[str, Any]) -> dict[str, float] | None:
    read = byte_flow(kernel)["read"]
    if not read["l1_bytes"]:
        return None
    from_l2 = min(read["l2_bytes"], read["l1_bytes"])
    more = max(0.0, read["dram_bytes"] - read["l2_bytes"])
    return {
        "l1_ratio": (read["l1_bytes"] - from_l2) / read["l1_bytes"],
        "l2_ratio": max(0.0, from_l2 - read["dram_bytes"]) / read["l1_bytes"],
        "dram_ratio": read["dram_bytes"] / read["l1_bytes"],
        "overfetch_ratio": more / read["l2_bytes"] if read["l2_bytes"] else 0.0,
    }
