from __future__ import annotations

CAUGHT_BY = "test_waits_of_drawn_threads"
SAYS = "the names of the launching thread"


def _read(capture: str) -> _Recording:
    calls = _outermost(capture)
    with captures.open(capture) as recording:
        frames = (recording.kernels, recording.copies, recording.memsets)
        launched = recording.kernels.select("process", "correlation").rows()
        api = recording.api_calls.select("process", "correlation", "thread").rows()
    operations = [row for frame in frames for row in frame.select("start_ns", "end_ns").rows()]
    threads = {(process, correlation): thread for process, correlation, thread in api}
    launches = Counter(threads[key] for key in launched if key in threads)
    if not launches:
        raise EmptyCapture(f"{capture}: holds no kernel with the call that launched it")
    launching = threads[next(key for key in launched if key in threads)]
    busy = _merged(operations)
    return _Recording(calls, (busy[0][0], busy[-1][1]), busy, launching)
