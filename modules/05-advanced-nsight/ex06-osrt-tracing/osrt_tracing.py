"""OS runtime tracing: what does the host wait for?

With `--trace=osrt` a recording holds the calls of the C library that may block: files, locks, sleeps.
You find out which of these waits the device waits for. The lesson is `README.md` in this folder, hints
are in `hints.md`. A capture is opened by its name or path:

    with captures.open(capture) as recording:
        recording.os_calls        # a polars DataFrame; see `help(captures.NsysCapture)`

Definitions that hold throughout:

- **Outermost**: a call inside another call of the same thread is that call's own business; only the
  outer one is counted. Rows named "[Unknown]" are marks of the profiler and no calls.
- **Class** of a call: `call_class(name)`, which is given.
- **Launching thread**: the one whose CUDA calls launched the most kernels (of equals, the smallest id).
- **Window**: from the start of the first to the end of the last operation of the device (kernel, copy
  or memset). **Idle**: time in the window in which no such operation runs. One device.
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
    """The class of a call of the C library by the beginning of its name; "other" for the rest."""
    for known, beginnings in CLASSES.items():
        if name.startswith(beginnings):
            return known
    return "other"


def time_by_class(capture: str) -> dict[int, dict[str, int]]:
    """Thread id → class → ns in outermost calls of this class; classes without time are left out.

    All of the recording counts, not the window alone. Threads without outermost calls of any length
    are left out.
    Raises EmptyCapture, with "osrt" in its message, if the recording holds no calls of the OS.
    """
    raise NotImplementedError


def threshold_for(durations_ns: Sequence[int], loss_ratio: float) -> dict[str, float]:
    """How high `--osrt-threshold` may be, if at most a share of the recorded time is to be lost.

    A recording with threshold t keeps the calls of at least t ns. durations_ns: of the calls in a
    recording with a low threshold. loss_ratio: from 0 to below 1, of the sum of all durations.
    Returns "threshold_ns", the largest of the durations that loses at most that share; and for it
    "kept_count", the calls that are kept, and "lost_ratio", the share of the time that is lost.
    Raises ValueError for no durations, one not above 0, or a loss_ratio out of range.
    """
    raise NotImplementedError


def costly_waits(capture: str) -> list[dict[str, Any]]:
    """The launching thread's waits, by name, and how much of them the device was idle.

    Only outermost calls of the launching thread count whose class is in WAITING, and of each the part
    inside the window.
    Returns a row for each name with such a part: "name", "class", "count" (calls with such a part),
    "blocked_ns" (the sum of the parts) and "idle_ns" (how much of it the device was idle), ordered by
    idle_ns from the largest, then by name.
    Raises EmptyCapture if there are no calls of the OS, or no kernel with the call that launched it.
    """
    raise NotImplementedError


def holder(capture: str) -> dict[str, Any]:
    """What another thread does while the launching thread waits for a lock.

    Whoever holds a lock that others wait for is doing something: mostly not waiting for a lock or in a
    poll itself. So take the outermost calls of all other threads whose class is neither "lock" nor
    "poll", and for each thread and name their time that lies inside the launching thread's outermost
    calls of class "lock" (their parts inside the window).
    Returns "lock_wait_ns", the sum of these parts; and for the thread and name with the largest time
    "thread", "name" and "overlap_ns" (of equals the smallest thread, then name). Where there is no
    such time: None, None and 0.
    It is a suspicion, not a proof: the recording does not say which lock a call is about.
    Raises as `costly_waits` does.
    """
    raise NotImplementedError


def os_verdict(capture: str, floor_ratio: float = 0.05) -> Finding:
    """Whether calls of the OS on the launching thread keep the device idle, as a Finding.

    What would be saved: the idle time inside the waits of `costly_waits`. `host_bound` if it is at
    least floor_ratio of the window, else `healthy`. The subject is "device:0".
    Evidence: "recoverable_ns", "window_ns", "io_ns", "lock_ns", "sleep_ns" and "poll_ns" (the idle
    time by class), "held_ns" (overlap_ns of `holder`). The recommendation is "none" only if healthy,
    and else names the call with the most idle time.
    Raises as `costly_waits` does, and ValueError unless floor_ratio lies above 0 and below 1.
    """
    raise NotImplementedError
