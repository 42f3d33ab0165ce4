from __future__ import annotations

CAUGHT_BY = "test_what_is_reserved_in_made_up_segments"
SAYS = "by pool"


def reserved_memory(capture: str, name: str = "snapshot.json") -> dict[str, dict[str, int]]:
    out: dict[str, dict[str, int]] = {}
    for segment in read_snapshot(capture)["segments"]:
        pool = out.setdefault(
            segment["segment_type"],
            dict.fromkeys(("reserved", "requested", "rounding", "free", "releasable"), 0),
        )
        used = [block for block in segment["blocks"] if block["state"] != FREE]
        size = sum(block["size"] for block in used)
        requested = sum(block["requested_size"] for block in used)
        pool["reserved"] += segment["total_size"]
        pool["requested"] += requested
        pool["rounding"] += size - requested
        pool["free"] += segment["total_size"] - size
        if not used:
            pool["releasable"] += segment["total_size"]
    if not out:
        raise CaptureError(f"{capture}: nothing is reserved; was the snapshot taken on a GPU?")
    return {
        pool: {f"{key}_bytes": value for key, value in sums.items()} for pool, sums in out.items()
    }
