"""Host time by call path: the tree that a flame graph draws, from a trace with stacks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from profiling_lab.captures.kineto import STEP_RANGE
from profiling_lab.reports.model import clean_text

if TYPE_CHECKING:
    from profiling_lab.analysis.kineto_columns import Trace

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


def _plain(
    name: str, kind: str, frame: dict[Any, Any], least: float, names: list[str]
) -> dict[str, Any]:
    # Frames of one path may overlap where a recording is torn; what is inside fills no more than what is around.
    inside = [
        _plain(names[code], of, below, least, names)
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
