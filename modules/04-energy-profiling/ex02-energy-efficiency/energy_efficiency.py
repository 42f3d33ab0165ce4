"""Energy efficiency: what does a result cost in joules?

You compute what a sample costs at each precision and batch, with its spread, weigh energy against time,
compare the same work done at once or paced, and say whether another precision pays. The lesson is
`README.md` in this folder, hints are in `hints.md`, and

    uv run lab check energy_ex02

tells what is right and wrong. A **recording** is `energy.json`, as `energy_benchmark.py` writes it (its
head says what the file holds): `phases` of work, and `samples` as columns.
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

# Less energy saved than this is not worth a change.
SAVED_FLOOR_PCT = 5.0

# From this share of the bandwidth on the memory counts as busy, as for Nsight Compute, whose rules take a
# kernel below it in memory and in arithmetic for one that waits (source: its speed-of-light rules).
MEMORY_RATIO = 0.6

NS_PER_S = 1e9


def read_recording(capture: str) -> dict[str, Any]:
    """`energy.json` of a capture.

    Raises CaptureError for a file that is no such recording, without two readings of the counter, and
    with a sample that has none.
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


def efficiency(capture: str) -> list[dict[str, Any]]:
    """What a sample costs, for each precision and batch of a sweep.

    Phases called "work" count, each with its "precision", "batch" (samples a call), "calls", "flop" (of
    all its calls) and "repeat". Power of a phase: among the samples with start <= time < end those whose
    energy_mj is new (differs from the sample before), what the counter rose by from the first to the last
    of them, over the time between the two. So the counter's steps do no harm: both ends lie right
    behind one. For each phase, samples a second is calls * batch over its length, and energy a sample is
    its power over that.

    Returns a dict for each precision and batch, in the order in which they first occur,

        "precision", "batch"
        "samples_per_s", "power_w", "j_per_sample"   the median over the repeats, each by itself
        "low_j", "high_j"                            the lowest and highest j_per_sample of a repeat
        "flop_per_j"                                 operations of a sample over j_per_sample
        "call_ns"                                    batch over samples_per_s, in ns: how long a call takes

    Raises CaptureError for what read_recording refuses, a recording without such phases, and a phase
    with fewer than two new readings.
    """
    raise NotImplementedError


def energy_delay(runs: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """Which run is the best, by four ways to weigh energy against time.

    runs: by name, the time in s and the energy in J of the same work.

    Returns the name of the run with the lowest {"time": t, "energy": E, "edp": E * t, "ed2p": E * t * t};
    of runs that are equal in that, the first by name.

    Raises ValueError without runs, and for a time or an energy that is not above 0.
    """
    raise NotImplementedError


def pareto_front(runs: Mapping[str, tuple[float, float]]) -> list[str]:
    """The runs that are worth a choice: no other is at least as good in both, and better in one.

    runs: by name, two costs; less is better in both. Runs that are equal in both do not rule each other
    out.

    Returns the names, ordered by the first cost, then by name. Raises ValueError for a cost that is not
    a number (NaN).
    """
    raise NotImplementedError


def pacing_energy(capture: str) -> list[dict[str, Any]]:
    """The same work within the same time: at once and then nothing, or with pauses.

    Strategies: "race", whose phases are "race_work" and then "race_idle" of the same "repeat", and each
    name that begins with "paced", a phase of its own. The energy of a repeat is what the counter rose by
    from the first phase's energy_start_mj to the last one's energy_end_mj. The counter moves in steps:
    one energy may be wrong by the largest step (the most that column energy_mj rises by from a sample to
    the next, anywhere in the recording).

    Returns a dict for each strategy,
        "strategy"
        "energy_j"            the median over the repeats
        "low_j", "high_j"     the lowest repeat less that step, the highest and that step
        "wall_ns"             the median, from the first phase's start to the last one's end
        "work_ns"             of "race": the median length of race_work; of others as wall_ns
    ordered by energy_j, then by strategy.

    Raises CaptureError for what read_recording refuses, for a recording without a "race" or without a
    "paced" strategy, and for one in which not every repeat of every strategy made as many calls: their
    energies cannot be compared.
    """
    raise NotImplementedError


def cheapest_within(rows: Sequence[Mapping[str, Any]], longest_ns: float) -> dict[str, Any] | None:
    """The cheapest way to serve a sample when a call may not take longer than so much.

    rows: as efficiency returns them. Those whose call_ns is at most longest_ns are allowed.

    Returns {"precision", "batch"} of the allowed row with the lowest j_per_sample (the first of equals),
    and "rivals", a list of (precision, batch) of the other allowed rows, in their order, whose low_j to
    high_j overlaps with the winner's (touching counts): with those the order may be chance. None if no
    row is allowed.

    Raises ValueError for longest_ns that is not above 0.
    """
    raise NotImplementedError


def precision_verdict(
    capture: str, batch: int, tolerance_ratio: float, bandwidth_bytes_per_s: float
) -> Finding:
    """A layer runs in float32 at this batch: does it pay, in energy, to run it otherwise?

    capture: a sweep; its "error_ratio" tells the error of each precision. Candidates are the rows of
    efficiency of this batch with another precision than "float32" whose error is at most
    tolerance_ratio. The best is the one with the lowest j_per_sample; it saves
    100 * (1 - its j_per_sample / float32's) per cent.

    category: "healthy" without candidates, or if the best saves at most SAVED_FLOOR_PCT. Else what the
    float32 run waits for tells where to look: the bytes a second that it moved ("bytes" of its first phase
    of "work" over the phase's length) are held against the bandwidth of the device; at MEMORY_RATIO of it
    or above "memory_bound" (fewer bytes save), else "tensor_cores_unused".
    subject: "range:work".
    evidence:
        "saved_pct"         of the best; 0.0 without candidates
        "bandwidth_ratio"   bytes a second of float32 over bandwidth_bytes_per_s
        "error_ratio"       the error of the best; of float32 without candidates
        "window_ns"         call_ns of float32
        "recoverable_ns"    what a call of the best is shorter by, at least 0.0
    recommendation: "none" if healthy; else with the best's precision named in it. For both with the word
    "borderline" in it if there is a best and its low_j to high_j overlaps with float32's (touching counts).

    Raises CaptureError as efficiency does, and for a recording without float32 at this batch or without
    the error of a precision that it needs; ValueError for a bandwidth that is not above 0.
    """
    raise NotImplementedError
