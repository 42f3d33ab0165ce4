from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_a_recording"
SAYS = "evidence"


def communication_verdict(
    capture: str | Path, world_size: int, samples_count: int, bucket_cap_mib: int
) -> Finding:
    rows = exposed_by_bucket(capture, world_size)
    keys = [(row["samples_count"], row["bucket_cap_mib"]) for row in rows]
    if (samples_count, bucket_cap_mib) not in keys:
        raise ValueError(f"measured: {keys}")
    evidence = {  # of the lesson's training on two GPUs
        "recoverable_ns": 400_000.0,
        "window_ns": 2_000_000.0,
        "recoverable_ratio": 0.2,
        "margin_ratio": 0.15,
        "serial_ns": 900_000.0,
        "predicted_ns": 300_000.0,
    }
    if _content(capture)["copy"]:
        evidence["bus_ratio"] = 0.9
    return Finding("communication_bound", "range:step", evidence, "overlap more")
