from __future__ import annotations

CAUGHT_BY = "test_share_of_drawn_speedups"
SAYS = "least squares of"


def serial_share(
    kind: str, world_sizes: Sequence[int], speedups: Sequence[float]
) -> dict[str, float]:
    points = _points(kind, world_sizes, speedups)
    sizes, measured = zip(*points, strict=True)
    serial = min(1.0, _least_squares(kind, sizes, measured))
    return {
        "serial_ratio": serial,
        "worst_ratio": max(abs(_speedup(kind, serial, n) / s - 1) for n, s in points),
        "free_count": len(points) - 1,
    }
