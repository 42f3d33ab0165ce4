from __future__ import annotations

CAUGHT_BY = "test_predictions"
SAYS = "the law of the whole fit"


def predict_speedup(
    kind: str, world_sizes: Sequence[int], speedups: Sequence[float], world_size: int
) -> dict[str, float | None]:
    points = _points(kind, world_sizes, speedups)
    if world_size < 1:
        raise ValueError("world_size")

    def said(chosen: Sequence[tuple]) -> float:
        return _speedup("strong", _least_squares(kind, *zip(*chosen, strict=True)), world_size)

    others = [points[:at] + points[at + 1 :] for at in range(len(points))]
    without = [said(chosen) for chosen in others if chosen]
    return {
        "speedup_ratio": said(points),
        "low_ratio": min(without, default=None),
        "high_ratio": max(without, default=None),
    }
