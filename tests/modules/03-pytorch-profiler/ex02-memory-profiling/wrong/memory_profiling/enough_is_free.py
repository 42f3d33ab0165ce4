from __future__ import annotations

CAUGHT_BY = "test_each_outcome"
SAYS = "The largest free block of the pool has"


def explain_request(capture: str, asked_bytes: int, limit_bytes: int) -> dict[str, Any]:
    segments = read_snapshot(capture)["segments"]
    if any(segment.get("is_expandable") for segment in segments):
        raise CaptureError(f"{capture}: its segments can grow; other rules hold for them")
    reserved = sum(segment["total_size"] for segment in segments)
    if asked_bytes < 1 or limit_bytes < reserved:
        raise ValueError(
            f"{asked_bytes} bytes asked for, a limit of {limit_bytes}: at least 1, and at least the "
            f"{reserved} bytes that are reserved"
        )
    block = -(-asked_bytes // BLOCK_STEP) * BLOCK_STEP
    pool = "small" if block <= SMALL_LARGEST else "large"
    free = [
        one["size"]
        for segment in segments
        if segment["segment_type"] == pool
        for one in segment["blocks"]
        if one["state"] == FREE
    ]
    unused = sum(
        segment["total_size"]
        for segment in segments
        if all(one["state"] == FREE for one in segment["blocks"])
    )
    largest, unreserved = max(free, default=0), limit_bytes - reserved
    if sum(free) >= block:  # enough is free
        outcome = "cached"
    elif segment_size(block) <= unreserved:
        outcome = "new_segment"
    elif segment_size(block) <= unreserved + unused:
        outcome = "after_release"
    else:
        outcome = "fragmented" if sum(free) + unreserved >= block else "exhausted"
    return {
        "outcome": outcome,
        "block_bytes": block,
        "free_bytes": sum(free),
        "largest_free_bytes": largest,
        "unreserved_bytes": unreserved,
    }
