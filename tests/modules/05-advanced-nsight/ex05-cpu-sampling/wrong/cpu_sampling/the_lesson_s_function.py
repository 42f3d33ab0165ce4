from __future__ import annotations

CAUGHT_BY = "test_verdict_on_drawn_samples"
SAYS = "recoverable_ns"


def host_verdict(capture: str, floor_ratio: float = 0.1) -> Finding:
    samples(capture, "python")
    evidence = {
        "recoverable_ns": 700_000_000,
        "window_ns": 1_100_000_000,
        "idle_ns": 800_000_000,
        "sample_count": 190,
        "hot_count": 170,
        "low_ratio": 0.85,
    }
    return Finding("host_bound", "device:0", evidence, "make count_words faster")
