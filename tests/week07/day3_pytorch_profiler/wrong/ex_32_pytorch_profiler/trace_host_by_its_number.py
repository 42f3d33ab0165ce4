"""Takes memory of device 0 of the host for that of the GPU."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CAUGHT_BY = "test_memory_events"
SAYS = "Device Type 0 is the host"


def _memory_event(raw: dict[str, Any], file: Path) -> dict[str, Any]:
    args = raw.get("args") or {}
    number = args.get("Device Id")
    return {
        "time_ns": _time_ns(raw.get("ts"), "[memory]", file),
        "device": number if number != -1 else None,
        "bytes": args.get("Bytes"),
        "address": args.get("Addr"),
        "allocated_bytes": args.get("Total Allocated"),
        "reserved_bytes": args.get("Total Reserved"),
    }
