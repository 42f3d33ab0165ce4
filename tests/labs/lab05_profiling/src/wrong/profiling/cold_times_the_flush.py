from __future__ import annotations

CAUGHT_BY = "test_three_times_of_a_call"
SAYS = "with the flush over when the clock starts"


def cold_and_warm(fn, args, flush, samples):
    _check_call(fn, args)
    _check_call(flush, ())
    _check_counts(samples=samples)
    first = _time_calls(fn, args, 1)
    warm = [_time_calls(fn, args, 1) for _ in range(samples)]
    cold = []
    for _ in range(samples):
        _wait_for(args, None)
        start = time.perf_counter()
        flush()
        _wait_for(args, fn(*args))
        cold.append(time.perf_counter() - start)
    warm_s = statistics.median(warm)
    return {
        "first_s": first,
        "cold_s": statistics.median(cold),
        "warm_s": warm_s,
        "one_time_s": first - warm_s,
    }
