"""The labels of the case files, and the numbers that a finding's evidence must lie between.

    >>> expected("case_vision_a")
    {'recoverable_ratio': Between(least=0.206…, most=0.286…)}

Labels stand in solutions/labs/case_files/cases.toml. They name measures; a measure is taken here from the
recording, or from the times that the program took of itself before it was recorded, never by a function
of the course that is to be judged by it.
"""

from __future__ import annotations

import gzip
import json
import pickle
import statistics
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from grading.checks.case_evidence import Case, Operation, open_case
from profiling_lab import captures, devices

LABELS = Path(__file__).resolve().parents[2] / "solutions/labs/case_files/cases.toml"
DEVICE_KINDS = {"kernel": "kernel", "gpu_memcpy": "copy", "gpu_memset": "memset"}


class Between(NamedTuple):
    """A closed interval."""

    least: float
    most: float

    def holds(self, value: float) -> bool:
        return self.least <= value <= self.most


@cache
def labels() -> dict[str, dict[str, Any]]:
    """Name of a case → its label. Not for changing."""
    return tomllib.loads(LABELS.read_text(encoding="utf-8"))


def expected(name: str) -> dict[str, Between]:
    """Key of a finding's evidence → where its value must lie.

    A tolerance of a key in bytes is a share of the value, of a ratio it is added as it stands.
    """
    out = {}
    for key, asked in labels()[name].get("evidence", {}).items():
        values = [MEASURES[measure](name) for measure in asked["between"]]
        least, most, tolerance = min(values), max(values), asked["tolerance"]
        if key.endswith("_bytes"):
            out[key] = Between(least * (1 - tolerance), most * (1 + tolerance))
        else:
            out[key] = Between(least - tolerance, most + tolerance)
    return out


# -- what the program says of itself -----------------------------------------------------------------


def _measured(name: str) -> float:
    """What the fixed variant takes less than the sick one, as a share: medians, unprofiled."""
    told = captures.provenance(name)["reported_by_program"]
    return 1 - statistics.median(told["fixed_ns"]) / statistics.median(told["sick_ns"])


# -- what the devices did ------------------------------------------------------------------------------


@cache
def _runs(name: str) -> tuple[Case, ...]:
    """The recordings of a case: one, or one a rank, since traces of ranks share no clock."""
    folder = captures.place(name)
    ranks = captures.rank_traces(folder)
    if not ranks:
        return (open_case(name),)
    return tuple(_rank(name, file) for file in ranks.values())


def _rank(name: str, file: Path) -> Case:
    events = json.loads(gzip.decompress(file.read_bytes()))["traceEvents"]
    case = Case(name)
    for event in events:
        if event.get("ph") == "X" and event.get("cat") in DEVICE_KINDS:
            start = round(event["ts"] * 1000)
            place = 0, event["args"]["stream"]
            end = start + round(event["dur"] * 1000)
            kind = DEVICE_KINDS[event["cat"]]
            case.operations.append(Operation(kind, start, end, *place, event["name"]))
    return case


def _shares(name: str, *keys: str) -> list[float]:
    """A value a device: the share of the window that these of `Case.sweep` take together."""
    return [
        sum(run.sweep(device)[key] for key in keys) / run.window_ns
        for run in _runs(name)
        for device in run.devices
    ]


def _waiting(name: str) -> float:
    """By how much longer one rank is in its collectives than the other, as a share of the window."""
    runs = _runs(name)
    totals = [run.collectives_ns(device) for run in runs for device in run.devices]
    return (max(totals) - min(totals)) / max(run.window_ns for run in runs)


def _taking_turns(name: str) -> float:
    """What would be saved if kernels that run alone ran side by side, one on each stream, as fast as now."""
    (run,) = _runs(name)
    alone = run.sweep(0)["one_stream_ns"] / run.window_ns
    return alone * (1 - 1 / len(run.streams))


def _host_share(name: str, key: str) -> float:
    (run,) = _runs(name)
    value = run.measure(key)
    assert value is not None
    return value / run.window_ns


def _held_bytes_a_step(name: str) -> float:
    """What the allocator's history leaves allocated, spread over the steps that it saw."""
    snapshot = pickle.loads(gzip.decompress(captures.file(name, "snapshot.pickle").read_bytes()))
    (history,) = (trace for trace in snapshot["device_traces"] if trace)
    sizes = {"alloc": 1, "free_completed": -1}
    held = sum(sizes.get(event["action"], 0) * event["size"] for event in history)
    warm_up_steps = 3  # before the recorded ones; torch_recording.py
    recorded = captures.provenance(name)["reported_by_program"]["recorded_steps"]
    return held / (warm_up_steps + recorded)


# -- pages of kernels ----------------------------------------------------------------------------------


def _dram_rate(name: str) -> float:
    """Bytes that DRAM moved in the kernel's time, as a share of the device's datasheet."""
    case = open_case(name)
    moved = case.metric("dram__bytes_read.sum") + case.metric("dram__bytes_write.sum")
    seconds = float(case.metric("gpu__time_duration.sum")) / 1e9
    known = devices.get(captures.provenance(name)["gpu"][0]["name"])
    return float(moved) / seconds / known.memory_bandwidth_bytes_per_s


def _pct(key: str) -> Callable[[str], float]:
    def measure(name: str) -> float:
        value = open_case(name).measure(key)
        assert value is not None
        return float(value) / 100

    return measure


MEASURES: dict[str, Callable[[str], float]] = {
    "measured": _measured,
    "nothing": lambda name: 0.0,
    "idle": lambda name: max(_shares(name, "idle_ns")),
    "half_idle": lambda name: max(_shares(name, "idle_ns")) / 2,
    "copies_alone": lambda name: max(_shares(name, "copy_alone_ns")),
    "collectives_alone": lambda name: min(_shares(name, "collective_alone_ns")),
    "waiting": _waiting,
    "taking_turns": _taking_turns,
    "lost": lambda name: max(
        _shares(name, "idle_ns", "copy_alone_ns", "collective_alone_ns"),
    ),
    "allocating": lambda name: _host_share(name, "allocating_ns"),
    "compiling": lambda name: _host_share(name, "compiling_ns"),
    "held_bytes_a_step": _held_bytes_a_step,
    "dram_rate": _dram_rate,
    "multiprocessors": _pct("sm_pct"),
    "caches": _pct("cache_pct"),
    "unused_bytes": lambda name: 1 - _pct("used_pct")(name),
}
