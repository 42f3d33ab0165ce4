from __future__ import annotations

CAUGHT_BY = "test_time_per_call"
SAYS = "and nothing else"


def benchmark_function(fn, args, warmup, iterations):
    _check_call(fn, args)
    _check_counts(warmup=warmup, iterations=iterations)
    _warm_up(fn, args, 1)  # one call is enough to compile
    return _time_calls(fn, args, iterations)
