"""The recorded order of dependencies: what each operation waited for, with times.

`read` turns a capture into a list of `Operation`s. Each names the operations that had to come first
and by how much, so that the recording can be played again with something changed: make an operation
cheaper, or drop a dependency, and compute anew when everything would have ended. What to change,
and what to conclude, is left to the caller.

What is read off the recording, and how:

* A host thread does one thing after the other: its CUDA calls, and its own code between them.
* A device operation cannot start before the call that issued it has submitted it (launch): that is
  about when the call returns, often a microsecond earlier. Nor can it start before the previous
  operation of its stream ended, or was as near to its end as in the recording (stream order), nor
  before the operations that an event makes its stream wait for (event), nor, for a copy, before the
  previous copy of the same direction on that device ended (copy engine).
* A thread that pauses while another one's CUDA calls fill the pause waits for that thread, which in
  turn was started by it (hand-over); see `PAUSE_NS` and `PAUSE_FILLED_RATIO`.
* A call that blocks ends only after the device operations that it waits for (wait). Asking again and
  again until the answer is yes is such a call, too. What a wait goes on for after memory was freed to a
  pool is the release of that memory; see `WAIT_RETURN_NS`.
* A thread that puts a function of the host into a stream can be told by it that work is done, and wait for
  that without a CUDA call. It does where its pauses follow what the device does; see `TOLD_SLOPE_ERROR`.
* A function of the host that was put into a stream is not recorded. An operation that starts later
  than all of the above allows, issued after such a function, waited for it, if the device did nothing
  else meanwhile.
* A kernel that touches managed memory which is not there stands still while it comes. That part of it, as
  far as the recording shows (--cuda-um-gpu-page-faults=true), is a copy before the rest of the kernel.
* Whatever else delayed an operation is kept as it was recorded, in `delay_ns`.

Played without a change, the list gives back the recorded times exactly. Limits: a dependency that
left no trace (a queue between two host threads, say) is kept only as recorded delay;
and without --cuda-event-trace=true events between streams are not seen.

Sources: CUDA C++ Programming Guide, "Asynchronous Concurrent Execution"; CUDA Runtime API, "API
synchronization behavior"; correlation of calls and device operations as CUPTI documents it.
"""

# Long because every rule above works on the same drafts, one after the other.

from __future__ import annotations

import bisect
import functools
import gc
import itertools
import re
import statistics
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from profiling_lab.errors import EmptyCapture

if TYPE_CHECKING:
    import polars as pl

# What a host call does, by its name. Order matters: the first pattern that matches wins.
CALL_KINDS = (
    ("synchronize", r"cuda(Stream|Device|Event|Thread)Synchronize|cu(Stream|Event|Ctx)Synchronize"),
    ("launch", r"cudaLaunch.*|cuLaunch.*|cu(da)?GraphLaunch"),
    ("copy_call", r"cu(da)?Memcpy.*|cu(da)?Memset.*"),
    ("allocation", r"cuda(Malloc|Free|HostAlloc|HostRegister|HostUnregister).*|cuMem(Host)?(Alloc|Free).*"
     r"|cuMem(Create|Release|Map|Unmap|SetAccess|AddressReserve|AddressFree|GetAllocationGranularity).*"),
)  # fmt: skip
DEVICE_KINDS = ("kernel", "graph", "copy", "memset")
# A thread that issues no call for this long, while one other thread's calls fill at least this share
# of the time, is taken to wait for that thread.
PAUSE_NS = 100_000
PAUSE_FILLED_RATIO = 0.5

# Copies that cross the link between host and device; others, and memsets, are work on the device.
LINK_COPIES = ("H2D", "D2H", "H2A", "A2H", "H2H")
# A pool of cudaMallocAsync gives memory back to the system in the next synchronizing call, unless it is told
# to keep it (CUDA Runtime API, cudaMemPoolAttrReleaseThreshold). Without that, such calls of the course's
# recordings return 1 to 39 µs after the operation ended that they wait for: what is longer is the release.
WAIT_RETURN_NS = 40_000
FREE_TO_POOL = {"cudaFreeAsync", "cuMemFreeAsync"}
# Calls that put a function of the host into a stream: what follows waits for it, and no tool records it.
HOST_FUNCTION_CALLS = {
    f"{api}{call}" for api in ("cuda", "cu") for call in ("LaunchHostFunc", "StreamAddCallback")
}
# A pause behind such a call is the program's own code, or a wait until it is told. Own code takes as long as
# it takes, whenever the device is done with what another thread issues meanwhile; a wait gets longer by
# what that takes longer. So over the pauses of a thread the slope of the one over the other is 0 or 1: a
# thread waits if it is nearer to 1, and if both are two standard errors from the middle or more.
TOLD_SLOPE_ERROR = 0.25
TOLD_LEAST = 10  # pauses, for the error to be known
# What a call that asks whether work is done returns while it is not (CUDA Runtime and Driver API).
NOT_READY = 600
QUERIES = {"cudaEventQuery", "cudaStreamQuery", "cuEventQuery", "cuStreamQuery"}

HOST_KINDS = (
    "host_code",
    "launch",
    "copy_call",
    "synchronize",
    "allocation",
    "wait",
    "host_function",
)

# Least time between two operations of a stream that is never empty; a recording of work that queues
# shows it. Measured between queued kernels on an H200: see `tests/harness/test_dependencies.py`.
BACK_TO_BACK_NS = 1_000


@dataclass(frozen=True, slots=True)
class Dependency:
    """One reason why an operation could not start earlier.

    on: index of the earlier operation. at: "start" or "end" of it. lag_ns: least time between that
    moment and the start of the dependent one (negative where a call returns before its copy ends, or
    a kernel begins while the one before it finishes).
    why: "program order", "hand-over", "launch", "stream order", "event", "copy engine" or "wait".
    """

    on: int
    at: str
    lag_ns: int
    why: str


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that the host or the device did.

    index: its place in the list; every dependency is on a smaller index.
    kind: on the host "host_code" (time between two CUDA calls, and calls that are none of the
    following), "launch" (issues kernels, memsets or copies inside the device), "copy_call" (issues a copy
    that crosses the link), "synchronize", "allocation", "wait" (a call of one of the other kinds
    holds the host up here), "host_function" (a function of the host that a stream has to wait for); on
    the device "kernel", "graph", "copy", "memset".
    name: of the kernel or call; a copy's is its kind (H2D, D2H, …).
    where: "thread:<id>" or "device:<d>/stream:<s>".
    device: number of the device, -1 on the host.
    start_ns, duration_ns: as recorded; a blocking call's duration is its own cost, its waiting is
    a separate operation of kind "wait" and no duration that follows it.
    after: what it waited for. delay_ns: time that none of these explains.
    waits_in: for a "wait" the kind of the call that waits: "synchronize" (or, without a call, until the
    thread is told), "copy_call" (a blocking copy) or "allocation" (a release that waits for the device);
    "" for everything else.
    resumes: True on the host from the end of a "wait" up to and including the next call that issues work
    ("launch" or "copy_call"). However calls are bundled, that one has to be made: what it issues may
    depend on what was waited for.
    """

    index: int
    kind: str
    name: str
    where: str
    device: int
    start_ns: int
    duration_ns: int
    after: tuple[Dependency, ...] = ()
    delay_ns: int = 0
    waits_in: str = ""
    resumes: bool = False

    @property
    def end_ns(self) -> int:
        """The recorded end."""
        return self.start_ns + self.duration_ns


@functools.cache  # of some dozen names, asked for at each call
def call_kind(name: str) -> str:
    """What a CUDA call does, by its name without version suffix: one of CALL_KINDS, or "call"."""
    for kind, pattern in CALL_KINDS:
        if re.fullmatch(pattern, name):
            return kind
    return "call"


class Recording(Protocol):
    """What the order is read off: tables with the columns of `NsysCapture`, ordered by start."""

    @property
    def file(self) -> Path | str:
        """What messages call the recording."""

    @property
    def derived(self) -> dict[Any, Any]:
        """Where what was computed from it is kept."""

    @property
    def api_calls(self) -> pl.DataFrame:
        """The calls of the host."""

    @property
    def device_operations(self) -> pl.DataFrame:
        """Kernels, graph launches, copies and memsets."""

    @property
    def copies(self) -> pl.DataFrame:
        """Of the copies, where from and where to."""

    @property
    def synchronizations(self) -> pl.DataFrame:
        """What a call waited for."""

    @property
    def event_records(self) -> pl.DataFrame:
        """Which call recorded which event."""


def read(capture: Recording, window_ns: tuple[int, int] | None = None) -> list[Operation]:
    """The operations of a capture, ordered so that each depends on earlier ones only.

    window_ns: keep the host calls that start inside [start, end) and the device operations that
    these issued; without it, all but the host calls before the first one that issued device work.
    Raises EmptyCapture if no device operation is left.
    """
    key = "dependencies", window_ns
    if key not in capture.derived:
        capture.derived[key] = _Builder(capture, window_ns).build()
    operations: list[Operation] = capture.derived[key]
    if not any(operation.kind in DEVICE_KINDS for operation in operations):
        raise EmptyCapture(f"{capture.file}: no device operation was issued in this window")
    return list(operations)


def _handoffs(calls: list[dict]) -> tuple[dict[int, tuple], dict[int, tuple]]:
    """Pauses in which a thread waited for another one: PyTorch's backward pass, for example.

    A pause of a thread counts as such if it is long, another thread of the process issued CUDA calls
    in it and neither right before nor right after, and these fill most of it. Returns, by the id of
    a call: for the first call in such a pause, the (process, thread) that pauses; for the call that
    ends the pause, the (process, thread) that was waited for.
    """
    threads: dict[tuple, list[dict]] = defaultdict(list)
    for row in calls:
        threads[row["process"], row["thread"]].append(row)
    starts = {key: [row["start_ns"] for row in rows] for key, rows in threads.items()}
    begins: dict[int, tuple] = {}
    resumes: dict[int, tuple] = {}
    for key, rows in threads.items():
        for before, after in itertools.pairwise(rows):
            pause_start, pause_end = before["end_ns"], after["start_ns"]
            if pause_end - pause_start < PAUSE_NS:
                continue
            for other, others in threads.items():
                if other == key or other[0] != key[0]:
                    continue
                first = bisect.bisect_left(starts[other], pause_start)
                last = bisect.bisect_left(starts[other], pause_end) - 1
                if last < first or others[last]["end_ns"] > pause_end:
                    continue
                if first and others[first - 1]["end_ns"] > pause_start:
                    continue
                filled = others[last]["end_ns"] - others[first]["start_ns"]
                if filled >= PAUSE_FILLED_RATIO * (pause_end - pause_start):
                    begins[id(others[first])] = key
                    resumes[id(after)] = other
    return begins, resumes


def _follow(causes: list[int], effects: list[int]) -> bool:
    """Whether effects grow by as much as their causes do; see TOLD_SLOPE_ERROR."""
    if len(causes) < TOLD_LEAST or len(set(causes)) == 1:
        return False
    slope, least = statistics.linear_regression(causes, effects)
    rest = sum((y - least - slope * x) ** 2 for x, y in zip(causes, effects, strict=True))
    middle = statistics.fmean(causes)
    error_squared = rest / (len(causes) - 2) / sum((x - middle) ** 2 for x in causes)
    return abs(slope - 1) < 0.5 and error_squared <= TOLD_SLOPE_ERROR**2


def _polls_joined(calls: list[dict]) -> list[dict]:
    """The calls, with each row of queries from "not ready" to "ready" as one call that waits.

    A thread that asks again and again, with no other call in between, until the answer is yes,
    waits as much as one in a synchronizing call. Such a call bears "polls"; its correlation is the
    last query's.
    """
    out: list[dict] = []
    asking: dict[tuple, list[int]] = {}  # by thread: the places in `out` of its row of queries
    gone: set[int] = set()
    for row in calls:
        key = row["process"], row["thread"]
        if row["name"] not in QUERIES:
            asking.pop(key, None)
        elif row.get("return_value") == NOT_READY:
            asking.setdefault(key, []).append(len(out))
        elif places := asking.pop(key, None):
            first = out[places[0]]
            out[places[0]] = first | {
                "end_ns": row["end_ns"],
                "duration_ns": row["end_ns"] - first["start_ns"],
                "correlation": row["correlation"],
                "polls": True,
            }
            gone.update(places[1:])
            continue
        out.append(row)
    return [row for place, row in enumerate(out) if place not in gone]


@dataclass(slots=True, eq=False)
class _Draft:
    """An operation under construction; `after` points to other drafts, in the end to their places."""

    kind: str
    name: str
    where: str
    device: int
    start_ns: int
    duration_ns: int
    sequence: int
    after: list[tuple[Any, str, int, str]] = field(default_factory=list)
    waits_in: str = ""
    index: int = -1

    @property
    def end_ns(self) -> int:
        return self.start_ns + self.duration_ns


@dataclass(slots=True, eq=False)
class _DeviceRow:
    draft: _Draft
    stream: tuple[int, int, int]  # process, device, stream
    issued_ns: int
    pageable: bool = False


class _Builder:
    def __init__(self, capture: Recording, window_ns: tuple[int, int] | None) -> None:
        self.capture = capture
        self.window_ns = window_ns
        self.drafts: list[_Draft] = []
        self.rows: list[_DeviceRow] = []
        # per (process, correlation): the device rows that a call issued
        self.issued: dict[tuple[int, int], list[_DeviceRow]] = defaultdict(list)
        self.by_stream: dict[tuple[int, int, int], list[_DeviceRow]] = defaultdict(list)
        self.issue_times: dict[tuple[int, int, int], list[int]] = {}
        # per device: when pages of managed memory came that a kernel asked for
        self.faults: dict[int, list[list[int]]] = defaultdict(list)
        # per (process, thread): when it put a function of the host into a stream
        self.host_functions: dict[tuple[int, str], list[int]] = defaultdict(list)

    def build(self) -> list[Operation]:
        # Millions of objects and no cycles among them: looking for cycles took half of the time.
        collects = gc.isenabled()
        gc.disable()
        try:
            calls = self._outer_calls()
            self._device_rows(calls)
            self._host_threads(calls)
            del calls  # what is done with makes room: this decides how large a capture may be
            self._order_streams()
            return self._finish()
        finally:
            if collects:
                gc.enable()

    # -- host -----------------------------------------------------------------------------------

    def _outer_calls(self) -> list[dict]:
        """Calls that start in the window, without those made inside another call."""
        until: dict[tuple[int, int], int] = {}
        calls = []
        first_ns, last_ns = self.window_ns or (self._first_issue_ns(), None)
        for row in self.capture.api_calls.iter_rows(named=True):
            key = row["process"], row["thread"]
            nested = row["start_ns"] < until.get(key, -1)
            until[key] = max(until.get(key, -1), row["end_ns"])
            if first_ns <= row["start_ns"] and (last_ns is None or row["start_ns"] < last_ns):
                calls.append(row | {"nested": nested})
        return calls

    def _first_issue_ns(self) -> int:
        """The start of the first call that issued device work, or of the first device operation."""
        issuing = self.capture.api_calls.join(
            self.capture.device_operations, on=["process", "correlation"], how="semi"
        )
        starts = [
            frame["start_ns"][0]
            for frame in (issuing, self.capture.device_operations)
            if frame.height
        ]
        return min(starts)

    def _host_threads(self, calls: list[dict]) -> None:
        syncs = {
            (row["process"], row["correlation"]): row
            for row in self.capture.synchronizations.iter_rows(named=True)
        }
        recorded_at = self._event_records(calls)
        last: dict[tuple[int, int], _Draft] = {}
        freed: set[int] = set()  # processes that freed to a pool since they last waited
        self.stream_waits: dict[tuple[int, int, int], list[tuple[int, list[_DeviceRow]]]] = (
            defaultdict(list)
        )
        outer = _polls_joined([row for row in calls if not row["nested"]])
        begins, resumes = _handoffs(outer)
        told = self._told(outer)
        for row in outer:
            key = row["process"], row["thread"]
            where = f"thread:{row['thread']}"
            previous = last.get(key)
            handed: list[_Draft] = []
            if (waiting := begins.get(id(row))) is not None:
                # Another thread paused just now, for what this one is about to do.
                pausing = last[waiting]
                handed = [self._host_code(waiting[1], pausing, row["start_ns"])]
                last[waiting] = handed[0]
            elif (worker := resumes.get(id(row))) is not None and previous is not None:
                # This thread paused until another was done.
                done = last[worker]
                code = self._host_code(row["thread"], done, row["start_ns"])
                code.after.append((previous, "end", 0, "program order"))
                previous = code
            elif previous is not None and (ended := told.get(id(row))) is not None:
                previous = self._wait_to_be_told(previous, row["start_ns"], ended)
            elif previous is not None and row["start_ns"] > previous.end_ns:
                previous = self._host_code(row["thread"], previous, row["start_ns"])
            kind = self._kind(row)
            awaited = self._awaited(row, kind, syncs, recorded_at)
            awaited = [r for r in awaited if r.draft.end_ns > row["start_ns"]]
            own_ns = row["duration_ns"] if not awaited else 0
            call = self._add(kind, row["name"], where, row["start_ns"], own_ns)
            if previous is not None:
                call.after.append((previous, "end", 0, "program order"))
            call.after += [(draft, "end", 0, "hand-over") for draft in handed]
            for device_row in self.issued.get((row["process"], row["correlation"]), ()):
                device_row.draft.after.append((call, "end", 0, "launch"))
            if awaited:
                done = self._add("wait", row["name"], where, row["end_ns"], 0)
                done.waits_in = kind
                done.after.append((call, "end", 0, "program order"))
                for device_row in awaited:
                    lag = row["end_ns"] - device_row.draft.end_ns
                    done.after.append((device_row.draft, "end", lag, "wait"))
                call = done
                if row["process"] in freed and kind == "synchronize":
                    call = self._release(done)
            last[key] = call
            if kind == "synchronize":
                freed.discard(row["process"])
            elif row["name"] in FREE_TO_POOL:
                freed.add(row["process"])
            elif row["name"] in HOST_FUNCTION_CALLS:
                self.host_functions[row["process"], where].append(row["start_ns"])
            if row["name"].endswith("StreamWaitEvent"):
                self._note_stream_wait(row, syncs, recorded_at)

    def _told(self, outer: list[dict]) -> dict[int, _Draft]:
        """By the id of the call after it, each pause in which a thread waited to be told.

        To it belongs the first device operation that another thread issued in the pause.
        """
        pauses: dict[tuple, list[tuple[dict, dict]]] = defaultdict(list)
        before: dict[tuple, dict] = {}
        issued: dict[int, list[tuple[int, _Draft]]] = defaultdict(list)
        for row in outer:
            key = row["process"], row["thread"]
            last = before.get(key, row)
            before[key] = row
            if last["name"] in HOST_FUNCTION_CALLS and row["start_ns"] - last["end_ns"] >= PAUSE_NS:
                pauses[key].append((last, row))
            for device_row in self.issued.get((row["process"], row["correlation"]), ()):
                issued[row["process"]].append((row["start_ns"], device_row.draft))
        told: dict[int, _Draft] = {}
        for (process, _), found in pauses.items():
            work = issued[process]
            waits = []
            for last, row in found:
                place = bisect.bisect_left(work, last["end_ns"], key=lambda item: item[0])
                if place < len(work) and work[place][1].end_ns <= row["start_ns"]:
                    waits.append((last["end_ns"], row, work[place][1]))
            causes = [draft.end_ns - start_ns for start_ns, _, draft in waits]
            if _follow(causes, [row["start_ns"] - start_ns for start_ns, row, _ in waits]):
                told |= {id(row): draft for _, row, draft in waits}
        return told

    def _wait_to_be_told(self, previous: _Draft, until_ns: int, ended: _Draft) -> _Draft:
        """A thread's wait, without a call of its own, for a device operation."""
        done = self._add("wait", previous.name, previous.where, until_ns, 0)
        done.waits_in = "synchronize"
        done.after = [
            (previous, "end", 0, "program order"),
            (ended, "end", until_ns - ended.end_ns, "wait"),
        ]
        return done

    def _release(self, done: _Draft) -> _Draft:
        """What a wait did after all that it waited for had ended: it gave memory of a pool back."""
        over_ns = min(lag for *_, lag, _ in done.after[1:]) - WAIT_RETURN_NS
        if over_ns <= 0:
            return done
        done.start_ns -= over_ns
        done.after[1:] = [(d, at, lag - over_ns, why) for d, at, lag, why in done.after[1:]]
        release = self._add("allocation", done.name, done.where, done.end_ns, over_ns)
        release.after.append((done, "end", 0, "program order"))
        return release

    def _kind(self, row: dict) -> str:
        """What a call does: by its name, and for a copy by what it issued."""
        if row.get("polls"):
            return "synchronize"
        kind = call_kind(row["name"])
        if kind == "call":
            return "host_code"
        issued = self.issued.get((row["process"], row["correlation"]), ())
        if kind == "copy_call" and re.search("Async|Memset", row["name"]) and issued:
            across = any(r.draft.kind == "copy" and r.draft.name in LINK_COPIES for r in issued)
            return kind if across else "launch"
        return kind

    def _host_code(self, thread: int, before: _Draft, until_ns: int) -> _Draft:
        """The host code of a thread from the end of one operation to a time."""
        code = self._add(
            "host_code", "host code", f"thread:{thread}", before.end_ns, until_ns - before.end_ns
        )
        same = before.where == code.where
        code.after.append((before, "end", 0, "program order" if same else "hand-over"))
        return code

    def _awaited(self, row: dict, kind: str, syncs: dict, recorded_at: dict) -> list[_DeviceRow]:
        """The device operations that a blocking call had to wait for; none for other calls."""
        process, name = row["process"], row["name"]
        if kind == "copy_call":
            own = [
                r
                for r in self.issued.get((process, row["correlation"]), ())
                if r.draft.kind == "copy"
            ]
            return [r for r in own if r.pageable or not re.search(r"Async|Batch", name)]
        if kind == "allocation":
            # Releasing memory waits for the device, unless it is ordered in a stream.
            if "Free" not in name or name.endswith(("Async", "AddressFree")):
                return []
            pending = self._last_issued(process, None, row["start_ns"])
            return [r for r in pending if r.draft.end_ns <= row["end_ns"]]
        if kind != "synchronize":
            return []
        sync = syncs.get((process, row["correlation"]))
        if "Event" in name:
            record = recorded_at.get((process, sync["event_sync"])) if sync else None
            if record is not None:
                return self._reached(*record)
            ended = self._last_issued(process, None, row["start_ns"], row["end_ns"])
            ended = [r for r in ended if r.draft.end_ns > row["start_ns"]]
            return [max(ended, key=lambda r: r.draft.end_ns)] if ended else []
        if "Stream" in name and sync is not None and sync["stream"] is not None:
            return self._reached(self._stream(sync), row["start_ns"])
        pending = self._last_issued(process, None, row["start_ns"])
        # A wait for one device says nothing of another's work that went on after it.
        return [r for r in pending if r.draft.end_ns <= row["end_ns"]]

    def _event_records(self, calls: list[dict]) -> dict:
        """(process, event_sync) -> (stream, time of the recording call)."""
        if not self.capture.event_records.height:
            return {}
        when = {(c["process"], c["correlation"]): c["start_ns"] for c in calls}
        return {
            (e["process"], e["event_sync"]): (
                self._stream(e),
                when[e["process"], e["correlation"]],
            )
            for e in self.capture.event_records.iter_rows(named=True)
            if e["event_sync"] is not None and (e["process"], e["correlation"]) in when
        }

    def _note_stream_wait(self, row: dict, syncs: dict, recorded_at: dict) -> None:
        sync = syncs.get((row["process"], row["correlation"]))
        record = recorded_at.get((row["process"], sync["event_sync"])) if sync else None
        if sync is None or record is None:
            return
        sources = self._reached(*record)
        if sources:
            self.stream_waits[self._stream(sync)].append((row["start_ns"], sources))

    def _stream(self, row: dict) -> tuple[int, int, int]:
        """The stream that a row of events or synchronisation names.

        Such rows give device 0 for a process that works on another device (seen with nsys 2025.3), so
        the stream's number decides where its process has it once; -1: nothing ran on it.
        """
        key = row["process"], row["device"], row["stream"]
        if key in self.by_stream:
            return key
        named = [k for k in self.by_stream if k[0] == key[0] and k[2] == key[2]]
        return named[0] if len(named) == 1 else (key[0], -1, key[2])

    def _reached(self, stream: tuple[int, int, int], time_ns: int) -> list[_DeviceRow]:
        """What ends before a stream gets to what is issued to it at a time.

        That is the last operation issued before, and what the stream was made to wait for after that:
        a library may use a stream that runs nothing, only to pass events on.
        """
        last = self._last_issued(stream[0], stream, time_ns)
        since = last[0].issued_ns if last else -1
        waits = self.stream_waits[stream]
        first = bisect.bisect_right(waits, since, key=lambda wait: wait[0])
        rows = last + [row for at, rows in waits[first:] if at < time_ns for row in rows]
        # Of each stream the latest: what came before it on that stream has ended by then.
        return list({row.stream: row for row in sorted(rows, key=lambda r: r.issued_ns)}.values())

    # -- device ---------------------------------------------------------------------------------

    def _device_rows(self, calls: list[dict]) -> None:
        called = {(c["process"], c["correlation"]): c for c in calls}
        pageable = {
            (c["process"], c["correlation"], c["start_ns"])
            for c in self.capture.copies.iter_rows(named=True)
            if "pageable" in (c["source"], c["destination"])
        }
        faults = self._page_faults()
        for row in self.capture.device_operations.iter_rows(named=True):
            if row["kind"] == "copy" and (row["device"], row["start_ns"]) in faults:
                continue
            call = called.get((row["process"], row["correlation"]))
            if call is None and self.window_ns is not None:
                continue
            draft = self._add(
                row["kind"],
                row["name"],
                f"device:{row['device']}/stream:{row['stream']}",
                row["start_ns"],
                row["duration_ns"],
                row["device"],
            )
            device_row = _DeviceRow(
                draft,
                (row["process"], row["device"], row["stream"]),
                call["start_ns"] if call else row["start_ns"],
                (row["process"], row["correlation"], row["start_ns"]) in pageable,
            )
            self.rows.append(device_row)
            self.issued[row["process"], row["correlation"]].append(device_row)
            self.by_stream[device_row.stream].append(device_row)
        for stream, rows in self.by_stream.items():
            self.issue_times[stream] = [r.issued_ns for r in rows]

    def _page_faults(self) -> set[tuple[int, int]]:
        """Device and start of the copies that bring pages of managed memory on demand."""
        copies = self.capture.copies
        if "migration" not in copies.columns or copies["migration"].null_count() == copies.height:
            return set()
        demanded = copies.filter(
            copies["migration"].is_in(["page fault", "speculative prefetch"])
            & (copies["kind"] == "UVM H2D")
        )
        found = set()
        # Not by `analysis.intervals`: submissions are judged with this file, and without that one.
        for row in demanded.iter_rows(named=True):
            found.add((row["device"], row["start_ns"]))
            spans = self.faults[row["device"]]
            if spans and row["start_ns"] <= spans[-1][1]:
                spans[-1][1] = max(spans[-1][1], row["end_ns"])
            else:
                spans.append([row["start_ns"], row["end_ns"]])
        return found

    def _last_issued(
        self, process: int, stream, time_ns: int, ended_ns: int | None = None
    ) -> list[_DeviceRow]:
        """The last operation issued before a time, on one stream or on each of a process.

        ended_ns: of those that had ended by then.
        """
        streams = [stream] if stream is not None else [s for s in self.by_stream if s[0] == process]
        found = []
        for key in streams:
            place = bisect.bisect_left(self.issue_times.get(key, []), time_ns)
            if ended_ns is not None:
                ended = bisect.bisect_right(
                    self.by_stream[key], ended_ns, key=lambda r: r.draft.end_ns
                )
                place = min(place, ended)
            if place:
                found.append(self.by_stream[key][place - 1])
        return found

    def _order_streams(self) -> None:
        """Stream order, events and copy engines, each with the least lag seen in the recording."""
        launch_lags: dict[str, list[int]] = defaultdict(list)
        pairs = []  # operation before it on the stream, operation, end of its call
        for rows in self.by_stream.values():
            for before, row in zip([None, *rows], rows, strict=False):
                call = next((d for d, _, _, why in row.draft.after if why == "launch"), None)
                if call is None:
                    continue
                if before is None or before.draft.end_ns <= call.start_ns:
                    launch_lags[row.draft.kind].append(row.draft.start_ns - call.end_ns)
                else:
                    pairs.append((before.draft, row.draft, call.end_ns))
        typical_launch = {kind: int(statistics.median(lags)) for kind, lags in launch_lags.items()}
        fallback = min(typical_launch.values(), default=0)
        # Only an operation that was issued well before its turn shows what following directly costs.
        order_lags = [
            max(0, draft.start_ns - before.end_ns)
            for before, draft, issued_ns in pairs
            if issued_ns + typical_launch.get(draft.kind, fallback) <= before.end_ns
        ]
        # Work that was hardly queued shows launch delays as well: never more than back to back.
        typical_order = min(statistics.median_low(order_lags or [BACK_TO_BACK_NS]), BACK_TO_BACK_NS)

        engines: dict[tuple[int, str], _Draft] = {}
        for row in self.rows:
            draft = row.draft
            least = typical_launch.get(draft.kind, fallback)
            draft.after = [
                (d, at, min(least, draft.start_ns - d.end_ns), why) if why == "launch" else (d, at, lag, why)
                for d, at, lag, why in draft.after
            ]  # fmt: skip
            if draft.kind == "copy":
                engine = (draft.device, draft.name)
                before = engines.get(engine)
                if before is not None and before.end_ns <= draft.start_ns:
                    draft.after.append((before, "end", 0, "copy engine"))
                engines[engine] = draft
        for stream, rows in self.by_stream.items():
            for before, row in itertools.pairwise(rows):
                # A negative gap is kept: a library may launch a kernel so that it begins while the
                # one before it finishes (CUDA Programming Guide, "Programmatic Dependent Launch").
                lag = min(row.draft.start_ns - before.draft.end_ns, typical_order)
                row.draft.after.append((before.draft, "end", lag, "stream order"))
            waits = self.stream_waits.get(stream, [])
            for time_ns, sources in waits:
                place = bisect.bisect_left(self.issue_times[stream], time_ns)
                if place < len(rows):
                    target = rows[place].draft
                    for source in sources:
                        gap = target.start_ns - source.draft.end_ns
                        if gap >= 0:
                            lag = min(gap, typical_order)
                            target.after.append((source.draft, "end", lag, "event"))

        self._add_host_functions()
        self._add_page_faults()

    def _add_page_faults(self) -> None:
        """The part of a kernel in which pages come that it asked for: a copy on the way to its end."""
        for row in self.rows if self.faults else ():
            draft = row.draft
            spans = self.faults.get(draft.device, [])
            place = max(0, bisect.bisect_right(spans, [draft.start_ns]) - 1)
            stalled_ns = 0
            while place < len(spans) and spans[place][0] < draft.end_ns:
                low, high = spans[place]
                stalled_ns += max(0, min(high, draft.end_ns) - max(low, draft.start_ns))
                place += 1
            if draft.kind in ("kernel", "graph") and stalled_ns:
                copy = self._add(
                    "copy", "H2D", draft.where, draft.start_ns, stalled_ns, draft.device
                )
                copy.after, draft.after = draft.after, [(copy, "end", 0, "stream order")]
                draft.start_ns += stalled_ns
                draft.duration_ns -= stalled_ns

    def _add_host_functions(self) -> None:
        """What delays an operation, if a function of the host was put into a stream right before it."""
        for rows in self.by_stream.values() if self.host_functions else ():
            for before, row in itertools.pairwise(rows):
                call = next((d for d, _, _, why in row.draft.after if why == "launch"), None)
                if call is None:
                    continue
                put = self.host_functions.get((row.stream[0], call.where), ())
                place = bisect.bisect_left(put, before.issued_ns)
                if place == len(put) or put[place] > row.issued_ns:
                    continue
                start = max(
                    (d.start_ns if at == "start" else d.end_ns) + lag
                    for d, at, lag, _ in row.draft.after
                )
                if row.draft.start_ns <= start or self._others_run(row, start):
                    continue
                function = self._add(
                    "host_function",
                    "host function",
                    "thread:driver",
                    start,
                    row.draft.start_ns - start,
                )
                function.after, row.draft.after = (
                    row.draft.after,
                    [(function, "end", 0, "stream order")],
                )

    def _others_run(self, row: _DeviceRow, since_ns: int) -> bool:
        """Whether something ran on other streams of the device between a time and an operation's start."""
        for stream, rows in self.by_stream.items():
            if stream != row.stream and stream[1] == row.stream[1]:
                place = bisect.bisect_left(rows, row.draft.start_ns, key=lambda r: r.draft.start_ns)
                if place and rows[place - 1].draft.end_ns > since_ns:
                    return True
        return False

    # -- result ---------------------------------------------------------------------------------

    def _add(self, kind, name, where, start_ns, duration_ns, device=-1) -> _Draft:
        # Names repeat: one string each, not one an operation.
        name, where = sys.intern(name or ""), sys.intern(where)
        draft = _Draft(kind, name, where, device, start_ns, duration_ns, len(self.drafts))
        self.drafts.append(draft)
        return draft

    def _finish(self) -> list[Operation]:
        # Host drafts were added after the device's, and must come first where times are equal.
        self.drafts.sort(key=lambda d: (d.start_ns, d.device >= 0, d.sequence))
        for index, draft in enumerate(self.drafts):
            draft.index = index
        # Make room: from here on a draft knows those it depends on by their places, and can go when it
        # has become an operation.
        self.rows, self.issued, self.by_stream, self.stream_waits = [], {}, {}, {}
        drafts, self.drafts = self.drafts, []
        starts = [draft.start_ns for draft in drafts]
        ends = [draft.end_ns for draft in drafts]
        for draft in drafts:
            draft.after = [(source.index, at, lag, why) for source, at, lag, why in draft.after]
        drafts.reverse()
        operations = []
        waited: set[str] = set()  # threads that have issued nothing since they waited
        while drafts:
            draft = drafts.pop()
            resumes = draft.where in waited
            if draft.kind == "wait":
                waited.add(draft.where)
            elif draft.kind in ("launch", "copy_call"):
                waited.discard(draft.where)
            after, earliest = [], None
            for on, at, lag, why in draft.after:
                if on >= draft.index:
                    continue  # clocks of host and device may disagree by a microsecond
                after.append(Dependency(on, at, lag, why))
                moment = starts[on] if at == "start" else ends[on]
                earliest = max(moment + lag, earliest if earliest is not None else moment + lag)
            delay = 0 if earliest is None else draft.start_ns - earliest
            operations.append(
                Operation(
                    draft.index,
                    draft.kind,
                    draft.name,
                    draft.where,
                    draft.device,
                    draft.start_ns,
                    draft.duration_ns,
                    tuple(after),
                    delay,
                    draft.waits_in,
                    resumes,
                )
            )
        return operations
