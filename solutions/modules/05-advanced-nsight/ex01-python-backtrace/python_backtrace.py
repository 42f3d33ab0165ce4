"""Python backtraces: which line launched this?

With `--cudabacktrace=all --python-backtrace=cuda` and CPU sampling on, Nsight Systems writes down the
stack of each CUDA call: the native frames, and Python's. You follow them from the device's time back to
lines of a program. The lesson is `README.md` in this folder, hints are in `hints.md`.

`backtraces(capture)` is given. Tables of a recording are read as everywhere:

    with captures.open(capture) as recording:
        recording.kernels        # a polars DataFrame; see `help(captures.NsysCapture)`

A kernel belongs to the backtrace of the same process and correlation. Recordings are of one device.
"""

from __future__ import annotations

import html
import json
import re
import sqlite3
from typing import NamedTuple

from profiling_lab import captures
from profiling_lab.errors import EmptyCapture, MissingTable
from profiling_lab.findings import Finding

BLOCKING = ("cudaStreamSynchronize", "cudaDeviceSynchronize", "cudaEventSynchronize", "cudaMemcpy")


class Frame(NamedTuple):
    """A frame of Python: the function, its file (without folders) and the line in it."""

    function: str
    file: str
    line: int


class Backtrace(NamedTuple):
    """The stack of one CUDA call; both lists begin with the innermost frame.

    name: of the call, without a version ("cudaLaunchKernel"). native: the names of native functions.
    python: empty where the call came from a thread without Python code.
    """

    start_ns: int
    end_ns: int
    process: int
    correlation: int
    name: str
    native: tuple[str, ...]
    python: tuple[Frame, ...]


def backtraces(capture: str) -> list[Backtrace]:
    """The CUDA calls of a recording that have a stack, in order of their start (given).

    In the export a stack is a second row of the call, of event class 67; Python's frames are an NVTX
    mark of the same thread and start, with numbers of StringIds in a JSON text.
    Raises MissingTable where the recording has no stacks, or lacks a column.
    """
    file = captures.path(capture)
    connection = sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
    try:
        tables = {name for (name,) in connection.execute("SELECT name FROM sqlite_master")}
        if "CUDA_CALLCHAINS" not in tables:
            raise MissingTable(
                f"{capture}: has no table CUDA_CALLCHAINS (record with --sample=process-tree "
                "--cudabacktrace=all --python-backtrace=cuda)"
            )
        words = dict(connection.execute("SELECT id, value FROM StringIds"))
        chains: dict[int, list[str]] = {}
        query = "SELECT id, symbol FROM CUDA_CALLCHAINS ORDER BY id, stackDepth"
        for chain, symbol in connection.execute(query):
            chains.setdefault(chain, []).append(words[symbol])
        python: dict[tuple[int, int], tuple[Frame, ...]] = {}
        if "NVTX_EVENTS" in tables:
            query = "SELECT globalTid, start, jsonText FROM NVTX_EVENTS WHERE jsonText IS NOT NULL"
            for thread, start, text in connection.execute(query):
                payload = json.loads(text).get("Python Backtrace on CUDA", {})
                python[thread, start] = tuple(
                    Frame(
                        html.unescape(words[frame["Function"]]),
                        words[frame["File"]].rpartition("/")[2],
                        frame["Line"],
                    )
                    for frame in payload.get("Frames", [])
                )
        query = (
            'SELECT start, "end", globalTid, correlationId, nameId, callchainId'
            " FROM CUPTI_ACTIVITY_KIND_RUNTIME WHERE eventClass = 67 ORDER BY start, globalTid"
        )
        return [
            Backtrace(
                start,
                end,
                thread & ~0xFFFFFF,
                correlation,
                re.sub(r"_v\d+$", "", words[name]),
                tuple(chains.get(chain, ())),
                python.get((thread, start), ()),
            )
            for start, end, thread, correlation, name, chain in connection.execute(query)
        ]
    except sqlite3.OperationalError as error:
        raise MissingTable(f"{capture}: {error} (an export of another version?)") from None
    finally:
        connection.close()


def _launched(capture: str) -> list[tuple[int, Backtrace | None]]:
    """Each kernel's duration with the backtrace of its launch, if it has one."""
    known = {(trace.process, trace.correlation): trace for trace in backtraces(capture)}
    with captures.open(capture) as recording:
        kernels = recording.kernels.select("duration_ns", "process", "correlation").rows()
    if not kernels:
        raise EmptyCapture(f"{capture}: holds no kernels")
    return [(length, known.get((process, number))) for length, process, number in kernels]


def coverage(capture: str) -> dict[str, int]:
    """How much of the kernels' time can be followed back.

    Returns "kernel_count" and "kernel_ns" (the sum of all kernels' durations), "native_ns" (of those
    whose launch has a backtrace with native frames) and "python_ns" (with Python frames).
    Raises MissingTable as `backtraces` does, and EmptyCapture if there are no kernels.
    """
    launched = _launched(capture)
    return {
        "kernel_count": len(launched),
        "kernel_ns": sum(length for length, _ in launched),
        "native_ns": sum(length for length, trace in launched if trace and trace.native),
        "python_ns": sum(length for length, trace in launched if trace and trace.python),
    }


def time_by_operator(capture: str) -> dict[str, int]:
    """Kernel time by the operator of PyTorch that the program called, in ns.

    PyTorch enters an operator `linear` through a native function whose name begins with
    `at::_ops::linear::`, followed by `call(` or `redispatch(`. Of several such frames in a stack the
    outermost counts: it is what the program, or autograd, asked for; the inner ones are how it is done.
    Kernels without such a frame, or without a backtrace, count for "".
    Raises as `coverage` does.
    """
    found: dict[str, int] = {}
    for length, trace in _launched(capture):
        name = ""
        for symbol in trace.native if trace else ():
            match = re.match(r"at::_ops::(\w+)::(call|redispatch)\(", symbol)
            if match:
                name = match[1]
        found[name] = found.get(name, 0) + length
    return found


def time_by_line(capture: str, file: str) -> dict[int, dict[str, int]]:
    """Kernel time by the lines of one Python file.

    file: its name without folders. A kernel's *own* line is that of the innermost frame in this file:
    the line from which the program went into a library. All lines of frames in this file are on the
    way to it.
    Returns line → "self_ns", the time of kernels whose own line it is, "inclusive_ns", of those with
    this line anywhere in their stack (each kernel once, recursion or not), and "kernel_count", the
    number of kernels in inclusive_ns. Kernels without a frame in this file are left out.
    Raises as `coverage` does.
    """
    found: dict[int, dict[str, int]] = {}
    for length, trace in _launched(capture):
        lines = [frame.line for frame in trace.python if frame.file == file] if trace else []
        for line in set(lines):
            row = found.setdefault(line, {"self_ns": 0, "inclusive_ns": 0, "kernel_count": 0})
            row["self_ns"] += length * (line == lines[0])
            row["inclusive_ns"] += length
            row["kernel_count"] += 1
    return found


def waiting_lines(capture: str, file: str) -> list[dict[str, int]]:
    """The lines of a file at which the host waits for the device, and what that costs the device.

    A wait is a backtrace whose name is in BLOCKING. Its line is the one of the innermost frame in this
    file; waits without such a frame count for line 0. After a wait the device has nothing to do until
    the host gave it something: idle is the time from the wait's end to the start of the next operation
    (kernel, copy or memset), or to the end of the next wait to end, of any line, if that comes first
    (so no moment counts twice). It is 0 if an operation is running as the wait ends (start <= end of
    the wait < end), or none follows.
    Returns a row for each line: "line", "wait_count", "blocked_ns" (the sum of the waits) and "idle_ns",
    ordered by idle_ns from the largest, then by line.
    Raises as `coverage` does.
    """
    with captures.open(capture) as recording:
        frames = (recording.kernels, recording.copies, recording.memsets)
    operations = sorted(
        row for frame in frames for row in frame.select("start_ns", "end_ns").rows()
    )
    _launched(capture)
    rows: dict[int, dict[str, int]] = {}
    waits = [trace for trace in backtraces(capture) if trace.name in BLOCKING]
    waits.sort(key=lambda trace: trace.end_ns)
    for number, trace in enumerate(waits):
        line = next((frame.line for frame in trace.python if frame.file == file), 0)
        row = rows.setdefault(line, {"line": line, "wait_count": 0, "blocked_ns": 0, "idle_ns": 0})
        row["wait_count"] += 1
        row["blocked_ns"] += trace.end_ns - trace.start_ns
        running = any(start <= trace.end_ns < end for start, end in operations)
        after = [start for start, _ in operations if start >= trace.end_ns]
        if after and not running:
            later = [other.end_ns for other in waits[number + 1 :]]
            row["idle_ns"] += min([after[0], *later]) - trace.end_ns
    return sorted(rows.values(), key=lambda row: (-row["idle_ns"], row["line"]))


def line_verdict(capture: str, file: str, floor_ratio: float = 0.01) -> Finding:
    """Whether waits in the lines of a file keep the device idle, as a Finding.

    The window goes from the start of the first to the end of the last operation of the device. What
    would be saved, at least, is the idle time of `waiting_lines` over all lines. `sync_bound` if it is
    no less than floor_ratio of the window, else `healthy`; the subject is "device:0".
    Evidence: "recoverable_ns", "window_ns", "wait_count" (of all lines), "blocked_ns" (likewise) and
    "line_ns", the idle time of the line with the most of it (0 if there is no wait). The
    recommendation names that line as "FILE:LINE"; it is "none" only if healthy.
    Raises as `coverage` does, and ValueError unless floor_ratio lies above 0 and below 1.
    """
    if not 0 < floor_ratio < 1:
        raise ValueError("floor_ratio must lie above 0 and below 1")
    rows = waiting_lines(capture, file)
    with captures.open(capture) as recording:
        frames = (recording.kernels, recording.copies, recording.memsets)
    operations = [row for frame in frames for row in frame.select("start_ns", "end_ns").rows()]
    window = max(end for _, end in operations) - min(start for start, _ in operations)
    saved = sum(row["idle_ns"] for row in rows)
    evidence = {
        "recoverable_ns": saved,
        "window_ns": window,
        "wait_count": sum(row["wait_count"] for row in rows),
        "blocked_ns": sum(row["blocked_ns"] for row in rows),
        "line_ns": rows[0]["idle_ns"] if rows else 0,
    }
    if saved < floor_ratio * window:
        return Finding("healthy", "device:0", evidence)
    advice = f"do not wait for the device at {file}:{rows[0]['line']} in each step"
    return Finding("sync_bound", "device:0", evidence, advice)
