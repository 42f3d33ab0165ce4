"""Host time by call path: the tree that a flame graph draws, from a recording with stacks."""

from __future__ import annotations

import html
import json
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from itertools import groupby, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from profiling_lab.captures.kineto import STEP_RANGE
from profiling_lab.captures.nsys_schema import RUNTIME
from profiling_lab.captures.sqlite_tables import VERSION_SUFFIX, connect
from profiling_lab.reports.model import clean_text

if TYPE_CHECKING:
    from profiling_lab.analysis.kineto_columns import Trace
    from profiling_lab.captures.nsys_export import NsysCapture

LEAST_RATIO = 1e-3  # of all time: narrower frames are below a pixel
NAME_CHARACTERS = 200
CUDA_LIBRARIES = ("libcuda", "libcupti")  # where a call of CUDA ends: its name is enough


def of_trace(trace: Trace, window_ns: tuple[int, int]) -> dict[str, Any]:
    """Functions, operators and CUDA calls of all threads, by call path; {} for a trace without stacks.

    A frame: "n" its name, "v" its host time in the window with all inside in ns, "k" its kind as the timeline
    draws it, "c" the frames inside.
    """
    if not len(trace.python):
        return {}
    recording = trace.recording
    tables = (("python", trace.python), ("operator", recording.operators), ("api", recording.calls))
    columns = [
        np.concatenate([getattr(table, name) for _, table in tables]).tolist()
        for name in ("start", "end", "thread", "name")
    ]
    kinds = [kind for kind, table in tables for _ in range(len(table))]
    starts, ends, threads, names = columns
    order = np.lexsort((-np.array(ends), np.array(starts), np.array(threads))).tolist()
    root: dict[Any, Any] = {"v": 0, "c": {}}
    open_frames: list[tuple[int, dict[Any, Any]]] = []
    thread = None
    for row in order:
        length = min(ends[row], window_ns[1]) - max(starts[row], window_ns[0])
        if length <= 0 or STEP_RANGE.match(recording.names[names[row]]):
            continue
        if threads[row] != thread:
            thread, open_frames = threads[row], []
        while open_frames and open_frames[-1][0] <= starts[row]:
            open_frames.pop()
        above = open_frames[-1][1] if open_frames else root
        key = names[row], kinds[row]
        frame = above["c"].setdefault(key, {"v": 0, "c": {}})
        frame["v"] += length
        root["v"] += 0 if open_frames else length
        open_frames.append((ends[row], frame))
    return _plain("all threads", "other", root, LEAST_RATIO * root["v"], recording.names)


def of_stacks(capture: NsysCapture, window_ns: tuple[int, int]) -> dict[str, Any]:
    """The stacks of a recording of Nsight Systems, by call path.

    Python's samples where it took those, else the backtraces of CUDA calls, else native samples. A frame as in
    `of_trace`; "of" of the outermost says what was drawn. Of samples "v" counts them, and "u" says so. {} for a
    recording without stacks.
    """
    with closing(connect(capture.file)) as connection:
        if root := _sampled(_python_stacks(connection, capture, window_ns), "python"):
            return root
        calls = _calls(connection, capture, window_ns)
        if calls["v"]:
            name = "all CUDA calls with a backtrace"
            return _plain(name, "other", calls, LEAST_RATIO * calls["v"], None) | {"of": "calls"}
        return _sampled(_native_stacks(connection, capture, window_ns), "operator")


def _sampled(stacks: Iterable[list[str]], kind: str) -> dict[str, Any]:
    root: dict[Any, Any] = {"v": 0, "c": {}}
    for names in stacks:
        _add(root, [(name, kind) for name in names])
    whole = _plain("all samples", "other", root, LEAST_RATIO * root["v"], None)
    return whole | {"of": "samples", "u": "samples"} if root["v"] else {}


def _add(root: dict[Any, Any], frames: Iterable[tuple[str, str]], value: int = 1) -> None:
    """Count a stack of names and kinds, the outermost first."""
    frame = root
    frame["v"] += value
    for key in frames:
        frame = frame["c"].setdefault(key, {"v": 0, "c": {}})
        frame["v"] += value


def _calls(
    connection: sqlite3.Connection, capture: NsysCapture, window_ns: tuple[int, int]
) -> dict[Any, Any]:
    """The time of CUDA calls that have a backtrace (--cudabacktrace), by what Python or native code made them."""
    root: dict[Any, Any] = {"v": 0, "c": {}}
    if not (capture.has("CUDA_CALLCHAINS") and capture.has(RUNTIME, "callchainId")):
        return root
    query = (
        "SELECT c.id, s.value, m.value FROM CUDA_CALLCHAINS c JOIN StringIds s ON s.id = c.symbol "
        "LEFT JOIN StringIds m ON m.id = c.module ORDER BY c.id, stackDepth DESC"
    )
    native = dict(_paths(connection.execute(query)))
    python: dict[tuple[int, int], list[str]] = {}
    if capture.has("NVTX_EVENTS", "jsonText"):
        query = "SELECT globalTid, start, jsonText FROM NVTX_EVENTS WHERE jsonText IS NOT NULL"
        words = dict(connection.execute("SELECT id, value FROM StringIds"))
        for thread, start, text in connection.execute(query):
            if names := _python_frames(text, "Python Backtrace on CUDA", words):
                python[thread, start] = names
    # Of a call with a backtrace the second row has its number, not the one of the call itself.
    query = (
        f'SELECT r.start, r."end", r.globalTid, s.value, r.callchainId FROM {RUNTIME} r JOIN StringIds s '
        'ON s.id = r.nameId WHERE r.callchainId IS NOT NULL AND r."end" > ? AND r.start < ?'
    )
    for start, end, thread, name, chain in connection.execute(query, window_ns):
        call = re.sub(VERSION_SUFFIX, "", name)
        frames = [(name, "python") for name in python.get((thread, start), ())]
        if not frames:
            path = takewhile(
                lambda frame, call=call: frame != call and not frame.startswith(CUDA_LIBRARIES),
                native.get(chain, ()),
            )
            frames = [(frame, "operator") for frame in path]
        if frames:
            length = min(end, window_ns[1]) - max(start, window_ns[0])
            _add(root, [*frames, (call, "api")], length)
    return root


def _python_stacks(
    connection: sqlite3.Connection, capture: NsysCapture, window_ns: tuple[int, int]
) -> Iterator[list[str]]:
    """What Nsight Systems writes beside the ranges, an object of JSON for each sample (--python-sampling)."""
    if not capture.has("NVTX_EVENTS", "jsonText"):
        return
    words = dict(connection.execute("SELECT id, value FROM StringIds"))
    query = "SELECT jsonText FROM NVTX_EVENTS WHERE jsonText IS NOT NULL AND start BETWEEN ? AND ?"
    for (text,) in connection.execute(query, window_ns):
        if names := _python_frames(text, "Python Periodic Sampling", words):
            yield names


def _python_frames(text: str, key: str, words: Mapping[int, str]) -> list[str]:
    """The functions of a stack in JSON, the outermost first; [] for another kind of event, or one that was cut off."""
    try:
        frames = json.loads(text)[key]["Frames"]
        names = [(words[one["Function"]], words[one["File"]]) for one in frames]
    except (ValueError, KeyError, TypeError):
        return []
    return [f"{html.unescape(name)} ({file.rpartition('/')[2]})" for name, file in names[::-1]]


def _native_stacks(
    connection: sqlite3.Connection, capture: NsysCapture, window_ns: tuple[int, int]
) -> Iterator[list[str]]:
    """Threads on a processor (--sample=process-tree); frames without a name by their library."""
    if not (capture.has("SAMPLING_CALLCHAINS") and capture.has("COMPOSITE_EVENTS")):
        return
    query = (
        "SELECT e.id, s.value, m.value FROM COMPOSITE_EVENTS e JOIN SAMPLING_CALLCHAINS c ON e.id = c.id "
        "JOIN StringIds s ON s.id = c.symbol LEFT JOIN StringIds m ON m.id = c.module "
        "WHERE e.start BETWEEN ? AND ? ORDER BY e.id, stackDepth DESC"
    )
    for _, names in _paths(connection.execute(query, window_ns)):
        yield names


def _paths(rows: Iterable[tuple[int, str, str | None]]) -> Iterator[tuple[int, list[str]]]:
    """Stacks from rows of number, symbol and library, the outermost frame of each first."""
    for number, frames in groupby(rows, key=itemgetter(0)):
        names: list[str] = []
        for _, symbol, module in frames:
            name = module or symbol if symbol.startswith("0x") else symbol
            if not names or names[-1] != name:  # one frame for a library's unnamed ones
                names.append(name)
        yield number, names


def _plain(
    name: str, kind: str, frame: dict[Any, Any], least: float, names: Sequence[str] | None
) -> dict[str, Any]:
    # Frames of one path may overlap where a recording is torn; what is inside fills no more than what is around.
    inside = [
        _plain(names[code] if names else code, of, below, least, names)
        for (code, of), below in sorted(frame["c"].items(), key=lambda item: -item[1]["v"])
        if below["v"] >= least
    ]
    filled = sum(one["v"] for one in inside)
    return {
        "n": clean_text(name, NAME_CHARACTERS),
        "v": max(frame["v"], filled),
        "k": kind,
        **({"c": inside} if inside else {}),
    }
