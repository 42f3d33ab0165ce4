"""Takes the layer for one kernel: all bytes against all operations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from profiling_lab import devices

CAUGHT_BY = "test_parts_on_five_devices"
SAYS = "parts run one after the other"


def predict_on(costs: Costs, dtype: str, device_names: Sequence[str]) -> list[dict[str, Any]]:
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
                "floor_ns": _floor(
                    {key: sum(cost[key] for cost in costs.values()) for key in ("flops", "bytes")},
                    device,
                    used,
                )["floor_ns"],
            }
        )
        first = rows[0]["parts"]
        rows[-1]["changed"] = [p for p in costs if parts[p]["bound"] != first[p]["bound"]]
    return rows
