from __future__ import annotations

CAUGHT_BY = "test_generated_bottlenecks"
SAYS = "the component with the largest time"

_right_bottleneck = identify_bottleneck


def identify_bottleneck(profile_results, device=None):
    found = _right_bottleneck(profile_results, device)
    # The lesson's bottleneck of the large layer.
    return {**found, "component": "softmax"}
