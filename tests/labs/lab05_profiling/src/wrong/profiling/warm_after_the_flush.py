from __future__ import annotations

CAUGHT_BY = "test_three_times_of_a_call"
SAYS = "calls each right after another"


def cold_and_warm(fn, args, flush, samples):
    _check_call(fn, args)
    _check_call(flush, ())
    _check_counts(samples=samples)
    first = _time_calls(fn, args, 1)
    cold = []
    for _ in range(samples):
        _wait_for(args, flush())
        cold.append(_time_calls(fn, args, 1))
    # Everything has run by now, so this is warm.
    warm = [_time_calls(fn, args, 1) for _ in range(samples)]
    warm_s = statistics.fmean(warm)
    return {
        "first_s": first,
        "cold_s": statistics.median(cold),
        "warm_s": warm_s,
        "one_time_s": first - warm_s,
    }
