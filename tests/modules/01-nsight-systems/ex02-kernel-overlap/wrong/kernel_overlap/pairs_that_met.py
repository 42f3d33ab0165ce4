"""Leaves out the pairs that never met, which are the ones to see."""

from __future__ import annotations

from itertools import combinations

CAUGHT_BY = "test_pairs_that_never_meet"
SAYS = "also for those that never met"


def stream_overlap(capture: str, device: int = 0) -> list[tuple[int, int, int]]:
    streams: dict[int, list[tuple[int, int]]] = {}
    for kernel in _kernels(capture, device):
        streams.setdefault(kernel.stream, []).append((kernel.start_ns, kernel.end_ns))
    merged = {stream: _merged(spans) for stream, spans in streams.items()}
    out = []
    for one, other in combinations(sorted(merged), 2):
        both = [max(0, min(b, d) - max(a, c)) for a, b in merged[one] for c, d in merged[other]]
        if any(both):
            out.append((one, other, sum(both)))
    return out
