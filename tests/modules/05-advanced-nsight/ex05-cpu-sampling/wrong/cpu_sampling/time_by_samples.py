from __future__ import annotations

CAUGHT_BY = "test_threads_of_drawn_samples"
SAYS = "thread"


def processor_time(capture: str) -> dict[int, dict[str, int]]:
    found = switches(capture)
    if not found:
        raise EmptyCapture("no switches")
    window = found[-1].time_ns - found[0].time_ns
    counts = Counter(sample.thread for sample in samples(capture, "native"))
    return {
        thread: {
            "on_ns": counts[thread] * 4_000_000,
            "off_ns": window - counts[thread] * 4_000_000,
            "sample_count": counts[thread],
        }
        for thread in {switch.thread for switch in found}
    }
