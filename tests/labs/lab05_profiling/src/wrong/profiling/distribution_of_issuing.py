from __future__ import annotations

CAUGHT_BY = "test_samples"
SAYS = "a sample begins with nothing left to do"


def benchmark_distribution(fn, args, warmup, samples, calls_per_sample=1):
    _check_call(fn, args)
    _check_counts(warmup=warmup, samples=samples, calls_per_sample=calls_per_sample)
    _warm_up(fn, args, warmup)
    times = []
    for _ in range(samples):
        start = time.perf_counter()
        for _ in range(calls_per_sample):
            result = fn(*args)
        times.append((time.perf_counter() - start) / calls_per_sample)
    _wait_for(args, result)
    low, middle, high = (float(value) for value in np.percentile(times, (25, 50, 75)))
    return {
        "samples_s": times, "median_s": middle, "q25_s": low, "q75_s": high, "iqr_s": high - low
    }  # fmt: skip
