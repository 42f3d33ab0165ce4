from __future__ import annotations

CAUGHT_BY = "test_threads_of_drawn_samples"
SAYS = "tells what it was before"


def processor_time(capture: str) -> dict[int, dict[str, int]]:
    found = switches(capture)
    if not found:
        raise EmptyCapture("no switches")
    first, last = found[0].time_ns, found[-1].time_ns
    counts = Counter(sample.thread for sample in samples(capture, "native"))
    on: dict[int, int] = {}
    since: dict[int, tuple[int, bool]] = {}
    for switch in found:
        before, running = since.get(switch.thread, (switch.time_ns, False))
        on[switch.thread] = on.get(switch.thread, 0) + (switch.time_ns - before) * running
        since[switch.thread] = switch.time_ns, switch.running
    for thread, (before, running) in since.items():
        on[thread] += (last - before) * running
    return {
        thread: {"on_ns": time, "off_ns": last - first - time, "sample_count": counts[thread]}
        for thread, time in on.items()
    }
