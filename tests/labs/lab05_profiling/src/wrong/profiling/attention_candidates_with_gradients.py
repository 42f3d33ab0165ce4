from __future__ import annotations

CAUGHT_BY = "test_the_fastest_backend_is_measured_once"
SAYS = "timed with gradients recorded"


def _fastest_backend(q, k, v):
    from torch.nn.attention import SDPBackend

    key = (q.shape, k.shape, q.dtype, q.device)
    if key not in _FASTEST:
        times = {}
        for name in ("FLASH_ATTENTION", "CUDNN_ATTENTION", "EFFICIENT_ATTENTION", "MATH"):
            backend = getattr(SDPBackend, name)
            call = functools.partial(_pinned, backend)
            try:
                times[backend] = benchmark_distribution(call, (q, k, v), **_TRIALS)["median_s"]
            except RuntimeError:
                continue
        if not times:
            raise RuntimeError("no backend")
        _FASTEST[key] = min(times, key=times.get)
    return _FASTEST[key]
