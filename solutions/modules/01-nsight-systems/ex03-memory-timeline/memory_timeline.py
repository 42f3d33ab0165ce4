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
    out: dict[str, dict[str, float]] = {}
    for copy in _copies(capture):
        entry = out.setdefault(_path(copy), {"copies_count": 0, "copied_bytes": 0, "copy_ns": 0})
        entry["copies_count"] += 1
        entry["copied_bytes"] += copy["bytes"]
        entry["copy_ns"] += copy["duration_ns"]
    for entry in out.values():
        entry["bytes_per_ns"] = entry["copied_bytes"] / entry["copy_ns"]
    return out


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
    found = [copy for copy in _copies(capture) if _path(copy) == path]
    if not found:
        raise EmptyCapture(f"{capture}: holds no copy {path}")
    sizes = np.array([copy["bytes"] for copy in found], dtype=float)
    times = np.array([copy["duration_ns"] for copy in found], dtype=float)
    if len(set(sizes)) < 2:
        raise ValueError(f"all {len(found)} copies are of one size: no line goes through one point")
    terms = np.stack([1 / times, sizes / times], axis=1)
    latency, per_byte = np.linalg.lstsq(terms, np.ones(len(found)), rcond=None)[0]
    return {
        "latency_ns": float(latency),
        "bytes_per_ns": float(1 / per_byte),
        "half_rate_bytes": float(latency / per_byte),
    }


def link_peak(generation: int, width: int) -> float:
    """What a PCIe link can carry in one direction at most, in bytes per ns (GB/s).

    generation: 1 to 5. width: lanes, one of 1, 2, 4, 8, 16. A lane makes 2.5, 5, 8, 16 or 32
    gigatransfers per second of a bit each; generations 1 and 2 send 10 bits for 8 bits of data, the later
    ones 130 for 128. Headers of packets are not taken off, so no program reaches this.
    (source: PCI Express Base Specification, 5.0)

    Raises ValueError for other generations and widths.
    """
    if generation not in _GIGATRANSFERS or width not in (1, 2, 4, 8, 16):
        raise ValueError(f"generation {generation}, {width} lanes: not a link that is known here")
    coding = 8 / 10 if generation <= 2 else 128 / 130
    return _GIGATRANSFERS[generation] * width * coding / 8


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
    calls: dict[tuple[int, int], dict] = {}
    for call in captures.open(capture).api_calls.rows(named=True):
        calls.setdefault((call["process"], call["correlation"]), call)
    out: dict[str, dict[str, int]] = {}
    for copy in _copies(capture):
        call = calls.get((copy["process"], copy["correlation"]))
        if call is None or "Async" not in call["name"]:
            continue
        entry = out.setdefault(_path(copy), {"copies_count": 0, "copy_ns": 0, "held_ns": 0})
        held = min(copy["end_ns"], call["end_ns"]) - max(copy["start_ns"], call["start_ns"])
        entry["copies_count"] += 1
        entry["copy_ns"] += copy["duration_ns"]
        entry["held_ns"] += max(0, held)
    return out


def hidden_copies(capture: str, device: int = 0) -> dict[str, dict[str, int]]:
    """What ran beside the copies of each direction, on one device.

    Returns {"H2D": {...}, "D2H": {...}}, each with
        "copy_ns"                    time in which a copy of this direction ran
        "behind_kernels_ns"          of it, time in which a kernel or a whole graph ran, too
        "beside_other_direction_ns"  of it, time in which a copy of the other direction ran, too
        "exposed_ns"                 of it, time in which neither did
    Time counts once, however many run. All 0 for a direction without copies.
    """
    lanes = _lanes(capture, device)
    out = {}
    for direction, other in (("H2D", "D2H"), ("D2H", "H2D")):
        own = lanes[direction]
        beside = _merged(lanes["kernels"] + lanes[other])
        copy_ns = _length_ns(own)
        out[direction] = {
            "copy_ns": copy_ns,
            "behind_kernels_ns": _shared_ns(own, lanes["kernels"]),
            "beside_other_direction_ns": _shared_ns(own, lanes[other]),
            "exposed_ns": copy_ns - _shared_ns(own, beside),
        }
    return out


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
    lanes = _lanes(capture, device)
    if not any(lanes.values()):
        raise EmptyCapture(f"{capture}: neither kernels nor copies on device {device}")
    merged = {name: _merged(spans) for name, spans in lanes.items()}
    longest = max(merged, key=lambda name: _length_ns(merged[name]))
    least = _length_ns(merged[longest])
    for name, spans in lanes.items():
        if name != longest and spans:
            least += min(end - start for start, end in spans)
    everything = _merged([span for spans in lanes.values() for span in spans])
    window = everything[-1][1] - everything[0][0]
    recoverable = max(0, _length_ns(everything) - least)
    hidden = hidden_copies(capture, device)
    ratio = recoverable / window
    evidence = {
        "recoverable_ns": recoverable,
        "window_ns": window,
        "recoverable_ratio": ratio,
        "exposed_ns": hidden["H2D"]["exposed_ns"] + hidden["D2H"]["exposed_ns"],
        "pageable_bytes": sum(
            copy["bytes"]
            for copy in _copies(capture)
            if copy["device"] == device and _memory(copy) == "pageable"
        ),
    }
    if ratio < HEALTHY_FLOOR_RATIO or not (lanes["H2D"] or lanes["D2H"]):
        return Finding("healthy", f"device:{device}", evidence, "none")
    return Finding(
        "transfer_bound",
        f"device:{device}",
        evidence,
        "pin the host memory and copy on streams of their own, batch beside batch",
    )


_GIGATRANSFERS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0}  # per second and lane


def _copies(capture: str) -> list[dict]:
    """Copies between host and device, ordered by start."""
    copies = captures.open(capture).copies.rows(named=True)
    return [copy for copy in copies if copy["kind"] in ("H2D", "D2H")]


def _memory(copy: dict) -> str:
    return copy["source"] if copy["kind"] == "H2D" else copy["destination"]


def _path(copy: dict) -> str:
    return f"{copy['kind']} {_memory(copy)}"


def _lanes(capture: str, device: int) -> dict[str, Spans]:
    """Spans of the copies in, the copies out and the kernels of a device."""
    lanes: dict[str, Spans] = {"H2D": [], "D2H": [], "kernels": []}
    for operation in captures.open(capture).device_operations.rows(named=True):
        if operation["device"] == device:
            name = "kernels" if operation["kind"] in ("kernel", "graph") else operation["name"]
            if name in lanes:
                lanes[name].append((operation["start_ns"], operation["end_ns"]))
    return lanes


def _merged(spans: Spans) -> Spans:
    """Disjoint spans that cover the same time, in order."""
    out: Spans = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return out


def _length_ns(spans: Spans) -> int:
    return sum(end - start for start, end in _merged(spans))


def _shared_ns(one: Spans, other: Spans) -> int:
    """Time in which both have a span."""
    return _length_ns(one) + _length_ns(other) - _length_ns(one + other)
