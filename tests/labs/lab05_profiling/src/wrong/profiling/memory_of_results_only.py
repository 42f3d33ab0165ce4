from __future__ import annotations

CAUGHT_BY = "test_memory_on_the_cpu"
SAYS = "bytes"

_right_memory = measure_memory_usage


def measure_memory_usage(fn, args, device=None):
    found = _right_memory(fn, args, device)
    if found["device"] != "cpu":
        return found
    import torch

    results = [leaf for leaf in _leaves(fn(*args)) if isinstance(leaf, torch.Tensor)]
    size = sum(tensor.numel() * tensor.element_size() for tensor in results)
    return {"device": "cpu", "peak_bytes": size, "net_bytes": size}
