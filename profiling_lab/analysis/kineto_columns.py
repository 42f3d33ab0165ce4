"""A trace of PyTorch's profiler (Kineto) in the columns of a recording.

    >>> trace = read(captures.file("torch_train_sync", "trace.json"))
    >>> trace.recording.operations.start, trace.steps_ns

The file is decoded in parts of some ten thousand events: what stays are columns. A trace tells less than a
recording of Nsight Systems: nothing of events between streams, and not which stream a wait is for, so a
wait counts as one for all work issued before.
"""

from __future__ import annotations

import gzip
import re
import zlib
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from profiling_lab import captures
from profiling_lab.analysis import columns
from profiling_lab.analysis.columns import (
    DeviceOperations,
    EventLinks,
    HostCalls,
    Ranges,
    Recording,
    Vocabulary,
)
from profiling_lab.captures.kineto import STEP_RANGE, cuda_name
from profiling_lab.captures.opening import MOST_TEXT_BYTES
from profiling_lab.errors import CaptureError, EmptyCapture

# Categories as written today and (in lower case) by PyTorch 1.8 to 1.10.
KERNEL, COPY, MEMSET, CALL, OPERATOR, RANGE, PYTHON = range(7)
CATEGORIES = {
    "kernel": KERNEL,
    "gpu_memcpy": COPY,
    "memcpy": COPY,
    "gpu_memset": MEMSET,
    "memset": MEMSET,
    "cuda_runtime": CALL,
    "cuda_driver": CALL,
    "runtime": CALL,
    "cpu_op": OPERATOR,
    "operator": OPERATOR,
    "user_annotation": RANGE,
    "python_function": PYTHON,
}
_DEVICE_KIND = {KERNEL: columns.KERNEL, COPY: columns.COPY, MEMSET: columns.MEMSET}
_COPY_NAME = re.compile(r"(?:Memcpy|Copy)\w* (\w+)(?: \((\w+) -> (\w+)\))?")
_DIRECTIONS = {
    "HtoD": "H2D",
    "HostToDevice": "H2D",
    "DtoH": "D2H",
    "DeviceToHost": "D2H",
    "DtoD": "D2D",
    "DeviceToDevice": "D2D",
    "PtoP": "P2P",
    "HtoH": "H2H",
}
_PART = 20_000  # events that are decoded at once
_EXACT = 2**43  # µs above which a float no longer holds each ns


_ABSENT = msgspec.Raw(b"null")


class _Arguments(msgspec.Struct, gc=False):
    device: Any = None
    stream: Any = None
    correlation: Any = None
    bytes: Any = None
    device_type: Any = msgspec.field(default=None, name="Device Type")
    device_id: Any = msgspec.field(default=None, name="Device Id")
    memory_bytes: Any = msgspec.field(default=None, name="Bytes")
    address: Any = msgspec.field(default=None, name="Addr")
    allocated: Any = msgspec.field(default=None, name="Total Allocated")
    reserved: Any = msgspec.field(default=None, name="Total Reserved")
    # As they stand in the file: alike from call to call, so each is read once.
    grid: msgspec.Raw = _ABSENT
    block: msgspec.Raw = _ABSENT
    registers: Any = msgspec.field(default=None, name="registers per thread")
    shared: Any = msgspec.field(default=None, name="shared memory")
    dims: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input Dims")
    types: msgspec.Raw = msgspec.field(default=_ABSENT, name="Input type")
    values: msgspec.Raw = msgspec.field(default=_ABSENT, name="Concrete Inputs")


class _Event(msgspec.Struct, gc=False):
    ph: Any = None
    cat: Any = None
    name: Any = None
    pid: Any = None
    tid: Any = None
    ts: float | None = None
    dur: float | None = None
    args: _Arguments | None = None


class _Times(msgspec.Struct, gc=False):
    ts: Decimal | None = None
    dur: Decimal | None = None


class _Document(msgspec.Struct, gc=False):
    traceEvents: list[msgspec.Raw]  # noqa: N815 - as it is called in the file
    deviceProperties: Any = None  # noqa: N815
    distributedInfo: Any = None  # noqa: N815
    baseTimeNanoseconds: Any = None  # noqa: N815


@dataclass
class MemoryEvents:
    """Allocations and releases of PyTorch's allocator, in order of time.

    device: -1 for the host's memory. bytes: negative for a release. allocated, reserved: the totals after it, of
    what is in use and of what the allocator holds. -1: not told.
    """

    time: np.ndarray
    device: np.ndarray
    bytes: np.ndarray
    address: np.ndarray
    allocated: np.ndarray
    reserved: np.ndarray


@dataclass(frozen=True)
class LaunchShape:
    """How a kernel was launched; registers and shared bytes are -1 where not recorded."""

    grid: tuple[int, ...]
    block: tuple[int, ...]
    registers: int
    shared_bytes: int


@dataclass(frozen=True)
class InputShape:
    """What an operator was called with, an entry an argument: sizes (of no tensor: empty), types, other values."""

    dims: tuple[Any, ...]
    types: tuple[Any, ...]
    values: tuple[Any, ...]


@dataclass
class Trace:
    """A trace: its columns, and what else the file says.

    steps_ns: start and end of each step of the profiler, in order. step_thread: the thread that they are
    on. rank, ranks: its number in the job and how many there are; -1 and 0 where it does not say.
    python: functions and modules of a trace with stacks. launch_shape: per device operation, input_shape: per
    operator its row of launch_shapes and input_shapes; -1 where not recorded. epoch_ns: what the clock of the
    machine showed at 0, None where the trace does not tell.
    """

    recording: Recording
    memory: MemoryEvents
    python: Ranges
    launch_shape: np.ndarray
    launch_shapes: list[LaunchShape]
    input_shape: np.ndarray
    input_shapes: list[InputShape]
    epoch_ns: int | None = None
    steps_ns: list[tuple[int, int]] = field(default_factory=list)
    step_thread: int = -1
    rank: int = -1
    ranks: int = 0
    device_names: dict[int, str] = field(default_factory=dict)
    device_bytes: dict[int, int] = field(default_factory=dict)

    @property
    def window_ns(self) -> tuple[int, int] | None:
        """From the start of the first step to the end of the last; None without steps."""
        if not self.steps_ns:
            return None
        return self.steps_ns[0][0], max(end for _, end in self.steps_ns)


class _Found:
    """The columns of the events so far."""

    def __init__(self) -> None:
        self.words = Vocabulary()
        self.parts: list[np.ndarray] = []
        self.memory: list[np.ndarray] = []
        self.threads: dict[tuple[Any, Any], int] = {}
        self.launches: dict[tuple[Any, ...], int] = {}
        self.inputs: dict[tuple[bytes, ...], int] = {}

    def add(self, events: list[_Event], times: list[_Times] | None, file: Path) -> None:
        rows, memory = [], []
        for place, event in enumerate(events):
            if event.ph == "i" and event.name == "[memory]" and event.ts is not None:
                told = event.args or _NO_ARGUMENTS
                exact = times[place].ts if times is not None else None
                at = _in_ns(event.ts) if exact is None else int(exact * 1_000)
                device = _number(told.device_id) if told.device_type else -1
                row = (
                    *(_number(told.memory_bytes), _number(told.address)),
                    *(_number(told.allocated), _number(told.reserved)),
                )
                memory.append((at, device, *row))
                continue
            if event.ph != "X":
                continue
            kind = CATEGORIES.get(event.cat.lower()) if type(event.cat) is str else None
            if kind is None:
                continue
            name = event.name
            whole = type(name) is str and event.ts is not None and event.dur is not None
            if kind == PYTHON and not whole:
                continue  # the order does not rest on it
            if type(name) is not str:
                raise CaptureError(f"{file}: an event of category {event.cat!r} has no name")
            start, length = event.ts, event.dur
            if start is None or length is None:
                raise CaptureError(f"{file}: {name!r} has no time, or one that is no number")
            if times is None:
                start_ns, length_ns = _in_ns(start), _in_ns(length)
            else:
                exact = times[place]
                assert exact.ts is not None and exact.dur is not None
                start_ns = int((exact.ts * 1_000).to_integral_value())
                length_ns = int((exact.dur * 1_000).to_integral_value())
            if length_ns < 0:
                raise CaptureError(f"{file}: {name!r} has a negative duration, {length} µs")
            told = event.args or _NO_ARGUMENTS
            device = stream = -1
            thread = shape = -1
            if kind <= MEMSET:
                if told.device is None or told.stream is None:
                    raise CaptureError(
                        f"{file}: {name!r} ran on the GPU, and its device or stream is missing"
                    )
                device, stream = _number(told.device), _number(told.stream)
                if told.grid is not _ABSENT:
                    launch = (*map(bytes, (told.grid, told.block)), told.registers, told.shared)
                    shape = self.launches.setdefault(launch, len(self.launches))
            else:
                if told.dims is not _ABSENT:
                    given = tuple(map(bytes, (told.dims, told.types, told.values)))
                    shape = self.inputs.setdefault(given, len(self.inputs))
                key = event.pid, event.tid
                thread = self.threads.setdefault(key, len(self.threads))
                if kind == CALL:
                    name = cuda_name(name)
            rows.append(
                (
                    kind,
                    start_ns,
                    start_ns + length_ns,
                    self.words.code(name),
                    thread,
                    device,
                    stream,
                    _number(told.correlation),
                    _number(told.bytes),
                    shape,
                )
            )
        if rows:
            self.parts.append(np.array(rows, dtype=np.int64))
        if memory:
            self.memory.append(np.array(memory, dtype=np.int64))


_NO_ARGUMENTS = _Arguments()


def _in_ns(microseconds: float) -> int:
    """Rounded once: the product with 1,000 would be rounded before."""
    whole = int(microseconds)
    return 1_000 * whole + round(1_000 * (microseconds - whole))


def _number(value: Any) -> int:
    if type(value) is int:
        return value
    if type(value) is str and value.lstrip("-").isdigit():
        return int(value)
    return -1


def read(file: Path) -> Trace:
    """The columns of a trace. Raises CaptureError for what is none, EmptyCapture where no GPU worked."""
    document = _document(file)
    found = _Found()
    raws = document.traceEvents
    one, several = msgspec.json.Decoder(_Event), msgspec.json.Decoder(list[_Event])
    several_times = msgspec.json.Decoder(list[_Times])
    for begin in range(0, len(raws), _PART):
        part = raws[begin : begin + _PART]
        text = b"[" + b",".join(part) + b"]"
        try:
            events = several.decode(text)
        except msgspec.ValidationError:
            kept, events = [], []
            for raw in part:
                try:
                    events.append(one.decode(raw))
                except msgspec.ValidationError:
                    if _is_of_use(raw):
                        raise CaptureError(
                            f"{file}: an event has no time, or one that is no number: "
                            f"{bytes(raw)[:80].decode('utf-8', 'replace')}"
                        ) from None
                else:
                    kept.append(raw)
            text = b"[" + b",".join(kept) + b"]"
        exact = None
        if any(event.ts is not None and abs(event.ts) > _EXACT for event in events):
            exact = several_times.decode(text)
        found.add(events, exact, file)
    del raws
    return _trace(found, document, file)


def _is_of_use(raw: msgspec.Raw) -> bool:
    """Whether an event that does not fit is one that the order is made of."""
    try:
        event = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return False
    category = event.get("cat") if isinstance(event, dict) else None
    kind = CATEGORIES.get(category.lower()) if isinstance(category, str) else None
    return kind not in (None, PYTHON) and event.get("ph") == "X"


def _document(file: Path) -> _Document:
    try:
        data = file.read_bytes()
        if data[:2] == captures.GZIP_MAGIC:
            data = gzip.decompress(data)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise CaptureError(f"{file}: is cut off or damaged (it does not decompress)") from None
    except OSError as error:
        raise CaptureError(f"{file}: cannot be read ({error.strerror})") from None
    if len(data) > MOST_TEXT_BYTES:
        raise CaptureError(
            f"{file}: has more than {MOST_TEXT_BYTES // 2**20} MiB of text; record fewer steps "
            "(torch.profiler.schedule)"
        )
    try:
        if data.lstrip()[:1] == b"[":
            return _Document(msgspec.json.decode(data, type=list[msgspec.Raw]))
        return msgspec.json.decode(data, type=_Document)
    except msgspec.ValidationError:
        raise CaptureError(
            f"{file}: JSON, but not a trace of torch.profiler (no list traceEvents)"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CaptureError(f"{file}: is no JSON, or cut off ({error})") from None


def _trace(found: _Found, document: _Document, file: Path) -> Trace:
    table = np.concatenate(found.parts) if found.parts else np.zeros((0, 10), dtype=np.int64)
    kind = table[:, 0]
    if not (kind <= MEMSET).any():
        raise EmptyCapture(
            f"{file}: a trace in which nothing ran on a GPU; record it with torch.profiler and "
            "ProfilerActivity.CUDA (traces of other tools do not say what the course needs)"
        )
    table = table[np.lexsort((-table[:, 2], table[:, 1]))]
    memory = np.concatenate(found.memory) if found.memory else np.zeros((0, 6), dtype=np.int64)
    memory = memory[np.argsort(memory[:, 0], kind="stable")]
    origin = int(table[table[:, 0] != PYTHON][0, 1])
    memory[:, 0] -= origin
    table[:, 1:3] -= origin
    kind = table[:, 0]
    words = found.words
    work = table[kind <= MEMSET]
    direction, pageable = work[:, 3].copy(), np.zeros(len(work), dtype=bool)
    for code in np.unique(work[work[:, 0] == COPY, 3]).tolist():
        told = _COPY_NAME.match(words.names[code])
        own = (work[:, 0] == COPY) & (work[:, 3] == code)
        if told:
            direction[own] = words.code(_DIRECTIONS.get(told[1], told[1]))
            pageable[own] = "Pageable" in (told[2], told[3])
    zeros = np.zeros(len(work), dtype=np.int32)
    stream, streams = columns.number_rows(zeros, work[:, 5], work[:, 6])
    operations = DeviceOperations(
        start=work[:, 1].copy(),
        end=work[:, 2].copy(),
        kind=np.array([_DEVICE_KIND[k] for k in range(3)], dtype=np.int8)[work[:, 0]],
        name=direction.astype(np.int32),
        device=work[:, 5].astype(np.int32),
        stream=stream,
        process=zeros,
        correlation=work[:, 7].copy(),
        bytes=work[:, 8].copy(),
        pageable=pageable,
        node=np.zeros(len(work), dtype=bool),
        migration=np.zeros(len(work), dtype=bool),
    )

    def ranges(which: int) -> Ranges:
        rows = table[kind == which]
        return Ranges(
            rows[:, 1].copy(),
            rows[:, 2].copy(),
            rows[:, 3].astype(np.int32),
            rows[:, 4].astype(np.int32),
        )

    annotations, operators = ranges(RANGE), ranges(OPERATOR)
    steps = []
    step_names = np.array([bool(STEP_RANGE.fullmatch(name)) for name in words.names], dtype=bool)
    for source in (annotations, operators):
        own = np.flatnonzero(step_names[source.name]) if len(source) else []
        steps += [
            (int(source.start[row]), int(source.end[row]), int(source.thread[row])) for row in own
        ]
        if steps:
            break
    steps.sort()
    calls = table[kind == CALL]
    if steps:
        # Host code before the first CUDA call of the window is seen as well.
        begin = np.array([[CALL, steps[0][0], steps[0][0], words.code(""), steps[0][2], *[-1] * 5]])
        calls = np.concatenate([begin, calls])
        calls = calls[np.lexsort((-calls[:, 2], calls[:, 1]))]
    host = HostCalls(
        start=calls[:, 1].copy(),
        end=calls[:, 2].copy(),
        name=calls[:, 3].astype(np.int32),
        thread=calls[:, 4].astype(np.int32),
        process=np.zeros(len(calls), dtype=np.int32),
        # A call without a number issued nothing.
        correlation=np.where(calls[:, 7] >= 0, calls[:, 7], -2 - np.arange(len(calls))),
        returned=np.zeros(len(calls), dtype=np.int64),
    )
    none = [np.zeros(0, dtype=np.int64) for _ in range(5)]
    recording = Recording(
        file=str(file),
        source="kineto",
        names=words.names,
        processes=[0],
        streams=[(int(p), int(d), int(s)) for p, d, s in streams],
        threads=[
            (0, tid if type(tid) is int else number) for (_, tid), number in found.threads.items()
        ],
        operations=operations,
        calls=host,
        syncs=EventLinks(*none),
        event_records=EventLinks(*none),
        ranges=annotations,
        operators=operators,
        os_calls=Ranges(*none[:4]),
    )
    job = document.distributedInfo if isinstance(document.distributedInfo, dict) else {}
    devices = document.deviceProperties if isinstance(document.deviceProperties, list) else []
    recording.device_names = {
        _number(one.get("id")): str(one.get("name") or "")
        for one in devices
        if isinstance(one, dict)
    }
    return Trace(
        recording,
        MemoryEvents(*memory.T),
        ranges(PYTHON),
        np.where(work[:, 0] == KERNEL, work[:, 9], -1),
        [_launch_shape(*launch) for launch in found.launches],
        table[kind == OPERATOR][:, 9].copy(),
        [_input_shape(*given) for given in found.inputs],
        base + origin if (base := _number(document.baseTimeNanoseconds)) > 0 else None,
        [(start, end) for start, end, _ in steps],
        steps[0][2] if steps else -1,
        _number(job.get("rank")),
        max(0, _number(job.get("world_size"))),
        recording.device_names,
        {
            _number(one.get("id")): _number(one.get("totalGlobalMem"))
            for one in devices
            if isinstance(one, dict)
        },
    )


def _launch_shape(grid: bytes, block: bytes, registers: Any, shared: Any) -> LaunchShape:
    sizes = [
        tuple(_number(size) for size in told) if isinstance(told, list) else ()
        for told in (msgspec.json.decode(grid), msgspec.json.decode(block))
    ]
    return LaunchShape(sizes[0], sizes[1], _number(registers), _number(shared))


def _input_shape(*texts: bytes) -> InputShape:
    told = (msgspec.json.decode(text) for text in texts)
    return InputShape(*(tuple(one) if isinstance(one, list) else () for one in told))
