"""Memory profiling: who holds the memory?

You divide the memory that PyTorch's allocator has reserved into parts, and explain an allocation that failed
although enough was free. You distinguish lines that ask for memory from lines that hold it, infer from a
tensor's lifetime what it is, and find a line that leaks. The lesson is `README.md` in this folder, hints are
in `hints.md`, and

    uv run lab check torch_ex02

checks your solution. A **snapshot** is what `torch.cuda.memory._snapshot()` returns, written as JSON. It has
`segments`, each with the `blocks` that it is split into, and the history, `device_traces`, a list for each
device. Use device 0. The recorded programs added `phases` (name, step, start_us, end_us).
"""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import groupby
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding

MIB = 1 << 20
# The allocator's sizes (torch 2.11, c10/core/AllocatorConfig.h and c10/cuda/CUDACachingAllocator.cpp).
BLOCK_STEP = 512  # blocks are multiples of this
SMALL_LARGEST = MIB  # up to here a block comes from the small pool, whose segments have 2 MiB
SMALL_SEGMENT = 2 * MIB
MIDDLE_SEGMENT = 20 * MIB  # for a block of the large pool below 10 MiB
MIDDLE_BELOW = 10 * MIB
SEGMENT_STEP = 2 * MIB  # segments for larger blocks are multiples of this

# The state of a block that is kept for later. The others are in use: "active_allocated", and
# "active_pending_free", released while another stream may still work on it (torch 2.11 and 2.15; the
# documentation of torch.cuda.memory.memory_snapshot calls it "active_awaiting_free").
FREE = "inactive"

# More growth per step than this is a finding. Within a tenth of it either verdict is borderline.
GROWTH_FLOOR_BYTES = MIB // 4
BORDER_RATIO = 0.1


def read_snapshot(capture: str, name: str = "snapshot.json") -> dict[str, Any]:
    """A snapshot of a capture. Raises CaptureError for a file that is not a snapshot."""
    try:
        snapshot = json.loads(captures.text(capture, name))
        if not isinstance(snapshot["segments"], list) or not snapshot["device_traces"]:
            raise TypeError
    except (ValueError, LookupError, TypeError):
        message = f"{capture}: {name} is no snapshot of torch.cuda.memory, as JSON"
        raise CaptureError(message) from None
    return snapshot


def program_line(entry: dict[str, Any]) -> str | None:
    """The line of the program itself behind an entry of the history: "file:line function", or None.

    "frames" are innermost first. Frames of installed packages and of Python itself are skipped.
    """
    for frame in entry.get("frames", ()):
        file = frame["filename"]
        if file.endswith(".py") and not any(p in file for p in ("-packages/", "python3.", "<")):
            return f"{file}:{frame['line']} {frame['name']}"
    return None


def reserved_memory(capture: str, name: str = "snapshot.json") -> dict[str, dict[str, int]]:
    """What is in the memory that the allocator has reserved from the driver.

    Returns, for each pool that has segments (its name is their "segment_type", "small" or "large"):

        "reserved_bytes":    "total_size" of its segments.
        "requested_bytes":   "requested_size" of the blocks in use (state not FREE): what the program asked for.
        "rounding_bytes":    "size" of the blocks in use, minus requested_bytes.
        "free_bytes":        "size" of the other blocks, which stay in the cache.
        "releasable_bytes":  "total_size" of the segments in which no block is in use: what empty_cache
                             can return (with expandable segments it may return more).
    Requested, rounding and free add up to reserved. A block that is not in use may still have the
    "requested_size" of its last use.

    Raises CaptureError for a file that is not a snapshot, and for a snapshot without segments.
    """
    out: dict[str, dict[str, int]] = {}
    for segment in read_snapshot(capture, name)["segments"]:
        pool = out.setdefault(
            segment["segment_type"],
            dict.fromkeys(("reserved", "requested", "rounding", "free", "releasable"), 0),
        )
        used = [block for block in segment["blocks"] if block["state"] != FREE]
        size = sum(block["size"] for block in used)
        requested = sum(block["requested_size"] for block in used)
        pool["reserved"] += segment["total_size"]
        pool["requested"] += requested
        pool["rounding"] += size - requested
        pool["free"] += segment["total_size"] - size
        if not used:
            pool["releasable"] += segment["total_size"]
    if not out:
        raise CaptureError(f"{capture}: nothing is reserved; was the snapshot taken on a GPU?")
    return {
        pool: {f"{key}_bytes": value for key, value in sums.items()} for pool, sums in out.items()
    }


def segment_size(rounded_bytes: int) -> int:
    """The size that the allocator requests from the driver for a block of this size (a multiple of BLOCK_STEP)."""
    if rounded_bytes <= SMALL_LARGEST:
        return SMALL_SEGMENT
    if rounded_bytes < MIDDLE_BELOW:
        return MIDDLE_SEGMENT
    return -(-rounded_bytes // SEGMENT_STEP) * SEGMENT_STEP


def explain_request(capture: str, asked_bytes: int, limit_bytes: int) -> dict[str, Any]:
    """What the allocator does with a request in the state of `snapshot.json`, and why.

    limit_bytes: the most that may be reserved.

    The size of the block is asked_bytes rounded up to BLOCK_STEP. Up to SMALL_LARGEST the block comes from the
    small pool, else from the large one. The outcome is the first of these that holds:

        "cached":        the pool has a free block of at least that size; the driver is not called.
        "new_segment":   a segment (`segment_size`) fits within the limit, in addition to all that is reserved
                         now.
        "after_release": it fits after all segments without a block in use, of both pools, are returned.
        "fragmented":    the request fails, although the free blocks of the pool and what is not reserved yet
                         would together be enough for the block.
        "exhausted":     the request fails, and these bytes would not be enough.
    (Ignore other streams, private pools, and memory of other programs on the device.)

    Returns {"outcome": one of these, "block_bytes": the block's size, "free_bytes": total size of the pool's
    free blocks, "largest_free_bytes": the largest of them (0 if there are none), "unreserved_bytes": the limit
    minus what is reserved}.

    Raises ValueError for asked_bytes below 1 or a limit below what is reserved. Raises CaptureError for a file
    that is not a snapshot, or a snapshot with segments that can grow ("is_expandable"), for which other rules
    hold.
    """
    segments = read_snapshot(capture)["segments"]
    if any(segment.get("is_expandable") for segment in segments):
        raise CaptureError(f"{capture}: its segments can grow; other rules hold for them")
    reserved = sum(segment["total_size"] for segment in segments)
    if asked_bytes < 1 or limit_bytes < reserved:
        raise ValueError(
            f"{asked_bytes} bytes asked for, a limit of {limit_bytes}: at least 1, and at least the "
            f"{reserved} bytes that are reserved"
        )
    block = -(-asked_bytes // BLOCK_STEP) * BLOCK_STEP
    pool = "small" if block <= SMALL_LARGEST else "large"
    free = [
        one["size"]
        for segment in segments
        if segment["segment_type"] == pool
        for one in segment["blocks"]
        if one["state"] == FREE
    ]
    unused = sum(
        segment["total_size"]
        for segment in segments
        if all(one["state"] == FREE for one in segment["blocks"])
    )
    largest, unreserved = max(free, default=0), limit_bytes - reserved
    if largest >= block:
        outcome = "cached"
    elif segment_size(block) <= unreserved:
        outcome = "new_segment"
    elif segment_size(block) <= unreserved + unused:
        outcome = "after_release"
    else:
        outcome = "fragmented" if sum(free) + unreserved >= block else "exhausted"
    return {
        "outcome": outcome,
        "block_bytes": block,
        "free_bytes": sum(free),
        "largest_free_bytes": largest,
        "unreserved_bytes": unreserved,
    }


def _tensors(snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    """The blocks of the history: size, born_us, died_us (None: in use in the end), where."""
    out: list[dict[str, Any]] = []
    alive: dict[int, dict[str, Any]] = {}
    for entry in snapshot["device_traces"][0]:
        if entry["action"] == "alloc":
            tensor = {
                "bytes": entry["size"],
                "born_us": entry["time_us"],
                "died_us": None,
                "where": program_line(entry),
            }
            out.append(tensor)
            alive[entry["addr"]] = tensor
        elif entry["action"] == "free_completed" and entry["addr"] in alive:
            alive.pop(entry["addr"])["died_us"] = entry["time_us"]
    if not out:
        raise CaptureError("no allocation in the history; was _record_memory_history on?")
    return out


def requests_by_line(capture: str) -> list[dict[str, Any]]:
    """Which lines ask for memory, and which lines hold it: two different lists.

    Use the history. An "alloc" is a request of "size" bytes at the address "addr"; a "free_completed" at that
    address ends it. (Skip frees of allocations that are older than the history.)

    Returns a dict for each line of the program (`program_line` of the "alloc", also for None):
        "where":        the line.
        "asked_bytes":  sum of the bytes that it asked for.
        "asked_count":  number of its requests.
        "held_bytes":   number of its bytes that are in use at the end.
        "held_count":   number of its allocations that are in use at the end.
    They are ordered by asked_bytes, largest first, then by where (None last).

    Raises CaptureError for a file that is not a snapshot, and if the history has no allocation.
    """
    rows: dict[str | None, dict[str, Any]] = {}
    for tensor in _tensors(read_snapshot(capture)):
        row = rows.setdefault(
            tensor["where"],
            {"where": tensor["where"], "asked_bytes": 0, "asked_count": 0}
            | {"held_bytes": 0, "held_count": 0},
        )
        row["asked_bytes"] += tensor["bytes"]
        row["asked_count"] += 1
        if tensor["died_us"] is None:
            row["held_bytes"] += tensor["bytes"]
            row["held_count"] += 1
    return sorted(
        rows.values(), key=lambda r: (-r["asked_bytes"], r["where"] is None, r["where"] or "")
    )


def lifetimes(capture: str) -> list[dict[str, Any]]:
    """In which phase tensors are allocated ("born"), and in which they are released ("died").

    Phases are those of the capture: a time is in the phase with start_us <= time < end_us. A tensor is born at
    its "alloc" and dies at its "free_completed" (as in requests_by_line). Leave out tensors that were born
    or died outside of all phases.

    Returns a dict for each combination that occurs:
        "born":         name of the phase.
        "died":         name of the phase; None if the tensor is in use at the end.
        "steps_later":  step of the phase in which it died minus step of the phase in which it was born; None
                        if died is None.
        "bytes":        total size of these tensors.
        "count":        number of these tensors.
    They are ordered by bytes, largest first, then by born, died (None last) and steps_later.

    Raises CaptureError for a file that is not a snapshot, if the history has no allocation, and if there are no
    phases.
    """
    snapshot = read_snapshot(capture)
    phases = _phases(capture, snapshot)

    def phase_at(time_us: int) -> dict[str, Any] | None:
        inside = (p for p in phases if p["start_us"] <= time_us < p["end_us"])
        return next(inside, None)

    sums: dict[tuple[str, str | None, int | None], list[int]] = defaultdict(list)
    for tensor in _tensors(snapshot):
        born = phase_at(tensor["born_us"])
        if born is None:
            continue
        if tensor["died_us"] is None:
            sums[born["name"], None, None].append(tensor["bytes"])
        elif died := phase_at(tensor["died_us"]):
            key = born["name"], died["name"], died["step"] - born["step"]
            sums[key].append(tensor["bytes"])
    rows = [
        {"born": born, "died": died, "steps_later": later, "bytes": sum(sizes), "count": len(sizes)}
        for (born, died, later), sizes in sums.items()
    ]
    return sorted(
        rows,
        key=lambda r: (
            -r["bytes"],
            r["born"],
            r["died"] is None,
            r["died"] or "",
            r["steps_later"] or 0,
        ),
    )


def _phases(capture: str, snapshot: dict[str, Any]) -> list[dict[str, Any]]:
    if not snapshot.get("phases"):
        raise CaptureError(
            f"{capture}: it holds no phases, so nothing tells one step from the next"
        )
    return snapshot["phases"]


def _step_ends(capture: str, snapshot: dict[str, Any]) -> list[int]:
    """When each step ended, in order. Set-up, before step 0, is none."""
    steps = [phase for phase in _phases(capture, snapshot) if phase["step"] >= 0]
    steps.sort(key=lambda phase: phase["step"])
    ends = [
        max(phase["end_us"] for phase in group)
        for _, group in groupby(steps, key=lambda phase: phase["step"])
    ]
    if len(ends) < 4:
        raise CaptureError(f"{capture}: {len(ends)} steps; growth shows in four or more")
    return ends


def growing_lines(capture: str) -> list[dict[str, Any]]:
    """The lines whose memory still grows late in the run: leaks, not memory that is filled once.

    At a given time a line (`program_line`, also None) holds the memory that it has allocated so
    far, without the memory that was released so far ("free_completed"; both include that moment). A
    step ends with the last end_us of its phases. Phases with a step below 0 are set-up and belong
    to no step. With n steps, counted from 0, the line grows by

        (held at the end of the last step - held at the end of step n // 2) / (n - 1 - n // 2)

    bytes per step. A leak in every second or third step counts with its mean.

    Returns a dict {"where", "growth_bytes": float, "held_bytes": held at the end of the last step} for each
    line that grows by more than 0, the fastest first, then by where (None last).

    Raises CaptureError as lifetimes does, and for fewer than four steps.
    """
    snapshot = read_snapshot(capture)
    ends = _step_ends(capture, snapshot)
    middle = len(ends) // 2
    held: dict[str | None, list[int]] = defaultdict(lambda: [0, 0])
    for tensor in _tensors(snapshot):
        for place, end in enumerate((ends[middle], ends[-1])):
            died = tensor["died_us"]
            if tensor["born_us"] <= end and (died is None or died > end):
                held[tensor["where"]][place] += tensor["bytes"]
    steps = len(ends) - 1 - middle
    rows = [
        {"where": where, "growth_bytes": (late - early) / steps, "held_bytes": late}
        for where, (early, late) in held.items()
        if late > early
    ]
    return sorted(rows, key=lambda r: (-r["growth_bytes"], r["where"] is None, r["where"] or ""))


def memory_verdict(capture: str) -> Finding:
    """Does memory grow from step to step, and which line grows?

    Growth is the sum of growth_bytes of growing_lines, over all lines.

    category: "memory_growth" if growth is more than GROWTH_FLOOR_BYTES per step, else "healthy".
    subject: "device:0".
    evidence, for both categories:
        "growth_bytes":    growth per step.
        "held_bytes":      bytes held at the end of the last step, by all lines (growing or not).
        "steps_count":     steps in the recording.
        "recoverable_ns":  0: growth costs no time until the memory is full.
        "window_ns":       from the first start_us to the last end_us of the phases, in ns.
    recommendation: for growth, a text with the "where" of the line that grows fastest (the first line that has
    one; "unknown line" if none has). Else "none". In both cases the text contains the word "borderline" if the
    growth is within BORDER_RATIO * GROWTH_FLOOR_BYTES of the floor.

    Raises CaptureError as growing_lines does.
    """
    snapshot = read_snapshot(capture)
    phases = _phases(capture, snapshot)
    end = _step_ends(capture, snapshot)[-1]
    lines = growing_lines(capture)
    growth = sum(line["growth_bytes"] for line in lines)
    held = sum(
        tensor["bytes"]
        for tensor in _tensors(snapshot)
        if tensor["born_us"] <= end and (tensor["died_us"] is None or tensor["died_us"] > end)
    )
    first = min(phase["start_us"] for phase in phases)
    last = max(phase["end_us"] for phase in phases)
    growing = growth > GROWTH_FLOOR_BYTES
    where = next((line["where"] for line in lines if line["where"]), "unknown line")
    advice = f"find out who keeps what is allocated at {where}" if growing else "none"
    if abs(growth - GROWTH_FLOOR_BYTES) <= BORDER_RATIO * GROWTH_FLOOR_BYTES:
        advice = f"borderline: {advice}; record more steps"
    return Finding(
        category="memory_growth" if growing else "healthy",
        subject="device:0",
        evidence={
            "growth_bytes": growth,
            "held_bytes": held,
            "steps_count": len(_step_ends(capture, snapshot)),
            "recoverable_ns": 0,
            "window_ns": (last - first) * 1000,
        },
        recommendation=advice,
    )
