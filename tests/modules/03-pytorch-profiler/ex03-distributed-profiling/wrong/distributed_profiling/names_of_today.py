"""Knows the kernels of today's NCCL only, as tools know those of yesterday's."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_ranks_of_drawn_traces"
SAYS = "'kind': 'communication'"


def _operation(event: dict[str, Any]) -> dict[str, Any]:
    start_ns, duration_ns = round(event["ts"] * 1000), round(event["dur"] * 1000)
    kind = "compute" if event["cat"] == "kernel" else "memory"
    if kind == "compute" and event["name"].startswith("ncclDevKernel"):
        kind = "communication"
    return {
        "name": event["name"],
        "kind": kind,
        "start_ns": start_ns,
        "end_ns": start_ns + duration_ns,
    }
