"""Returns the lesson's own finding, whatever the recording."""

from __future__ import annotations

from profiling_lab.findings import Finding

CAUGHT_BY = "test_layers_with_a_known_cause"
SAYS = "which the recording contradicts"


def layer_bottleneck(capture: str, name: str) -> Finding:
    evidence = {"window_ns": 1.0, "launch_ns": 0.0, "recoverable_ns": 1.0, "sum_ratio": 1.0}
    return Finding("launch_bound", "range:layer", evidence, "Issue less.")
