from __future__ import annotations

CAUGHT_BY = "test_time_per_call"
SAYS = "with a wait after every call"


def benchmark_function(fn, args, warmup, iterations):
    _check_call(fn, args)
    _check_counts(warmup=warmup, iterations=iterations)
    _warm_up(fn, args, warmup)
    start = time.perf_counter()
    for _ in range(iterations):
        _wait_for(args, fn(*args))
    return (time.perf_counter() - start) / iterations
