from __future__ import annotations

CAUGHT_BY = "test_efficiency_of_a_made_up_sweep"
SAYS = "samples_per_s is"


def efficiency(capture: str) -> list[dict[str, Any]]:
    recording = read_recording(capture)
    runs: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for phase in recording["phases"]:
        if phase["name"] == "work":
            runs[phase["precision"], phase["batch"]].append(phase)
    if not runs:
        raise CaptureError(f'{capture}: no phase is called "work"; is it a sweep?')
    rows = []
    for (precision, batch), phases in runs.items():
        speeds = [phase["calls"] * 1e9 / (phase["end_ns"] - phase["start_ns"]) for phase in phases]
        powers = [_power_w(recording, phase) for phase in phases]
        costs = [power / speed for power, speed in zip(powers, speeds, strict=True)]
        cost, speed = statistics.median(costs), statistics.median(speeds)
        rows.append(
            {
                "precision": precision,
                "batch": batch,
                "samples_per_s": speed,
                "power_w": statistics.median(powers),
                "j_per_sample": cost,
                "low_j": min(costs),
                "high_j": max(costs),
                "flop_per_j": phases[0]["flop"] / (phases[0]["calls"] * batch) / cost,
                "call_ns": batch * 1e9 / speed,
            }
        )
    return rows
