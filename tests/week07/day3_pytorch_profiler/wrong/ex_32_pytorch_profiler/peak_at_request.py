"""Counts a block as released when its release is requested."""

from __future__ import annotations

from typing import Any

CAUGHT_BY = "test_a_release_that_is_requested_only"
SAYS = "expected"


def _history(capture: str, device: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    snapshot = load_snapshot(capture)
    traces = snapshot["device_traces"]
    if not 0 <= device < len(traces) or not traces[device]:
        raise CaptureError(
            f"{capture}: holds no history of device {device}; was _record_memory_history on?"
        )
    entries = traces[device]
    blocks: list[dict[str, Any]] = []
    open_blocks: dict[int, dict[str, Any]] = {}
    reserved = 0  # against the beginning
    reserved_after = []
    for place, entry in enumerate(entries):
        action = entry["action"]
        if action == "alloc":
            block = {
                "from_place": place,
                "to_place": None,
                "bytes": entry["size"],
                "frames": entry.get("frames", []),
                "time_us": entry.get("time_us"),
            }
            blocks.append(block)
            open_blocks[entry["addr"]] = block
        elif action == "free_requested":
            block = open_blocks.pop(entry["addr"], None)
            if block is None:  # older than the history
                block = {"from_place": -1, "bytes": entry["size"], "frames": [], "time_us": None}
                blocks.append(block)
            block["to_place"] = place
        elif action in ("segment_alloc", "segment_map"):
            reserved += entry["size"]
        elif action in ("segment_free", "segment_unmap"):
            reserved -= entry["size"]
        reserved_after.append(reserved)
    segments = [s for s in snapshot["segments"] if s.get("device", 0) == device]
    for segment in segments:
        for block in _blocks_in_use(segment):
            if block["address"] not in open_blocks:
                old = {"from_place": -1, "to_place": None, "bytes": block["requested_size"]}
                blocks.append(old | {"frames": [], "time_us": None})
    reserved_before = sum(segment["total_size"] for segment in segments) - reserved
    change = [0] * len(entries)
    for block in blocks:
        if block["from_place"] >= 0:
            change[block["from_place"]] += block["bytes"]
        if block["to_place"] is not None:
            change[block["to_place"]] -= block["bytes"]
    allocated = sum(block["bytes"] for block in blocks if block["from_place"] < 0)
    moments = [
        {
            "place": -1,
            "allocated_bytes": allocated,
            "reserved_bytes": reserved_before,
            "time_us": None,
        }
    ]
    for place, entry in enumerate(entries):
        allocated += change[place]
        moments.append(
            {
                "place": place,
                "allocated_bytes": allocated,
                "reserved_bytes": reserved_before + reserved_after[place],
                "time_us": entry.get("time_us"),
            }
        )
    return moments, blocks
