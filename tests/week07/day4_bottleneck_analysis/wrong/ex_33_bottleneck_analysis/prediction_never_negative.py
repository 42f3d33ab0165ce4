"""Drops the sign."""

from __future__ import annotations

from typing import Any

from profiling_lab import devices

CAUGHT_BY = "test_generated_against_predicted"
SAYS = "a measurement below the floor"


def prediction_error(capture: str) -> list[dict[str, Any]]:
    device = load_document(capture, "measurements.json")["device"]
    out = []
    for row in read_measurements(capture):
        cost = cost_of(row)
        measured = row["device_ns"]
        predicted = error = verdict = None
        if row["dtype"] in devices.get(device).peak_flops_per_s:
            predicted = predicted_time_ns([cost], device, row["dtype"])
            error = abs(measured / predicted - 1)
            verdict = "holds"
            if measured < predicted:
                compute = cost["flops"] / devices.get(device).peak(row["dtype"]) * 1e9
                verdict = "compute_floor_broken" if measured < compute else "memory_floor_broken"
        out.append(
            {
                "name": row["name"],
                "predicted_ns": predicted,
                "measured_ns": measured,
                "error_ratio": error,
                "verdict": verdict,
            }
        )
    return out
