"""Where to look for a finding: the longest of what it speaks of, a sentence each, from the window's start."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from profiling_lab.analysis import columns, host_time, order, spent
from profiling_lab.analysis.columns import LOADER, DeviceOperations, HostCalls, Ranges
from profiling_lab.captures.kineto import STEP_RANGE
from profiling_lab.findings import CATEGORIES
from profiling_lab.units import format_ns

if TYPE_CHECKING:
    from profiling_lab.diagnosis.engine import Seen
    from profiling_lab.findings import Finding

COPIES = {"H2D": "Copy, host to device", "D2H": "Copy, device to host"}
MOST_GAPS = 100  # looked at, of a device: so few are set-up
_IN_COLLECTIVES = {"communication_bound", "rank_imbalance", "pipeline_bubble"}


def of(seen: Seen, finding: Finding) -> list[str]:
    """The places of a finding, the most telling first; empty for what is of no one place."""
    out = []
    if finding.category == "host_bound":
        out += _host_code(seen)
    found = _longest(seen, finding.category)
    if found is not None:
        words, start, end, where = found
        out.append(_said(seen, words, start, end) + (f", on {where}" if where else ""))
    if CATEGORIES[finding.category].in_gaps:
        out += _gap(seen, finding)
    return out


def _said(seen: Seen, words: str, start: int, end: int) -> str:
    return f"{words}: {format_ns(end - start)} at {format_ns(start - seen.window_ns[0])}"


def _longest(seen: Seen, category: str) -> tuple[str, int, int, str] | None:
    """In words, start, end and where: the longest of what a category speaks of."""
    recording = seen.recording
    work, calls = recording.operations, recording.calls
    words = CATEGORIES[category].place
    if category == "transfer_bound":
        codes = [recording.code(name) for name in COPIES]
        row = _best(seen, work, (work.kind == columns.COPY) & np.isin(work.name, codes))
    elif category in _IN_COLLECTIVES:
        known = np.array([bool(columns.COLLECTIVE.match(name)) for name in recording.names])
        row = _best(seen, work, known[work.name])
    else:
        row = None
    if row is not None:
        name = recording.names[int(work.name[row])]
        stream = recording.streams[int(work.stream[row])]
        place = f"GPU {stream[1]}, stream {stream[2]}"
        return (
            f"{words}: {COPIES.get(name, name)}",
            int(work.start[row]),
            int(work.end[row]),
            place,
        )
    if category == "sync_bound" and seen.saved.readback_count:
        row = _best(seen, calls, _reads_back(seen))
        if row is not None:
            name = recording.names[int(calls.name[row])]
            text = f"Longest reading back of a few bytes: {name}"
            return text, int(calls.start[row]), int(calls.end[row]), ""
    kinds = {"sync_bound": order.SYNCHRONIZE, "allocation_bound": order.ALLOCATION}
    if category in kinds and len(calls):
        row = _best(seen, calls, order.call_kinds(recording)[calls.name] == kinds[category])
        if row is not None:
            name = recording.names[int(calls.name[row])]
            return f"{words}: {name}", int(calls.start[row]), int(calls.end[row]), ""
    pattern = {"input_bound": LOADER, "recompilation": host_time.COMPILATION}.get(category)
    if pattern is None:
        return None
    known = np.array([bool(pattern.search(name)) for name in recording.names], dtype=bool)
    for table in (recording.ranges, recording.operators):
        row = _best(seen, table, known[table.name]) if len(table) else None
        if row is not None:
            name = recording.names[int(table.name[row])]
            return f"{words}: {name}", int(table.start[row]), int(table.end[row]), ""
    return None


def _reads_back(seen: Seen) -> np.ndarray:
    """Per call, whether it issues a copy of a few bytes from the device."""
    made, copies = seen.time.order, seen.time.links
    read = copies.few_bytes & ~copies.upload
    issuing = made.on[(made.why == order.ISSUED) & read[made.to]]
    out = np.zeros(len(seen.recording.calls), dtype=bool)
    out[made.row[issuing]] = True
    return out


def _best(
    seen: Seen, table: Ranges | DeviceOperations | HostCalls, chosen: np.ndarray
) -> int | None:
    """The longest of the chosen rows that touch the window."""
    start, end = seen.window_ns
    rows = np.flatnonzero(chosen & (table.start < end) & (table.end > start))
    return None if not len(rows) else int(rows[np.argmax(table.end[rows] - table.start[rows])])


def _gap(seen: Seen, finding: Finding) -> list[str]:
    kind, _, name = finding.subject.partition(":")
    told = [one for one in seen.spent if kind != "device" or str(one.device) == name] or seen.spent
    # What is set-up above all is not what the finding is of.
    setup = spent.IDLE.index(spent.SETUP)
    gaps = [
        (int(one.idle_parts[row].argmax() != setup), int(lengths[row]), one, row)
        for one in told
        for lengths in [one.idle.ends_ns - one.idle.starts_ns]
        for row in np.argsort(-lengths, kind="stable")[:MOST_GAPS].tolist()
    ]
    if not gaps:
        return []
    _, length, one, row = max(gaps, key=lambda gap: gap[:2])
    start = int(one.idle.starts_ns[row])
    besides = " besides set-up" if length < max(gap[1] for gap in gaps) else ""
    words = f"Longest idle gap of GPU {one.device}{besides}"
    return [_said(seen, words, start, start + length)]


def _host_code(seen: Seen) -> list[str]:
    """The longest time between CUDA calls of a thread, and what that thread was in meanwhile.

    That is the innermost operator, range or Python function that takes at least half of it.
    """
    recording, calls = seen.recording, seen.recording.calls
    begin, end = seen.window_ns
    best = (0, 0, 0, -1)
    made, setup = seen.time.order, np.zeros(len(calls), dtype=np.int64)  # before each call
    known = (made.thread >= 0) & (made.row >= 0)
    setup[made.row[known]] = seen.time.lead_setup[known]
    for thread in np.unique(calls.thread).tolist():
        own = np.flatnonzero((calls.thread == thread) & (calls.end > begin) & (calls.start < end))
        if len(own) < 2:
            continue
        reach = np.maximum.accumulate(calls.end[own])[:-1]
        gaps = calls.start[own][1:] - reach
        gaps = np.where(2 * setup[own][1:] < gaps, gaps, 0)
        at = int(np.argmax(gaps))
        best = max(best, (int(gaps[at]), int(reach[at]), int(reach[at] + gaps[at]), thread))
    length, start, until, thread = best
    if length <= 0:
        return []
    tables = [recording.ranges, recording.operators]
    if seen.trace is not None:
        tables.append(seen.trace.python)
    inside = []
    for table in tables:
        shared = np.minimum(table.end, until) - np.maximum(table.start, start)
        for row in np.flatnonzero((table.thread == thread) & (2 * shared >= length)).tolist():
            name = recording.names[int(table.name[row])]
            if not STEP_RANGE.match(name):
                inside.append((int(table.end[row] - table.start[row]), name))
    where = f", most of it in {min(inside)[1]}" if inside else ""
    return [_said(seen, "Longest time between CUDA calls", start, until) + where]
