"""What a window's time was spent on, by name: kernels, operators, modules, ranges, steps; and what lies outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from profiling_lab import devices
from profiling_lab.analysis import nesting, operator_work, steps
from profiling_lab.analysis.columns import GRAPH, KERNEL, Ranges, Recording
from profiling_lab.findings import base_name
from profiling_lab.units import without_serial_numbers

if TYPE_CHECKING:
    from profiling_lab.diagnosis.engine import Seen

MOST = 10
MODULE = "nn.Module: "
Row = dict[str, Any]


def outside_ns(recording: Recording, window: tuple[int, int]) -> int:
    """How long the recording goes on outside of the window, host calls included."""
    tables = (recording.operations, recording.calls, recording.ranges, recording.operators)
    starts = [int(table.start.min()) for table in tables if len(table)]
    ends = [int(table.end.max()) for table in tables if len(table)]
    return max(0, window[0] - min(starts)) + max(0, max(ends) - window[1])


def of(seen: Seen, count: int = MOST) -> dict[str, Any]:
    """All that takes time in a recording's window, by name, largest first; lists are empty for what it lacks."""
    recording, window = seen.recording, seen.window_ns
    return {
        "kernels": kernels(recording, window, count),
        "operators": nested(recording, recording.operators, window, count),
        "shapes": shapes(seen, count),
        "modules": modules(seen, count),
        "functions": functions(seen, count),
        "ranges": nested(recording, recording.ranges, window, count),
        "steps": steps.read(recording, window, seen.trace),
    }


def kernels(recording: Recording, window: tuple[int, int], count: int = MOST) -> list[Row]:
    """The kernels and graphs that took most time: total_ns, count, mean_ns, longest_ns, window_ratio a name."""
    work = recording.operations
    inside = np.minimum(work.end, window[1]) - np.maximum(work.start, window[0])
    own = np.flatnonzero(np.isin(work.kind, (KERNEL, GRAPH)) & (inside > 0))
    if not len(own):
        return []
    codes, place = np.unique(work.name[own], return_inverse=True)
    total, longest = np.zeros((2, len(codes)), dtype=np.int64)
    np.add.at(total, place, inside[own])
    np.maximum.at(longest, place, inside[own])
    times = np.bincount(place)
    return [
        {
            "name": recording.names[int(codes[row])],
            "total_ns": int(total[row]),
            "count": int(times[row]),
            "mean_ns": int(total[row]) / int(times[row]),
            "longest_ns": int(longest[row]),
            "window_ratio": int(total[row]) / (window[1] - window[0]),
        }
        for row in np.argsort(-total, kind="stable")[:count].tolist()
    ]


def alone_ns(recording: Recording, window: tuple[int, int]) -> dict[str, int]:
    """By short name, for how long kernels of a name ran in the window and no other kernel did."""
    work = recording.operations
    own = np.flatnonzero((work.kind == KERNEL) & (work.start < window[1]) & (work.end > window[0]))
    code = work.name[own].astype(np.int64)
    times = np.concatenate(
        [np.maximum(work.start[own], window[0]), np.minimum(work.end[own], window[1])]
    )
    order = np.argsort(times, kind="stable")
    one = np.ones(len(own), dtype=np.int64)
    # Where one kernel runs, the running sum of codes is its own.
    running = np.cumsum(np.concatenate([one, -one])[order])[:-1]
    codes = np.cumsum(np.concatenate([code, -code])[order])[:-1]
    length = np.diff(times[order])
    out: dict[str, int] = {}
    for single in np.unique(code).tolist():
        alone = int(length[(running == 1) & (codes == single)].sum())
        name = base_name(recording.names[single])
        out[name] = out.get(name, 0) + alone
    return out


def nested(
    recording: Recording, table: Ranges, window: tuple[int, int], count: int = MOST
) -> list[Row]:
    """Ranges or operators by name, serial numbers left out; those first whose own launches take most device time.

    total_ns: of the host, with all inside. own_host_ns: without what lies inside. device_ns: of all that was
    launched inside; own_device_ns: inside of it and of nothing narrower. count: outermost ones. window_ratio: of
    device_ns.
    """
    if not len(table):
        return []
    told = nesting.read(recording, table, window)
    groups: dict[str, Row] = {}
    own = np.flatnonzero(told.host > 0)
    codes, place = np.unique(table.name[own], return_inverse=True)
    outer = told.outermost[own]
    sums = {
        "total_ns": np.where(outer, told.host[own], 0),
        "own_host_ns": told.host_own[own],
        "device_ns": np.where(outer, told.device[own], 0),
        "own_device_ns": told.device_own[own],
        "count": outer.astype(np.int64),
    }
    added = {key: np.bincount(place, weights=values) for key, values in sums.items()}
    for at, code in enumerate(codes.tolist()):
        name = without_serial_numbers(recording.names[code]).removeprefix(MODULE)
        row = groups.setdefault(name, {"name": name} | dict.fromkeys(sums, 0))
        for key, values in added.items():
            row[key] += int(values[at])
    for row in groups.values():
        row["mean_ns"] = row["total_ns"] / max(1, row["count"])
        row["window_ratio"] = row["device_ns"] / (window[1] - window[0])
    return sorted(groups.values(), key=lambda row: (-row["own_device_ns"], -row["own_host_ns"]))[
        :count
    ]


def functions(seen: Seen, count: int = MOST) -> list[Row]:
    """What `nested` says of the Python functions of a trace with stacks, those first that take most host time."""
    if seen.trace is None or not len(seen.trace.python):
        return []
    rows = nested(seen.recording, seen.trace.python, seen.window_ns, len(seen.recording.names))
    return sorted(rows, key=lambda row: -row["own_host_ns"])[:count]


def modules(seen: Seen, count: int = MOST) -> list[Row]:
    """What `nested` says of the nn.Modules of a trace with stacks; numbers tell instances of one class apart."""
    if seen.trace is None:
        return []
    table, names = seen.trace.python, seen.recording.names
    known = np.array([name.startswith(MODULE) for name in names], dtype=bool)
    rows = np.flatnonzero(known[table.name]) if len(table) else np.zeros(0, dtype=int)
    chosen = Ranges(table.start[rows], table.end[rows], table.name[rows], table.thread[rows])
    return nested(seen.recording, chosen, seen.window_ns, count)


def shapes(seen: Seen, count: int = MOST) -> list[Row]:
    """Operators by name and shape, where shapes were recorded, those first that take most device time.

    own_device_ns, count, mean_ns; flops_per_s and bytes_per_s where the work is known (`analysis.operator_work`),
    with the share of the device's roof where that is known: flops_ratio, bytes_ratio.
    """
    trace = seen.trace
    if trace is None or not (trace.input_shape >= 0).any():
        return []
    table = seen.recording.operators
    told = nesting.read(seen.recording, table, seen.window_ns)
    rows = np.flatnonzero((trace.input_shape >= 0) & (told.device_own > 0))
    keys = table.name[rows].astype(np.int64) << 32 | trace.input_shape[rows]
    known, place = np.unique(keys, return_inverse=True)
    total = np.bincount(place, weights=told.device_own[rows])
    times = np.bincount(place)
    roof = _roof(trace.device_names)
    out = []
    for at in np.argsort(-total, kind="stable")[:count].tolist():
        name = seen.recording.names[int(known[at]) >> 32]
        shape = trace.input_shapes[int(known[at]) & 0xFFFFFFFF]
        tensors = [
            "×".join(map(str, dims)) for dims in shape.dims if isinstance(dims, list) and dims
        ]
        work = operator_work.of(name, shape)
        row: Row = {
            "name": name,
            "shape": ", ".join(tensors),
            "dtype": work.dtype if work else "",
            "own_device_ns": int(total[at]),
            "count": int(times[at]),
            "mean_ns": total[at] / times[at],
            "window_ratio": total[at] / (seen.window_ns[1] - seen.window_ns[0]),
        }
        if work and work.operations:
            row["flops_per_s"] = 1e9 * work.operations / row["mean_ns"]
            peak = roof.peak_flops_per_s.get(work.dtype) if roof else None
            row["flops_ratio"] = row["flops_per_s"] / peak if peak else None
        if work and work.bytes:
            row["bytes_per_s"] = 1e9 * work.bytes / row["mean_ns"]
            peak = roof.memory_bandwidth_bytes_per_s if roof else None
            row["bytes_ratio"] = row["bytes_per_s"] / peak if peak else None
        out.append(row)
    return out


def _roof(names: dict[int, str]) -> devices.Device | None:
    """The one device of a recording, if its maker's figures are known."""
    try:
        (name,) = set(names.values())
        return devices.get(name)
    except (ValueError, devices.DeviceError):
        return None
