"""CPU sampling: where is the host hot?

While a thread runs on a processor, the profiler records its stack every few milliseconds. It also records
the stacks of Python's threads every few milliseconds. You count such samples, compute how certain a count
is, and find the function that the device waits for. The lesson is `README.md` in this folder, hints are in
`hints.md`.

The readers `samples` and `switches` are given. Read the tables of a recording as in the other exercises:

    with captures.open(capture) as recording:
        recording.kernels        # a polars DataFrame; see `help(captures.NsysCapture)`
"""

from __future__ import annotations

import html
import json
import math
import sqlite3
from collections import Counter
from contextlib import closing
from typing import Any, NamedTuple

from profiling_lab import captures
from profiling_lab.errors import EmptyCapture, MissingTable
from profiling_lab.findings import Finding

Z_95 = 1.96  # of the normal distribution, for 95 %


class Sample(NamedTuple):
    """One stack at one moment: the names of its functions, the innermost one first."""

    time_ns: int
    thread: int
    frames: tuple[str, ...]


class Switch(NamedTuple):
    """A thread got a processor (running is True) or lost it."""

    time_ns: int
    thread: int
    running: bool


def samples(capture: str, kind: str) -> list[Sample]:
    """The samples of a recording, by time and thread (given).

    kind: "native" or "python".
        "native": samples of threads that were on a processor, with the names of native functions (an address if
                  the name is not known).
        "python": samples of all Python threads, waiting or not, as "function (file)", the file without folders.
    Raises ValueError for any other kind. Raises MissingTable if the recording has no samples of this kind, or
    lacks a column.
    """
    if kind not in ("native", "python"):
        raise ValueError(f"kind is {kind!r}, neither 'native' nor 'python'")
    try:
        found = read_stacks(capture, kind)
    except sqlite3.OperationalError as error:
        raise MissingTable(f"{capture}: {error} (an export of another version?)") from None
    return [Sample(time, thread, tuple(names)) for (time, thread), names in sorted(found.items())]


def read_stacks(capture: str, kind: str) -> dict[tuple[int, int], list[str]]:
    """The stacks of one kind by time and thread (given; `samples` calls it)."""
    found: dict[tuple[int, int], list[str]] = {}
    with closing(connect(capture)) as connection:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        words = dict(connection.execute("SELECT id, value FROM StringIds"))
        if kind == "native":
            if not {"COMPOSITE_EVENTS", "SAMPLING_CALLCHAINS"} <= tables:
                raise MissingTable(
                    f"{capture}: has no table SAMPLING_CALLCHAINS (record with --sample=process-tree)"
                )
            query = (
                "SELECT start, globalTid & 16777215, symbol FROM COMPOSITE_EVENTS e"
                " JOIN SAMPLING_CALLCHAINS c ON e.id = c.id ORDER BY 1, 2, stackDepth"
            )
            for time, thread, symbol in connection.execute(query):
                found.setdefault((time, thread), []).append(words[symbol])
        else:
            query = (
                "SELECT start, globalTid & 16777215, jsonText FROM NVTX_EVENTS"
                " WHERE jsonText IS NOT NULL ORDER BY 1, 2"
            )
            for time, thread, text in connection.execute(query):
                payload = json.loads(text).get("Python Periodic Sampling", {})
                for frame in payload.get("Frames", []):
                    function = html.unescape(words[frame["Function"]])
                    file = words[frame["File"]].rpartition("/")[2]
                    found.setdefault((time, thread), []).append(f"{function} ({file})")
            if not found:
                raise MissingTable(
                    f"{capture}: has no samples of Python (record with --python-sampling=true)"
                )
    return found


def switches(capture: str) -> list[Switch]:
    """When threads got and lost processors, by time (given). Raises MissingTable if none are recorded."""
    with closing(connect(capture)) as connection:
        try:
            query = "SELECT start, globalTid & 16777215, isSchedIn FROM SCHED_EVENTS ORDER BY 1, 2"
            rows = connection.execute(query).fetchall()
        except sqlite3.OperationalError:
            raise MissingTable(
                f"{capture}: has no table SCHED_EVENTS (record with --cpuctxsw=process-tree)"
            ) from None
    return [Switch(time, thread, bool(running)) for time, thread, running in rows]


def connect(capture: str) -> sqlite3.Connection:
    """The recording's SQLite file, for reading only (given)."""
    file = captures.path(capture).resolve()
    return sqlite3.connect(f"{file.as_uri()}?mode=ro&immutable=1", uri=True)


def hot_functions(capture: str, kind: str, thread: int | None = None) -> list[dict[str, Any]]:
    """The number of samples of each function.

    thread: use only samples of this thread; None: of all threads.
    Returns a row for each function in any stack, ordered by self_count from the largest, then by inclusive_count
    from the largest, then by function:
        "function",
        "self_count":      samples in which it is the innermost frame.
        "inclusive_count": samples with it anywhere in the stack (each sample once, however often the function is
                           in it).
    Raises the errors of `samples`. A thread without samples gives [].
    """
    raise NotImplementedError


def share_interval(hit_count: int, sample_count: int) -> dict[str, float]:
    """How certain a share of samples is: the 95 % score interval of Wilson.

    Let p = hits / samples, n the number of samples and z = Z_95. The interval's middle is
    (p + z²/2n) / (1 + z²/n), and its half width is z · sqrt(p(1 - p)/n + z²/4n²) / (1 + z²/n). Unlike
    p ± z · sqrt(p(1 - p)/n) it stays within 0 and 1, and is meaningful for 0 hits. The interval assumes that
    samples are independent of each other.
    Returns "ratio" (p), "low_ratio" and "high_ratio".
    Source: E. B. Wilson, Journal of the American Statistical Association 22 (1927), pages 209-212.
    Raises ValueError unless 0 <= hit_count <= sample_count and there is a sample.
    """
    raise NotImplementedError


def processor_time(capture: str) -> dict[int, dict[str, int]]:
    """For each thread, how long it ran on a processor according to the context switches, and how often it was sampled.

    The window goes from the first to the last of all switches in the recording. Before its first switch, a
    thread was in the state that this switch ends. After its last switch, it stays in the state that this switch
    begins, until the end of the window.
    Returns, for each thread with a switch, "on_ns" and "off_ns", which add up to the window, and
    "sample_count", the number of its native samples.
    Raises the errors of `switches` and `samples`, and EmptyCapture if there are no switches.
    """
    raise NotImplementedError


def collapsed_stacks(capture: str, kind: str, thread: int | None = None) -> list[str]:
    """The samples as text for a flame graph: a line for each different stack, sorted.

    A line holds the functions from the outermost to the innermost, separated by ";". Then come a space and the
    number of samples with this stack. A ";" in a function's name is written as ",".
    Source of the format: https://github.com/brendangregg/FlameGraph, stackcollapse-perf.pl.
    thread: as in `hot_functions`. Raises the errors of `samples`.
    """
    raise NotImplementedError


def host_verdict(capture: str, floor_ratio: float = 0.1) -> Finding:
    """Which function of the host the device waits for, as a Finding.

    The window goes from the start of the first to the end of the last operation (kernel, copy or memset) of the
    one device. Idle parts are the parts of the window in which no operation runs (from the end of one to the
    start of another).
    The launching thread is the one whose CUDA calls launched most kernels. Use only its Python samples with
    start <= time < end of an idle part. The hot function is the function that is innermost in most of these
    samples (if several are equal, the first by name).
    The hot function's share of the idle time is idle_ns * hot_count / sample_count, and 0 without samples. The
    category is `host_bound` if this time is at least floor_ratio of the window, else `healthy`. The subject is
    "device:0".
    Evidence: "recoverable_ns" (that share of the idle time), "window_ns", "idle_ns", "sample_count", "hot_count"
    (0 without samples), "low_ratio" (the lower end of `share_interval` of the two counts; 0 without samples).
    The recommendation names the hot function as in `samples`; it is "none" only if healthy.
    Raises the errors of `samples`, EmptyCapture if no kernel has a call that launched it, and ValueError unless
    floor_ratio is above 0 and below 1.
    """
    raise NotImplementedError
