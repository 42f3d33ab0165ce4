"""Answers nan, infinity, minus zero and True for every number: comparisons that are false both ways."""

EXERCISE = "scaling_ex01"
SUBMITTED = r"""
from profiling_lab.findings import Finding
values = [float("nan"), float("inf"), -0.0, True, None]

def attack(name, *args, **kwargs):
    values.append(values.pop(0))
    value = values[0]
    if name == "throughput":
        return dict.fromkeys(("samples_per_s", "low_per_s", "high_per_s"), value)
    if name == "model_flops_utilization":
        return {"flops_per_sample_count": value, "utilization_ratio": value}
    if name == "batch_sweep":
        return [dict.fromkeys(("batch", "step_ns", "samples_per_s", "noise_ratio"), value)] * 7
    if name == "knee_batch":
        return {"knee": value, "best": value, "undecided": value}
    if name == "same_conditions":
        return {"missing": value, "different": value}
    keys = ("recoverable_ns", "window_ns", "recoverable_ratio", "floor_ratio", "margin_ratio",
            "throughput_ratio")
    return Finding("healthy", "device:0", dict.fromkeys(keys, value), "none")
"""
