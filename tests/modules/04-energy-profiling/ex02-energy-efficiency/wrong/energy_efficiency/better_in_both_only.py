from __future__ import annotations

CAUGHT_BY = "test_front_of_a_few_runs"
SAYS = "is ruled out by"


def pareto_front(runs: Mapping[str, tuple[float, float]]) -> list[str]:
    if any(cost != cost for run in runs.values() for cost in run):
        raise ValueError("a cost is not a number, and cannot be compared")
    front = [
        name
        for name, (first, second) in runs.items()
        if not any(one < first and other < second for one, other in runs.values())
    ]
    return sorted(front, key=lambda name: (runs[name][0], name))
