"""Takes the first entry of the file for the earliest, and the last for the latest."""

from __future__ import annotations

CAUGHT_BY = "test_curve_of_equal_runs_and_bad_input"
SAYS = "neither the first nor the last in the file"

_whole = throughput_latency_curve  # noqa: F821 -- the reference, which the rest stays


def throughput_latency_curve(capture: str) -> list[dict]:
    points = _whole(capture)
    for point in points:
        _, sent, _, end = _moments(_run(capture, "requests.json", point["run"]))
        point["throughput_per_s"] = 1e9 * len(sent) / float(end[-1] - sent[0])
    return sorted(points, key=lambda point: (point["throughput_per_s"], point["run"]))
