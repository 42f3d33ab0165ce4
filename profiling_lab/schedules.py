"""A small stand-in for a device with two copy engines: what a schedule of copies and kernels comes to.

    >>> from profiling_lab import schedules
    >>> one = {"operation": "copy_in", "batch": 0, "slot": 0, "stream": 0, "after": []}
    >>> schedules.run([one], {"copy_in": 10, "compute": 10, "copy_out": 10})
    [(0, 10)]

A schedule is a list of operations in the order in which the host issues them, as `pipeline_schedule` of `ex_30` describes
it. The host takes no time and waits for nothing. What this cannot show: the cost of issuing, memory that is not
pinned, kernels side by side, and copies that share a link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

ENGINES = ("copy_in", "compute", "copy_out")
KEYS = {"operation", "batch", "slot", "stream", "after"}


def problem(schedule: Sequence[Any], batches: int, slots: int) -> str:
    """What of a schedule cannot be issued, or is not done once and whole, in words; "" if all is."""
    done = set()
    for place, one in enumerate(schedule):
        where = f"place {place}, {one!r}"
        if type(one) is not dict or set(one) != KEYS:
            return f"{where}: it needs the keys {', '.join(sorted(KEYS))}, and no other"
        numbers = [one["batch"], one["slot"], one["stream"]]
        after = one["after"]
        if type(after) not in (list, tuple) or any(type(n) is not int for n in [*numbers, *after]):
            return f"{where}: batch, slot and stream are whole numbers, after is a list of such"
        if one["operation"] not in ENGINES or not 0 <= one["batch"] < batches:
            return f"{where}: there is no such operation, or no such batch of {batches}"
        if not 0 <= one["slot"] < slots:
            return f"{where}: there are slots 0 to {slots - 1}"
        if any(not 0 <= earlier < place for earlier in after):
            return f"{where}: an event must be recorded before a stream can wait for it: earlier places only"
        if (what := (one["operation"], one["batch"])) in done:
            return f"{where}: done a second time"
        done.add(what)
    for batch in range(batches):
        if lacking := [name for name in ENGINES if (name, batch) not in done]:
            return f"batch {batch} lacks {', '.join(lacking)}"
        if len({one["slot"] for one in schedule if one["batch"] == batch}) > 1:
            return f"batch {batch} is spread over several slots"
    return ""


def run(schedule: Sequence[dict[str, Any]], took_ns: Mapping[str, int]) -> list[tuple[int, int]]:
    """Start and end of each operation, in the order of the schedule, in the unit of `took_ns`.

    took_ns: how long each of ENGINES takes for a batch.
    """
    times: list[tuple[int, int]] = []
    stream_end: dict[int, int] = {}
    engine_end: dict[str, int] = {}
    for one in schedule:
        engine, stream = one["operation"], one["stream"]
        before = [stream_end.get(stream, 0), engine_end.get(engine, 0)]
        start = max([*before, *(times[place][1] for place in one["after"])])
        end = stream_end[stream] = engine_end[engine] = start + took_ns[engine]
        times.append((start, end))
    return times


def race(schedule: Sequence[dict[str, Any]]) -> str:
    """Two operations on one buffer that nothing orders, in words; "" if there are none.

    Only streams and events order operations: that an engine happens to be busy does not.
    """
    before: list[set[int]] = []  # per operation, the places of all that is ordered before it
    last: dict[int, int] = {}
    for place, one in enumerate(schedule):
        direct = {*one["after"], *([last[one["stream"]]] if one["stream"] in last else [])}
        before.append(direct.union(*(before[earlier] for earlier in direct)))
        last[one["stream"]] = place
    place_of = {(one["operation"], one["batch"]): place for place, one in enumerate(schedule)}
    for writes, reads, buffer in (
        ("copy_in", "compute", "input"),
        ("compute", "copy_out", "output"),
    ):
        for (operation, batch), reader in place_of.items():
            if operation != reads:
                continue
            writer, slot = place_of[writes, batch], schedule[reader]["slot"]
            if writer not in before[reader]:
                return f"{reads} of batch {batch} reads the {buffer} that {writes} may not have written yet"
            for (other, later), place in place_of.items():
                if other != writes or later == batch or schedule[place]["slot"] != slot:
                    continue
                if place not in before[writer] and reader not in before[place]:
                    return (
                        f"{writes} of batch {later} may overwrite the {buffer} of slot {slot} "
                        f"before {reads} of batch {batch} has read it"
                    )
    return ""
