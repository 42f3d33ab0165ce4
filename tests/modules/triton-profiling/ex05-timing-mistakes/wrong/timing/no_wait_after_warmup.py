from __future__ import annotations

CAUGHT_BY = "test_samples_of_a_warm_call"
SAYS = "the host did not wait after the warm-up"


def time_kernel(
    call: Callable[[], object],
    device: Any,
    warmup: int = 10,
    repeats: int = 30,
    flush: Callable[[], object] | None = None,
) -> dict[str, Any]:
    if not callable(call) or not (flush is None or callable(flush)):
        raise TypeError(f"call {call} or flush {flush}: nothing to call")
    if warmup < 1 or repeats < 2:
        raise ValueError("warmup or repeats too few")
    for _ in range(warmup):
        call()
    pairs = [(device.event(), device.event()) for _ in range(repeats)]
    for start, end in pairs:
        if flush is not None:
            flush()
        start.record()
        call()
        end.record()
    device.synchronize()
    samples = [start.elapsed_time(end) * 1e6 for start, end in pairs]
    low, median, high = statistics.quantiles(samples, n=4, method="inclusive")
    return {"median_ns": median, "iqr_ns": high - low, "samples_ns": samples}
