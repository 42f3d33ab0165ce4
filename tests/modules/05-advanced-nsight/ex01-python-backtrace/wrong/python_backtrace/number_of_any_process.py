from __future__ import annotations

CAUGHT_BY = "test_coverage_of_drawn_stacks"
SAYS = "processes number their calls each for itself"


def coverage(capture: str) -> dict[str, int]:
    known = {trace.correlation: trace for trace in backtraces(capture)}
    with captures.open(capture) as recording:
        kernels = recording.kernels.select("duration_ns", "correlation").rows()
    if not kernels:
        raise EmptyCapture(f"{capture}: holds no kernels")
    launched = [(length, known.get(number)) for length, number in kernels]
    return {
        "kernel_count": len(launched),
        "kernel_ns": sum(length for length, _ in launched),
        "native_ns": sum(length for length, trace in launched if trace and trace.native),
        "python_ns": sum(length for length, trace in launched if trace and trace.python),
    }
