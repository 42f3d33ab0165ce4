"""Writes 0 for a total that is absent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CAUGHT_BY = "test_memory_events"
SAYS = "would say that nothing was allocated"


def _memory_event(raw: dict[str, Any], file: Path) -> dict[str, Any]:
    args = raw.get("args") or {}
    return {
        "time_ns": _time_ns(raw.get("ts"), "[memory]", file),
        "device": args.get("Device Id") if args.get("Device Type") else None,
        "bytes": args.get("Bytes"),
        "address": args.get("Addr"),
        "allocated_bytes": args.get("Total Allocated", 0),
        "reserved_bytes": args.get("Total Reserved", 0),
    }
