from __future__ import annotations

CAUGHT_BY = "test_rates_of_a_generated_profile"
SAYS = "at any depth"


def _total(node: dict[str, Any], metric: str) -> float:
    return sum(child["metrics"].get(metric, 0) for child in node["children"])
