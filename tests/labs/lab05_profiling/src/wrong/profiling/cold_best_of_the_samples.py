from __future__ import annotations

CAUGHT_BY = "test_three_times_of_a_call"
SAYS = "the median of calls each after a flush"


def cold_and_warm(fn, args, flush, samples):
    _check_call(fn, args)
    _check_call(flush, ())
    _check_counts(samples=samples)
    first = _time_calls(fn, args, 1)
    warm = [_time_calls(fn, args, 1) for _ in range(samples)]
    cold = []
    for _ in range(samples):
        _wait_for(args, flush())
        cold.append(_time_calls(fn, args, 1))
    return {
        "first_s": first,
        "cold_s": min(cold),
        "warm_s": min(warm),
        "one_time_s": first - min(warm),
    }
