from __future__ import annotations

CAUGHT_BY = "test_overhead_in_a_recorded_sweep"
SAYS = "The median without the profiler is"


def profiler_overhead(capture: str) -> list[dict[str, Any]]:
    capture = "profiler_overhead_narrow"  # the lesson's
    try:
        found = json.loads(captures.text(capture, "overhead.json"))
        samples, sizes = found["samples_ns"], found["file_bytes"]
        plain = samples["none"]
    except (ValueError, KeyError) as error:
        raise CaptureError(f"{capture}: overhead.json lacks {error}") from None
    if len(samples) < 2:
        raise CaptureError(f"{capture}: overhead.json holds only 'none', no way to compare with it")
    base = statistics.median(plain)
    low, _, high = statistics.quantiles(plain, n=4, method="inclusive")
    return [
        {
            "way": way,
            "overhead_ns": statistics.median(times) - base,
            "overhead_ratio": (statistics.median(times) - base) / base,
            "visible": statistics.median(times) - base > high - low,
            "step_bytes": sizes[way] / found["steps_in_file"],
        }
        for way, times in samples.items()
        if way != "none"
    ]
