from __future__ import annotations

CAUGHT_BY = "test_the_fastest_backend_is_measured_once"
SAYS = "every backend that exists here is a candidate"

_right_attention = optimize_attention


def optimize_attention(q, k, v, optimization_level):
    return _right_attention(q, k, v, optimization_level)


_measured_backend = _fastest_backend


def _fastest_backend(q, k, v):
    key = (q.dtype, q.device)
    if key not in _FASTEST:
        _FASTEST[key] = _measured_backend(q, k, v)
    return _FASTEST[key]
