"""Lab 05, bonus 5: the same layer on other hardware, without having it.

A roofline needs only operations, bytes and a datasheet, so you can compute it for every device. It does not
say how far a kernel's time is above the roofline's. Only a measurement on a device says that.

A *cost* is {"flops": operations, "bytes": bytes}. A part has two least times on a device: its bytes over the memory's
bandwidth ("memory"), and its operations over the peak of the data type ("compute"), from
`profiling_lab.devices`. The longer one is the part's *floor*, and the name of the longer one is the
part's *bound*.

The lesson is `README.md` in this folder, hints are in `hints.md`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiling_lab import devices

Costs = dict[str, dict[str, int]]

# The data type to use on a device that has no unit for another one. An element has the same number of bytes.
SUBSTITUTES = {"bfloat16": "float16", "tfloat32": "float32"}


def predict_on(costs: Costs, dtype: str, device_names: Sequence[str]) -> list[dict[str, Any]]:
    """Floor and bound of each part on each device.

    costs: the cost of each part, by name. dtype: the data type of all tensors. device_names: names or
    aliases of `profiling_lab.devices`.

    Returns a row for each device, in the order given: {"device": its name in the table, "dtype": what it
    computes in, "note": "" or a sentence, "parts": {part: {"floor_ns", "bound"}}, "floor_ns": the sum
    of the parts' floors, "changed": the parts, in order, whose bound differs from that on
    the first device}.

    If the table has no peak of `dtype` for a device, use the substitute in SUBSTITUTES; the note then
    names both types. (The first generations of tensor cores had no bfloat16. A T4 or V100 must use
    float16, which ends at 65,504, far below the largest bfloat16.)

    Raises DeviceError, as `profiling_lab.devices` does, for an unknown device or data type, and for a device
    that has a peak neither for the type nor for a substitute. Raises ValueError if the list of parts or of
    devices is empty.
    """
    raise NotImplementedError


def held_against(
    costs: Costs, measured_ns: dict[str, float], dtype: str, device_name: str
) -> list[dict[str, Any]]:
    """Each part's floor, compared with its time measured on the same device.

    Returns a row for each part, in the order of `costs`, and a last one, "sum", for all parts together:
    {"part", "floor_ns", "measured_ns", "excess_ratio": measured over floor, minus 1, "verdict"}. The
    verdict is "below" if the measurement is below its floor. No roof allows that, so some of the bytes
    came from a cache and not from memory. It is "above_roof" if the floor is less than half of the
    measurement, else "near".

    Raises ValueError if there are no parts, if a part is in only one of the two dictionaries, or if a
    measurement is not a finite number above 0, naming the part; DeviceError as `predict_on` does. The device
    must have a peak for this data type, because the measurement used no substitute.
    """
    raise NotImplementedError


def speedup_interval(
    costs: Costs, measured_ns: dict[str, float], dtype: str, from_device: str, to_device: str
) -> dict[str, Any]:
    """How much faster the parts would be on another device: at least and at most.

    measured_ns: the time of each part on from_device, in dtype. Between the two devices a part's floor
    changes from `old` to `new` (on to_device with a substitute type if necessary, see `predict_on`). The time
    above the floor on to_device is unknown. Two rules bound it:

    - it scales with the roof, for example if a kernel reaches the same share of every device's peak:
      measured * new / old;
    - it stays, for example if it comes from launches or from too few threads: new + (measured - old).

    A part that held_against calls "above_roof" follows the second rule. A part that it calls "below" follows the first.
    For other parts either rule may hold, and their times go from the smaller result to the larger.

    Returns {"parts": {part: [low_ns, high_ns]}, "low_ns", "high_ns": sums over the parts,
    "low_speedup_ratio", "high_speedup_ratio": the measured time of all parts over high_ns and over
    low_ns, "fixed_ratio": the share of the measured time in "above_roof" parts}.

    Raises what `held_against` and `predict_on` raise.
    """
    raise NotImplementedError
