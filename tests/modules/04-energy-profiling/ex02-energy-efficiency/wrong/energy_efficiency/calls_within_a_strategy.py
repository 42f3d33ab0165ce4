from __future__ import annotations

CAUGHT_BY = "test_work_that_cannot_be_compared"
SAYS = "made a call more than the others"


def pacing_energy(capture: str) -> list[dict[str, Any]]:
    recording = read_recording(capture)
    repeats: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for phase in recording["phases"]:
        name = "race" if phase["name"] in ("race_work", "race_idle") else phase["name"]
        if name == "race" or name.startswith("paced"):
            repeats[name][phase["repeat"]].append(phase)
    if "race" not in repeats or len(repeats) < 2:
        raise CaptureError(f"{capture}: it lacks racing or pacing; there are {sorted(repeats)}")
    for runs in repeats.values():
        calls = {sum(phase["calls"] for phase in run) for run in runs.values()}
        if len(calls) > 1:
            raise CaptureError(f"{capture}: {sorted(calls)} calls were made: not the same work")
    counter = recording["samples"]["energy_mj"]
    step_j = max(after - before for before, after in pairwise(counter)) / 1e3
    rows = []
    for strategy, runs in repeats.items():
        energies = [
            (run[-1]["energy_end_mj"] - run[0]["energy_start_mj"]) / 1e3 for run in runs.values()
        ]
        walls = [run[-1]["end_ns"] - run[0]["start_ns"] for run in runs.values()]
        works = [run[0]["end_ns"] - run[0]["start_ns"] for run in runs.values()]
        rows.append(
            {
                "strategy": strategy,
                "energy_j": statistics.median(energies),
                "low_j": min(energies) - step_j,
                "high_j": max(energies) + step_j,
                "wall_ns": float(statistics.median(walls)),
                "work_ns": float(statistics.median(works)),
            }
        )
    return sorted(rows, key=lambda row: (row["energy_j"], row["strategy"]))
