"""A recording of what host and devices did, in columns.

One recording is one `Recording`, whether Nsight Systems or PyTorch wrote it: numbers in arrays of one
length a table, names as codes into one list. A million events are a few dozen arrays, no object each.
Times are integer nanoseconds on the recording's clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields

import numpy as np

from profiling_lab.errors import EmptyCapture

KERNEL, GRAPH, COPY, MEMSET = range(4)
DEVICE_KINDS = ("kernel", "graph", "copy", "memset")
BLOCKING, LEGACY_DEFAULT = 1, 3  # types of streams, as CUPTI counts them
# Copies that cross the link between host and device; others, and memsets, are work on the device.
LINK_COPIES = ("H2D", "D2H", "H2A", "A2H", "H2H")
COLLECTIVE = re.compile(r"nccl|rccl", re.IGNORECASE)
# Ranges that say that input is made, by their names: PyTorch's own and what people call theirs.
LOADER = re.compile(
    r"data[ _-]?load|dataset|next[ _-]?batch|(load|fetch|get|read|prepare)[ _-]?(next[ _-]?)?(the[ _-]?)?"
    r"(batch|data|input|sample)|input[ _-]?pipeline|__next__|\bdali\b|tf[._]?data",
    re.IGNORECASE,
)
NO_NUMBER = -1


class _Rows:
    """Columns of one length."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))  # type: ignore[arg-type]


@dataclass
class DeviceOperations(_Rows):
    """What ran on devices, ordered by start.

    kind: KERNEL, GRAPH, COPY or MEMSET. name: code of a kernel's name, or a copy's direction. stream: row of
    `Recording.streams`. bytes: -1 where not recorded. pageable: a copy from or to pageable memory.
    node: of a CUDA graph whose nodes were recorded.
    """

    start: np.ndarray
    end: np.ndarray
    kind: np.ndarray
    name: np.ndarray
    device: np.ndarray
    stream: np.ndarray
    process: np.ndarray
    correlation: np.ndarray
    bytes: np.ndarray
    pageable: np.ndarray
    node: np.ndarray
    migration: np.ndarray


@dataclass
class HostCalls(_Rows):
    """Calls of the CUDA runtime and driver, ordered by start, outer before inner.

    name: code, without version suffix. thread: row of `Recording.threads`. returned: their result.
    """

    start: np.ndarray
    end: np.ndarray
    name: np.ndarray
    thread: np.ndarray
    process: np.ndarray
    correlation: np.ndarray
    returned: np.ndarray


@dataclass
class Ranges(_Rows):
    """Named stretches of a thread: NVTX ranges, operators, calls of the operating system."""

    start: np.ndarray
    end: np.ndarray
    name: np.ndarray
    thread: np.ndarray


@dataclass
class EventLinks(_Rows):
    """Which stream or event a call names: rows of synchronisation, or of recorded events."""

    process: np.ndarray
    correlation: np.ndarray
    device: np.ndarray
    stream: np.ndarray
    event: np.ndarray


@dataclass
class Recording:
    """All of a recording that a diagnosis rests on.

    streams: (process, device, number). threads: (process, thread). processes: as recorded; elsewhere a process
    is its place in this list. ranges: NVTX, or PyTorch's own annotations. operators: PyTorch's. os_calls: what
    the threads asked of the operating system. device_names: as far as recorded. source: "nsys" or "kineto".
    stream_types: by place in streams: BLOCKING, LEGACY_DEFAULT, or another; as far as recorded.
    """

    file: str
    source: str
    names: list[str]
    processes: list[int]
    streams: list[tuple[int, int, int]]
    threads: list[tuple[int, int]]
    operations: DeviceOperations
    calls: HostCalls
    syncs: EventLinks
    event_records: EventLinks
    ranges: Ranges
    operators: Ranges
    os_calls: Ranges
    device_names: dict[int, str] = field(default_factory=dict)
    stream_types: dict[int, int] = field(default_factory=dict)

    def names_like(self, pattern: str) -> np.ndarray:
        """Per name code, whether a regular expression matches from the name's beginning."""
        known = re.compile(pattern)
        return np.array([known.match(name) is not None for name in self.names], dtype=bool)

    def code(self, name: str) -> int:
        """The code of a name; -1 if nothing has it."""
        return self._codes.get(name, NO_NUMBER)

    def __post_init__(self) -> None:
        self._codes = {name: number for number, name in enumerate(self.names)}

    @property
    def span_ns(self) -> tuple[int, int]:
        """First start and last end of any device operation."""
        return int(self.operations.start[0]), int(self.operations.end.max())

    @property
    def devices(self) -> list[int]:
        """The devices that ran something, in order."""
        return np.unique(self.operations.device).tolist()


class Vocabulary:
    """Names and their codes."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self._codes: dict[str, int] = {}

    def code(self, name: str) -> int:
        """The code of a name, a new one if need be."""
        found = self._codes.get(name)
        if found is None:
            found = self._codes[name] = len(self.names)
            self.names.append(name)
        return found


def number_rows(*columns: np.ndarray) -> tuple[np.ndarray, list[tuple[int, ...]]]:
    """Rows of several columns as numbers, and what each number stands for, in order."""
    if not len(columns[0]):
        return np.zeros(0, dtype=np.int32), []
    key = np.zeros(len(columns[0]), dtype=np.int64)
    for column in columns:
        values, place = np.unique(column, return_inverse=True)
        key = key * len(values) + place
    _, first, numbers = np.unique(key, return_index=True, return_inverse=True)
    rows = list(zip(*(column[first].tolist() for column in columns), strict=True))
    return numbers.astype(np.int32), rows


def check_work(recording: Recording) -> None:
    """Raise EmptyCapture if nothing ran on a device."""
    if not len(recording.operations):
        raise EmptyCapture(f"{recording.file}: no kernel, graph, copy or memset was recorded")
