"""Takes a negative duration as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

CAUGHT_BY = "test_a_damaged_trace_is_refused"
SAYS = "no operator takes less than no time"


def _event(raw: dict[str, Any], kind: str, file: Path) -> dict[str, Any]:
    args = raw.get("args") or {}
    name, start, duration = raw.get("name"), raw.get("ts"), raw.get("dur")
    if not isinstance(name, str):
        raise CaptureError(f"{file}: an event of category {raw['cat']!r} has no name")
    start_ns, duration_ns = (_time_ns(value, name, file) for value in (start, duration))
    on_device = kind in DEVICE_KINDS
    place = {key: args.get(key) if on_device else None for key in ("device", "stream")}
    if on_device and None in place.values():
        raise CaptureError(f"{file}: {name!r} ran on the GPU, and its device or stream is missing")
    return {
        "kind": kind,
        "name": name,
        "start_ns": start_ns,
        "end_ns": start_ns + duration_ns,
        "process": raw.get("pid"),
        "thread": raw.get("tid"),
        **place,
        "correlation": args.get("correlation"),
        "external_id": args.get("External id", args.get("external id")),
        "shapes": args.get("Input Dims", args.get("Input dims")),
        "called_from": args.get("CallFrom"),
    }
