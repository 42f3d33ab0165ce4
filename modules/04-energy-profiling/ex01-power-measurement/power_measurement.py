"""Power measurement: can the sensor be trusted?

You write a loop that samples a power sensor, and integrate its readings. You find out how often and how late
the sensor answers, compare its readings with the energy counter, and decide whether the clock was
throttled. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check energy_ex01

checks your solution. A **recording** is `energy.json`, as `energy_benchmark.py` writes it (the head of that
program says what the file holds): `phases` of work and of idling, and `samples` as columns. The last function
reads a timeline of Nsight Systems instead, in which the device's metrics were sampled.
"""

from __future__ import annotations

import json
import math
import statistics
from bisect import bisect_left
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

from profiling_lab import captures
from profiling_lab.errors import CaptureError
from profiling_lab.findings import Finding

NS_PER_S = 1e9
MW_NS_PER_J = 1e12  # milliwatts × nanoseconds in a joule

# This long after an idle phase began, the sensor shows idle power, too.
SETTLE_NS = 500_000_000

# Reasons for a lower clock, as bits of "reasons" (nvml.h, nvmlClocksEventReason...): the limit of power,
# a slowdown by the hardware, of software by heat, of hardware by heat, and the power brake.
LIMITING = 0x04 | 0x08 | 0x20 | 0x40 | 0x80

# The clock is throttled if more than the first share of the samples have one of these reasons, and the clock
# is lower than the device's highest by more than the second share.
LIMITED_PCT = 50.0
CLOCK_FLOOR = 0.02
# A share of the clock this close to the floor is borderline.
BORDER = 0.01

# The time that a lower clock costs, as a share of a timeline. Below the first number the timeline is healthy.
# A share this close to it (second number), on either side, is borderline. Day 1 uses the same two.
HEALTHY_FLOOR_RATIO, BORDERLINE_RATIO = 0.10, 0.02

# The metric of a timeline's samples. Its name says MHz, and the values are in Hz (seen in recordings of
# nsys 2025.3).
CLOCK = "GPC Clock Frequency [MHz]"

# Number of launches at the highest clock that are needed for a reference: with fewer, one or two unusual
# launches would decide the median.
REFERENCE_LAUNCHES = 5


def read_recording(capture: str) -> dict[str, Any]:
    """`energy.json` of a capture. Raises CaptureError if the file is not such a recording."""
    try:
        recording = json.loads(captures.text(capture, "energy.json"))
        samples, phases = recording["samples"], recording["phases"]
        if not phases or len({len(column) for column in samples.values()}) != 1:
            raise ValueError
    except (ValueError, LookupError, TypeError, AttributeError):
        message = f"{capture}: energy.json is no recording of energy_benchmark.py"
        raise CaptureError(message) from None
    return recording


def column(recording: dict[str, Any], name: str) -> list[int]:
    """A column of samples. Raises CaptureError if the device did not offer it, or if nothing was read."""
    values = recording["samples"].get(name)
    if not values or None in values:
        why = recording.get("unsupported", {}).get(name, "recorded without a GPU, or without NVML")
        raise CaptureError(f"no samples of {name}: {why}")
    return values


def find_phase(recording: dict[str, Any], name: str) -> int:
    """The position of the first phase with this name.

    Raises CaptureError if there is none; the message lists the existing names.
    """
    names = [phase["name"] for phase in recording["phases"]]
    if name not in names:
        raise CaptureError(f"no phase {name!r}; there are: {', '.join(dict.fromkeys(names))}")
    return names.index(name)


def sample_power(
    read_mw: Callable[[], int],
    clock_ns: Callable[[], int],
    sleep_ns: Callable[[int], object],
    duration_ns: int,
    interval_ns: int,
) -> dict[str, Any]:
    """Read a sensor at regular times, for a given duration.

    read_mw: reads the sensor, in mW. A reading takes some time, and raises RuntimeError if it fails.
    clock_ns: the time now.
    sleep_ns: waits, for at least the given time and often longer.

    The first reading is due at once. Reading number i is due `i * interval_ns` after the start, however long the
    readings before it took: waiting for `interval_ns` after each would drift. Skip due times that have already
    passed. Make all readings that are due less than duration_ns after the start. The time of a reading is that of
    the clock just before it. Call sleep_ns only for the remaining time until the next reading is due, if it is
    above 0, and not after the last reading.

    An error of read_mw ends the sampling. What was read until then is kept.

    Returns {"time_ns": list of times since the start, "power_mw": list of the same length, "error": text of the
    RuntimeError, "" if there was none}. Raises ValueError for a duration or an interval that is not above 0.
    """
    raise NotImplementedError


def energy_between(
    time_ns: Sequence[int],
    power_mw: Sequence[int],
    start_ns: float,
    end_ns: float,
    longest_gap_ns: float,
) -> float:
    """The energy in J from start_ns to end_ns, by the trapezoidal rule over irregular samples.

    Power between two samples is interpolated linearly. The same is done at start_ns and end_ns, where there
    may be no sample. Samples outside of start_ns to end_ns are used only for this interpolation.

    Raises ValueError
    - for fewer than two samples, lists of different length, or times that do not increase;
    - for an end that is not after the start, or a start or end outside the samples;
    - if any of the time from start_ns to end_ns is in a gap between two samples that is longer than
      longest_gap_ns: the power in such a gap is not known.
    """
    raise NotImplementedError


def update_period(capture: str, name: str = "instant_mw") -> dict[str, float]:
    """How often a sensor has a new value, from a recording that read it more often.

    name: a column of the samples. A reading is new if it differs from the one before.

    Returns
        "polled_ns":  median time from a sample to the next.
        "period_ns":  median time from a new reading to the next new one.
        "stale_pct":  share of the readings, without the first, that are not new.
    If a sensor happens to read the same value twice, single periods look longer. The median is hardly affected.

    Raises CaptureError for a column without samples, and if there are fewer than two new readings.
    """
    raise NotImplementedError


def sensor_delay(capture: str, name: str = "instant_mw", phase: str = "steady") -> dict[str, float]:
    """How late a sensor is, from its answer to a step of the load.

    The step is the start of the first phase with this name. The low level is the median of the column over the
    second half of the phase right before that phase (middle <= time < end). The high level is the median over
    the second half of the phase itself. The answer reaches a share of the step at the first sample of the phase
    (start <= time < end) whose value is at least low + share * (high - low).

    Returns
        "half_ns":  time from the start of the phase until the answer reaches a half.
        "rise_ns":  time from a tenth to nine tenths. A sensor that averages over a window takes about eight tenths of
                    the window. If a sensor is only late, its value jumps.
    Raises CaptureError for a phase or column that does not exist, and for the first phase of a recording. Also
    raises it if a level has no samples, or if the high level is not above the low one.
    """
    raise NotImplementedError


def phase_energy(capture: str, phase: str) -> dict[str, float]:
    """The energy of a phase, by the counter and by two sensors, and the part of it above idle.

    phase: the first phase with this name. The counter was read when it began and when it ended (energy_start_mj,
    energy_end_mj). The counter's values advance in steps, because the driver refreshes them at intervals.

    Returns, in J except for idle_w:
        "counter_j":     by how much the counter advanced.
        "error_j":       by how much this may be wrong because of the steps: the largest increase of the counter
                         (column energy_mj) from a sample to the next, anywhere in the recording.
        "instant_j":     the integral of instant_mw over the phase.
        "average_j":     the integral of average_mw.
        "idle_w":        the median of instant_mw over all samples of phases called "idle" that were taken at
                         least SETTLE_NS after their phase began (and before it ended).
        "above_idle_j":  counter_j minus the energy of idling for as long as the phase lasts.
    The integrals are those of energy_between; any gap is allowed.

    Raises CaptureError for a phase or column that does not exist, and for a recording without such idle samples.
    Also raises it if the counter was not read, or did not advance in the whole recording.
    """
    raise NotImplementedError


def power_verdict(capture: str, phase: str = "steady") -> Finding:
    """Was the clock throttled while the device worked?

    Use the samples in the second half (middle <= time < end) of the first phase with this name.

    category: "throttled" if more than LIMITED_PCT per cent of these samples have one of the LIMITING reasons, and
    the clock is below 1 - CLOCK_FLOOR of the device's highest; else "healthy".
    subject: "device:0".
    evidence, for both categories:
        "clock_ratio":     median of sm_clock_mhz / device.highest_sm_clock_mhz.
        "limited_pct":     share of the samples with a limiting reason.
        "window_ns":       the length of the phase.
        "recoverable_ns":  window_ns * (1 - clock_ratio), rounded, at least 0: the most that the highest clock
                           could save, if the time of all work depended on the clock.
    recommendation: what to do, or "none" if healthy. In both cases it contains the word "borderline" if
    clock_ratio is within BORDER of 1 - CLOCK_FLOOR.

    Raises CaptureError for a phase or column that does not exist, a phase without samples, and a recording
    that does not name the highest clock.
    """
    raise NotImplementedError


def clock_verdict(capture: str, device: int = 0) -> Finding:
    """Did the kernels of a timeline take longer because the clock was lower?

    capture: a timeline of Nsight Systems, recorded with `--gpu-metrics-devices`. The clock of a launch is the
    value of one sample of CLOCK on the device: the first that is not before the middle of the kernel (start +
    end, halved and rounded down), because a sample describes the time before it. Launches after the last
    sample, and whole graphs, are left out.

    Compare a launch only with launches of the same kernel (demangled name), grid and block; these are a group.
    Launches at 1 - CLOCK_FLOOR or more of the group's highest clock are at full speed. If there are at least
    REFERENCE_LAUNCHES of them, the median of their durations is the group's reference. Then each other launch
    of the group lost the smaller of these two values, at least 0:
    - its duration minus the reference;
    - duration x (1 - clock / highest clock of the group): the clock cannot cause a larger loss.
    Groups without a reference are not used.

    Returns "throttled" if the total loss is at least HEALTHY_FLOOR_RATIO of the window, else "healthy". The
    window goes from the first start to the last end of the device's operations.
    subject: "device:<n>".
    evidence: "recoverable_ns" (the total loss, rounded), "window_ns", "recoverable_ratio" (recoverable_ns /
    window_ns), "margin_ratio" (recoverable_ratio minus HEALTHY_FLOOR_RATIO), "clock_ratio" (the mean of clock /
    highest clock of the group, weighted by duration, over the groups with a reference; 1.0 if there is none).
    recommendation: one sentence, "none" if healthy. If |margin_ratio| <= BORDERLINE_RATIO it begins with
    "borderline", also if healthy.

    Raises CaptureError if the clock of the device was not sampled; the message names `--gpu-metrics-devices`.
    Raises CaptureError if nothing ran on the device; the message names it, as "device 3".
    """
    raise NotImplementedError
