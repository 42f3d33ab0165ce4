"""OS runtime tracing: what does the host wait for?

With `--trace=osrt` a recording holds the calls of the C library that may block: files, locks, sleeps.
You find out which of these waits the device waits for. The lesson is `README.md` in this folder, hints
are in `hints.md`. Open a capture by its name or path:

    with captures.open(capture) as recording:
        recording.os_calls        # a polars DataFrame; see `help(captures.NsysCapture)`

Definitions for all tasks:

- **Outermost**: a call that is not inside another call of the same thread. Only outermost calls are
  counted. Rows named "[Unknown]" are marks of the profiler, not calls.
- **Class** of a call: `call_class(name)`, which is given.
- **Launching thread**: the thread whose CUDA calls launched the most kernels (if equal, the smallest id).
- **Window**: from the start of the first to the end of the last operation of the device (kernel, copy
  or memset). **Idle**: time in the window in which no such operation runs. There is one device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from profiling_lab import captures
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding

CLASSES = {
    "lock": ("pthread_mutex", "pthread_cond", "pthread_rwlock", "sem_", "futex", "pthread_join"),
    "sleep": ("sleep", "usleep", "nanosleep", "clock_nanosleep", "sched_yield"),
    "poll": ("poll", "ppoll", "select", "pselect", "epoll_"),
    "memory": ("mmap", "munmap", "mremap", "mprotect", "madvise", "brk", "sbrk"),
    "io": (
        "read",
        "pread",
        "readv",
        "write",
        "pwrite",
        "writev",
        "open",
        "close",
        "fopen",
        "fclose",
    )
    + (
        "fread",
        "fwrite",
        "fgets",
        "fflush",
        "fsync",
        "fdatasync",
        "sync",
        "sendfile",
        "send",
        "recv",
    )
    + ("accept", "connect", "fcntl"),
}
WAITING = ("io", "lock", "sleep", "poll")


def call_class(name: str) -> str:
    """The class of a call of the C library, from the beginning of its name; "other" for all other calls."""
    for known, beginnings in CLASSES.items():
        if name.startswith(beginnings):
            return known
    return "other"


class _Call(NamedTuple):
    start: int
    end: int
    name: str
    thread: int


class _Recording(NamedTuple):
    calls: list[_Call]
    window: tuple[int, int]
    busy: list[tuple[int, int]]
    launching: int


def _outermost(capture: str) -> list[_Call]:
    """The outermost calls of all threads, in order."""
    with captures.open(capture) as recording:
        frame = recording.os_calls
    calls, ends = [], {}
    for start, end, name, thread in frame.select(
        "start_ns", "end_ns", "name", "thread"
    ).iter_rows():
        if name != "[Unknown]" and start >= ends.get(thread, start):
            calls.append(_Call(start, end, name, thread))
            ends[thread] = end
    if not calls:
        raise EmptyCapture(f"{capture}: holds no calls of the OS (record with --trace=cuda,osrt)")
    return calls


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
    launching = min(launches, key=lambda thread: (-launches[thread], thread))
    busy = _merged(operations)
    return _Recording(calls, (busy[0][0], busy[-1][1]), busy, launching)


def _merged(intervals: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(intervals):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def _overlap(start: int, end: int, merged: Iterable[tuple[int, int]]) -> int:
    """How much of an interval lies in a list of merged ones."""
    return sum(max(0, min(end, b) - max(start, a)) for a, b in merged)


def time_by_class(capture: str) -> dict[int, dict[str, int]]:
    """Thread id → class → ns in outermost calls of this class. Classes without time are left out.

    Use the whole recording, not only the window. Threads are left out if they have no outermost call with a
    duration above 0.
    Raises EmptyCapture, with "osrt" in its message, if the recording holds no calls of the OS.
    """
    found: dict[int, dict[str, int]] = {}
    for start, end, name, thread in _outermost(capture):
        if end > start:
            classes = found.setdefault(thread, {})
            kind = call_class(name)
            classes[kind] = classes.get(kind, 0) + end - start
    return found


def threshold_for(durations_ns: Sequence[int], loss_ratio: float) -> dict[str, float]:
    """How high `--osrt-threshold` may be, if at most a given share of the recorded time may be lost.

    A recording with threshold t keeps the calls of at least t ns.
    durations_ns: the durations of the calls in a recording with a low threshold.
    loss_ratio: how much of the sum of all durations may be lost, as a share: at least 0 and below 1.
    Returns
        "threshold_ns": the largest of the durations that, as a threshold, loses at most this share of the time.
        "kept_count":   number of calls that this threshold keeps.
        "lost_ratio":   share of the time that it loses.
    Raises ValueError if there are no durations, if one is not above 0, or if loss_ratio is out of range.
    """
    if not durations_ns or min(durations_ns) <= 0 or not 0 <= loss_ratio < 1:
        raise ValueError("needs durations above 0 and a loss from 0 to below 1")
    total, lost = sum(durations_ns), 0
    threshold, lost_below = 0, 0
    for duration in sorted(durations_ns):
        if lost > loss_ratio * total:
            break
        if duration > threshold:
            threshold, lost_below = duration, lost
        lost += duration
    return {
        "threshold_ns": threshold,
        "kept_count": sum(duration >= threshold for duration in durations_ns),
        "lost_ratio": lost_below / total,
    }


def costly_waits(capture: str) -> list[dict[str, Any]]:
    """The launching thread's waits, by name, and for how much of their time the device was idle.

    Use only outermost calls of the launching thread whose class is in WAITING, and only their parts inside the
    window.
    Returns a row for each name with such a part, ordered by idle_ns from the largest, then by name:
        "name", "class",
        "count":      number of calls with such a part.
        "blocked_ns": total length of the parts.
        "idle_ns":    the time in blocked_ns in which the device was idle.
    Raises EmptyCapture if there are no calls of the OS, or no kernel with the call that launched it.
    """
    recording = _read(capture)
    rows: dict[str, dict[str, Any]] = {}
    for call, start, end in _waits(recording):
        row = rows.setdefault(
            call.name,
            {"name": call.name, "class": call_class(call.name)}
            | {"count": 0, "blocked_ns": 0, "idle_ns": 0},
        )
        row["count"] += 1
        row["blocked_ns"] += end - start
        row["idle_ns"] += end - start - _overlap(start, end, recording.busy)
    return sorted(rows.values(), key=lambda row: (-row["idle_ns"], row["name"]))


def _waits(recording: _Recording) -> list[tuple[_Call, int, int]]:
    """The launching thread's waits with their parts inside the window."""
    first, last = recording.window
    clipped = [
        (call, max(call.start, first), min(call.end, last))
        for call in recording.calls
        if call.thread == recording.launching and call_class(call.name) in WAITING
    ]
    return [(call, start, end) for call, start, end in clipped if start < end]


def holder(capture: str) -> dict[str, Any]:
    """What another thread does while the launching thread waits for a lock.

    The thread that holds the lock is usually active: it neither waits for a lock nor is in a poll itself. So use
    the outermost calls of all other threads whose class is neither "lock" nor "poll". For each thread and name,
    compute their time inside the launching thread's outermost calls of class "lock" (their parts inside the
    window).
    Returns "lock_wait_ns", the total length of these parts. Also returns "thread", "name" and "overlap_ns"
    for the thread and name with the largest time (if equal, the smallest thread, then the first name). If
    there is no such time, these are None, None and 0.
    The result is a suspicion, not a proof: the recording does not show which lock a call is about.
    Raises the errors of `costly_waits`.
    """
    recording = _read(capture)
    parts = [(a, b) for call, a, b in _waits(recording) if call_class(call.name) == "lock"]
    beside: Counter[tuple[int, str]] = Counter()
    for start, end, name, thread in recording.calls:
        if thread != recording.launching and call_class(name) not in ("lock", "poll"):
            beside[thread, name] += _overlap(start, end, parts)
    found: dict[str, Any] = {"thread": None, "name": None, "overlap_ns": 0}
    if beside and max(beside.values()) > 0:
        thread, name = min(beside, key=lambda key: (-beside[key], key))
        found = {"thread": thread, "name": name, "overlap_ns": beside[thread, name]}
    return {"lock_wait_ns": sum(end - start for start, end in parts)} | found


def os_verdict(capture: str, floor_ratio: float = 0.05) -> Finding:
    """Whether calls of the OS on the launching thread keep the device idle, as a Finding.

    The saving is the idle time inside the waits of `costly_waits`. The category is `host_bound` if the saving
    is at least floor_ratio of the window, else `healthy`. The subject is "device:0".
    Evidence: "recoverable_ns" (the saving), "window_ns", "io_ns", "lock_ns", "sleep_ns" and "poll_ns" (the idle
    time by class), "held_ns" (overlap_ns of `holder`). The recommendation is "none" only if healthy, and else
    names the call with the most idle time.
    Raises the errors of `costly_waits`, and ValueError unless floor_ratio is above 0 and below 1.
    """
    if not 0 < floor_ratio < 1:
        raise ValueError("floor_ratio must lie above 0 and below 1")
    waits = costly_waits(capture)
    first, last = _read(capture).window
    idle = {f"{kind}_ns": 0 for kind in WAITING}
    for row in waits:
        idle[f"{row['class']}_ns"] += row["idle_ns"]
    saved = sum(idle.values())
    evidence = {"recoverable_ns": saved, "window_ns": last - first} | idle
    evidence["held_ns"] = holder(capture)["overlap_ns"]
    if saved < floor_ratio * (last - first):
        return Finding("healthy", "device:0", evidence)
    advice = f"take {waits[0]['name']} off the thread that launches"
    return Finding("host_bound", "device:0", evidence, advice)
