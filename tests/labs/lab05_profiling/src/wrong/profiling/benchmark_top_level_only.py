from __future__ import annotations

CAUGHT_BY = "test_time_per_call"
SAYS = "Nothing was waited for before the clock was read at the end"


def _wait_for(args, result):
    torch = sys.modules.get("torch")
    if hasattr(result, "block_until_ready"):
        result.block_until_ready()
    elif torch is not None and isinstance(result, torch.Tensor) and result.is_cuda:
        torch.cuda.synchronize()
