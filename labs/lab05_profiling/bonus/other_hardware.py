"""Lab 05, bonus 5: the same layer on other hardware, without having it.

A roofline needs operations, bytes and a datasheet, so it can be had for every device. What it cannot
know is how far above it a kernel stays; that is what a measurement on one device is for.

A *cost* is {"flops": operations, "bytes": bytes}. The floor of a part on a device is the longer of its
bytes over the memory's bandwidth and its operations over the peak of the data type, from
`profiling_lab.devices`. Its bound is the longer of the two, "memory" or "compute".

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiling_lab import devices

Costs = dict[str, dict[str, int]]

# What to take on a device that has no unit for a data type. The bytes of an element are the same.
SUBSTITUTES = {"bfloat16": "float16", "tfloat32": "float32"}


def predict_on(costs: Costs, dtype: str, device_names: Sequence[str]) -> list[dict[str, Any]]:
    """Floor and bound of each part on each device.

    costs: by part. dtype: of all tensors. device_names: names or aliases of `profiling_lab.devices`.

    Returns a row a device, in the order given: {"device": its name in the table, "dtype": what it
    computes in, "note": "" or a sentence, "parts": {part: {"floor_ns", "bound"}}, "floor_ns": of all
    parts one after the other, "changed": the parts, in order, whose bound is not the one on the first
    device}.

    A device for whose table there is no peak of `dtype` gets the substitute in SUBSTITUTES, and its note
    names both types. (The first generations of tensor cores had no bfloat16: a T4 or V100 has to take
    float16, which ends at 65,504 where bfloat16 goes on.)

    Raises DeviceError, as `profiling_lab.devices` does, for an unknown device or data type, and for one
    that has neither a peak for the type nor for a substitute; ValueError for no parts or no devices.
    """
    raise NotImplementedError


def held_against(
    costs: Costs, measured_ns: dict[str, float], dtype: str, device_name: str
) -> list[dict[str, Any]]:
    """Each part's floor against what was measured on that very device.

    Returns a row a part, in the order of `costs`, and a last one, "sum", of all parts together:
    {"part", "floor_ns", "measured_ns", "excess_ratio": measured over floor, minus 1, "verdict"}. The
    verdict is "below" for a measurement under its floor: no roof allows that, so some of the bytes
    never came from memory but from a cache; "latency" if the floor is less than half of the
    measurement; else "near".

    Raises ValueError for no parts, for parts that are in one of the two and not in the other, and for a
    measurement that is no finite number above 0, naming the part; DeviceError as `predict_on`. The data
    type must be one that the device has: what was measured was not a substitute.
    """
    raise NotImplementedError


def speedup_interval(
    costs: Costs, measured_ns: dict[str, float], dtype: str, from_device: str, to_device: str
) -> dict[str, Any]:
    """How much faster the parts would be on another device: between what and what.

    measured_ns: on from_device, in dtype. Between the two devices a part's floor changes from `old` to
    `new` (on to_device with a substitute type where it has to be, see `predict_on`). What lies above
    the floor is not known there; two rules bound it:

    - it scales with the roof, as where a kernel reaches the same share of every device's peak:
      measured * new / old;
    - it stays, as where it is latency, launches, or too few threads: new + (measured - old).

    A part that held_against calls "latency" follows the second rule, one that it calls "below" the first;
    for the others either may hold, and their times run from the smaller to the larger.

    Returns {"parts": {part: [low_ns, high_ns]}, "low_ns", "high_ns": sums over the parts,
    "low_speedup_ratio", "high_speedup_ratio": the measured time of all parts over high_ns and over
    low_ns, "fixed_ratio": the share of the measured time in "latency" parts}.

    Raises as `held_against` and `predict_on` do.
    """
    raise NotImplementedError
