"""Memory timeline: how fast do copies run, and what hides them?

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

import numpy as np

from profiling_lab import captures
from profiling_lab.errors import EmptyCapture
from profiling_lab.findings import Finding

HEALTHY_FLOOR_RATIO = 0.10  # of the window: a cause that costs less is not worth fixing

Spans = list[tuple[int, int]]


def copy_rates(capture: str) -> dict[str, dict[str, float]]:
    """How fast copies between host and device were, by direction and kind of host memory.

    Returns {"<direction> <memory>": {...}}, with keys like "H2D pageable". The direction is the copy's
    `kind`, H2D or D2H. The memory is the kind of host memory: that of the source for H2D, of the
    destination for D2H. Other kinds of copies are left out. Copies of all devices are used. Each entry has
        "copies_count":  number of copies.
        "copied_bytes":  sum of their bytes.
        "copy_ns":       sum of their durations.
        "bytes_per_ns":  copied_bytes / copy_ns (a byte per ns is a GB/s).
    Returns an empty dict if nothing was copied between host and device.
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
    """Fit the line time = latency + bytes / bandwidth to the copies of one path.

    path: a key of `copy_rates`, such as "H2D pinned". Every copy is a point. The line is the one with the
    smallest sum of squared *relative* errors. Small copies then weigh as much as large ones. The relative
    error of a copy is (time of the copy - time by the line) / time of the copy.

    Returns {"latency_ns", "bytes_per_ns": the bandwidth, "half_rate_bytes": latency times bandwidth, the
    size at which a copy reaches half of the bandwidth}.

    Raises EmptyCapture, with the path in its message, if there is no such copy. Raises ValueError if all
    copies have the same size.
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
    """The largest rate of a PCIe link in one direction, in bytes per ns (GB/s).

    generation: 1 to 5. width: number of lanes, 1, 2, 4, 8 or 16. By generation, a lane makes 2.5, 5, 8,
    16 or 32 gigatransfers per second, of one bit each. Generations 1 and 2 send 10 bits for 8 bits of data,
    the later ones 130 for 128. Packet headers are not subtracted, so no program reaches this rate.
    (source: PCI Express Base Specification, 5.0)

    Raises ValueError for other generations and widths.
    """
    if generation not in _GIGATRANSFERS or width not in (1, 2, 4, 8, 16):
        raise ValueError(f"generation {generation}, {width} lanes: not a link that is known here")
    coding = 8 / 10 if generation <= 2 else 128 / 130
    return _GIGATRANSFERS[generation] * width * coding / 8


def async_in_name_only(capture: str) -> dict[str, dict[str, int]]:
    """How long asynchronous copies kept the host inside the call.

    Use only copies between host and device whose launching call has "Async" in its name. Calls and
    copies are joined on process and correlation. Returns {path, as in `copy_rates`:
        "copies_count":  number of copies.
        "copy_ns":       sum of their durations on the device.
        "held_ns":       sum of the parts of these durations in which the host was still inside the copy's
                         own call}.
    If a copy lets the host go on at once, it adds almost nothing to held_ns.
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
    """What ran at the same time as the copies of each direction, on one device.

    Returns {"H2D": {...}, "D2H": {...}}, each with
        "copy_ns":                   time in which a copy of this direction ran.
        "behind_kernels_ns":         the part of copy_ns in which a kernel or a whole graph ran, too.
        "beside_other_direction_ns": the part of copy_ns in which a copy of the other direction ran, too.
        "exposed_ns":                the part of copy_ns in which neither ran.
    Time counts once, however many operations run. All values are 0 for a direction without copies.
    """
    lanes = _lanes(capture, device)
    out = {}
    for direction, other in (("H2D", "D2H"), ("D2H", "H2D")):
        own = lanes[direction]
        beside = union(lanes["kernels"] + lanes[other])
        copy_ns = length_ns(own)
        out[direction] = {
            "copy_ns": copy_ns,
            "behind_kernels_ns": shared_ns(own, lanes["kernels"]),
            "beside_other_direction_ns": shared_ns(own, lanes[other]),
            "exposed_ns": copy_ns - shared_ns(own, beside),
        }
    return out


def judge_copies(capture: str, device: int = 0) -> Finding:
    """Whether exposed copies between host and device could be hidden.

    There are three lanes: copies in (H2D), copies out (D2H), and kernels with whole graphs. The time of a
    lane counts overlapping operations once. With full overlap, the least possible time is the longest lane
    plus, for each of the other two, its shortest operation: the first batch must come in before anything
    else, and the last must go out at the end. Lanes without operations add nothing.

    "recoverable_ns" is the time in which any lane was active minus that least time, never negative. Idle
    time has other causes and is not part of it. window: from the first start to the last end in any lane.

    Returns "transfer_bound" if recoverable_ns is at least HEALTHY_FLOOR_RATIO of the window and there was a
    copy between host and device, else "healthy".
    subject: "device:<n>".
    evidence: "recoverable_ns", "window_ns", "recoverable_ratio" (recoverable_ns / window_ns), "exposed_ns"
    (of both directions, from `hidden_copies`), "pageable_bytes" (copied from or to pageable host memory on
    this device).
    recommendation: one sentence; "none" if healthy.

    Raises EmptyCapture, with the device's number in its message, if no lane has an operation.
    """
    lanes = _lanes(capture, device)
    if not any(lanes.values()):
        raise EmptyCapture(f"{capture}: neither kernels nor copies on device {device}")
    merged = {name: union(spans) for name, spans in lanes.items()}
    longest = max(merged, key=lambda name: length_ns(merged[name]))
    least = length_ns(merged[longest])
    for name, spans in lanes.items():
        if name != longest and spans:
            least += min(end - start for start, end in spans)
    everything = union([span for spans in lanes.values() for span in spans])
    window = everything[-1][1] - everything[0][0]
    recoverable = max(0, length_ns(everything) - least)
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


def union(spans: Spans) -> Spans:
    """Disjoint spans that cover the same time, in order. Given."""
    out: Spans = []
    for start, end in sorted(spans):
        if out and start <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((start, end))
    return out


def length_ns(spans: Spans) -> int:
    """Time in which at least one span runs. Given."""
    return sum(end - start for start, end in union(spans))


def shared_ns(one: Spans, other: Spans) -> int:
    """Time in which both have a span. Given."""
    return length_ns(one) + length_ns(other) - length_ns(one + other)
