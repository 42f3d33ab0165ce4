from __future__ import annotations

CAUGHT_BY = "test_coverage_of_drawn_stacks"
SAYS = "run no Python"


def coverage(capture: str) -> dict[str, int]:
    launched = _launched(capture)
    return {
        "kernel_count": len(launched),
        "kernel_ns": sum(length for length, _ in launched),
        "native_ns": sum(length for length, trace in launched if trace and trace.native),
        "python_ns": sum(length for length, trace in launched if trace and trace.native),
    }
