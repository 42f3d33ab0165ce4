from __future__ import annotations

CAUGHT_BY = "test_verdicts_on_made_up_trainings"
SAYS = "evidence recoverable_ns is"


def communication_verdict(
    capture: str | Path, world_size: int, samples_count: int, bucket_cap_mib: int
) -> Finding:
    rows = exposed_by_bucket(capture, world_size)
    keys = [(row["samples_count"], row["bucket_cap_mib"]) for row in rows]
    if (samples_count, bucket_cap_mib) not in keys:
        raise ValueError(f"measured: {keys}")
    row = rows[keys.index((samples_count, bucket_cap_mib))]
    fit = fit_all_reduce(capture, world_size)
    buckets = row["bucket_bytes"]
    serial = gradient_cost(buckets, fit, world_size)["time_ns"]
    predicted = predict_exposed(buckets, row["backward_ns"], fit, world_size)["exposed_ns"]
    margin = serial / row["step_ns"] - FLOOR_RATIO
    evidence = {
        "recoverable_ns": serial,
        "window_ns": row["step_ns"],
        "recoverable_ratio": serial / row["step_ns"],
        "margin_ratio": margin,
        "serial_ns": serial,
        "predicted_ns": predicted,
    }
    copies = _content(capture)["copy"]
    if copies:
        best = max(1e9 * copy["bytes"] / statistics.median(copy["samples_ns"]) for copy in copies)
        evidence["bus_ratio"] = fit["bus_bytes_per_s"] / best
    text = "overlap more" if margin >= 0 else "none"
    if abs(margin) <= BORDERLINE_RATIO:
        text = "borderline"
    category = "communication_bound" if margin >= 0 else "healthy"
    return Finding(category, "range:step", evidence, text)
