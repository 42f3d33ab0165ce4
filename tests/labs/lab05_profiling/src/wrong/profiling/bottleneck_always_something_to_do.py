from __future__ import annotations

CAUGHT_BY = "test_recorded_bottlenecks"
SAYS = "there is little to win here"

_right_bottleneck = identify_bottleneck


def identify_bottleneck(profile_results, device=None):
    found = _right_bottleneck(profile_results, device)
    return {**found, "recommendation": f"optimize {found['component']}"}
