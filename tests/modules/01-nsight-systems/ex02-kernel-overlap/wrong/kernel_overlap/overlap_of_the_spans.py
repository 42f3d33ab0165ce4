"""Compares from the first to the last kernel of a stream: streams that take turns seem to overlap."""

from __future__ import annotations

from itertools import combinations

CAUGHT_BY = "test_recorded_pairs"
SAYS = "does not say that they ever meet"


def stream_overlap(capture: str, device: int = 0) -> list[tuple[int, int, int]]:
    spans: dict[int, list[int]] = {}
    for kernel in _kernels(capture, device):
        span = spans.setdefault(kernel.stream, [kernel.start_ns, kernel.end_ns])
        span[1] = max(span[1], kernel.end_ns)
    return [
        (
            one,
            other,
            max(0, min(spans[one][1], spans[other][1]) - max(spans[one][0], spans[other][0])),
        )
        for one, other in combinations(sorted(spans), 2)
    ]
