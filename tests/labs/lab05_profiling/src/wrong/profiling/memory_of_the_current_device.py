from __future__ import annotations

CAUGHT_BY = "test_memory_of_one_of_two_devices"
SAYS = "device 1 gets"

_right_memory = measure_memory_usage


def measure_memory_usage(fn, args, device=None):
    if device == "cpu" or (device is None and not any(_on_cuda(t) for t in _leaves(args))):
        return _right_memory(fn, args, device)
    found = device or next(str(t.device) for t in _leaves(args) if _on_cuda(t))
    return _right_memory(fn, args, "cuda") | {"device": found}
