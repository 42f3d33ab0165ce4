"""Host time by call path: the tree that a flame graph draws, from a recording with stacks."""

from __future__ import annotations

import html
import json
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Any

import numpy as np

from profiling_lab.captures.kineto import STEP_RANGE
from profiling_lab.captures.sqlite_tables import connect
from profiling_lab.reports.model import clean_text

if TYPE_CHECKING:
    from profiling_lab.analysis.kineto_columns import Trace
    from profiling_lab.captures.nsys_export import NsysCapture

LEAST_RATIO = 1e-3  # of all time: narrower frames are below a pixel
NAME_CHARACTERS = 200


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


def of_samples(capture: NsysCapture, window_ns: tuple[int, int]) -> dict[str, Any]:
    """The stacks that Nsight Systems sampled, by call path: Python's where it sampled those, else native ones.

    A frame as in `of_trace`, but "v" counts samples, and "u" of the outermost says so. {} for a recording without
    stacks.
    """
    with closing(connect(capture.file)) as connection:
        for stacks, kind in ((_python_stacks, "python"), (_native_stacks, "operator")):
            root: dict[Any, Any] = {"v": 0, "c": {}}
            for names in stacks(connection, capture, window_ns):
                _add(root, names, kind)
            if root["v"]:
                whole = _plain("all samples", "other", root, LEAST_RATIO * root["v"], None)
                return whole | {"u": "samples"}
    return {}


def _add(root: dict[Any, Any], names: Iterable[str], kind: str) -> None:
    """Count a stack, the outermost name first."""
    frame = root
    frame["v"] += 1
    for name in names:
        frame = frame["c"].setdefault((name, kind), {"v": 0, "c": {}})
        frame["v"] += 1


def _python_stacks(
    connection: sqlite3.Connection, capture: NsysCapture, window_ns: tuple[int, int]
) -> Iterator[list[str]]:
    """What Nsight Systems writes beside the ranges, an object of JSON for each sample (--python-sampling)."""
    if not capture.has("NVTX_EVENTS", "jsonText"):
        return
    words = dict(connection.execute("SELECT id, value FROM StringIds"))
    query = "SELECT jsonText FROM NVTX_EVENTS WHERE jsonText IS NOT NULL AND start BETWEEN ? AND ?"
    for (text,) in connection.execute(query, window_ns):
        try:
            frames = json.loads(text)["Python Periodic Sampling"]["Frames"]
            names = [(words[one["Function"]], words[one["File"]]) for one in frames]
        except (ValueError, KeyError, TypeError):
            continue  # another kind of event, or one that was cut off
        yield [f"{html.unescape(name)} ({file.rpartition('/')[2]})" for name, file in names[::-1]]


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
    names: list[str] = []
    last = None
    for sample, symbol, module in connection.execute(query, window_ns):
        if sample != last and names:
            yield names
            names = []
        last = sample
        name = module or symbol if symbol.startswith("0x") else symbol
        if not names or names[-1] != name:  # one frame for a library's unnamed ones
            names.append(name)
    if names:
        yield names


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
