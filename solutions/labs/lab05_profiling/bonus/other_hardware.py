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
    if not costs or not device_names:
        raise ValueError("nothing to predict: parts and devices are needed, at least one of each")
    rows: list[dict[str, Any]] = []
    for name in device_names:
        device = devices.get(name)
        used, note = _usable(device, dtype)
        parts = {part: _floor(cost, device, used) for part, cost in costs.items()}
        rows.append(
            {
                "device": device.name,
                "dtype": used,
                "note": note,
                "parts": parts,
                "floor_ns": sum(row["floor_ns"] for row in parts.values()),
            }
        )
        first = rows[0]["parts"]
        rows[-1]["changed"] = [p for p in costs if parts[p]["bound"] != first[p]["bound"]]
    return rows


def _usable(device: devices.Device, dtype: str) -> tuple[str, str]:
    """The data type that a device computes in instead of `dtype`, and a note if it is another."""
    wanted = devices.dtype(dtype).name
    substitute = SUBSTITUTES.get(wanted, wanted)
    if wanted in device.peak_flops_per_s or substitute not in device.peak_flops_per_s:
        device.peak(wanted)  # says what is known, if this type is not
        return wanted, ""
    return substitute, f"{device.name} has no {wanted}: {substitute} instead"


def _floor(cost: dict[str, int], device: devices.Device, dtype: str) -> dict[str, Any]:
    memory = cost["bytes"] / device.memory_bandwidth_bytes_per_s * 1e9
    compute = cost["flops"] / device.peak(dtype) * 1e9
    roofs = {"compute": compute, "memory": memory}
    bound = max(roofs, key=lambda roof: roofs[roof])
    return {"floor_ns": roofs[bound], "bound": bound}


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
    _check_measured(costs, measured_ns)
    device = devices.get(device_name)
    floors = {part: _floor(cost, device, dtype)["floor_ns"] for part, cost in costs.items()}
    pairs = [(part, floors[part], measured_ns[part]) for part in costs]
    pairs.append(("sum", sum(floors.values()), sum(measured_ns[part] for part in costs)))
    return [
        {
            "part": part,
            "floor_ns": floor,
            "measured_ns": measured,
            "excess_ratio": measured / floor - 1,
            "verdict": _verdict(floor, measured),
        }
        for part, floor, measured in pairs
    ]


def _check_measured(costs: Costs, measured_ns: dict[str, float]) -> None:
    if costs.keys() != measured_ns.keys() or not costs:
        differ = sorted(costs.keys() ^ measured_ns.keys())
        raise ValueError(f"costs and measurements are not of the same parts: {differ or 'none'}")
    for part, value in measured_ns.items():
        if not 0 < value < float("inf"):
            raise ValueError(f"{part} was measured as {value!r} ns: a number above 0 is needed")


def _verdict(floor_ns: float, measured_ns: float) -> str:
    if measured_ns < floor_ns:
        return "below"
    return "above_roof" if 2 * floor_ns < measured_ns else "near"


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
    parts: dict[str, list[float]] = {}
    fixed = 0.0
    (target,) = predict_on(costs, dtype, [to_device])
    *rows, whole = held_against(costs, measured_ns, dtype, from_device)
    for row in rows:
        measured, old, new = (
            row["measured_ns"],
            row["floor_ns"],
            target["parts"][row["part"]]["floor_ns"],
        )
        ends = {"scales": measured * new / old, "stays": new + (measured - old)}
        if row["verdict"] == "above_roof":
            del ends["scales"]
            fixed += measured
        elif row["verdict"] == "below":
            del ends["stays"]
        parts[row["part"]] = [min(ends.values()), max(ends.values())]
    low, high = (sum(ends[side] for ends in parts.values()) for side in (0, 1))
    return {
        "parts": parts,
        "low_ns": low,
        "high_ns": high,
        "low_speedup_ratio": whole["measured_ns"] / high,
        "high_speedup_ratio": whole["measured_ns"] / low,
        "fixed_ratio": fixed / whole["measured_ns"],
    }
