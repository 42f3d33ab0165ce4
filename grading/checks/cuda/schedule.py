"""What a recorded sequence of CUDA calls allows to run at the same time, and what that leads to.

The record (runtime.cpp) holds every call in the order in which the host made it. From it follow:

- `Schedule.races`: two accesses to the same bytes, one of them a write, that nothing orders;
- `Schedule.work`: which batch's data every kernel, copy and read on the host really met;
- in `grading.checks.cuda.simulation`, when everything would run, given durations.

Order is tracked with vector clocks: every host thread and every stream is a lane, an operation's
clock holds for each lane the number of its operations that are certainly complete before this one
starts. The rules are those of the CUDA Runtime API reference ("Stream synchronization behavior",
"API synchronization behavior") and of the programming guide:

- operations of one stream run in order; an event stands for what its stream had when recorded;
- the legacy default stream waits for all blocking streams, and they for it;
- from pageable memory to the device, the call returns when the source was read, the write may
  still be under way; from the device to pageable memory it returns when the copy is complete;
- with page-locked memory an ...Async copy returns at once, a plain one when it is complete.

Not used as an order, although drivers often do it: cudaFree and cudaFreeHost waiting for the device.
"""

# Long because the stand-in's record and what follows from it are one format.

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

LEGACY_STREAM = 0
FIRST_PER_THREAD_STREAM = 1000
STAGES = {"normalise": 0, "infer": 1, "postprocess": 2}  # kernel -> the stage its input must have
STAGE_WORDS = ("as loaded", "normalised", "inferred", "postprocessed")
FINISHED = 3
DIRECTION_WORDS = {"H2D": "copy in", "D2H": "copy out", "D2D": "copy on the device", "H2H": "copy"}
FLOAT_BYTES = 4

Lane = tuple[str, int]
Clock = dict[Lane, int]


@dataclass(frozen=True)
class Access:
    """Bytes [start, end) of a buffer. Buffer -1 is all pageable host memory, by address."""

    buffer: int
    start: int
    end: int
    write: bool

    def overlaps(self, other: Access) -> bool:
        return self.buffer == other.buffer and self.start < other.end and other.start < self.end


@dataclass
class Operation:
    """One thing that happens on the device or on the host, with what it touches."""

    line: int
    kind: str  # copy, memset, kernel, record, wait, host_function, host_access, release, allocate
    name: str  # for messages
    stream: int | None  # None: on the host
    accesses: list[Access] = field(default_factory=list)
    bytes: int = 0
    direction: str = ""
    pageable: bool = False
    kernel: str = ""
    elements: int = 0
    event: int | None = None
    batch: int | None = None
    phase: int = 0
    lane: Lane = ("host", 0)
    index: int = 0
    clock: Clock = field(default_factory=dict)

    def after(self, other: Operation) -> bool:
        """Whether `other` is certainly complete when this starts."""
        return self.clock.get(other.lane, 0) >= other.index

    def __str__(self) -> str:
        batch = "" if self.batch is None else f" of batch {self.batch}"
        where = " on the host" if self.stream is None else f" in {stream_name(self.stream)}"
        return f"{self.name}{batch}{where}"


@dataclass(frozen=True)
class Race:
    first: Operation
    second: Operation
    access: Access
    count: int


@dataclass(frozen=True)
class Consumed:
    """One consume_batch: the batch it was told to read, and what is wrong with the bytes, if so."""

    batch: int
    phase: int
    problem: str | None


@dataclass(frozen=True)
class Label:
    """Whose data bytes are: of which batch, after which stage, from which byte of the batch on."""

    batch: int
    stage: int
    origin: int


@dataclass(frozen=True)
class Piece:
    start: int
    end: int
    label: Label | str  # a str says why the bytes are nobody's


class Contents:
    """What the bytes of one buffer are, as pieces in order."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def read(self, start: int, end: int) -> list[Piece]:
        """Pieces that cover [start, end), with offsets counted from start."""
        found, at = [], start
        for piece in self.pieces:
            low, high = max(piece.start, start), min(piece.end, end)
            if low >= high:
                continue
            if low > at:
                found.append(Piece(at - start, low - start, "nothing was ever written there"))
            found.append(Piece(low - start, high - start, shifted(piece.label, low - piece.start)))
            at = high
        if at < end:
            found.append(Piece(at - start, end - start, "nothing was ever written there"))
        return found

    def write(self, start: int, pieces: list[Piece]) -> None:
        """Put pieces, whose offsets count from 0, at `start`."""
        if not pieces:
            return
        end = start + pieces[-1].end
        kept = []
        for piece in self.pieces:
            if piece.start < start:
                kept.append(Piece(piece.start, min(piece.end, start), piece.label))
            if piece.end > end:
                low = max(piece.start, end)
                kept.append(Piece(low, piece.end, shifted(piece.label, low - piece.start)))
        kept += [Piece(start + p.start, start + p.end, p.label) for p in pieces]
        self.pieces = sorted((p for p in kept if p.start < p.end), key=lambda p: p.start)


def shifted(label: Label | str, count: int) -> Label | str:
    if isinstance(label, str) or count == 0:
        return label
    return Label(label.batch, label.stage, label.origin + count)


def stream_name(stream: int) -> str:
    if stream == LEGACY_STREAM:
        return "the default stream"
    if stream >= FIRST_PER_THREAD_STREAM:
        return "the per-thread default stream"
    return f"stream {stream}"


def read_lines(record: bytes) -> list[dict[str, Any]]:
    """The record's lines; from one on that is no record, as where the program's end cut it short, none."""
    lines = []
    for text in record.decode("utf-8", "replace").splitlines():
        try:
            line = json.loads(text)
        except (ValueError, RecursionError):  # the first also for an integer of too many digits
            break
        if not isinstance(line, dict):
            break
        lines.append(line)
    return lines


class Schedule:
    """A record, read: the operations, their order, and the data they met.

    lines: the record. elements: floats of a batch. Phase 0 is creation and warm-up, 1 the measured
    part (between cudaProfilerStart and cudaProfilerStop), 2 what comes after.
    """

    def __init__(self, lines: list[dict[str, Any]], elements: int) -> None:
        self.lines = lines
        self.batch_bytes = elements * FLOAT_BYTES
        self.operations: list[Operation] = []
        self.by_line: dict[int, Operation] = {}
        self.refused: list[dict[str, Any]] = [x for x in lines if x["kind"] == "refused"]
        self.buffers: dict[int, dict[str, Any]] = {}
        self.consumed: list[Consumed] = []
        self.misplaced: list[str] = []  # a kernel or an argument that cannot be right
        self.threads = {line["thread"] for line in lines}
        self.open_buffers: set[int] = set()
        self.open_streams: set[int] = set()
        self.open_events: set[int] = set()
        self._phase = 0
        self._blocking: dict[int, bool] = {}
        self._host: dict[int, Clock] = {}
        self._streams: dict[int, Clock] = {}
        self._events: dict[int, Clock] = {}
        self._counts: Counter[Lane] = Counter()
        self._contents: dict[int, Contents] = {}
        for line in lines:
            handler = getattr(self, "_" + line["kind"], None)
            if handler is not None:
                handler(line)

    # -- clocks -----------------------------------------------------------------------------------

    def _add(self, operation: Operation, line: dict[str, Any]) -> Operation:
        """Give an operation its place in the order."""
        operation.phase = self._phase
        host = self._host.setdefault(line["thread"], {})
        owner = self.by_line.get(line["host_function"])
        if owner is not None:  # runs as part of a host function in a stream
            operation.lane, operation.stream = owner.lane, owner.stream
            base = dict(self._streams[owner.lane[1]])
        elif operation.stream is None:
            operation.lane = ("host", line["thread"])
            base = dict(host)
        else:
            operation.lane = ("stream", operation.stream)
            base = joined(host, self._streams.get(operation.stream, {}))
            for other in self._coupled(operation.stream):
                base = joined(base, self._streams.get(other, {}))
            if operation.kind == "wait":
                base = joined(base, self._events.get(operation.event or 0, {}))
        self._counts[operation.lane] += 1
        operation.index = self._counts[operation.lane]
        operation.clock = base
        finished = {**base, operation.lane: operation.index}
        if operation.lane[0] == "stream":
            self._streams[operation.lane[1]] = finished
        else:
            self._host[line["thread"]] = finished
        self.operations.append(operation)
        self.by_line.setdefault(operation.line, operation)
        return operation

    def _coupled(self, stream: int) -> Iterator[int]:
        """The other streams that the rule of the legacy default stream orders with this one."""
        if stream == LEGACY_STREAM:
            yield from (s for s in self._streams if s != stream and self.is_blocking(s))
        elif self.is_blocking(stream):
            yield LEGACY_STREAM

    def is_blocking(self, stream: int) -> bool:
        return self._blocking.get(stream, True)

    def _host_waits(self, line: dict[str, Any], clock: Clock) -> None:
        thread = line["thread"]
        self._host[thread] = joined(self._host.setdefault(thread, {}), clock)

    # -- lines of the record ----------------------------------------------------------------------

    def _marker(self, line: dict[str, Any]) -> None:
        self._phase = 1 if line["name"] == "begin" else 2

    def _allocate(self, line: dict[str, Any]) -> None:
        self.buffers[line["buffer"]] = line
        self.open_buffers.add(line["buffer"])
        stream = line["stream"] if line["stream"] >= 0 else None
        access = Access(line["buffer"], 0, line["bytes"], True)
        name = line["function"]
        # Only stream-ordered memory can be used too early; a plain allocation is there on return.
        self._add(Operation(line["line"], "allocate", name, stream, [access]), line)

    def _release(self, line: dict[str, Any]) -> None:
        self.open_buffers.discard(line["buffer"])
        stream = line["stream"] if line["stream"] >= 0 else None
        access = Access(line["buffer"], 0, line["bytes"], True)
        self._add(Operation(line["line"], "release", line["function"], stream, [access]), line)

    def _create_stream(self, line: dict[str, Any]) -> None:
        self._blocking[line["stream"]] = line["blocking"]
        self.open_streams.add(line["stream"])

    def _destroy_stream(self, line: dict[str, Any]) -> None:
        self.open_streams.discard(line["stream"])

    def _create_event(self, line: dict[str, Any]) -> None:
        self.open_events.add(line["event"])

    def _destroy_event(self, line: dict[str, Any]) -> None:
        self.open_events.discard(line["event"])

    def _copy(self, line: dict[str, Any]) -> None:
        size, direction = line["bytes"], line["direction"]
        source, destination = line["source"], line["destination"]
        read = Access(source["buffer"], source["offset"], source["offset"] + size, False)
        write = Access(
            destination["buffer"], destination["offset"], destination["offset"] + size, True
        )
        pieces = self._read(read)
        self._write(write, pieces)
        name = f"{DIRECTION_WORDS[direction]} ({line['function']})"
        pageable = "pageable" in (source["memory"], destination["memory"])
        common = {"bytes": size, "direction": direction, "pageable": pageable}
        batch = first_batch(pieces)
        stream = line["stream"]
        number = line["line"]
        if direction == "H2H":
            # The host copies; a plain call first waits for its stream.
            operation = Operation(
                number, "copy", name, stream, [read, write], batch=batch, **common
            )
            self._host_waits(line, self._after(self._add(operation, line)))
            return
        if direction == "H2D" and pageable:
            if not line["async"]:
                self._host_waits(line, self._reached(stream))
            early = Operation(number, "host_access", f"reading for the {name}", None, [read])
            early.batch = batch
            self._add(early, line)
            operation = Operation(number, "copy", name, stream, [write], batch=batch, **common)
            self.by_line[number] = self._add(operation, line)
            return
        operation = Operation(number, "copy", name, stream, [read, write], batch=batch, **common)
        self._add(operation, line)
        if pageable or (not line["async"] and direction != "D2D"):
            self._host_waits(line, self._after(operation))

    def _reached(self, stream: int) -> Clock:
        clock = self._streams.get(stream, {})
        for other in self._coupled(stream):
            clock = joined(clock, self._streams.get(other, {}))
        return clock

    @staticmethod
    def _after(operation: Operation) -> Clock:
        return {**operation.clock, operation.lane: operation.index}

    def _memset(self, line: dict[str, Any]) -> None:
        at = line["destination"]
        access = Access(at["buffer"], at["offset"], at["offset"] + line["bytes"], True)
        self._write(access, [Piece(0, line["bytes"], "a memset wrote there")])
        operation = Operation(
            line["line"], "memset", line["function"], line["stream"], [access], bytes=line["bytes"]
        )
        self._add(operation, line)
        if not line["async"] and at["memory"] == "pinned":
            self._host_waits(line, self._after(operation))

    def _kernel(self, line: dict[str, Any]) -> None:
        name = line["name"]
        operation = Operation(line["line"], "kernel", f"kernel {name}", line["stream"], kernel=name)
        pointers = [a["pointer"] for a in line["arguments"] if "pointer" in a]
        for pointer in pointers:
            if pointer is None or pointer["memory"] != "device":
                memory = "a null pointer" if pointer is None else f"{pointer['memory']} host memory"
                self.misplaced.append(
                    f"kernel {name} was given {memory} where it expects memory of the device"
                )
                self._add(operation, line)
                return
        if name in STAGES:
            self._given_kernel(operation, line, pointers)
        else:
            for argument in line["arguments"]:
                if "pointer" not in argument:
                    continue
                buffer = argument["pointer"]["buffer"]
                written = not argument["type"].startswith(("const ",)) and (
                    " const*" not in argument["type"]
                )
                size = self.buffers[buffer]["bytes"]
                operation.accesses.append(Access(buffer, 0, size, False))
                if written:
                    access = Access(buffer, 0, size, True)
                    operation.accesses.append(access)
                    why = f"kernel {name}, which is none of the three given ones, wrote there"
                    self._write(access, [Piece(0, size, why)])
        self._add(operation, line)

    def _given_kernel(
        self, operation: Operation, line: dict[str, Any], pointers: list[dict[str, Any]]
    ) -> None:
        name = operation.kernel
        operation.elements = line["arguments"][2]["value"]
        size = operation.elements * FLOAT_BYTES
        read, write = (
            Access(p["buffer"], p["offset"], p["offset"] + size, is_write)
            for p, is_write in zip(pointers, (False, True), strict=True)
        )
        for what, access in (("input", read), ("output", write)):
            if access.end > self.buffers[access.buffer]["bytes"]:
                self.misplaced.append(
                    f"kernel {name} was told {operation.elements} elements; its {what} has room for "
                    f"{(self.buffers[access.buffer]['bytes'] - access.start) // FLOAT_BYTES}"
                )
        operation.accesses = [read, write]
        pieces = self._read(read)
        operation.batch = first_batch(pieces)
        result = []
        for piece in pieces:
            label = piece.label
            if isinstance(label, Label):
                if label.stage == STAGES[name]:
                    label = Label(label.batch, label.stage + 1, label.origin)
                else:
                    label = (
                        f"kernel {name} ran on data {STAGE_WORDS[label.stage]}, "
                        f"it expects data {STAGE_WORDS[STAGES[name]]}"
                    )
            result.append(Piece(piece.start, piece.end, label))
        self._write(write, result)

    def _record(self, line: dict[str, Any]) -> None:
        operation = Operation(line["line"], "record", "event record", line["stream"])
        operation.event = line["event"]
        self._add(operation, line)
        self._events[line["event"]] = self._after(operation)

    def _wait(self, line: dict[str, Any]) -> None:
        operation = Operation(line["line"], "wait", "wait for an event", line["stream"])
        operation.event = line["event"]
        self._add(operation, line)

    def _host_function(self, line: dict[str, Any]) -> None:
        self._add(Operation(line["line"], "host_function", "host function", line["stream"]), line)

    def _synchronize_stream(self, line: dict[str, Any]) -> None:
        self._host_waits(line, self._reached(line["stream"]))

    def _synchronize_event(self, line: dict[str, Any]) -> None:
        self._host_waits(line, self._events.get(line["event"], {}))

    def _synchronize_device(self, line: dict[str, Any]) -> None:
        for clock in list(self._streams.values()):
            self._host_waits(line, clock)

    def _host_access(self, line: dict[str, Any]) -> None:
        at, size, batch = line["at"], line["bytes"], line["batch"]
        access = Access(at["buffer"], at["offset"], at["offset"] + size, line["write"])
        operation = Operation(
            line["line"], "host_access", line["what"], None, [access], batch=batch
        )
        self._add(operation, line)
        if at["memory"] == "device":
            self.misplaced.append(f"{line['what']} of batch {batch} was given memory of the device")
        if line["write"]:
            self._write(access, [Piece(0, size, Label(batch, 0, 0))])
            if size != self.batch_bytes:
                self.misplaced.append(self._short("load_batch", batch, size))
            return
        self.consumed.append(Consumed(batch, self._phase, self._wrong_result(access, batch, size)))

    def _short(self, what: str, batch: int, size: int) -> str:
        return (
            f"{what} of batch {batch} was given {size // FLOAT_BYTES} elements, a batch has "
            f"{self.batch_bytes // FLOAT_BYTES}"
        )

    # -- data -------------------------------------------------------------------------------------

    def _read(self, access: Access) -> list[Piece]:
        return self._contents.setdefault(access.buffer, Contents()).read(access.start, access.end)

    def _write(self, access: Access, pieces: list[Piece]) -> None:
        self._contents.setdefault(access.buffer, Contents()).write(access.start, pieces)

    def _wrong_result(self, access: Access, batch: int, size: int) -> str | None:
        if size != self.batch_bytes:
            return self._short("consume_batch", batch, size)
        for piece in self._read(access):
            label = piece.label
            which = f"elements {piece.start // FLOAT_BYTES} to {piece.end // FLOAT_BYTES - 1}"
            if isinstance(label, str):
                return f"{which} are no result of any batch: {label}"
            if label.batch != batch:
                return f"{which} belong to batch {label.batch}"
            if label.stage != FINISHED:
                return f"{which} are only {STAGE_WORDS[label.stage]}, not postprocessed"
            if label.origin != piece.start:
                return f"{which} hold the batch's elements from {label.origin // FLOAT_BYTES} on"
        return None

    # -- what is found ----------------------------------------------------------------------------

    def races(self) -> list[Race]:
        """Pairs of unordered accesses, one of each sort, in the order of the host's calls."""
        by_buffer: dict[int, list[tuple[Operation, Access]]] = {}
        found: dict[tuple[str, str, int], tuple[Operation, Operation, Access]] = {}
        counts: Counter[tuple[str, str, int]] = Counter()
        for operation in self.operations:
            if operation.kind == "allocate" and operation.stream is None:
                continue
            for access in operation.accesses:
                earlier = by_buffer.setdefault(access.buffer, [])
                for other, other_access in earlier:
                    if not (access.write or other_access.write) or other is operation:
                        continue
                    if access.overlaps(other_access) and not operation.after(other):
                        key = (other.name, operation.name, access.buffer == -1)
                        counts[key] += 1
                        found.setdefault(key, (other, operation, access))
                earlier.append((operation, access))
        return [Race(*found[key], counts[key]) for key in found]

    def buffer_name(self, buffer: int) -> str:
        if buffer == -1:
            return "pageable host memory"
        line = self.buffers[buffer]
        memory = "device buffer" if line["memory"] == "device" else "pinned host buffer"
        order = [b for b, x in self.buffers.items() if x["memory"] == line["memory"]]
        return f"{memory} {order.index(buffer)} ({line['bytes']} bytes)"

    def wrong_batches(self, batches: int, phase: int) -> list[str]:
        """What is wrong with the results of one run of `batches` batches; empty when all is well."""
        seen = Counter(c.batch for c in self.consumed if c.phase == phase)
        found = [
            f"consume_batch({c.batch}) read a wrong result: {c.problem}"
            for c in self.consumed
            if c.phase == phase and c.problem
        ]
        missing = [b for b in range(batches) if not seen[b]]
        twice = [b for b in range(batches) if seen[b] > 1]
        strange = sorted(b for b in seen if not 0 <= b < batches)
        if missing:
            found.append(
                f"{len(missing)} of {batches} batches never reached consume_batch: {missing}"
            )
        if twice:
            found.append(f"consume_batch was called more than once for the batches {twice}")
        if strange:
            found.append(
                f"consume_batch was called for {strange}; there are batches 0 to {batches - 1}"
            )
        return found

    def unreleased(self) -> list[str]:
        """What was created and never released."""
        found = []
        for memory, words in (("device", "device buffer(s)"), ("pinned", "pinned host buffer(s)")):
            sizes = [
                x["bytes"] for b in self.open_buffers if (x := self.buffers[b])["memory"] == memory
            ]
            if sizes:
                found.append(f"{len(sizes)} {words} of {sum(sizes)} bytes in all")
        if self.open_streams:
            found.append(f"{len(self.open_streams)} stream(s)")
        if self.open_events:
            found.append(f"{len(self.open_events)} event(s)")
        return found


def joined(a: Clock, b: Clock) -> Clock:
    """The later of two clocks, lane by lane."""
    if not b:
        return dict(a)
    result = dict(a)
    for lane, index in b.items():
        if result.get(lane, 0) < index:
            result[lane] = index
    return result


def first_batch(pieces: list[Piece]) -> int | None:
    return next((p.label.batch for p in pieces if isinstance(p.label, Label)), None)
