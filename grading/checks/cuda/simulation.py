"""When everything of a recorded schedule would run, given durations: one copy engine a direction, one for compute."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from grading.checks.cuda.schedule import (
    FLOAT_BYTES,
    LEGACY_STREAM,
    Operation,
    Schedule,
    stream_name,
)
from profiling_lab.analysis import intervals
from profiling_lab.analysis.intervals import Intervals


@dataclass(frozen=True)
class Costs:
    """How long a whole batch takes at each step, ns; parts of a batch take their share.

    A copy of pageable memory takes `pageable_ratio` times as long and holds up the host. The defaults
    are medians of the captures cuda_pipeline_baseline and cuda_pipeline_improved (H200, 32 MiB a
    batch); the host's times are round numbers.
    """

    batch_bytes: int
    copy_in_ns: float = 660_000.0
    copy_out_ns: float = 676_000.0
    kernels_ns: float = 697_000.0
    pageable_ratio: float = 3.0
    host_access_ns: float = 30_000.0
    call_ns: float = 3_000.0
    allocation_ns: float = 500_000.0

    # normalise and postprocess only move data; the arithmetic is in infer.
    shares: ClassVar[dict[str, float]] = {"normalise": 0.05, "infer": 0.9, "postprocess": 0.05}

    def of(self, operation: Operation) -> float:
        share = operation.bytes / self.batch_bytes
        if operation.kind == "copy":
            ratio = self.pageable_ratio if operation.pageable else 1.0
            per_batch = {"H2D": self.copy_in_ns, "D2H": self.copy_out_ns, "H2H": self.copy_in_ns}
            return per_batch.get(operation.direction, 0.02 * self.copy_in_ns) * ratio * share
        if operation.kind == "memset":
            return 0.02 * self.copy_in_ns * share
        if operation.kind == "kernel":
            share = operation.elements * FLOAT_BYTES / self.batch_bytes
            return self.kernels_ns * self.shares.get(operation.kernel, 0.05) * share
        return 0.0

    def ideal_ns(self, batches: int) -> float:
        """One batch through all steps, then one more each time the slowest step is done."""
        steps = (self.copy_in_ns, self.kernels_ns, self.copy_out_ns)
        return sum(steps) + (batches - 1) * max(steps) + 2 * self.host_access_ns

    def serial_ns(self, batches: int) -> float:
        """Every step of every batch after the one before, with page-locked memory."""
        steps = self.copy_in_ns + self.kernels_ns + self.copy_out_ns
        return batches * (steps + 2 * self.host_access_ns)


@dataclass
class Timed:
    """A device operation in simulated time, ns, and what must be complete before it starts."""

    operation: Operation
    issued: float
    engine: str | None
    predecessors: list[Timed]
    start: float | None = None
    end: float | None = None

    def ready(self) -> float:
        return max([self.issued, *(p.end or 0.0 for p in self.predecessors)])


ENGINES = {"H2D": "copies in", "D2H": "copies out", "D2D": "kernels", "H2H": "host copies"}


@dataclass
class Simulation:
    """The measured part in simulated time. Times in ns from its beginning."""

    makespan_ns: float
    timed: list[Timed]
    host_blocked_ns: Counter[str]

    def busy_ns(self, *engines: str) -> float:
        """Time in which all the named engines work at once."""
        at_once = functools.reduce(intervals.intersection, map(self._working, engines))
        return float((at_once.ends_ns - at_once.starts_ns).sum())

    def _working(self, engine: str) -> Intervals:
        done = [t for t in self.timed if t.engine == engine and t.end is not None]
        starts, ends = [t.start for t in done], [t.end for t in done]
        return intervals.union(Intervals(np.array(starts, float), np.array(ends, float)))

    def waits_ns(self, engine: str) -> Counter[str]:
        """For how long the operations of an engine left it idle, by what they waited for."""
        waits: Counter[str] = Counter()
        free = 0.0
        for t in sorted(
            (t for t in self.timed if t.engine == engine), key=lambda t: t.start or 0.0
        ):
            start = t.start or 0.0
            if start > free:
                waits[self._binding(t)] += round(start - free)
            free = max(free, t.end or 0.0)
        return waits

    @staticmethod
    def _binding(timed: Timed) -> str:
        last = timed
        while True:  # follow events and waits, which take no time, to what they stand for
            before = [p for p in last.predecessors if (p.end or 0.0) >= (last.start or 0.0)]
            if not before:
                break
            last = before[0]
            if last.engine is not None:
                return f"{last.operation.name} in {stream_name(last.operation.stream or 0)}"
        return "the host, which had not issued it yet"


def simulate(schedule: Schedule, costs: Costs) -> Simulation:
    """Run the measured part of a schedule on one copy engine a direction and one compute engine."""
    streams: dict[int, list[Timed]] = {}  # all operations of a stream, in order
    waiting: dict[int, list[Timed]] = {}  # those not started yet
    events: dict[int, Timed] = {}
    free: defaultdict[str, float] = defaultdict(float)
    timed: list[Timed] = []
    blocked: Counter[str] = Counter()
    now = 0.0

    def commit(until: float | None, target: Timed | None = None) -> None:
        """Start operations in the order of their starts, up to a time or until `target` has one."""
        while target is None or target.end is None:
            ready = [
                (max(queue[0].ready(), free[queue[0].engine or ""]), queue[0].operation.line, queue)
                for queue in waiting.values()
                if queue and all(p.end is not None for p in queue[0].predecessors)
            ]
            start, _, queue = min(ready, key=lambda r: r[:2], default=(0.0, 0, None))
            if queue is None or (until is not None and start > until):
                return
            first = queue.pop(0)
            first.start = start
            first.end = start + costs.of(first.operation)
            if first.engine:
                free[first.engine] = first.end

    def issue(operation: Operation) -> Timed:
        stream = operation.lane[1]
        predecessors = streams.get(stream, [])[-1:]
        if stream == LEGACY_STREAM:
            others = [s for s in streams if s != stream and schedule.is_blocking(s)]
        else:
            others = [LEGACY_STREAM] if schedule.is_blocking(stream) else []
        for other in others:
            predecessors = predecessors + streams.get(other, [])[-1:]
        if operation.kind == "wait" and operation.event in events:
            predecessors = [*predecessors, events[operation.event]]
        engine = None
        if operation.kind == "copy":
            engine = ENGINES[operation.direction]
        elif operation.kind in ("kernel", "memset"):
            engine = "kernels"
        new = Timed(operation, now, engine, predecessors)
        streams.setdefault(stream, []).append(new)
        waiting.setdefault(stream, []).append(new)
        timed.append(new)
        if operation.kind == "record" and operation.event is not None:
            events[operation.event] = new
        return new

    def wait_for(target: Timed | None, why: str) -> None:
        nonlocal now
        if target is None:
            return
        commit(None, target)
        end = target.end if target.end is not None else now
        if end > now:
            blocked[why] += round(end - now)
            now = end

    phase = 0
    for line in schedule.lines:
        kind = line["kind"]
        if kind == "marker":
            phase = 1 if line["name"] == "begin" else 2
            continue
        if phase != 1 or kind == "refused":
            continue
        operation = schedule.by_line.get(line["line"])
        in_stream = line["host_function"] >= 0
        if not in_stream:
            commit(now)
            now += costs.host_access_ns if kind == "host_access" else costs.call_ns
        if kind == "synchronize_stream":
            commit(now)
            wait_for((streams.get(line["stream"]) or [None])[-1], line["function"])
        elif kind == "synchronize_event":
            wait_for(events.get(line["event"]), line["function"])
        elif kind in ("synchronize_device", "allocate", "release"):
            if kind != "synchronize_device" and line["stream"] >= 0:
                continue
            for queue in list(streams.values()):
                wait_for(queue[-1], line["function"])
            if kind != "synchronize_device":
                now += costs.allocation_ns
                blocked[line["function"]] += round(costs.allocation_ns)
        elif operation is not None and operation.stream is not None and not in_stream:
            new = issue(operation)
            if kind == "copy" and (operation.pageable or not line["async"]):
                memory = " of pageable memory" if operation.pageable else ""
                wait_for(new, f"{line['function']}{memory}")
    commit(None)
    ends = [t.end for t in timed if t.end is not None]
    return Simulation(max([now, *ends]), timed, blocked)
