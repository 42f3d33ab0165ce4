"""Power measurement: can the sensor be trusted?

You write a loop that samples a power sensor, integrate what it read, find out how often and how late
the sensor answers, hold its readings against the energy counter, and say whether the clock was held
down. The lesson is `README.md` in this folder, hints are in `hints.md`, and

    uv run lab check energy_ex01

tells what is right and wrong. A **recording** is `energy.json`, as `energy_benchmark.py` writes it (its
head says what the file holds): `phases` of work and of idling, and `samples` as columns. The last function
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
MW_NS_PER_J = 1e12  # a milliwatt for a nanosecond is so small a part of a joule

# An idle phase is idle, for the sensor too, this long after it began.
SETTLE_NS = 500_000_000

# Reasons for a lower clock, as bits of "reasons" (nvml.h, nvmlClocksEventReason...): the limit of power,
# a slowdown by the hardware, of software by heat, of hardware by heat, and the power brake.
LIMITING = 0x04 | 0x08 | 0x20 | 0x40 | 0x80

# The clock is held down if these reasons are given in more than this share of the samples, and the clock
# is lower than the device's highest by more than this share.
LIMITED_PCT = 50.0
CLOCK_FLOOR = 0.02
# A share of the clock that is this near to the floor is a borderline case.
BORDER = 0.01

# What a lower clock costs of a timeline: below the first share it is not worth naming, and a share this
# close to that, on either side, is borderline. The same two stand in Day 1.
HEALTHY_FLOOR_RATIO, BORDERLINE_RATIO = 0.10, 0.02

# The metric of a timeline's samples. Its name says MHz, and the values are in Hz (seen in recordings of
# nsys 2025.3).
CLOCK = "GPC Clock Frequency [MHz]"

# So many launches at the highest clock tell how long a kernel takes then: of fewer, one or two odd ones
# would decide the median.
REFERENCE_LAUNCHES = 5


def read_recording(capture: str) -> dict[str, Any]:
    """`energy.json` of a capture. Raises CaptureError for a file that is no such recording."""
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
    """A column of samples. Raises CaptureError if the device did not offer it, or nothing was read."""
    values = recording["samples"].get(name)
    if not values or None in values:
        why = recording.get("unsupported", {}).get(name, "recorded without a GPU, or without NVML")
        raise CaptureError(f"no samples of {name}: {why}")
    return values


def find_phase(recording: dict[str, Any], name: str) -> int:
    """The place of the first phase of this name. Raises CaptureError, with the names that there are."""
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
    """Read a sensor at regular times, for so long.

    read_mw: reads the sensor, in mW; takes its time, and raises RuntimeError when it cannot be read.
    clock_ns: the time now. sleep_ns: waits, for at least that long and often longer.

    The first reading is due at once, and reading number i is due `i * interval_ns` after the start,
    however long the readings before it took: waiting for `interval_ns` after each would drift. A due
    time that has passed already is left out. Readings are due for as long as they are due less than
    duration_ns after the start. The time of a reading is that of the clock just before it; sleep_ns is
    called only for what is left, above 0, until the next one is due, and not after the last.

    An error of read_mw ends the sampling; what was read so far is kept.

    Returns {"time_ns": list of times since the start, "power_mw": list, as long, "error": text of the
    RuntimeError, "" without one}. Raises ValueError for a duration or an interval that is not above 0.
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

    Between two samples power is taken to change evenly; so it is at start_ns and end_ns, where there
    may be no sample. Samples outside count only for that.

    Raises ValueError for fewer than two samples, lists of different length, times that do not increase,
    an end that is not after the start, a start or end outside the samples, and two neighbouring samples
    that are further apart than longest_gap_ns, if any of the time between them is in question: nobody
    knows what happened there.
    """
    raise NotImplementedError


def update_period(capture: str, name: str = "instant_mw") -> dict[str, float]:
    """How often a sensor has a new value, told from a recording that asked more often.

    name: a column of the samples. A reading is new if it differs from the one before.

    Returns
        "polled_ns"   median time from a sample to the next
        "period_ns"   median time from a new reading to the next new one
        "stale_pct"   share of the readings, without the first, that are not new
    A sensor that happens to read the same value twice makes single periods look longer; the median
    stands that. Raises CaptureError for a column without samples, and with fewer than two new readings.
    """
    raise NotImplementedError


def sensor_delay(capture: str, name: str = "instant_mw", phase: str = "steady") -> dict[str, float]:
    """How late a sensor is, from its answer to a step of the load.

    The step is the beginning of the first phase of this name. The low level is the median of the column
    over the second half (middle <= time < end) of the phase right before, the high level over the second
    half of the phase itself. The answer reaches a share of the step at the first sample of the phase (start <= time
    < end) whose value is at least low + share * (high - low).

    Returns
        "half_ns"   from the start of the phase until the answer reaches a half
        "rise_ns"   from a tenth to nine tenths: a sensor that averages over a window takes about
                    eight tenths of the window, one that only comes late jumps
    Raises CaptureError for a phase or column that there is not, a phase that none precedes, a level that
    no sample tells, a high level that is not above the low one.
    """
    raise NotImplementedError


def phase_energy(capture: str, phase: str) -> dict[str, float]:
    """The energy of a phase, by the counter and by two sensors, and what of it is above idle.

    phase: the first of this name. The counter was read when it began and when it ended
    (energy_start_mj, energy_end_mj); its values advance in steps, as the driver refreshes them.

    Returns, in J but for idle_w,
        "counter_j"      what the counter advanced by
        "error_j"        how wrong that may be for the steps: the most that the counter (column
                         energy_mj) rises by from a sample to the next, anywhere in the recording
        "instant_j"      the integral of instant_mw over the phase
        "average_j"      the integral of average_mw
        "idle_w"         the median of instant_mw over all samples of phases called "idle" that were
                         taken SETTLE_NS or later after their phase began (and before it ended)
        "above_idle_j"   counter_j without what idling for as long as the phase takes
    The integrals are those of energy_between; any gap is allowed.

    Raises CaptureError for a phase or column that there is not, a counter that was not read or did not
    advance in the whole recording, and a recording without such idle samples.
    """
    raise NotImplementedError


def power_verdict(capture: str, phase: str = "steady") -> Finding:
    """Was the clock held down while the device worked?

    Looked at are the samples in the second half (middle <= time < end) of the first phase of this name.

    category: "throttled" if more than LIMITED_PCT per cent of these samples carry one of the LIMITING
    reasons, and the clock is below 1 - CLOCK_FLOOR of the device's highest; "healthy" if not.
    subject: "device:0".
    evidence, for both:
        "clock_ratio"      median of sm_clock_mhz over device.highest_sm_clock_mhz
        "limited_pct"      share of the samples with a limiting reason
        "window_ns"        the length of the phase
        "recoverable_ns"   window_ns * (1 - clock_ratio), rounded, at least 0: the most that the highest
                           clock could save, if all of the work went with the clock
    recommendation: what to do, "none" for a healthy one; with the word "borderline" in it, for both, if
    clock_ratio is within BORDER of 1 - CLOCK_FLOOR.

    Raises CaptureError for a phase or column that there is not, a phase without samples, and a recording
    that does not name the highest clock.
    """
    raise NotImplementedError


def clock_verdict(capture: str, device: int = 0) -> Finding:
    """Did the kernels of a timeline take longer because the clock was lower?

    capture: a timeline of Nsight Systems, recorded with `--gpu-metrics-devices`. The clock of a launch is
    the value of the first sample of CLOCK on the device that is not before the middle of the kernel
    (start + end, halved and rounded down): a sample speaks of the time before it. Launches behind the last
    sample, and whole graphs, are left out.

    A launch is compared with its likes only: those of the same kernel (demangled name), grid and block. Of
    such a group those at 1 - CLOCK_FLOOR or more of its highest clock are at full speed. If these are
    at least REFERENCE_LAUNCHES, the median of their durations is the reference, and each launch that is not
    among them lost the smaller of
        its duration minus the reference, and
        duration x (1 - clock / highest clock of the group): for more the clock cannot account;
    nothing if that is negative. Other groups say nothing.

    Returns "throttled" if all that was lost is at least HEALTHY_FLOOR_RATIO of the window, else
    "healthy". The window reaches from the first start to the last end of the device's operations.
    subject: "device:<n>".
    evidence: "recoverable_ns" (rounded), "window_ns", "recoverable_ratio" (of these two), "margin_ratio"
    (recoverable_ratio minus HEALTHY_FLOOR_RATIO), "clock_ratio" (the mean of clock / highest clock of the
    group, weighted by duration, over the groups with a reference; 1.0 without any).
    recommendation: one sentence, "none" for a healthy one; if |margin_ratio| <= BORDERLINE_RATIO it begins
    with "borderline", for a healthy one too.

    Raises CaptureError that names `--gpu-metrics-devices` if the clock of the device was not sampled, and
    one that names the device, as "device 3", if nothing ran on it.
    """
    raise NotImplementedError
