from __future__ import annotations

CAUGHT_BY = "test_share_of_drawn_speedups"
SAYS = "one process says nothing about s"


def serial_share(
    kind: str, world_sizes: Sequence[int], speedups: Sequence[float]
) -> dict[str, float]:
    points = _points(kind, world_sizes, speedups)
    serial = _least_squares(kind, *zip(*points, strict=True))
    return {
        "serial_ratio": serial,
        "worst_ratio": max(abs(_speedup(kind, serial, n) / s - 1) for n, s in points),
        "free_count": len(world_sizes) - 1,
    }
