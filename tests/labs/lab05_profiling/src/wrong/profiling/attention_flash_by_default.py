from __future__ import annotations

CAUGHT_BY = "test_what_is_dispatched"
SAYS = "expected FLASH_ATTENTION alone"

_right_attention = optimize_attention


def optimize_attention(q, k, v, optimization_level):
    # PyTorch uses flash attention where it can.
    return _right_attention(q, k, v, 2 if optimization_level == 3 else optimization_level)
