# Only warps hide a latency, as one hears.
from __future__ import annotations

CAUGHT_BY = "test_prediction_holds_on_a_stepped_scheduler"
SAYS = "What is under way is the rate times the latency"


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
        "issue_ratio": min(1 / pipe_cycles, warps_count / latency_cycles),
        "warps_needed_count": math.ceil(latency_cycles / (pipe_cycles * chains_count)),
    }
