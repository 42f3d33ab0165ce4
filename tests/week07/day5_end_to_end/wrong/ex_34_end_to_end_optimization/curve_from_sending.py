"""Takes latency from sent_ns."""

from __future__ import annotations

from profiling_lab.errors import CaptureError

CAUGHT_BY = "test_curve_of_simulated_requests"
SAYS = "Latency counts from intended_ns"


def throughput_latency_curve(capture: str) -> list[dict]:
    points = []
    for run, found in read_runs(capture, "requests.json").items():
        intended, sent, start, end = _moments(found)
        if not len(sent) or end.max() <= sent.min():
            raise CaptureError(f"{capture}, run {run}: no requests, or no time between them")
        latency = (end - sent).tolist()
        points.append(
            {
                "run": run,
                "throughput_per_s": len(sent) / (int(end.max() - sent.min()) / 1e9),
                "p50_ns": percentile(latency, 50),
                "p99_ns": percentile(latency, 99),
                "mean_batch": len(sent) / len(set(start.tolist())),
            }
        )
    return sorted(points, key=lambda point: (point["throughput_per_s"], point["run"]))
