from __future__ import annotations

CAUGHT_BY = "test_overlap_of_drawn_traces"
SAYS = "each counted once"


def communication_overlap(capture: str) -> dict[int, dict[str, float]]:
    out: dict[int, dict[str, float]] = {}
    for rank, operations in read_ranks(capture).items():
        communication = _spans(operations, "communication")
        if not communication:
            raise EmptyCapture(f"{capture}: rank {rank} has no communication kernel")
        both = _length(communication + _spans(operations, "compute"))
        alone = both - _length(_spans(operations, "compute"))
        communication_ns = sum(end - start for start, end in communication)
        overlap_ns = communication_ns - alone
        out[rank] = {
            "communication_ns": communication_ns,
            "overlap_ns": overlap_ns,
            "overlap_pct": 100 * overlap_ns / communication_ns,
        }
    return out
