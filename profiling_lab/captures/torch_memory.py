"""A memory snapshot of PyTorch, and what a trace tells of memory, in plain form.

    >>> from profiling_lab.captures import torch_memory
    >>> torch_memory.memory_blocks("torch_memory_peak")[0].where   # the line that allocated it

`capture` is a capture's name, the path of its folder, or of the file itself.
"""

from __future__ import annotations

import gzip
import io
import itertools
import pickle
import zlib
from dataclasses import dataclass
from typing import Any

from profiling_lab import captures
from profiling_lab.captures.torch_trace import of_a_library, read_trace, steps
from profiling_lab.errors import CaptureError


@dataclass(frozen=True)
class Block:
    """A block of device memory in the history of an allocator.

    It is in use from the entry `from_place` of the history on, up to the entry `to_place` and not at it. Blocks from
    before the history have from_place -1; of those that are never released to_place is the history's length.
    bytes: as asked for. where: "file:line function" of the program's own line that allocated it; None if
    unknown. time_us: of the allocation, since 1970; None if unknown.
    """

    from_place: int
    to_place: int
    bytes: int
    where: str | None
    time_us: int | None


def load_snapshot(capture: str) -> dict[str, Any]:
    """A memory snapshot of PyTorch, loaded without running anything that is in it.

    `torch.cuda.memory._dump_snapshot` writes a pickle, and loading a pickle may call any function that
    its author chose (source: the warning at the top of Python's `pickle` documentation). A snapshot
    needs none: it is made of dicts, lists, tuples, strings, bytes, numbers, booleans and None. So the
    loader refuses every class and function by name, and every persistent id.

    capture: its file is `snapshot.pickle`, also compressed as `snapshot.pickle.gz`.
    Returns {"segments": list, "device_traces": list of lists}, as recorded; other keys are left out.
    Raises CaptureError, naming the file and what is wrong: a class or function (named "module.name"),
    a file cut off in the middle or no pickle, something else than a dict with these two lists
    (`torch.cuda.memory_snapshot()`, for one, gives only the list of segments).
    """
    file = captures.file(capture, "snapshot.pickle")
    try:
        data = file.read_bytes()
        if data[:2] == captures.GZIP_MAGIC:
            data = gzip.decompress(data)
        loaded = _PlainUnpickler(io.BytesIO(data)).load()
    except _Refused as refused:
        raise CaptureError(
            f"{file}: asks for {refused}; a snapshot holds plain data only"
        ) from None
    except (EOFError, OSError, zlib.error):
        raise CaptureError(f"{file}: is cut off or damaged") from None
    except Exception as error:  # noqa: BLE001 - a damaged pickle may raise anything
        raise CaptureError(f"{file}: is no pickle, or damaged ({error})") from None
    if not isinstance(loaded, dict):
        raise CaptureError(f"{file}: holds a {type(loaded).__name__}, and a snapshot is a dict")
    out = {}
    for key in ("segments", "device_traces"):
        if not isinstance(loaded.get(key), list):
            raise CaptureError(f"{file}: holds no list {key!r}; is it a memory snapshot?")
        out[key] = loaded[key]
    return out


class _Refused(Exception):
    """What a pickle asked for."""


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise _Refused(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise _Refused(f"the persistent id {pid!r}")


def memory_blocks(capture: str, device: int = 0) -> list[Block]:
    """Every block that was in use during the history in a snapshot.

    The history is `device_traces[device]`, in order of time: a block is in use from its "alloc" to its
    "free_completed". It does not begin at nothing: blocks from before show up when they are released, or are
    among the snapshot's own ("active_allocated" or "active_pending_free"). A block counts with the size that was
    asked for. Older snapshots lack some keys: a segment without "device" is of device 0, and blocks without
    "address" lie in their segment one after the other.
    Raises CaptureError, naming `_record_memory_history`, if there is no history of that device.
    """
    snapshot = load_snapshot(capture)
    traces = snapshot["device_traces"]
    if not 0 <= device < len(traces) or not traces[device]:
        raise CaptureError(
            f"{capture}: holds no history of device {device}; was _record_memory_history on?"
        )
    entries = traces[device]
    blocks: list[Block] = []
    begun: dict[int, tuple[int, dict[str, Any]]] = {}
    for place, entry in enumerate(entries):
        if entry["action"] == "alloc":
            begun[entry["addr"]] = place, entry
        elif entry["action"] == "free_completed":
            since, allocated = begun.pop(entry["addr"], (-1, {}))
            blocks.append(_block(since, place, entry["size"], allocated))
    for since, allocated in begun.values():
        blocks.append(_block(since, len(entries), allocated["size"], allocated))
    for segment in snapshot["segments"]:
        if segment.get("device", 0) == device:
            blocks += [
                _block(-1, len(entries), block["requested_size"], {})
                for block in _blocks_in_use(segment)
                if block["address"] not in begun
            ]
    return sorted(blocks, key=lambda block: block.from_place)


def _block(since: int, until: int, size: int, allocated: dict[str, Any]) -> Block:
    where = _allocating_line(allocated.get("frames", []))
    return Block(since, until, size, where, allocated.get("time_us"))


def _blocks_in_use(segment: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of a segment that are in use, with their addresses."""
    found, address = [], segment["address"]
    for block in segment["blocks"]:
        if block["state"] != "inactive":
            found.append(block | {"address": block.get("address", address)})
        address += block["size"]
    return found


def _allocating_line(frames: list[dict[str, Any]]) -> str | None:
    for frame in frames:
        if frame["filename"].endswith(".py") and not of_a_library(frame["filename"]):
            return f"{frame['filename']}:{frame['line']} {frame['name']}"
    return None


def bytes_in_use(capture: str, device: int = 0) -> list[int]:
    """What was in use before the history began, and after each of its entries: one number more than it has entries."""
    blocks = memory_blocks(capture, device)
    change = [0] * (len(load_snapshot(capture)["device_traces"][device]) + 2)
    for block in blocks:
        change[block.from_place + 1] += block.bytes
        change[block.to_place + 1] -= block.bytes
    return list(itertools.accumulate(change[:-1]))


def reserved_peak_bytes(capture: str, device: int = 0) -> int:
    """The most that segments added up to in the history: what the process held from CUDA."""
    snapshot = load_snapshot(capture)
    segments = [s for s in snapshot["segments"] if s.get("device", 0) == device]
    most = now = sum(segment["total_size"] for segment in segments)
    for entry in reversed(snapshot["device_traces"][device]):
        if entry["action"] in ("segment_alloc", "segment_map"):
            now -= entry["size"]
        elif entry["action"] in ("segment_free", "segment_unmap"):
            now += entry["size"]
        most = max(most, now)
    return most


def step_end_bytes(capture: str, device: int = 0) -> list[int]:
    """What was allocated on a device at the end of each step, by the memory events of a trace.

    That is the total of the last such event that is not after the step's end; a step that none precedes is left out.
    Empty without memory events of the device, or where they tell no totals. Raises CaptureError without steps.
    """
    events = [event for event in read_trace(capture)["memory"] if event["device"] == device]
    before = [[e for e in events if e["time_ns"] <= end] for _, _, end in steps(capture)]
    ends = [past[-1]["allocated_bytes"] for past in before if past]
    return [] if None in ends else ends
