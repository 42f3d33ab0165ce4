"""Memory timeline: how fast do copies run, and what hides them?

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import numpy as np

from profiling_lab import captures
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding

HEALTHY_FLOOR_RATIO = 0.10  # of the window: what costs less is not worth anybody's afternoon

Spans = list[tuple[int, int]]


def copy_rates(capture: str) -> dict[str, dict[str, float]]:
    """What the copies between host and device achieved, by direction and kind of host memory.

    Returns {"<direction> <memory>": {...}}, as "H2D pageable": the direction is the copy's `kind`, H2D or
    D2H, and the memory is that of the host's side: the source of H2D, the destination of D2H. Other kinds
    of copies are left out. Copies of all devices count. For each
        "copies_count"   how many
        "copied_bytes"   their bytes, added
        "copy_ns"        their durations, added
        "bytes_per_ns"   all bytes over all durations (a byte per ns is a GB/s)
    An empty dict if nothing was copied between host and device.
    """
    raise NotImplementedError


def transfer_model(capture: str, path: str) -> dict[str, float]:
    """The line time = latency + bytes / bandwidth through the copies of one path.

    path: a key of `copy_rates`, as "H2D pinned". Every copy is a point. The line is the one with the
    smallest sum of squared *relative* errors, ((time of the copy - time by the line) / time of the
    copy)², so that small copies weigh as much as large ones.

    Returns {"latency_ns", "bytes_per_ns": the bandwidth, "half_rate_bytes": the size at which a copy
    reaches half of the bandwidth, latency times bandwidth}.

    Raises EmptyCapture, with the path in its message, if there is no such copy, ValueError if all copies
    are of one size.
    """
    raise NotImplementedError


def link_peak(generation: int, width: int) -> float:
    """What a PCIe link can carry in one direction at most, in bytes per ns (GB/s).

    generation: 1 to 5. width: lanes, one of 1, 2, 4, 8, 16. A lane makes 2.5, 5, 8, 16 or 32
    gigatransfers per second of a bit each; generations 1 and 2 send 10 bits for 8 bits of data, the later
    ones 130 for 128. Headers of packets are not taken off, so no program reaches this.
    (source: PCI Express Base Specification, 5.0)

    Raises ValueError for other generations and widths.
    """
    raise NotImplementedError


def async_in_name_only(capture: str) -> dict[str, dict[str, int]]:
    """For how long the host was held up by copies that are called asynchronous.

    Of the copies between host and device those count whose launching call has "Async" in its name (call
    and copy are joined on process and correlation). Returns {path, as in `copy_rates`:
        "copies_count"   how many
        "copy_ns"        their durations on the device, added
        "held_ns"        the parts of these durations in which the host was still inside the copy's own
                         call, added}
    A copy that frees the host has almost nothing of it in held_ns.
    """
    raise NotImplementedError


def hidden_copies(capture: str, device: int = 0) -> dict[str, dict[str, int]]:
    """What ran beside the copies of each direction, on one device.

    Returns {"H2D": {...}, "D2H": {...}}, each with
        "copy_ns"                    time in which a copy of this direction ran
        "behind_kernels_ns"          of it, time in which a kernel or a whole graph ran, too
        "beside_other_direction_ns"  of it, time in which a copy of the other direction ran, too
        "exposed_ns"                 of it, time in which neither did
    Time counts once, however many run. All 0 for a direction without copies.
    """
    raise NotImplementedError


def judge_copies(capture: str, device: int = 0) -> Finding:
    """Whether copies between host and device that could be hidden are not.

    There are three lanes: copies in (H2D), copies out (D2H), and kernels with whole graphs. What full
    overlap needs at least is the longest lane (its time, what runs at once counted once) plus, for each
    of the other two, its shortest operation: the first batch must come in before anything, and the last
    must go out after all. Lanes without operations add nothing.

    "recoverable_ns" is the time in which any lane was at work minus that least time, never negative: idle
    time has other causes. window: from the first start to the last end in any lane.

    Returns "transfer_bound" if recoverable_ns is at least HEALTHY_FLOOR_RATIO of the window, and there was a
    copy between host and device, else "healthy". subject: "device:<n>". evidence: "recoverable_ns",
    "window_ns", "recoverable_ratio" (their quotient), "exposed_ns" (of both directions, `hidden_copies`),
    "pageable_bytes" (copied from or to pageable host memory on this device). recommendation: one sentence;
    "none" if healthy.

    Raises EmptyCapture, with the device's number in its message, if no lane has an operation.
    """
    raise NotImplementedError
