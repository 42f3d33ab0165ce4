from __future__ import annotations

CAUGHT_BY = "test_memory_on_cuda"
SAYS = "bytes"

_right_memory = measure_memory_usage


def measure_memory_usage(fn, args, device=None):
    if device is None and not any(_on_cuda(t) for t in _leaves(args)):
        return _right_memory(fn, args, device)
    import torch

    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    fn(*args)
    torch.cuda.synchronize()
    return {
        "device": "cuda:0",
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "net_bytes": torch.cuda.memory_allocated(),
    }
