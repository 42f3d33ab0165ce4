"""Takes the words that were spilled for bytes."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_made_resources"
SAYS = "words of 4 bytes"


def kernel_resources(capture: str) -> list[dict[str, Any]]:
    table = _sweep(capture)
    rows = []
    for found in table["configurations"]:
        threads = found["num_warps"] * WARP_THREADS
        (fit,) = occupancy_table(
            table["compute_capability"], [threads], found["registers_count"], found["shared_bytes"]
        )
        rows.append(
            {
                "name": found["name"],
                "program_threads": threads,
                "registers_count": found["registers_count"],
                "spilled_bytes": found["spilled_words_count"],
                "shared_bytes": found["shared_bytes"],
                "sm_programs_count": fit["blocks_count"],
                "occupancy_ratio": fit["occupancy_ratio"],
            }
        )
    return rows
