"""Energy efficiency: what does a result cost in joules?

You compute the energy per sample at each precision and batch, with its spread, and weigh energy against time.
You compare the same work done without and with pauses, and decide whether another precision saves energy. The
lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check energy_ex02

checks your solution. A **recording** is `energy.json`, as `energy_benchmark.py` writes it (the head of that
program says what the file holds): `phases` of work, and `samples` as columns.
"""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding

# A smaller saving of energy is not worth a change.
SAVED_FLOOR_PCT = 5.0

# From this share of the bandwidth on, the memory counts as busy. Nsight Compute has the same threshold: if a
# kernel is below it in memory and in arithmetic, the rules say that the kernel waits (source: its speed-of-light rules).
MEMORY_RATIO = 0.6

NS_PER_S = 1e9


def read_recording(capture: str) -> dict[str, Any]:
    """`energy.json` of a capture.

    Raises CaptureError if the file is not such a recording, has fewer than two readings of the counter, or has a
    sample without a reading.
    """
    try:
        recording = json.loads(captures.text(capture, "energy.json"))
        counter, phases = recording["samples"]["energy_mj"], recording["phases"]
        if not phases or len(counter) < 2 or None in counter:
            raise ValueError
    except (ValueError, LookupError, TypeError):
        message = f"{capture}: energy.json is no recording with readings of the energy counter"
        raise CaptureError(message) from None
    return recording


def _power_w(recording: dict[str, Any], phase: dict[str, Any]) -> float:
    """Power of a phase, from the first to the last new reading of the counter in it."""
    samples = recording["samples"]
    rows = list(zip(samples["time_ns"], samples["energy_mj"], strict=True))
    new = [
        (time, energy)
        for (_, before), (time, energy) in pairwise(rows)
        if energy != before and phase["start_ns"] <= time < phase["end_ns"]
    ]
    if len(new) < 2:
        raise CaptureError(
            f"the counter has {len(new)} new readings in a phase; two are needed: work for longer"
        )
    (first_ns, first_mj), (last_ns, last_mj) = new[0], new[-1]
    return (last_mj - first_mj) * 1e6 / (last_ns - first_ns)


def efficiency(capture: str) -> list[dict[str, Any]]:
    """The energy per sample, for each precision and batch of a sweep.

    Use the phases called "work". Each phase has its "precision", "batch" (samples per call), "calls", "flop" (of
    all its calls) and "repeat". To compute the power of a phase, take the samples with start <= time < end
    whose energy_mj is new (differs from the sample before). Power is the increase of the counter from the
    first to the last of these samples, divided by the time between the two. The counter's steps then cause no
    error, because both ends are right after a step.
    For each phase, samples per second is calls * batch divided by its length, and energy per sample is its power
    divided by samples per second.

    Returns a dict for each precision and batch, in the order in which they first occur:

        "precision", "batch",
        "samples_per_s", "power_w", "j_per_sample":  each the median over the repeats.
        "low_j", "high_j":                           the lowest and highest j_per_sample of a repeat.
        "flop_per_j":                                operations of a sample / j_per_sample.
        "call_ns":                                   duration of a call: batch / samples_per_s, in ns.

    Raises CaptureError if read_recording does, for a recording without such phases, and for a phase with
    fewer than two new readings.
    """
    recording = read_recording(capture)
    runs: dict[tuple[str, int], list[dict[str, Any]]] = defaultdict(list)
    for phase in recording["phases"]:
        if phase["name"] == "work":
            runs[phase["precision"], phase["batch"]].append(phase)
    if not runs:
        raise CaptureError(f'{capture}: no phase is called "work"; is it a sweep?')
    rows = []
    for (precision, batch), phases in runs.items():
        speeds = [
            phase["calls"] * batch * 1e9 / (phase["end_ns"] - phase["start_ns"]) for phase in phases
        ]
        powers = [_power_w(recording, phase) for phase in phases]
        costs = [power / speed for power, speed in zip(powers, speeds, strict=True)]
        cost, speed = statistics.median(costs), statistics.median(speeds)
        rows.append(
            {
                "precision": precision,
                "batch": batch,
                "samples_per_s": speed,
                "power_w": statistics.median(powers),
                "j_per_sample": cost,
                "low_j": min(costs),
                "high_j": max(costs),
                "flop_per_j": phases[0]["flop"] / (phases[0]["calls"] * batch) / cost,
                "call_ns": batch * 1e9 / speed,
            }
        )
    return rows


def energy_delay(runs: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """Which run is the best, by four ways to weigh energy against time.

    runs: for each name, the time in s and the energy in J of the same work.

    Returns the name of the run with the lowest value of each:
    {"time": t, "energy": E, "edp": E * t, "ed2p": E * t * t}. If values are equal, it is the first by name.

    Raises ValueError if there are no runs, and for a time or an energy that is not above 0.
    """
    if not runs or any(min(run) <= 0 for run in runs.values()):
        raise ValueError(f"{len(runs)} runs: at least one is needed, times and energies above 0")

    def best(time_power: int, energy_power: int) -> str:
        def weigh(name: str) -> tuple[float, str]:
            time_s, energy_j = runs[name]
            return energy_j**energy_power * time_s**time_power, name

        return min(runs, key=weigh)

    return {"time": best(1, 0), "energy": best(0, 1), "edp": best(1, 1), "ed2p": best(2, 1)}


def pareto_front(runs: Mapping[str, tuple[float, float]]) -> list[str]:
    """The runs that no other run beats.

    A run beats another if it is at least as good in both costs, and better in one.
    runs: for each name, two costs; less is better in both. Two runs that are equal in both
    costs do not beat each other.

    Returns the names, ordered by the first cost, then by name. Raises ValueError for a cost that is not
    a number (NaN).
    """
    if any(cost != cost for run in runs.values() for cost in run):
        raise ValueError("a cost is not a number, and cannot be compared")
    front = [
        name
        for name, (first, second) in runs.items()
        if not any(
            one <= first and other <= second and (one, other) != (first, second)
            for one, other in runs.values()
        )
    ]
    return sorted(front, key=lambda name: (runs[name][0], name))


def pacing_energy(capture: str) -> list[dict[str, Any]]:
    """The energy of the same work in the same time: without pauses and then idle, or with pauses.

    Strategies: "race", which has the phases "race_work" and then "race_idle" of the same "repeat", and each
    name that begins with "paced", with one phase per repeat. The energy of a repeat is the increase of the
    counter from the first phase's energy_start_mj to the last one's energy_end_mj. The counter advances in
    steps, so an energy may be wrong by the largest step: the largest increase of column energy_mj from a
    sample to the next, anywhere in the recording.

    Returns a dict for each strategy:
        "strategy",
        "energy_j":           the median over the repeats.
        "low_j", "high_j":    the lowest repeat minus that step, the highest plus that step.
        "wall_ns":            the median time from the first phase's start to the last one's end.
        "work_ns":            for "race" the median length of race_work; for others the same as wall_ns.
    They are ordered by energy_j, then by strategy.

    Raises CaptureError if read_recording does, and for a recording without a "race" or without a "paced"
    strategy.
    Also raises it if repeats have different numbers of calls, in any strategy: their energies cannot be compared.
    """
    recording = read_recording(capture)
    repeats: dict[str, dict[int, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    for phase in recording["phases"]:
        name = "race" if phase["name"] in ("race_work", "race_idle") else phase["name"]
        if name == "race" or name.startswith("paced"):
            repeats[name][phase["repeat"]].append(phase)
    if "race" not in repeats or len(repeats) < 2:
        raise CaptureError(f"{capture}: it lacks racing or pacing; there are {sorted(repeats)}")
    calls = {
        sum(phase["calls"] for phase in run) for runs in repeats.values() for run in runs.values()
    }
    if len(calls) > 1:
        raise CaptureError(f"{capture}: {sorted(calls)} calls were made: not the same work")
    counter = recording["samples"]["energy_mj"]
    step_j = max(after - before for before, after in pairwise(counter)) / 1e3
    rows = []
    for strategy, runs in repeats.items():
        energies = [
            (run[-1]["energy_end_mj"] - run[0]["energy_start_mj"]) / 1e3 for run in runs.values()
        ]
        walls = [run[-1]["end_ns"] - run[0]["start_ns"] for run in runs.values()]
        works = [run[0]["end_ns"] - run[0]["start_ns"] for run in runs.values()]
        rows.append(
            {
                "strategy": strategy,
                "energy_j": statistics.median(energies),
                "low_j": min(energies) - step_j,
                "high_j": max(energies) + step_j,
                "wall_ns": float(statistics.median(walls)),
                "work_ns": float(statistics.median(works)),
            }
        )
    return sorted(rows, key=lambda row: (row["energy_j"], row["strategy"]))


def cheapest_within(rows: Sequence[Mapping[str, Any]], longest_ns: float) -> dict[str, Any] | None:
    """The way to serve a sample with the least energy, if a call may take at most longest_ns.

    rows: as efficiency returns them. Rows whose call_ns is at most longest_ns are allowed.

    Returns {"precision", "batch"} of the allowed row with the lowest j_per_sample (the first if equal), and
    "rivals".
    Rivals is a list of (precision, batch) of the other allowed rows, in their order, whose low_j to high_j
    overlaps with the winner's (touching counts): for these the order may be chance. Returns None if no row is
    allowed.

    Raises ValueError for longest_ns that is not above 0.
    """
    if longest_ns <= 0:
        raise ValueError(f"longest_ns is {longest_ns}: it must be above 0")
    allowed = [row for row in rows if row["call_ns"] <= longest_ns]
    if not allowed:
        return None
    best = min(allowed, key=lambda row: row["j_per_sample"])
    rivals = [
        (row["precision"], row["batch"])
        for row in allowed
        if row is not best and _overlap(row, best)
    ]
    return {"precision": best["precision"], "batch": best["batch"], "rivals": rivals}


def _overlap(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    return one["low_j"] <= other["high_j"] and other["low_j"] <= one["high_j"]


def precision_verdict(
    capture: str, batch: int, tolerance_ratio: float, bandwidth_bytes_per_s: float
) -> Finding:
    """A layer runs in float32 at this batch. Does another precision save energy?

    capture: a sweep; its "error_ratio" has the error of each precision. Candidates are the rows of efficiency
    with this batch, a precision other than "float32", and an error of at most tolerance_ratio. The best
    candidate is the one with the lowest j_per_sample. It saves 100 * (1 - its j_per_sample / float32's) per
    cent.

    category: "healthy" if there are no candidates, or if the best saves at most SAVED_FLOOR_PCT. Else compare
    the bytes per second that float32 moved ("bytes" of its first phase of "work", divided by the phase's
    length) with the bandwidth of the device: "memory_bound" if they are at least MEMORY_RATIO of it (moving
    fewer bytes would save energy), else "tensor_cores_unused".
    subject: "range:work".
    evidence:
        "saved_pct":        what the best saves, in per cent; 0.0 without candidates.
        "bandwidth_ratio":  bytes per second of float32 / bandwidth_bytes_per_s.
        "error_ratio":      the error of the best, or that of float32 without candidates.
        "window_ns":        call_ns of float32.
        "recoverable_ns":   by how much a call of the best is shorter, at least 0.0.
    recommendation: "none" if healthy, else a text that names the best's precision. In both cases it contains
    the word "borderline" if there is a best and its low_j to high_j overlaps with float32's (touching
    counts).

    Raises CaptureError if efficiency does, and for a recording without float32 at this batch or without
    the error of a precision that it needs. Raises ValueError for a bandwidth that is not above 0.
    """
    if bandwidth_bytes_per_s <= 0:
        raise ValueError(f"a bandwidth of {bandwidth_bytes_per_s} B/s: it must be above 0")
    recording = read_recording(capture)
    rows = {row["precision"]: row for row in efficiency(capture) if row["batch"] == batch}
    errors = recording.get("error_ratio", {})
    if "float32" not in rows or not rows.keys() <= errors.keys():
        raise CaptureError(f"{capture}: no float32 at batch {batch}, or an error is not known")
    now = rows.pop("float32")
    phase = next(
        p
        for p in recording["phases"]
        if (p["name"], p["precision"], p["batch"]) == ("work", "float32", batch)
    )
    moved_per_s = phase["bytes"] * NS_PER_S / (phase["end_ns"] - phase["start_ns"])
    moved_ratio = moved_per_s / bandwidth_bytes_per_s
    candidates = [row for row in rows.values() if errors[row["precision"]] <= tolerance_ratio]
    best = min(candidates, key=lambda row: row["j_per_sample"], default=now)
    saved_pct = 100 * (1 - best["j_per_sample"] / now["j_per_sample"])
    category, advice = "healthy", "none"
    if saved_pct > SAVED_FLOOR_PCT:
        category = "memory_bound" if moved_ratio >= MEMORY_RATIO else "tensor_cores_unused"
        advice = f"run it in {best['precision']}, if its error is allowed"
    if best is not now and _overlap(best, now):
        advice = f"borderline: {advice}; repeat both more often"
    return Finding(
        category=category,
        subject="range:work",
        evidence={
            "saved_pct": saved_pct,
            "bandwidth_ratio": moved_ratio,
            "error_ratio": errors[best["precision"]],
            "window_ns": now["call_ns"],
            "recoverable_ns": max(0.0, now["call_ns"] - best["call_ns"]),
        },
        recommendation=advice,
    )
