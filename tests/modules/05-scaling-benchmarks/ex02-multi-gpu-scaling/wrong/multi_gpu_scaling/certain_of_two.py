from __future__ import annotations

CAUGHT_BY = "test_predictions"
SAYS = "leave it out, and nothing is left to fit"


def predict_speedup(
    kind: str, world_sizes: Sequence[int], speedups: Sequence[float], world_size: int
) -> dict[str, float | None]:
    points = _points(kind, world_sizes, speedups)
    if world_size < 1:
        raise ValueError("world_size")

    def said(chosen: Sequence[tuple]) -> float:
        return _speedup(kind, _least_squares(kind, *zip(*chosen, strict=True)), world_size)

    others = [points[:at] + points[at + 1 :] for at in range(len(points))]
    without = [said(chosen or points) for chosen in others]
    return {"speedup_ratio": said(points), "low_ratio": min(without), "high_ratio": max(without)}
