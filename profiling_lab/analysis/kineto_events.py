"""The events of a trace, decoded in parts of some ten thousand, as rows of numbers."""

from __future__ import annotations

import gzip
import zlib
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from profiling_lab import captures
from profiling_lab.analysis.columns import Vocabulary
from profiling_lab.captures.kineto import cuda_name
from profiling_lab.captures.opening import MOST_TEXT_BYTES
from profiling_lab.errors import CaptureError

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


class Document(msgspec.Struct, gc=False):
    """What of the file is read besides the events, and these as they stand in it."""

    traceEvents: list[msgspec.Raw]  # noqa: N815 - as it is called in the file
    deviceProperties: Any = None  # noqa: N815
    distributedInfo: Any = None  # noqa: N815
    baseTimeNanoseconds: Any = None  # noqa: N815


class Found:
    """The columns of the events so far."""

    def __init__(self) -> None:
        self.words = Vocabulary()
        self.parts: list[np.ndarray] = []
        self.memory: list[np.ndarray] = []
        self.threads: dict[tuple[Any, Any], int] = {}
        self.launches: dict[tuple[Any, ...], int] = {}
        self.inputs: dict[tuple[bytes, ...], int] = {}

    def add(self, events: list[_Event], times: list[_Times] | None, file: Path) -> None:
        """Take events in. times: exact ones, where a float is not. Raises CaptureError for what is no event."""
        rows, memory = [], []
        for place, event in enumerate(events):
            if event.ph == "i" and event.name == "[memory]" and event.ts is not None:
                told = event.args or _NO_ARGUMENTS
                exact = times[place].ts if times is not None else None
                at = _in_ns(event.ts) if exact is None else int(exact * 1_000)
                device = number(told.device_id) if told.device_type else -1
                row = (
                    *(number(told.memory_bytes), number(told.address)),
                    *(number(told.allocated), number(told.reserved)),
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
                device, stream = number(told.device), number(told.stream)
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
                    number(told.correlation),
                    number(told.bytes),
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


def number(value: Any) -> int:
    """A number, or a text of digits, as a number; -1 for anything else."""
    if type(value) is int:
        return value
    if type(value) is str and value.lstrip("-").isdigit():
        return int(value)
    return -1


def decoded(file: Path) -> tuple[Found, Document]:
    """The events of a trace as columns, and the rest of the file. Raises CaptureError for what is none."""
    document = _document(file)
    found = Found()
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
    return found, document


def _is_of_use(raw: msgspec.Raw) -> bool:
    """Whether an event that does not fit is one that the order is made of."""
    try:
        event = msgspec.json.decode(raw)
    except msgspec.DecodeError:
        return False
    category = event.get("cat") if isinstance(event, dict) else None
    kind = CATEGORIES.get(category.lower()) if isinstance(category, str) else None
    return kind not in (None, PYTHON) and event.get("ph") == "X"


def _document(file: Path) -> Document:
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
            return Document(msgspec.json.decode(data, type=list[msgspec.Raw]))
        return msgspec.json.decode(data, type=Document)
    except msgspec.ValidationError:
        raise CaptureError(
            f"{file}: JSON, but not a trace of torch.profiler (no list traceEvents)"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise CaptureError(f"{file}: is no JSON, or cut off ({error})") from None
