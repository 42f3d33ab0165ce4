# A part of a warp is dropped, and with it a part of the pipe.
from __future__ import annotations

CAUGHT_BY = "test_prediction_of_broken_latencies"
SAYS = "warps_needed_count is"


def predict_issue(
    warps_count: int, chains_count: int, latency_cycles: float, pipe_cycles: float = 1.0
) -> dict[str, float]:
    if warps_count < 1 or chains_count < 1:
        raise ValueError(f"at least one warp and one chain, got {warps_count} and {chains_count}")
    if pipe_cycles < 1 or latency_cycles < pipe_cycles:
        raise ValueError(
            f"a pipe takes at least 1 cycle and no more than the latency, got {pipe_cycles} of "
            f"{latency_cycles}"
        )
    return {
        "issue_ratio": min(1 / pipe_cycles, warps_count * chains_count / latency_cycles),
        "warps_needed_count": max(1, math.floor(latency_cycles / (pipe_cycles * chains_count))),
    }
