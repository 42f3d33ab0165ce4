from __future__ import annotations

CAUGHT_BY = "test_recorded_bottlenecks"
SAYS = "the largest of the three least times"

_right_bottleneck = identify_bottleneck


def identify_bottleneck(profile_results, device=None):
    found = _right_bottleneck(profile_results, device)
    # Below 5 operations a byte memory-bound, above 20 compute-bound.
    intensity = found["intensity"]
    bound = "memory" if intensity < 5 else "compute" if intensity > 20 else "latency"
    return {**found, "bound": bound}
