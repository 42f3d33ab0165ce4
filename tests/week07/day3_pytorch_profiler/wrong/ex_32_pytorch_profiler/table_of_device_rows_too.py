"""Takes every row for one of the host."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_table_of_a_profile"
SAYS = "entries; expected"


def operator_table_of(profile: Any) -> list[dict[str, Any]]:
    rows = []
    for row in profile.key_averages(group_by_input_shape=True):
        rows.append(
            {
                "name": row.key,
                "shapes": row.input_shapes,
                "calls": row.count,
                "host_self_ns": _ns_of(row, "self_cpu_time_total"),
                "host_total_ns": _ns_of(row, "cpu_time_total"),
                "device_self_ns": _ns_of(row, "self_device_time_total", "self_cuda_time_total"),
                "device_total_ns": _ns_of(row, "device_time_total", "cuda_time_total"),
            }
        )
    return sorted(
        rows, key=lambda r: (-(r["device_total_ns"] or 0), -r["host_total_ns"], r["name"])
    )


def _ns_of(row: Any, *names: str) -> int | None:
    for name in names:
        if hasattr(row, name):
            return round(getattr(row, name) * 1000)
    return None
