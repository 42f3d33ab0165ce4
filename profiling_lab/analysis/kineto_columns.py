"""A trace of PyTorch's profiler (Kineto) in the columns of a recording.

    >>> trace = read(captures.file("torch_train_sync", "trace.json"))
    >>> trace.recording.operations.start, trace.steps_ns

The file is decoded in parts of some ten thousand events: what stays are columns. A trace tells less than a
recording of Nsight Systems: nothing of events between streams, and not which stream a wait is for, so a
wait counts as one for all work issued before.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from profiling_lab.analysis import columns
from profiling_lab.analysis.columns import (
    DeviceOperations,
    EventLinks,
    HostCalls,
    Ranges,
    Recording,
)
from profiling_lab.analysis.kineto_events import (
    CALL,
    COPY,
    KERNEL,
    MEMSET,
    OPERATOR,
    PYTHON,
    RANGE,
    Document,
    Found,
    decoded,
    number,
)
from profiling_lab.captures.kineto import STEP_RANGE
from profiling_lab.errors import EmptyCapture

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


def read(file: Path) -> Trace:
    """The columns of a trace. Raises CaptureError for what is none, EmptyCapture where no GPU worked."""
    return _trace(*decoded(file), file)


def _trace(found: Found, document: Document, file: Path) -> Trace:
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
        number(one.get("id")): str(one.get("name") or "")
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
        base + origin if (base := number(document.baseTimeNanoseconds)) > 0 else None,
        [(start, end) for start, end, _ in steps],
        steps[0][2] if steps else -1,
        number(job.get("rank")),
        max(0, number(job.get("world_size"))),
        recording.device_names,
        {
            number(one.get("id")): number(one.get("totalGlobalMem"))
            for one in devices
            if isinstance(one, dict)
        },
    )


def _launch_shape(grid: bytes, block: bytes, registers: Any, shared: Any) -> LaunchShape:
    sizes = [
        tuple(number(size) for size in told) if isinstance(told, list) else ()
        for told in (msgspec.json.decode(grid), msgspec.json.decode(block))
    ]
    return LaunchShape(sizes[0], sizes[1], number(registers), number(shared))


def _input_shape(*texts: bytes) -> InputShape:
    told = (msgspec.json.decode(text) for text in texts)
    return InputShape(*(tuple(one) if isinstance(one, list) else () for one in told))
