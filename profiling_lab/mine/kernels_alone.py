"""For how long the kernels of a name ran while no other kernel did."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

from profiling_lab import captures
from profiling_lab.captures import Kind
from profiling_lab.findings import base_name
from profiling_lab.mine.questions import recording

if TYPE_CHECKING:
    from profiling_lab.captures import Part


def times_alone(part: Part) -> dict[str, int]:
    """By `base_name`, the time in ns in which kernels of a name run and no other kernel does."""
    spans = _kernel_spans(part)
    changes = sorted(
        [(start, 1, name) for start, _, name in spans] + [(end, -1, name) for _, end, name in spans]
    )
    out: dict[str, int] = defaultdict(int)
    running: dict[str, int] = defaultdict(int)
    before = 0
    for time_ns, change, name in changes:
        if len(running) == 1:
            out[next(iter(running))] += time_ns - before
        running[name] += change
        if not running[name]:
            del running[name]
        before = time_ns
    return dict(out)


def _kernel_spans(part: Part) -> list[tuple[int, int, str]]:
    if part.kind == Kind.TIMELINE:
        rows = recording(part).kernels.select("start_ns", "end_ns", "name").iter_rows()
        return [(start, end, base_name(name)) for start, end, name in rows]
    # Ranks run the same kernels: one of them says it for all.
    file = part.path if part.kind == Kind.TRACE else min(captures.rank_traces(part.path).items())[1]
    out = []
    for event in json.loads(captures.text(file, "trace.json"))["traceEvents"]:
        if event.get("cat") == "kernel" and "dur" in event:
            start = round(float(event["ts"]) * 1000)
            length = round(float(event["dur"]) * 1000)
            out.append((start, start + length, base_name(event["name"])))
    return out
