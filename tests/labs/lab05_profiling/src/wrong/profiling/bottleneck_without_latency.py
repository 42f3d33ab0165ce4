from __future__ import annotations

CAUGHT_BY = "test_recorded_bottlenecks"
SAYS = "the largest of the three least times"

_right_bottleneck = identify_bottleneck


def identify_bottleneck(profile_results, device=None):
    found = _right_bottleneck(profile_results, device)
    return {**found, "bound": "compute" if found["intensity"] >= found["ridge"] else "memory"}
