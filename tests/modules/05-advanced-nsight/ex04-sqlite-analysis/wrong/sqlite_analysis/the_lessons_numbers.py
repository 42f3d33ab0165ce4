from __future__ import annotations

CAUGHT_BY = "test_verdict_of_generated_captures"
SAYS = "No more copying can hide"


def verdict(capture: str, name: str) -> Finding:
    evidence = {
        "recoverable_ns": 11_001_619,
        "window_ns": 80_125_400,
        "exposed_copy_ns": 65_623_398,
        "compute_only_ns": 11_001_619,
        "pageable_bytes": 1_073_741_824,
    }
    return Finding("transfer_bound", f"range:{name}", evidence, "pin the host memory")
