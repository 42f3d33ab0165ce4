"""Takes all exposed copying for recoverable: more than any overlap can save."""

from __future__ import annotations

from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding

CAUGHT_BY = "test_recorded_verdict"
SAYS = "What full overlap needs"


def judge_copies(capture: str, device: int = 0) -> Finding:
    lanes = _lanes(capture, device)
    everything = _merged([span for spans in lanes.values() for span in spans])
    if not everything:
        raise EmptyCapture(f"{capture}: neither kernels nor copies on device {device}")
    hidden = hidden_copies(capture, device)
    exposed = hidden["H2D"]["exposed_ns"] + hidden["D2H"]["exposed_ns"]
    window = everything[-1][1] - everything[0][0]
    evidence = {
        "recoverable_ns": exposed,
        "window_ns": window,
        "recoverable_ratio": exposed / window,
        "exposed_ns": exposed,
        "pageable_bytes": sum(c["bytes"] for c in _copies(capture) if _memory(c) == "pageable"),
    }
    if exposed < HEALTHY_FLOOR_RATIO * window:
        return Finding("healthy", f"device:{device}", evidence, "none")
    return Finding("transfer_bound", f"device:{device}", evidence, "overlap the copies")
