from __future__ import annotations

CAUGHT_BY = "test_best_by_each_product"
SAYS = "weighs time twice"


def energy_delay(runs: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    if not runs or any(min(run) <= 0 for run in runs.values()):
        raise ValueError(f"{len(runs)} runs: at least one is needed, times and energies above 0")

    def best(time_power: int, energy_power: int) -> str:
        def weigh(name: str) -> tuple[float, str]:
            time_s, energy_j = runs[name]
            return energy_j**energy_power * time_s**time_power, name

        return min(runs, key=weigh)

    return {"time": best(1, 0), "energy": best(0, 1), "edp": best(1, 1), "ed2p": best(1, 2)}
