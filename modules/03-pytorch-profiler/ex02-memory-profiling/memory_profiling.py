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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError


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
    raise NotImplementedError
