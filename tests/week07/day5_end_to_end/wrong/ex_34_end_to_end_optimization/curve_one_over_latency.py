"""Takes one over the mean latency for the throughput."""

from __future__ import annotations

from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_curve_of_simulated_requests"
SAYS = "served at the same time"


def throughput_latency_curve(capture: str) -> list[dict]:
    points = []
    for run, found in read_runs(capture, "requests.json").items():
        intended, sent, start, end = _moments(found)
        if not len(sent) or end.max() <= sent.min():
            raise CaptureError(f"{capture}, run {run}: no requests, or no time between them")
        latency = (end - intended).tolist()
        points.append(
            {
                "run": run,
                "throughput_per_s": 1e9 * len(sent) / int((end - sent).sum()),
                "p50_ns": percentile(latency, 50),
                "p99_ns": percentile(latency, 99),
                "mean_batch": len(sent) / len(set(start.tolist())),
            }
        )
    return sorted(points, key=lambda point: (point["throughput_per_s"], point["run"]))
