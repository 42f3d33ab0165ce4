"""Python backtraces: which line launched this?

With `--cudabacktrace=all --python-backtrace=cuda` and CPU sampling on, Nsight Systems records the stack of
each CUDA call: the native frames and the Python frames. You use them to assign the device's time to lines
of a program. The lesson is `README.md` in this folder, hints are in `hints.md`.

`backtraces(capture)` is given. Read the tables of a recording as in the other exercises:

    with captures.open(capture) as recording:
        recording.kernels        # a polars DataFrame; see `help(captures.NsysCapture)`

A kernel belongs to the backtrace with the same process and correlation. Each recording has one device.
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
    """A Python frame: the function, its file (without folders) and the line in it."""

    function: str
    file: str
    line: int


class Backtrace(NamedTuple):
    """The stack of one CUDA call. Both lists of frames begin with the innermost one.

    name: of the call, without a version ("cudaLaunchKernel").
    native: the names of native functions.
    python: empty if the call came from a thread without Python code.
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

    In the export, a stack is a second row of the call, of event class 67. Its Python frames are an NVTX mark
    with the same thread and start; the mark's JSON text has numbers of StringIds.
    Raises MissingTable if the recording has no stacks, or lacks a column.
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


def coverage(capture: str) -> dict[str, int]:
    """How much kernel time has a backtrace.

    Returns
        "kernel_count": number of kernels.
        "kernel_ns":    sum of the durations of all kernels.
        "native_ns":    the same for kernels whose launch has a backtrace with native frames.
        "python_ns":    the same for kernels whose launch has a backtrace with Python frames.
    Raises MissingTable as `backtraces` does, and EmptyCapture if there are no kernels.
    """
    raise NotImplementedError


def time_by_operator(capture: str) -> dict[str, int]:
    """Kernel time for each PyTorch operator that the program called, in ns.

    PyTorch enters an operator `linear` through a native function whose name begins with
    `at::_ops::linear::`, followed by `call(` or `redispatch(`. If a stack has several such frames, use the
    outermost one: it is the operator that the program, or autograd, called; the inner ones implement it.
    Kernels without such a frame, or without a backtrace, are counted under "".
    Raises the errors of `coverage`.
    """
    raise NotImplementedError


def time_by_line(capture: str, file: str) -> dict[int, dict[str, int]]:
    """Kernel time for each line of one Python file.

    file: its name without folders. A kernel's *own* line is the line of the innermost frame in this file: from
    there the program called a library.
    Returns line → {"self_ns": time of the kernels whose own line this is, "inclusive_ns": time of the kernels
    with this line anywhere in their stack (each kernel once, also with recursion), "kernel_count": number of
    kernels in inclusive_ns}. Kernels without a frame in this file are left out.
    Raises the errors of `coverage`.
    """
    raise NotImplementedError


def waiting_lines(capture: str, file: str) -> list[dict[str, int]]:
    """The lines of a file at which the host waits for the device, and how long the device is idle because of it.

    A wait is a backtrace whose name is in BLOCKING. Its line is the line of the innermost frame in this file,
    or 0 if it has no such frame. After a wait, the device has nothing to do until the host issues something.
    The idle time of a wait starts at the wait's end. It ends with the start of the next operation (kernel, copy
    or memset). If another wait, of any line, ends before that start, the idle time ends with that wait, so that
    no time counts twice. The idle time is 0 if an operation is running when the wait ends (start <= end of the
    wait < end), or if no operation follows.
    Returns a row for each line, ordered by idle_ns from the largest, then by line:
        "line",
        "wait_count": number of its waits.
        "blocked_ns": sum of their durations.
        "idle_ns":    sum of their idle times.
    Raises the errors of `coverage`.
    """
    raise NotImplementedError


def line_verdict(capture: str, file: str, floor_ratio: float = 0.01) -> Finding:
    """Whether waits in the lines of a file keep the device idle, as a Finding.

    The window goes from the start of the device's first operation to the end of its last one. As the saving use
    idle_ns of `waiting_lines`, added over all lines: a lower bound. The category is `sync_bound` if the saving
    is at least floor_ratio of the window, else `healthy`. The subject is "device:0".
    Evidence: "recoverable_ns" (the saving), "window_ns", "wait_count" and "blocked_ns" (both over all lines), and
    "line_ns", the largest idle time of a line (0 if there is no wait). The recommendation names that line as
    "FILE:LINE"; it is "none" only if healthy.
    Raises the errors of `coverage`, and ValueError unless floor_ratio is above 0 and below 1.
    """
    raise NotImplementedError
