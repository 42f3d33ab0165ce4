"""Names the part that takes longest, whether or not there is anything to gain."""

from __future__ import annotations

import statistics

from profiling_lab import devices
from profiling_lab.findings import Finding

CAUGHT_BY = "test_layers_with_a_known_cause"
SAYS = "the most time above its floor"


def layer_bottleneck(capture: str, name: str) -> Finding:
    case = read_case(capture, name)
    sizes = {key: case[key] for key in ("batch", "tokens", "hidden", "heads", "ffn")}
    costs = layer_cost(**sizes, dtype=case["dtype"], causal=case["causal"])
    device = devices.get(case["device"])
    took = {part["name"]: statistics.median(part["inside"]) for part in case["parts"]}
    window = statistics.median(case["whole"]["window"])
    on_device = statistics.median(case["whole"]["device"])
    launch = max(window - statistics.median(case["whole"]["window_in_graph"]), 0)
    all_parts = sum(took.values())
    evidence = {"window_ns": window, "launch_ns": launch, "sum_ratio": all_parts / on_device}
    if 2 * launch > window:
        evidence["recoverable_ns"] = launch
        return Finding("launch_bound", "range:layer", evidence, _ADVICE["launch_bound"])
    memory = {
        part: 1e9 * cost["bytes"] / device.memory_bandwidth_bytes_per_s
        for part, cost in costs.items()
    }
    compute = {
        part: 1e9 * cost["flops"] / device.peak(case["dtype"]) for part, cost in costs.items()
    }
    floor = {part: max(memory[part], compute[part]) for part in costs}
    worst = max(took, key=lambda part: took[part])
    if 2 * floor[worst] < took[worst]:
        category = "latency_bound"
    else:
        roofs = {"compute_bound": compute[worst], "memory_bound": memory[worst]}
        category = max(roofs, key=lambda roof: roofs[roof])
    evidence |= {
        "recoverable_ns": took[worst] - floor[worst],
        "part_ns": took[worst],
        "memory_ns": memory[worst],
        "compute_ns": compute[worst],
        "share_ratio": took[worst] / all_parts,
    }
    return Finding(category, f"range:{worst}", evidence, _ADVICE[category])
