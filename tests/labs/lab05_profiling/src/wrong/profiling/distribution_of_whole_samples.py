from __future__ import annotations

CAUGHT_BY = "test_samples"
SAYS = "s per call"


def benchmark_distribution(fn, args, warmup, samples, calls_per_sample=1):
    _check_call(fn, args)
    _check_counts(warmup=warmup, samples=samples, calls_per_sample=calls_per_sample)
    _warm_up(fn, args, warmup)
    times = [calls_per_sample * _time_calls(fn, args, calls_per_sample) for _ in range(samples)]
    low, middle, high = (float(value) for value in np.percentile(times, (25, 50, 75)))
    return {
        "samples_s": times, "median_s": middle, "q25_s": low, "q75_s": high, "iqr_s": high - low
    }  # fmt: skip
